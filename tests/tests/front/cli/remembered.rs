//! Searches, imports and exports of the memory at their bounds.

use ralph_tests::harness::World;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::caller::{ADMIN, Api};
use crate::cli::memory::{imported, ralph};

fn item(id: &str, title: &str) -> Value {
    json!({"id": id, "date": "2024-01-01T00:00:00Z", "title": title, "body": "", "paths": [], "tags": ["dns"]})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_reads_as_many_entries_as_it_may_show() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let items: Vec<Value> = (0..20)
        .map(|n| {
            item(
                &format!("e{n}"),
                &format!("Serial numbers of zone{n} wrap around"),
            )
        })
        .collect();
    let (status, reply) = api
        .post("/memory/import", &json!({"repo": "r", "items": items}))
        .await;
    assert_eq!((status, &reply["imported"]), (StatusCode::OK, &json!(20)));
    let asked = json!({"query_id": "q", "date": "2025-01-01T00:00:00Z", "title": "Compare serial numbers"});
    let search = json!({"repo": "r", "kind": "learning", "limit": 50, "queries": [asked]});
    let (status, answers) = api.post("/memory/search", &search).await;
    assert_eq!(status, StatusCode::OK, "{answers}");
    let answer = &answers["items"][0];
    let count = |of: &str| answer[of].as_array().unwrap().len();
    assert_eq!(count("items") + count("left_out"), 20, "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_journal_has_no_entries_to_list_or_show() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let (status, problem) = api.get("/memory?kind=journal").await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{problem}");
    assert!(
        problem.to_string().contains("memory search --kind journal"),
        "{problem}"
    );
    let (status, problem) = api.get("/memory/d-000000000000").await;
    assert_eq!(status, StatusCode::NOT_FOUND, "{problem}");
    assert!(problem.to_string().contains("task show"), "{problem}");
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_that_are_too_large_are_refused_by_name() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let (_, learned) = api
        .post("/memory", &json!({"kind": "learning", "body": "So it is"}))
        .await;
    let id = learned["id"].as_str().unwrap();
    let edit = format!("/memory/{id}/edit");
    // Incompressible text, longer than an index entry may be.
    let huge: String = (0..2_000_u64)
        .map(|n| format!("{:016x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
        .collect();
    let mut items = vec![item("fits", "A title"), item("too-large", "Another")];
    items[1]["tags"] = json!([huge]);
    for (path, body, words) in [
        (
            "/memory",
            json!({"kind": "knowledge", "title": "T", "body": "b", "tags": [huge]}),
            "a tag",
        ),
        ("/memory", json!({"kind": "learning", "body": huge}), "the text"),
        (
            "/memory/import",
            json!({"repo": "r", "items": items}),
            "`too-large`",
        ),
        (edit.as_str(), json!({"title": huge}), id),
    ] {
        let (status, problem) = api.post(path, &body).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{words}: {problem}");
        assert!(problem.to_string().contains(words), "{words}: {problem}");
    }
    let (_, all) = api.get("/memory?all=true").await;
    assert_eq!(all["items"].as_array().unwrap().len(), 1, "{all}");
}

/// Number of live entries in `/metrics`.
async fn live(api: &Api) -> Option<String> {
    let figures = api.send(Method::GET, "/metrics", Some(ADMIN), None).await;
    let text = figures.text().await.unwrap();
    let mut lines = text.lines();
    let live = lines.find_map(|line| line.strip_prefix("ralph_memory_learned{status=\"live\"} "));
    live.map(str::to_owned)
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_metrics_requests_read_the_memory_once() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let learned = json!({"kind": "learning", "body": "So it is"});
    api.post("/memory", &learned).await;
    assert_eq!(live(&api).await.as_deref(), Some("1"));
    api.post("/memory", &learned).await;
    assert_eq!(live(&api).await.as_deref(), Some("1"));
    let (_, report) = api.get("/memory/report").await;
    assert_eq!(
        report["fates"]["entries"]["live"], 2,
        "the report shows current numbers"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_skips_files_that_are_no_knowledge_files() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let folder = world.dir().join("knowledge");
    std::fs::create_dir_all(folder.join("a-folder.md")).unwrap();
    std::fs::write(folder.join("latin.md"), b"---\ntitle: Caf\xe9\ntags: [a]\n---\n").unwrap();
    std::fs::write(
        folder.join("zone.md"),
        "---\ntitle: Zones\ntags: [dns]\n---\n\nThey wrap.\n",
    )
    .unwrap();
    let import = ["memory", "import", "knowledge", "--repo", "r"];
    assert_eq!(imported(&api, world.dir(), &import).await, (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_repeated_after_a_deadlock_counts_its_entries_as_new() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    // One deadlock: a sequence does not roll back with its transaction.
    sqlx::raw_sql(
        "create sequence tries;
         create function deadlock() returns trigger language plpgsql as $$
         begin
           if nextval('tries') = 1 then
             raise exception 'a deadlock' using errcode = '40P01';
           end if;
           return new;
         end $$;
         create trigger deadlocks before insert on learnings
         for each row when (new.external_id = 'e599') execute function deadlock()",
    )
    .execute(&world.db)
    .await
    .unwrap();
    let items: Vec<Value> = (0..600)
        .map(|n| item(&format!("e{n}"), &format!("Zone {n} wraps around")))
        .collect();
    let (status, reply) = api
        .post("/memory/import", &json!({"repo": "r", "items": items}))
        .await;
    assert_eq!(status, StatusCode::OK, "{reply}");
    assert_eq!(reply, json!({"imported": 600, "known": 0}));
}

#[tokio::test(flavor = "multi_thread")]
async fn importing_an_export_changes_nothing() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let here = world.dir();
    for (title, body) in [
        ("Zones wrap", "At 2^32.\r\nAlways.\n"),
        ("Kettles boil", "At 100 degrees."),
    ] {
        let entry =
            json!({"repo": "r", "kind": "knowledge", "title": title, "body": body, "tags": ["DNS", "Tea"]});
        let (status, added) = api.post("/memory", &entry).await;
        assert_eq!(status, StatusCode::OK, "{added}");
    }
    // An agent wrote one of them.
    sqlx::query("update knowledge set origin = 'attempt' where title = 'Zones wrap'")
        .execute(&world.db)
        .await
        .unwrap();
    let (_, before) = api.get("/memory?repo=r&all=true").await;
    ralph(&api, here, &["memory", "export", "out", "--repo", "r"]).await;
    assert_eq!(
        imported(&api, here, &["memory", "import", "out", "--repo", "r"]).await,
        (0, 2)
    );
    let (_, after) = api.get("/memory?repo=r&all=true").await;
    assert_eq!(after, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_does_not_replace_a_persons_later_edit() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let boils = |id: &str, date: &str, body: &str| {
        let mut line = item(id, "Kettles boil");
        line["kind"] = json!("knowledge");
        (line["date"], line["body"]) = (json!(date), json!(body));
        json!({"repo": "r", "items": [line]})
    };
    let bodies = async || {
        let (_, live) = api.get("/memory?repo=r").await;
        let live = live["items"].as_array().unwrap().clone();
        live.iter().map(|one| one["body"].clone()).collect::<Vec<_>>()
    };
    let import = async |body: Value| {
        let (status, reply) = api.post("/memory/import", &body).await;
        assert_eq!(status, StatusCode::OK, "{reply}");
        reply["imported"].as_u64().unwrap()
    };
    assert_eq!(import(boils("a", "2024-01-01T00:00:00Z", "At 90.")).await, 1);
    // A newer entry of another import replaces it.
    assert_eq!(import(boils("b", "2024-01-02T00:00:00Z", "At 95.")).await, 1);
    let (_, live) = api.get("/memory?repo=r").await;
    let edit = format!("/memory/{}/edit", live["items"][0]["id"].as_str().unwrap());
    let (status, edited) = api.post(&edit, &json!({"body": "At 100."})).await;
    assert_eq!(status, StatusCode::OK, "{edited}");
    assert_eq!(import(boils("c", "2024-01-03T00:00:00Z", "At 80.")).await, 0);
    assert_eq!(bodies().await, ["At 100."]);
    let given =
        json!({"repo": "r", "kind": "knowledge", "title": "KETTLES boil", "body": "At 99.", "tags": ["dns"]});
    api.post("/memory", &given).await;
    assert_eq!(import(boils("d", "2024-01-04T00:00:00Z", "At 70.")).await, 0);
    assert_eq!(bodies().await, ["At 99."]);
    // An entry newer than the person's edit replaces it.
    assert_eq!(import(boils("e", "2100-01-01T00:00:00Z", "At 98.")).await, 1);
    assert_eq!(bodies().await, ["At 98."]);
}

/// Entries of a memory, without the fields that differ between memories.
async fn contents(api: &Api, repo: &str) -> Vec<Value> {
    let (_, page) = api.get(&format!("/memory?repo={repo}")).await;
    let items = page["items"].as_array().unwrap().iter();
    let mut contents: Vec<Value> = items
        .map(|entry| {
            let parts = ["kind", "category", "title", "body", "tags", "paths", "created_at"];
            parts.iter().map(|part| entry[part].clone()).collect()
        })
        .collect();
    contents.sort_by_key(Value::to_string);
    contents
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_memory_imports_all_that_another_exported() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let here = world.dir();
    for entry in [
        json!({"repo": "r", "kind": "knowledge", "title": "Kettles boil", "body": "At 100 degrees.", "tags": ["tea"]}),
        json!({"repo": "r", "kind": "learning", "category": "pitfall", "body": "Zones wrap.\r\n\n---\n \"Always\".\n",
               "tags": ["dns", "größe"], "paths": ["src/zone.rs", "a b"]}),
        json!({"repo": "r", "kind": "learning", "body": "Nobody is to see this yet"}),
    ] {
        let (status, added) = api.post("/memory", &entry).await;
        assert_eq!(status, StatusCode::OK, "{added}");
    }
    let items = [
        item("e1", "Serials are compared"),
        item("e2", "Serials are counted"),
    ];
    api.post("/memory/import", &json!({"repo": "r", "items": items}))
        .await;
    sqlx::query("update learnings set released_at = null where body like 'Nobody%'")
        .execute(&world.db)
        .await
        .unwrap();
    let export = |folder: &'static str, repo: &'static str| {
        let api = &api;
        async move {
            ralph(api, here, &["memory", "export", folder, "--repo", repo]).await;
            std::fs::read_to_string(here.join(folder).join("learnings.jsonl")).unwrap()
        }
    };
    let import = ["memory", "import", "out", "--repo"];
    let out = export("out", "r").await;
    assert_eq!(out.lines().count(), 3, "{out}");

    assert_eq!(
        imported(&api, here, &[&import[..], &["r"]].concat()).await,
        (0, 4)
    );
    assert_eq!(
        imported(&api, here, &[&import[..], &["new"]].concat()).await,
        (4, 0)
    );
    assert_eq!(
        imported(&api, here, &[&import[..], &["new"]].concat()).await,
        (0, 4)
    );
    assert_eq!(contents(&api, "new").await, contents(&api, "r").await);
    assert_eq!(export("again", "new").await, out);
    let file = |folder: &str| std::fs::read_to_string(here.join(folder).join("kettles-boil.md")).unwrap();
    assert_eq!(file("again"), file("out"));

    // A new export removes entries that were hidden since the last one.
    sqlx::query("update learnings set pruned_at = now()")
        .execute(&world.db)
        .await
        .unwrap();
    assert_eq!(export("out", "r").await, "");
}
