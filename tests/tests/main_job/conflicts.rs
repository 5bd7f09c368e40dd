//! Two tasks that change the same: the second gets both sides, and lands what it makes of them.

use ralph_coordinator::domain::states::RunOutcome;
use ralph_coordinator::store;
use ralph_tests::harness::{WorkerOptions, World};

use super::scene::Scene;

/// `left` lands while `right` works; what `right` does then, its further attempts decide.
fn collision(gate: &std::path::Path, resolve: &str) -> String {
    format!(
        r"
- key: left
  title: Turn left
  description: |
    Whoever comes has to turn left.
    @effect left
    @write a.txt left
    @say <journal>Left it is.</journal>
    @done
- key: right
  title: Turn right
  description: |
    @on-attempt 1 @effect begun
    @on-attempt 1 @wait-for {}
    @on-attempt 1 @write a.txt right
    @on-attempt 1 @write more.txt more
    @on-attempt 2 @effect right
    @on-attempt 2 @expect-pass git status --porcelain | tr '\n' ' ' | grep -qx 'AA a.txt ?? more.txt '
    @on-attempt 2 @expect-pass grep -q '^<<<<<<< ' a.txt
{resolve}
    @done
",
        gate.display()
    )
}

async fn collide<'a>(world: &'a World, name: &str, resolve: &str) -> Scene<'a> {
    let gate = world.gate(name);
    let scene = Scene::submit(world, name, &collision(&gate, resolve)).await;
    scene
        .until("select count(*) = 1 from tasks where feature_id = $1 and state = 'done'")
        .await;
    world.effects_of("begun", 1).await.unwrap();
    std::fs::write(&gate, "").unwrap();
    scene
}

#[tokio::test(flavor = "multi_thread")]
async fn attempt_after_a_conflict_gets_both_sides_and_lands() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let options = WorkerOptions::named("w1").slots(2).pool("both");
    let _worker = world.worker(&options).unwrap();
    let resolve = "    @on-attempt 2 @write a.txt left and right";
    let scene = collide(&world, "both", resolve).await;
    scene.completes().await;
    let repository = scene.repository.as_ref().unwrap();
    let shown = |file: &str| repository.git(&["show", &format!("ralph/both:{file}")]).unwrap();
    assert_eq!(shown("a.txt").trim(), "left and right");
    assert_eq!(shown("more.txt").trim(), "more");
    let second: uuid::Uuid = sqlx::query_scalar(
        "select id from dispatches where feature_id = $1 and kind = 'work' and attempt = 2",
    )
    .bind(scene.feature.0)
    .fetch_one(&world.db)
    .await
    .unwrap();
    let mut conn = world.db.acquire().await.unwrap();
    let (_, prompt) = store::prompt::read(&mut conn, second).await.unwrap().unwrap();
    let told = [
        "### Conflict",
        "- a.txt\n",
        &format!(
            "- [{}] Turn left: Whoever comes has to turn left.",
            scene.tasks[0]
        ),
        "Its session says: Left it is.",
        "it conflicts with what landed before",
    ];
    for words in told {
        assert!(prompt.contains(words), "no `{words}` in {prompt}");
    }
    drop(conn);
    world.check_processes().await.unwrap();
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn markers_that_an_agent_leaves_do_not_land() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let options = WorkerOptions::named("w1").slots(2).pool("left-over");
    let _worker = world.worker(&options).unwrap();
    // It says that it is done and resolved nothing, each time; the attempts go on from what it left.
    let scene = collide(&world, "left-over", "").await;
    scene.ends(RunOutcome::Blocked).await;
    let refused: i64 = sqlx::query_scalar(
        "select count(*) from dispatches where feature_id = $1 and kind = 'integrate'
           and outcome = 'failed' and reason = 'conflict markers are left in a.txt'",
    )
    .bind(scene.feature.0)
    .fetch_one(&world.db)
    .await
    .unwrap();
    assert!(refused > 0, "{}", world.tell().await);
    let repository = scene.repository.as_ref().unwrap();
    let landed = repository.git(&["show", "ralph/left-over:a.txt"]).unwrap();
    assert_eq!(landed.trim(), "left");
    world.stop().await;
}
