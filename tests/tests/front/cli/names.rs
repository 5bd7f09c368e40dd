//! Names as people type them: which feature a name means, and suggestions for unknown names.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ralph_tests::harness::{Stub, World, binary};
use serde_json::{Value, json};

use crate::caller::{ADMIN, Api};

fn ralph(api: &Api, folder: &Path, line: &str) -> Output {
    let mut command = Command::new(binary("ralph-coordinator"));
    command
        .args(shell_words::split(line).unwrap())
        .current_dir(folder)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", folder)
        .env("GIT_CEILING_DIRECTORIES", folder.parent().unwrap())
        .env("RALPH_URL", &api.url)
        .env("RALPH_TOKEN", ADMIN);
    command.output().unwrap()
}

/// Standard output of a command that must succeed.
fn stdout_of(api: &Api, folder: &Path, line: &str) -> String {
    let output = ralph(api, folder, line);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "`{line}`: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

/// Checks that a command fails and says these words.
fn refused(api: &Api, folder: &Path, line: &str, words: &[&str]) {
    let output = ralph(api, folder, line);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && words.iter().all(|word| stderr.contains(word)),
        "`{line}` should say {words:?}: {stderr}"
    );
}

/// Creates a draft with a task `a` in the repository with this identity; gives the draft's id.
async fn draft(api: &Api, name: &str, repo: &str) -> String {
    let body = json!({
        "name": name,
        "draft": true,
        "repo": {
            "address": "/nowhere",
            "id": repo,
            "base_ref": "main",
            "base_commit": "0123456789".repeat(4),
        },
        "tasks": {"source": "t", "text": "- {key: a, title: A}"},
    });
    let (status, answer) = api.post("/features", &body).await;
    assert_eq!(status.as_u16(), 201, "{answer}");
    answer["feature"]["id"].as_str().unwrap().to_owned()
}

/// Creates a draft that lands on this branch of `github.com/team/ours`; gives the status and the error.
async fn lands_on(api: &Api, name: &str, branch: &str) -> (u16, String) {
    let body = json!({
        "name": name,
        "draft": true,
        "repo": {
            "address": "/nowhere",
            "id": "github.com/team/ours",
            "base_ref": "main",
            "base_commit": "0123456789".repeat(4),
            "branch": branch,
        },
        "tasks": {"source": "t", "text": "- {key: a, title: A}"},
    });
    let (status, answer) = api.post("/features", &body).await;
    (
        status.as_u16(),
        answer["detail"].as_str().unwrap_or_default().to_owned(),
    )
}

fn git(folder: &Path, line: &str) {
    let who = ["-c", "user.name=A", "-c", "user.email=a@b.c"];
    let done = Command::new("git")
        .args(who)
        .args(shell_words::split(line).unwrap())
        .current_dir(folder)
        .status();
    assert!(done.unwrap().success(), "git {line}");
}

/// Creates a folder with an empty repository that has this origin.
fn clone(world: &World, name: &str, origin: &str) -> PathBuf {
    let folder = world.dir().join(name);
    std::fs::create_dir(&folder).unwrap();
    for args in [vec!["init", "-q"], vec!["remote", "add", "origin", origin]] {
        let done = Command::new("git").args(args).current_dir(&folder).status();
        assert!(done.unwrap().success());
    }
    folder
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_means_the_feature_of_the_repository_in_which_it_is_typed() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let ours = draft(&api, "todo", "github.com/team/ours").await;
    let theirs = draft(&api, "todo", "github.com/team/theirs").await;
    let only_theirs = draft(&api, "shop", "github.com/team/theirs").await;
    let here = clone(&world, "ours", "git@github.com:team/ours.git");
    let elsewhere = clone(&world, "elsewhere", "git@github.com:team/elsewhere.git");
    let nowhere = world.dir().join("nowhere");
    std::fs::create_dir(&nowhere).unwrap();

    let json = |folder: &Path, line: &str| -> Value {
        serde_json::from_str(&stdout_of(&api, folder, &format!("{line} --output json"))).unwrap()
    };
    assert_eq!(json(&here, "feature show todo")["feature"]["id"], *ours);
    assert_eq!(json(&here, "task show todo/a")["feature"], *ours);
    assert_eq!(json(&here, "feature show shop")["feature"]["id"], *only_theirs);
    let added = json(&here, "task create More --feature todo --after todo/a");
    assert_eq!(added["feature"]["id"], *ours);
    assert_eq!(
        json(&nowhere, &format!("feature show {theirs}"))["feature"]["id"],
        *theirs
    );
    for folder in [&nowhere, &elsewhere] {
        let words = [
            ours.as_str(),
            theirs.as_str(),
            "github.com/team/theirs",
            "give the id",
        ];
        refused(&api, folder, "feature show todo", &words);
    }

    let (status, problem) = api.get("/features/todo").await;
    assert_eq!(status.as_u16(), 409, "{problem}");
    assert_eq!(problem["type"], "urn:ralph:problem:ambiguous");
    let (_, shown) = api.get("/features/todo?repo=github.com%2Fteam%2Ftheirs").await;
    assert_eq!(shown["id"], *theirs);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_name_gets_a_similar_one_suggested() {
    let mut world = World::start().await.unwrap();
    world.coordinator().await.unwrap();
    let api = Api::start(&world).await;
    api.submit(
        "zone-files",
        "- {key: parser, title: A}\n- {key: writer, title: B}",
    )
    .await;
    let _worker = Stub::hello(&world, "builder-1").await.unwrap();
    let here = world.dir().join("here");
    std::fs::create_dir(&here).unwrap();
    let fails = |line: &str, words: &[&str]| refused(&api, &here, line, words);
    fails(
        "feature show zonefiles",
        &["did you mean `zone-files`?", "feature list"],
    );
    fails("feature pause zone-fiels", &["did you mean `zone-files`?"]);
    fails("task list zone_files", &["did you mean `zone-files`?"]);
    fails(
        "task show zone-files/parsr",
        &["did you mean `zone-files/parser`?"],
    );
    fails("task show zone-file/parser", &["did you mean `zone-files`?"]);
    fails(
        "worker show builder1",
        &["did you mean `builder-1`?", "worker list"],
    );
    fails("worker drain bulider-1", &["did you mean `builder-1`?"]);
    for far in [
        "feature show invoices",
        "task show zone-files/invoices",
        "worker show invoices",
    ] {
        fails(far, &["there is no", "list` shows"]);
        let output = ralph(&api, &here, far);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!stderr.contains("did you mean"), "{stderr}");
    }
}

/// The id with another last digit.
fn mistyped(id: &Value) -> String {
    let id = id.as_str().unwrap();
    let (beginning, last) = id.split_at(id.len() - 1);
    format!("{beginning}{}", if last == "0" { "1" } else { "0" })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_id_or_token_gets_a_similar_one_suggested() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let submitted = api.submit("f", "- {key: a, title: A, pool: nowhere}").await;
    let entry = json!({"kind": "learning", "repo": "", "body": "The kettle boils over."});
    let (_, entry) = api.post("/memory", &entry).await;
    for name in ["nightly-build", "gone-build"] {
        api.post("/tokens", &json!({"name": name, "role": "read"})).await;
    }
    let here = world.dir().join("here");
    std::fs::create_dir(&here).unwrap();
    stdout_of(&api, &here, "token revoke gone-build");
    let suggests = |line: &str, meant: &Value| {
        let hint = format!("did you mean `{}`?", meant.as_str().unwrap());
        refused(&api, &here, line, &["there is no", &hint, "list"]);
    };
    suggests(
        &format!("run show {}", mistyped(&submitted["run"])),
        &submitted["run"],
    );
    suggests(&format!("memory show {}", mistyped(&entry["id"])), &entry["id"]);
    suggests("token revoke nightly-biuld", &json!("nightly-build"));
    for far in [
        "run show run-0",
        "memory show l-0",
        "token revoke gone-biuld",
        "token revoke gone-build",
    ] {
        let stderr = String::from_utf8_lossy(&ralph(&api, &here, far).stderr).into_owned();
        assert!(!stderr.contains("did you mean"), "`{far}`: {stderr}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_added_task_gets_its_own_key() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    api.submit("f", "- {key: a, title: A}").await;
    let here = world.dir().join("here");
    std::fs::create_dir(&here).unwrap();
    let added = |line: &str, key: &str| {
        let stdout = stdout_of(&api, &here, line);
        assert!(stdout.contains(&format!("({key})")), "`{line}`: {stdout}");
    };
    let create = "task create \"Write the tests!\" --feature f";
    for key in ["write-the-tests", "write-the-tests-2", "write-the-tests-3"] {
        added(create, key);
    }
    added(
        &format!("{create} --key api/tests --after f/write-the-tests-2"),
        "api/tests",
    );
    refused(
        &api,
        &here,
        &format!("{create} --key a"),
        &["has a task `a` already"],
    );
    refused(
        &api,
        &here,
        &format!("{create} --key 'a b'"),
        &["a key is at most"],
    );
    refused(&api, &here, &format!("{create} --key ''"), &["key"]);
    added("submit task \"Fix it\" --no-repo", "fix-it");
    added("submit task \"Fix it\" --no-repo --key fix", "fix");

    let (_, shown) = api.get("/tasks/f%2Fapi%2Ftests").await;
    assert_eq!(
        (&shown["title"], shown["blockers"].as_array().map(Vec::len)),
        (&json!("Write the tests!"), Some(1))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_branch_belongs_to_one_feature_of_its_repository() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    draft(&api, "first", "github.com/team/ours").await;
    draft(&api, "first", "github.com/team/theirs").await;
    assert_eq!(lands_on(&api, "second", "shared").await.0, 201);
    assert_eq!(lands_on(&api, "third", "ralph/fourth").await.0, 201);
    for (name, branch, owner) in [
        ("fourth", "shared", "second"),
        ("fourth", "ralph/first", "first"),
        ("fourth", "ralph/fourth", "third"),
    ] {
        let (status, detail) = lands_on(&api, name, branch).await;
        assert_eq!(status, 409, "{name} on {branch}: {detail}");
        for words in [
            format!("`{branch}`"),
            format!("the feature `{owner}` lands"),
            "--branch".to_owned(),
            format!("`feature delete {owner}`"),
        ] {
            assert!(detail.contains(&words), "no {words} in: {detail}");
        }
    }
    // Nor can git store a branch below another branch's name.
    assert_eq!(lands_on(&api, "deep", "team/ui/colours").await.0, 201);
    assert_eq!(lands_on(&api, "beside", "team/ui/colour").await.0, 201);
    for (branch, existing, owner) in [
        ("team", "team/ui/colours", "deep"),
        ("team/ui", "team/ui/colours", "deep"),
        ("team/ui/colours/dark", "team/ui/colours", "deep"),
        ("ralph/first/more", "ralph/first", "first"),
    ] {
        let (status, detail) = lands_on(&api, "fifth", branch).await;
        assert_eq!(status, 409, "{branch}: {detail}");
        for words in [
            format!("a branch `{branch}` beside the branch `{existing}`"),
            format!("the feature `{owner}` lands"),
            format!("`feature delete {owner}`"),
        ] {
            assert!(detail.contains(&words), "no {words} in: {detail}");
        }
    }
    // A deleted feature frees its branch, as it frees its name.
    let here = clone(&world, "ours", "git@github.com:team/ours.git");
    stdout_of(&api, &here, "feature delete second --yes");
    assert_eq!(lands_on(&api, "fourth", "shared").await.0, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_work_tree_is_the_same_repository() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let at = |name: &str| world.dir().join(name);
    std::fs::create_dir(at("full")).unwrap();
    let tasks = at("full").join("tasks.yaml");
    std::fs::write(&tasks, "- {key: a, title: A}\n").unwrap();
    for line in [
        "init -q -b main",
        "add -A",
        "commit -q -m begin",
        "worktree add -q ../tree",
    ] {
        git(&at("full"), line);
    }
    git(world.dir(), "clone -q --bare full bare.git");
    for line in ["remote remove origin", "worktree add -q ../bare-tree"] {
        git(&at("bare.git"), line);
    }
    for (main, tree, identity) in [("full", "tree", "full"), ("bare.git", "bare-tree", "bare")] {
        let create = |name: &str| format!("feature create {name} --repo . --tasks {}", tasks.display());
        let made = stdout_of(&api, &at(main), &format!("{} --output json", create(tree)));
        let made: Value = serde_json::from_str(&made).unwrap();
        let identity = at(identity).display().to_string();
        assert_eq!(made["feature"]["repo_id"], *identity);
        // The main repository is used: the tree may be gone before the work is done.
        let address: String = sqlx::query_scalar("select repo_address from features where name = $1")
            .bind(tree)
            .fetch_one(&world.db)
            .await
            .unwrap();
        assert_eq!(address, at(main).display().to_string());
        refused(&api, &at(tree), &create(tree), &["stands already"]);
        // A branch that belongs to a feature gets another error than a foreign branch.
        git(&at(main), &format!("branch ralph/{tree}"));
        let other = format!("{} --branch ralph/{tree}", create("other"));
        let owned = format!("the feature `{tree}` lands");
        refused(
            &api,
            &at(tree),
            &other,
            &[&owned, &format!("feature delete {tree}")],
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_branch_that_blocks_the_features_branch_is_refused_early() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let here = clone(&world, "here", "git@github.com:team/here.git");
    std::fs::write(here.join("tasks.yaml"), "- {key: a, title: A}\n").unwrap();
    let create = "feature create f --repo . --tasks tasks.yaml";
    for line in ["add -A", "commit -q -m begin", "branch ralph"] {
        git(&here, line);
    }
    refused(
        &api,
        &here,
        create,
        &[
            "a branch `ralph/f` beside the branch `ralph`",
            "no feature's",
            "--branch",
            "rename",
        ],
    );
    git(&here, "branch -D -q ralph");
    git(&here, "branch ralph/f/old");
    refused(
        &api,
        &here,
        create,
        &["a branch `ralph/f` beside the branch `ralph/f/old`"],
    );
    git(&here, "branch -m ralph/f/old ralph/f-old");
    stdout_of(&api, &here, create);
}
