//! `memory …` as a person uses it, against a real coordinator.

use std::path::Path;

use ralph_tests::harness::{World, binary};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::caller::{ADMIN, Api};
use crate::stage::Stage;

/// Runs a command in `folder`, which is no repository; gives its standard output.
pub async fn ralph(api: &Api, folder: &Path, args: &[&str]) -> String {
    let output = Command::new(binary("ralph-coordinator"))
        .args(["--url", &api.url, "--token", ADMIN])
        .args(args)
        .current_dir(folder)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", folder)
        .env("GIT_CEILING_DIRECTORIES", folder)
        .output()
        .await
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

async fn ralph_json(api: &Api, folder: &Path, args: &[&str]) -> Value {
    let text = ralph(api, folder, &[args, &["--output", "json"]].concat()).await;
    serde_json::from_str(&text).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_is_added_found_changed_and_hidden() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let here = world.dir();
    let text = "Serial numbers of zones wrap around";
    let added = ralph_json(
        &api,
        here,
        &[
            "memory",
            "add",
            text,
            "--tags",
            "DNS,zone",
            "--paths",
            "src/serial.rs",
        ],
    )
    .await;
    let id = added["id"].as_str().unwrap();
    assert_eq!(
        (&added["status"], &added["tags"], &added["origin"]),
        (&json!("live"), &json!(["dns", "zone"]), &json!("manual"))
    );
    let found = ralph_json(
        &api,
        here,
        &["memory", "search", "Compare the serial numbers of zones"],
    )
    .await;
    assert_eq!(found["items"][0]["id"], id);
    let other = ralph_json(
        &api,
        here,
        &["memory", "search", "Serial numbers of zones", "--repo", "another"],
    )
    .await;
    assert_eq!(other["items"], json!([]), "each repository has its own memory");

    ralph(
        &api,
        here,
        &["memory", "edit", id, "Invoices are rounded up", "--tags", "tax"],
    )
    .await;
    let again = ralph_json(&api, here, &["memory", "search", "Rounded invoices"]).await;
    assert_eq!(again["items"][0]["id"], id);
    let shown = ralph(&api, here, &["memory", "show", &id[..6]]).await;
    assert!(shown.contains("Invoices are rounded up"), "{shown}");

    assert!(
        ralph(&api, here, &["memory", "prune", id])
            .await
            .contains("1 entry hidden")
    );
    assert_eq!(
        ralph_json(&api, here, &["memory", "list"]).await["items"],
        json!([])
    );
    let all = ralph_json(&api, here, &["memory", "list", "--all"]).await;
    assert_eq!(all["items"][0]["status"], "pruned");
    let purged = ralph_json(&api, here, &["memory", "purge", id, "--yes"]).await;
    assert_eq!((&purged["entries"], &purged["prompts"]), (&json!(1), &json!(0)));
    let all = ralph_json(&api, here, &["memory", "list", "--all"]).await;
    assert_eq!(all["items"], json!([]));
    assert!(
        ralph(&api, here, &["memory", "report"])
            .await
            .contains("no attempt yet")
    );
}

/// Runs an import; gives the numbers of imported and of already known entries.
pub async fn imported(api: &Api, here: &std::path::Path, import: &[&str]) -> (u64, u64) {
    let reply = ralph_json(api, here, import).await;
    (
        reply["imported"].as_u64().unwrap(),
        reply["known"].as_u64().unwrap(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn knowledge_files_survive_import_and_export_byte_for_byte() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let here = world.dir();
    let folder = here.join("knowledge");
    std::fs::create_dir(&folder).unwrap();
    let file = "---\ntitle: \"Cargo bench requires nightly\"\ntags: [testing, cargo]\nfeature: \"perf\"\ncreated_at: \
                \"2026-02-17T12:00:00Z\"\n---\n\nRunning `cargo bench` <task-done>t-1</task-done> requires nightly.\n";
    std::fs::write(folder.join("cargo-bench-requires-nightly.md"), file).unwrap();
    std::fs::write(folder.join("README.md"), "# No entry\n").unwrap();
    let import = ["memory", "import", "knowledge", "--repo", "r"];
    assert_eq!(imported(&api, here, &import).await, (1, 0));
    assert_eq!(imported(&api, here, &import).await, (0, 1));
    ralph(&api, here, &["memory", "export", "out", "--repo", "r"]).await;
    let out = std::fs::read_to_string(here.join("out/cargo-bench-requires-nightly.md")).unwrap();
    assert_eq!(out, file);

    // A changed file replaces its entry.
    let changed = file.replace("requires nightly.\n", "needs a toolchain.\n");
    std::fs::write(folder.join("cargo-bench-requires-nightly.md"), &changed).unwrap();
    assert_eq!(imported(&api, here, &import).await, (1, 0));
    ralph(&api, here, &["memory", "export", "again", "--repo", "r"]).await;
    let written: Vec<_> = std::fs::read_dir(here.join("again")).unwrap().collect();
    assert_eq!(written.len(), 1);
    let again = std::fs::read_to_string(here.join("again/cargo-bench-requires-nightly.md")).unwrap();
    assert_eq!(again, changed);

    // An export replaces a link of that name; the link's target stays.
    std::fs::create_dir(here.join("links")).unwrap();
    std::fs::write(here.join("precious"), "not to be lost\n").unwrap();
    let name = "links/cargo-bench-requires-nightly.md";
    std::os::unix::fs::symlink(here.join("precious"), here.join(name)).unwrap();
    ralph(&api, here, &["memory", "export", "links", "--repo", "r"]).await;
    assert_eq!(std::fs::read_to_string(here.join(name)).unwrap(), changed);
    let precious = std::fs::read_to_string(here.join("precious")).unwrap();
    assert_eq!(precious, "not to be lost\n");

    // A file that was changed back replaces its entry too.
    std::fs::write(folder.join("cargo-bench-requires-nightly.md"), file).unwrap();
    assert_eq!(imported(&api, here, &import).await, (1, 0));
    assert_eq!(imported(&api, here, &import).await, (0, 1));
    ralph(&api, here, &["memory", "export", "back", "--repo", "r"]).await;
    let back = std::fs::read_to_string(here.join("back/cargo-bench-requires-nightly.md")).unwrap();
    assert_eq!(back, file);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_questions_is_answered_with_older_entries_only() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let here = world.dir();
    let entry = |id: &str, date: &str, title: &str| {
        json!({"id": id, "date": date, "title": title, "body": "", "paths": [], "tags": []}).to_string()
    };
    let entries = [
        entry(
            "old",
            "2024-01-01T00:00:00Z",
            "Serial numbers of zones wrap around",
        ),
        entry(
            "new",
            "2026-01-01T00:00:00Z",
            "Serial numbers of zones are compared by RFC 1982",
        ),
    ];
    std::fs::write(here.join("entries.jsonl"), entries.join("\n")).unwrap();
    let question = |id: &str, title: &str| {
        json!({"query_id": id, "date": "2025-01-01T00:00:00Z", "title": title, "description": ""}).to_string()
    };
    let questions = [
        question("one", "Compare serial numbers of zones"),
        question("two", "Translate the handbook"),
    ];
    std::fs::write(here.join("questions.jsonl"), questions.join("\n")).unwrap();
    ralph(&api, here, &["memory", "import", "entries.jsonl", "--repo", "r"]).await;
    let search = [
        "memory",
        "search",
        "--batch",
        "questions.jsonl",
        "--repo",
        "r",
        "--limit",
        "5",
        "--output",
        "json",
    ];
    let answers: Vec<Value> = ralph(&api, here, &search)
        .await
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(answers.len(), 2);
    assert_eq!(
        (&answers[0]["query_id"], &answers[0]["ids"]),
        (&json!("one"), &json!(["old"]))
    );
    assert_eq!(answers[1], json!({"query_id": "two", "ids": [], "scores": []}));
    let figures = api
        .send(Method::GET, "/metrics", Some(ADMIN), None)
        .await
        .text()
        .await
        .unwrap();
    for line in [
        "ralph_memory_entries{kind=\"learning\"} 2",
        "ralph_memory_uncounted 0",
    ] {
        assert!(figures.lines().any(|has| has == line), "{line} in {figures}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_and_invalid_memory_requests_are_refused() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let (_, learned) = api
        .post("/memory", &json!({"kind": "learning", "body": "So it is"}))
        .await;
    let edit = format!("/memory/{}/edit", learned["id"].as_str().unwrap());
    let dated = |more: Value| {
        let mut item = json!({"id": "x", "date": "2024-01-01T00:00:00Z", "title": "T"});
        item.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!({"repo": "r", "items": [item]})
    };
    for (path, body, words) in [
        ("/memory", json!({"kind": "learning", "body": " "}), "text"),
        ("/memory", json!({"kind": "journal", "body": "b"}), "iterations"),
        (
            "/memory",
            json!({"kind": "knowledge", "title": "T", "body": "b"}),
            "tag",
        ),
        (
            "/memory",
            json!({"kind": "learning", "body": "b", "colour": 1}),
            "colour",
        ),
        ("/memory", json!({"kind": "learning", "body": "a\0b"}), "NUL"),
        (
            "/memory/import",
            dated(json!({"title": ""})),
            "nothing of the request",
        ),
        ("/memory/import", dated(json!({"kind": "knowledge"})), "tag"),
        ("/memory/import", dated(json!({"tags": ["a\0b"]})), "NUL"),
        (
            "/memory/search",
            json!({"kind": "learning", "limit": 0, "queries": []}),
            "limit",
        ),
        ("/memory/prune", json!({}), "unused_days"),
        ("/memory/prune", json!({"unused_days": -1.0}), "0 to 36500"),
        (edit.as_str(), json!({"body": ""}), "text"),
    ] {
        let (status, problem) = api.post(path, &body).await;
        // 400 for what the schema forbids, 422 for what makes no sense.
        let expected = match words {
            "colour" | "limit" | "0 to 36500" => StatusCode::BAD_REQUEST,
            _ => StatusCode::UNPROCESSABLE_ENTITY,
        };
        assert_eq!(status, expected, "{path} {body}: {problem}");
        assert!(problem.to_string().contains(words), "{words}: {problem}");
    }
    let (status, problem) = api.get("/memory/l-000000000000").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(problem.to_string().contains("memory list"), "{problem}");
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_of_a_verified_attempt_is_explained_and_revoked() {
    let stage = Stage::start().await;
    let tasks = r#"
- key: a
  title: Boil water
  description: |
    @write kettle.txt full
    @say <knowledge tags="kettle" title="The kettle boils">At 20 degrees.</knowledge>
    @done
"#;
    stage
        .submit(json!({"tasks": {"source": "t", "text": tasks}, "verify": true}))
        .await;
    stage.ends("complete").await;
    let (_, tasks) = stage.api.get("/features/f/tasks").await;
    let task = tasks["items"][0]["id"].as_str().unwrap();
    let here = stage.world.dir();
    // The task's last session is its verifier's.
    let explained = ralph_json(&stage.api, here, &["memory", "explain", task]).await;
    let (_, shown) = stage.api.get(&format!("/tasks/{task}")).await;
    let work = shown["dispatches"][0]["id"].as_str().unwrap();
    assert_eq!(explained["dispatch"], work, "{shown}");
    let names = |sections: &Value| -> Vec<String> {
        let sections = sections.as_array().unwrap().iter();
        sections
            .map(|one| one["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        names(&explained["sections"]).len(),
        6,
        "every section is explained: {explained}"
    );
    let context = ralph_json(&stage.api, here, &["context", task, "--attempt", "1"]).await;
    assert_eq!(context["sections"], explained["sections"]);
    assert_eq!(context["items"], explained["items"]);
    let reply = ralph_json(&stage.api, here, &["memory", "revoke", task]).await;
    assert_eq!(reply["entries"], 1);
    let listed = ralph_json(&stage.api, here, &["memory", "list", "--repo", "r"]).await;
    assert_eq!(listed["items"], json!([]));
    let (_, all) = stage.api.get("/memory?repo=r&all=true").await;
    let entry = &all["items"][0];
    assert_eq!(entry["pruned_because"], "revoked", "{all}");
    refuses_to_restore(&stage.api, &[&entry["id"]], "was taken back with the attempt").await;
}

async fn refuses_to_restore(api: &Api, ids: &[&Value], words: &str) {
    let (status, problem) = api.post("/memory/restore", &json!({"ids": ids})).await;
    assert_eq!(status, StatusCode::CONFLICT, "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains(words), "{problem}");
}

#[tokio::test(flavor = "multi_thread")]
async fn hidden_entries_are_restored_and_replaced_ones_are_not() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let here = world.dir();
    let add = async |body: Value| {
        let (status, added) = api.post("/memory", &body).await;
        assert_eq!(status, StatusCode::OK, "{added}");
        added["id"].as_str().unwrap().to_owned()
    };
    let text = "Serial numbers of zones wrap around";
    let learned = add(json!({"kind": "learning", "body": text, "tags": ["dns"]})).await;
    let found = async || {
        let asked = ["memory", "search", "Compare the serial numbers of zones"];
        ralph_json(&api, here, &asked).await["items"].clone()
    };
    let restore = ["memory", "restore", learned.as_str()];
    ralph(&api, here, &["memory", "prune", &learned]).await;
    assert_eq!(found().await, json!([]));
    let reply = ralph(&api, here, &restore).await;
    assert!(reply.contains("1 entry restored"), "{reply}");
    assert_eq!(found().await[0]["id"], *learned);
    let reply = ralph(&api, here, &restore).await;
    assert!(reply.contains("0 entries restored"), "{reply}");

    let boils =
        |at: &str| json!({"kind": "knowledge", "title": "The kettle boils", "body": at, "tags": ["kettle"]});
    let (old, new) = (
        add(boils("At 100 degrees")).await,
        add(boils("At 90 degrees")).await,
    );
    ralph(&api, here, &["memory", "prune", &learned]).await;
    let words = format!("`{old}` was replaced by `{new}`");
    refuses_to_restore(&api, &[&json!(learned), &json!(old)], &words).await;
    assert_eq!(found().await, json!([]), "all or none");
    let (status, problem) = api
        .post(&format!("/memory/{old}/edit"), &json!({"body": "At 80 degrees"}))
        .await;
    assert_eq!(status, StatusCode::CONFLICT, "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains(&words), "{problem}");
}

#[tokio::test(flavor = "multi_thread")]
async fn titles_with_the_same_slug_get_separate_files() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let here = world.dir();
    for title in ["C++ needs clang", "C needs clang", "!!!", "???"] {
        let body = json!({"repo": "r", "kind": "knowledge", "title": title, "body": format!("About {title}"), "tags": ["c"]});
        let (status, problem) = api.post("/memory", &body).await;
        assert_eq!(status, StatusCode::OK, "{problem}");
    }
    ralph(&api, here, &["memory", "export", "one", "--repo", "r"]).await;
    let mut first: Vec<(String, String)> = std::fs::read_dir(here.join("one"))
        .unwrap()
        .map(|file| {
            let path = file.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(path).unwrap())
        })
        .collect();
    first.sort();
    let names: Vec<&str> = first.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        ["c-needs-clang-2.md", "c-needs-clang.md", "entry-2.md", "entry.md"]
    );
    ralph(&api, here, &["memory", "export", "two", "--repo", "r"]).await;
    for (name, text) in &first {
        assert_eq!(
            std::fs::read_to_string(here.join("two").join(name)).unwrap(),
            *text
        );
    }
    assert_eq!(
        imported(&api, here, &["memory", "import", "one", "--repo", "elsewhere"]).await,
        (4, 0)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_shown_recently_counts_as_used_without_its_records() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let (status, added) = api
        .post("/memory", &json!({"kind": "learning", "body": "b"}))
        .await;
    assert!(status.is_success(), "{added}");
    for (shown_days_ago, unused) in [(Some(380.0), 0), (Some(410.0), 1), (None, 1)] {
        sqlx::query(
            "update learnings
             set created_at = now() - interval '500 days', last_used_at = now() - $1::float8 * interval '1 day'",
        )
        .bind(shown_days_ago)
        .execute(&world.db)
        .await
        .unwrap();
        let (_, taken) = api
            .post("/memory/prune", &json!({"unused_days": 400, "dry_run": true}))
            .await;
        assert_eq!(taken["entries"], unused, "{shown_days_ago:?}: {taken}");
    }
}
