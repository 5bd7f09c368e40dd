//! A split task is worked on by its children: commands on it name the children to use.

use std::collections::BTreeSet;

use ralph_coordinator::domain::states::TaskState;
use ralph_coordinator::flow::control::{self, CommandOutcome, TaskCommand};
use ralph_coordinator::flow::edit;
use ralph_coordinator::flow::edit::dependencies::{self, Change};
use ralph_coordinator::store::edit::TaskEdit;
use ralph_shared::ids::TaskId;
use ralph_tests::harness::{FeatureOptions, World};

use super::scene::{Scene, turn};

const TWO: &str = "- {key: a, title: A}\n- {key: b, title: B}";

/// The children of a task, in the order of their creation.
async fn parts(world: &World, whole: TaskId) -> Vec<TaskId> {
    let ids: Vec<uuid::Uuid> = sqlx::query_scalar("select id from tasks where parent_id = $1 order by id")
        .bind(whole.0)
        .fetch_all(&world.db)
        .await
        .unwrap();
    ids.into_iter().map(TaskId).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_on_a_split_task_name_its_children() {
    let world = World::calm().await.unwrap();
    let scene = Scene::set(&world, TWO, &FeatureOptions::default()).await;
    let [a, b] = scene.tasks[..] else { panic!() };
    let of = scene.claim().await;
    assert_eq!(of.task, a);
    let text = "<task-graph>- {key: x, title: X}\n- {key: y, title: Y}</task-graph>";
    scene
        .pool
        .report(vec![scene.pool.session(&of, turn(), text, 1)])
        .await;
    scene.steer(b, TaskCommand::Skip).await;
    let works = scene.claim().await.task;
    let ids = parts(&world, a).await;
    assert!(ids.contains(&works) && ids.len() == 2, "{ids:?}");
    let refers = |outcome: CommandOutcome, verb: &str, to: &[TaskId]| {
        let CommandOutcome::Refused(why) = outcome else {
            panic!("{verb}: {outcome:?}")
        };
        for part in &ids {
            let named = why.contains(&format!("`task {verb} {part}`"));
            assert_eq!(named, to.contains(part), "{verb} {part}: {why}");
        }
        assert!(!why.contains(&format!("`task {verb} {a}`")), "{why}");
    };

    let edited = async |edit: TaskEdit| edit::task(&world.db, a, &edit, None, "test").await.unwrap().0;
    let words = TaskEdit {
        title: Some("All of A".to_owned()),
        description: Some("Both halves.".to_owned()),
        ..TaskEdit::default()
    };
    assert_eq!(edited(words.clone()).await, CommandOutcome::Done(1));
    let more = TaskEdit {
        priority: Some(3),
        ..words
    };
    refers(edited(more).await, "edit", &ids);
    let (interrupted, _) = control::interrupt(&world.db, a, "test", None).await.unwrap();
    refers(interrupted, "interrupt", &[works]);
    refers(scene.steer(a, TaskCommand::Release).await, "release", &[works]);
    refers(scene.steer(a, TaskCommand::Skip).await, "skip", &ids);
    let outcome = control::feedback(&world.db, a, "test", "Mind the gap.")
        .await
        .unwrap();
    refers(outcome, "feedback", &ids);

    let waits = async || {
        dependencies::change(&world.db, a, &BTreeSet::from([b]), Change::Add, "test".into())
            .await
            .unwrap()
            .0
    };
    refers(waits().await, "release", &[works]);
    // Once its session is released, the parent can wait, and its children wait with it.
    assert_eq!(
        scene.steer(works, TaskCommand::Release).await,
        CommandOutcome::Done(1)
    );
    assert_eq!(scene.steer(b, TaskCommand::Retry).await, CommandOutcome::Done(1));
    assert_eq!(waits().await, CommandOutcome::Done(1));
    for part in &ids {
        assert_eq!(scene.state(*part).await, TaskState::Blocked);
    }
    scene.holds().await;
    assert_eq!(scene.claim().await.task, b);
    scene.nothing_is_ready().await;
}
