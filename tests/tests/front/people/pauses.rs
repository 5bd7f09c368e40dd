//! `feature pause` and `feature resume` with the real programs.

use serde_json::json;

use crate::stage::Stage;
use crate::typed::code_and_output;

#[tokio::test]
async fn a_paused_feature_finishes_its_session_and_starts_nothing() {
    let stage = Stage::start().await;
    let gate = stage.world.gate("a");
    let tasks = format!(
        "- key: a\n  title: Runs\n  description: |\n    @effect a\n    @write a.txt a\n    @wait-for {}\n    @done\n\
         - key: b\n  title: Waits\n  description: |\n    @effect b\n    @write b.txt b\n    @done\n\
         - key: c\n  title: Follows\n  after: [a]\n  description: |\n    @effect c\n    @done\n",
        gate.display()
    );
    let check = async |verb: &str, code: i32, words: &str| {
        let (found, text) = code_and_output(&stage, &format!("feature {verb} f")).await;
        assert!(
            found == Some(code) && text.contains(words),
            "{verb}: {found:?}: {text}"
        );
    };
    check("pause", 1, "f").await;
    stage
        .submit(json!({"tasks": {"source": "t", "text": tasks}}))
        .await;
    check("resume", 1, "can't resume a feature that is running").await;
    stage.world.effects_of("a", 1).await.unwrap();
    check("pause", 0, "is paused").await;
    check("pause", 1, "can't pause a feature that is paused").await;
    check("run", 1, "can't run a feature that is paused").await;
    let (_, progress) = stage.api.get("/features/f/progress").await;
    assert_eq!(progress["feature"]["status"], "paused");
    assert_eq!(
        progress["sessions"][0]["title"], "Runs",
        "the session continues: {progress}"
    );

    // The session ends and its report counts; its follower and the other task wait.
    std::fs::write(&gate, "").unwrap();
    let (_, a) = stage.api.get("/tasks/f%2Fa").await;
    let id: sqlx::types::Uuid = sqlx::query_scalar("select id from features")
        .fetch_one(&stage.world.db)
        .await
        .unwrap();
    let settled = "select not exists (select 1 from dispatches where feature_id = $1 and state = 'live')";
    stage.world.until(settled, id).await.unwrap();
    let (_, dispatches) = stage
        .api
        .get(&format!("/tasks/{}", a["id"].as_str().unwrap()))
        .await;
    assert_eq!(dispatches["dispatches"][0]["outcome"], "done", "{dispatches}");
    let begun: i64 = sqlx::query_scalar("select count(*) from dispatches")
        .fetch_one(&stage.world.db)
        .await
        .unwrap();
    let queued: i64 = sqlx::query_scalar("select count(*) from ready_tasks")
        .fetch_one(&stage.world.db)
        .await
        .unwrap();
    assert_eq!((begun, queued), (1, 0), "{}", stage.world.tell().await);

    check("resume", 0, "goes on").await;
    check("resume", 1, "can't resume a feature that is").await;
    let over = stage.ends("complete").await;
    assert_eq!(over["feature"]["tasks"]["done"], 3, "{over}");
    assert_eq!(
        (stage.file("a.txt"), stage.file("b.txt")),
        ("a".into(), "b".into())
    );
    for effect in ["a", "b", "c"] {
        let lines = stage.world.effects_lines();
        let times = lines
            .iter()
            .filter(|line| line.starts_with(&format!("{effect} ")))
            .count();
        assert_eq!(times, 1, "{effect}: {lines:?}");
    }
    check("pause", 1, "can't pause a feature that is done").await;
}
