//! Workers learn at once which of their reports are settled.

use std::time::Duration;

use futures::StreamExt as _;
use ralph_coordinator::domain::states::RunOutcome;
use ralph_coordinator::flow::Settings;
use ralph_shared::wire::{Control, Finished, Report, SessionReport, Settled, Settlement};
use ralph_tests::harness::{FeatureOptions, Stub, WorkerOptions, World, until};

use crate::scene::Scene;

/// Far shorter than the pause between heartbeats here.
const SOON: Duration = Duration::from_secs(30);

/// A world whose heartbeats are too rare to inform anybody.
async fn world() -> World {
    World::start_with(Settings {
        heartbeat: Duration::from_secs(300),
        lease: Duration::from_secs(900),
        grace: Duration::from_millis(300),
        ..Settings::default()
    })
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settled_report_is_confirmed_each_time_it_comes() {
    let mut world = world().await;
    world.coordinator().await.unwrap();
    let stub = Stub::hello(&world, "settled").await.unwrap();
    let one = "- key: only\n  title: Only one\n";
    let _scene = Scene::scratch(&world, "settled", one, FeatureOptions::default()).await;
    let mut orders = stub.link.control("settled").await.unwrap();
    let claimed = stub.claim().await.unwrap();
    let report = stub.done(&claimed);
    // The second report changes nothing and is confirmed too: the first order may have been lost.
    for _ in 0..2 {
        stub.publish(&report).await.unwrap();
        let next_order = tokio::time::timeout(SOON, orders.next()).await;
        let message = next_order.expect("no order came").unwrap();
        let order: Control = serde_json::from_slice(&message.payload).unwrap();
        let settled = vec![Settled {
            dispatch: claimed.dispatch,
            settlement: Settlement::Applied,
            pushed: true,
        }];
        assert_eq!(order, Control::Settled { settled });
    }
}

/// A push that succeeds after its session's report stays on disk. Any later instance reports it, until a
/// coordinator knows it.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_push_survives_its_worker_until_a_coordinator_knows_it() {
    // A report whose order is lost is sent again after half a lease.
    let mut world = World::start().await.unwrap();
    world.coordinator().await.unwrap();
    let stub = Stub::hello(&world, "w1").await.unwrap();
    let one = "- key: only\n  title: Only one\n";
    let _scene = Scene::scratch(&world, "w1", one, FeatureOptions::default()).await;
    let mut orders = stub.link.control("w1").await.unwrap();
    let claimed = stub.claim().await.unwrap();
    let mut report = stub.done(&claimed);
    session(&mut report).snapshot.push_error = Some("declined".to_owned());
    stub.publish(&report).await.unwrap();
    let next_order = tokio::time::timeout(SOON, orders.next()).await;
    let message = next_order.expect("no order came").unwrap();
    let order: Control = serde_json::from_slice(&message.payload).unwrap();
    let of_no_push = |settled: &[Settled]| settled.len() == 1 && !settled[0].pushed;
    assert!(
        matches!(&order, Control::Settled { settled } if of_no_push(settled)),
        "a late push would be taken for known: {order:?}"
    );

    let mut late = stub.done(&claimed);
    let snapshot = &mut session(&mut late).snapshot;
    snapshot.commit = Some("c".repeat(40));
    snapshot.pushed_ref = Some("refs/ralph/attempts/late".to_owned());
    let noted = world.dir().join("w1/spool/late");
    std::fs::create_dir_all(&noted).unwrap();
    let file = noted.join(format!("{}.json", claimed.dispatch.0));
    std::fs::write(&file, serde_json::to_vec(&late).unwrap()).unwrap();
    // The stub's own data folder, so that nobody else inherits its dispatches.
    let own = uuid::Uuid::now_v7().to_string();
    std::fs::write(world.dir().join("w1/identity"), &own).unwrap();
    sqlx::query("update worker_lives set data_id = $1")
        .bind(&own)
        .execute(&world.db)
        .await
        .unwrap();
    // As after a lease of silence: the name is free for the same worker's next instance.
    sqlx::query("delete from workers")
        .execute(&world.db)
        .await
        .unwrap();
    let worker = world.worker(&WorkerOptions::named("w1")).unwrap();
    let known = "select pushed_ref = 'refs/ralph/attempts/late' from dispatches where id = $1";
    world.until(known, claimed.dispatch.0).await.unwrap();
    until("the late push to leave the spool", async || !file.exists()).await;
    drop(worker);
}

fn session(report: &mut Report) -> &mut SessionReport {
    match &mut report.finished {
        Finished::Session(session) => session,
        Finished::Integration(_) => panic!("no session's report"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_removes_settled_reports_from_its_spool() {
    let mut world = world().await;
    world.coordinator().await.unwrap();
    let worker = world.worker(&WorkerOptions::named("w1")).unwrap();
    let two = "- key: a\n  title: A\n  description: '@done'\n- key: b\n  title: B\n  description: '@done'\n";
    let (_, run, _) = world
        .submit("spool", None, two, &FeatureOptions::default())
        .await
        .unwrap();
    assert_eq!(world.ended(run).await.unwrap(), RunOutcome::Complete);
    let spool = world.dir().join("w1").join("spool");
    let reports = || {
        let entries = std::fs::read_dir(&spool).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name());
        names
            .filter(|name| name.to_string_lossy().ends_with(".json"))
            .count()
    };
    let empty = async {
        while reports() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let emptied = tokio::time::timeout(SOON, empty).await;
    emptied.expect("reports are still in the spool");
    drop(worker);
}
