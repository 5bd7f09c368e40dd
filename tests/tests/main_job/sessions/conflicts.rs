//! Two tasks that change the same file: the second one gets both sides and lands its resolution.

use ralph_coordinator::domain::states::RunOutcome;
use ralph_coordinator::store;
use ralph_shared::ids::DispatchId;
use ralph_tests::harness::{WorkerOptions, World};

use crate::scene::Scene;

/// `left` lands while `right` works; `resolve` scripts the further attempts of `right`.
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
    @on-attempt 2 @expect-pass git status --porcelain | tr '\n' ' ' | grep -qx 'AA a.txt A  more.txt '
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
    let second: DispatchId = sqlx::query_scalar(
        "select id from dispatches where feature_id = $1 and kind = 'work' and attempt = 2",
    )
    .bind(scene.feature.0)
    .fetch_one(&world.db)
    .await
    .unwrap();
    let mut conn = world.db.acquire().await.unwrap();
    let (_, prompt) = store::dispatch::prompt::read(&mut conn, second)
        .await
        .unwrap()
        .unwrap();
    let expected = [
        "### Conflict",
        "- a.txt\n",
        &format!(
            "- [{}] Turn left: Whoever comes has to turn left.",
            scene.tasks[0]
        ),
        "Its session says: Left it is.",
        "it conflicts with what landed before",
    ];
    for words in expected {
        assert!(prompt.contains(words), "no `{words}` in {prompt}");
    }
    drop(conn);
    world.check_processes().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn conflict_markers_do_not_land() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let options = WorkerOptions::named("w1").slots(2).pool("left-over");
    let _worker = world.worker(&options).unwrap();
    // Each attempt says done and resolves nothing; the next one continues with its files.
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
}

/// `b` conflicts with `a1` and with `a2`. While its third attempt works, `a3` finishes with the same file.
fn thrice(gates: &[std::path::PathBuf]) -> String {
    let gate = |n: usize| gates[n].display();
    format!(
        r"
- key: a1
  title: Write it first
  description: |
    @effect a1
    @write a.txt a1
    @done
- key: a2
  title: Write it next
  after: [a1]
  description: |
    @effect a2
    @wait-for {0}
    @write a.txt a2
    @done
- key: a3
  title: Write it last
  after: [a2]
  description: |
    @on-attempt 1 @effect a3
    @on-attempt 1 @wait-for {2}
    @on-attempt 1 @write a.txt a3
    @on-attempt 2 @expect-pass grep -q '^b$' a.txt
    @on-attempt 2 @effect again
    @on-attempt 2 @write a.txt all
    @done
- key: b
  title: Write it as well
  description: |
    @on-attempt 1 @effect b1
    @on-attempt 1 @wait-for {3}
    @on-attempt 1 @write a.txt b
    @on-attempt 2 @effect b2
    @on-attempt 2 @wait-for {1}
    @on-attempt 2 @write a.txt b
    @on-attempt 3 @effect b3
    @on-attempt 3 @wait-for {4}
    @on-attempt 3 @write a.txt b
    @done
",
        gate(0),
        gate(1),
        gate(2),
        gate(3),
        gate(4)
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn after_two_conflicts_a_task_works_alone_and_lands_first() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let gates: Vec<_> = (0..5).map(|n| world.gate(&format!("thrice-{n}"))).collect();
    let open = |n: usize| std::fs::write(&gates[n], "").unwrap();
    let options = WorkerOptions::named("w1").slots(3).pool("thrice");
    let _worker = world.worker(&options).unwrap();
    let scene = Scene::submit(&world, "thrice", &thrice(&gates)).await;
    world.effects_of("b1", 1).await.unwrap();
    scene
        .until("select count(*) = 1 from tasks where feature_id = $1 and state = 'done'")
        .await;
    open(3);
    world.effects_of("b2", 1).await.unwrap();
    open(0);
    scene
        .until("select count(*) = 2 from tasks where feature_id = $1 and state = 'done'")
        .await;
    open(1);
    world.effects_of("b3", 1).await.unwrap();
    world.effects_of("a3", 1).await.unwrap();
    open(2);
    // a3 passed, and waits for b, which holds the file.
    scene
        .until("select count(*) = 1 from integrations where feature_id = $1 and state = 'waiting'")
        .await;
    scene
        .until("select count(*) = 1 from tasks where feature_id = $1 and conflicts = 2 and state = 'in_progress'")
        .await;
    open(4);
    scene.completes().await;
    let conflicts: Vec<(String, i64)> = sqlx::query_as(
        "select x.key, count(*) from integrations i join task_texts x on x.task_id = i.task_id
         where i.feature_id = $1 and i.state = 'conflict' group by x.key order by x.key",
    )
    .bind(scene.feature.0)
    .fetch_all(&world.db)
    .await
    .unwrap();
    assert_eq!(conflicts, [("a3".to_owned(), 1), ("b".to_owned(), 2)]);
    let repository = scene.repository.as_ref().unwrap();
    assert_eq!(repository.file("ralph/thrice", "a.txt").unwrap(), "all\n");
    world.check_processes().await.unwrap();
}
