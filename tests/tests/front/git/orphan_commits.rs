//! Commits of an agent outside its attempt's branch are kept, shown, named to the next attempt, and removed
//! with that branch.

use serde_json::{Value, json};

use crate::stage::Stage;
use crate::typed::stdout_of;

const GRAPH: &str = r"
- key: a
  title: Work on several branches
  description: |
    @on-attempt 1 @run git checkout -q -b other && echo o > o.txt && git add -A && git commit -qm other
    @on-attempt 1 @run git checkout -q --detach ralph/f && echo d > d.txt && git add -A && git commit -qm detached
    @on-attempt 1 @run git checkout -q ralph/f && echo s > s.txt && git stash -q -u
    @on-attempt 1 @write a.txt half
    @on-attempt 1 @stop max_tokens
    @on-attempt 2 @write a.txt whole
    @if-prompt-has -strays/branches/other : @done
";

fn refs(stage: &Stage, pattern: &str) -> Vec<String> {
    let listed = stage
        .repository
        .git(&["for-each-ref", "--format=%(refname)", pattern])
        .unwrap();
    listed.lines().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn orphan_commits_are_kept_shown_and_removed_with_their_attempt() {
    let stage = Stage::start().await;
    stage
        .submit(json!({"tasks": {"text": GRAPH, "source": "tasks.yaml"}}))
        .await;
    stage.ends("complete").await;
    let (_, detail) = stage.api.get("/tasks/f%2Fa").await;
    let of = |attempt: u64| {
        let dispatches = detail["dispatches"].as_array().unwrap().clone();
        let is_it = |one: &Value| one["attempt"] == attempt && one["kind"] == "work";
        dispatches.into_iter().find(is_it).unwrap()
    };
    let own = of(1)["pushed_ref"].as_str().unwrap().to_owned();
    let strays: Vec<(String, String)> = of(1)["strays"]
        .as_array()
        .unwrap()
        .iter()
        .map(|stray| {
            let text = |key: &str| stray[key].as_str().unwrap().to_owned();
            (text("what"), text("pushed_ref"))
        })
        .collect();
    let expected = [
        ("branch other", "branches/other"),
        ("stash 0", "stashes/0"),
        ("detached HEAD", "detached/0"),
    ];
    let expected = expected.map(|(what, end)| (what.to_owned(), format!("{own}-strays/{end}")));
    assert_eq!(strays, expected);
    assert_eq!(of(2)["strays"], json!([]));
    let shown = stdout_of(&stage, "task show f/a").await;
    assert!(shown.contains("also committed, stash 0"), "{shown}");
    let file = format!("{own}-strays/branches/other:o.txt");
    assert_eq!(stage.repository.git(&["show", &file]).unwrap().trim(), "o");
    // The landing has none of them.
    let landed = stage
        .repository
        .git(&["ls-tree", "--name-only", "ralph/f"])
        .unwrap();
    assert_eq!(
        landed.split_whitespace().collect::<Vec<_>>(),
        ["README.md", "a.txt"]
    );

    let (status, answer) = stage
        .api
        .post("/features/f/prune", &json!({"older_than_ms": 0}))
        .await;
    assert_eq!(status.as_u16(), 200, "{answer}");
    let feature: uuid::Uuid = sqlx::query_scalar("select id from features")
        .fetch_one(&stage.world.db)
        .await
        .unwrap();
    let over = "select prune_before is null from features where id = $1";
    stage.world.until(over, feature).await.unwrap();
    assert_eq!(refs(&stage, "refs/ralph/attempts"), Vec::<String>::new());
}

/// The server refuses the first push. Once it takes another one, the worker pushes the refused work and
/// reports it.
#[tokio::test(flavor = "multi_thread")]
async fn work_that_a_server_refused_is_pushed_later_and_reported() {
    use std::os::unix::fs::PermissionsExt as _;

    let stage = Stage::start().await;
    let hook = stage.repository.path().join("hooks/update");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    let script =
        "#!/bin/sh\n[ -e refused ] && exit 0\n: > refused\necho 'GH006: Protected branch' >&2\nexit 1\n";
    std::fs::write(&hook, script).unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    let graph = "- key: a\n  title: A\n  description: |\n    @run echo $RALPH_ATTEMPT > a.txt\n    @done\n";
    stage
        .submit(json!({"tasks": {"text": graph, "source": "tasks.yaml"}}))
        .await;
    stage.ends("complete").await;
    let first: uuid::Uuid =
        sqlx::query_scalar("select id from dispatches where kind = 'work' order by claimed_at limit 1")
            .fetch_one(&stage.world.db)
            .await
            .unwrap();
    let pushed = "select pushed_ref is not null and commit is not null from dispatches where id = $1";
    stage.world.until(pushed, first).await.unwrap();
    let name: String = sqlx::query_scalar("select pushed_ref from dispatches where id = $1")
        .bind(first)
        .fetch_one(&stage.world.db)
        .await
        .unwrap();
    let file = format!("{name}:a.txt");
    assert_eq!(stage.repository.git(&["show", &file]).unwrap().trim(), "1");
    assert_eq!(stage.file("a.txt"), "2");
}
