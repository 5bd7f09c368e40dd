//! Reports that no correct worker sends: repeated, late, of an older dispatch, of another version, broken,
//! poisoned. The tests publish them straight to the subject.

use nix::unistd::getpid;
use ralph_coordinator::flow::control::{self, TaskCommand};
use ralph_shared::ids::DispatchId;
use ralph_shared::wire::{Assignment, Finished, IntegrationEnd, Report, Settlement, Text};
use ralph_tests::harness::{FeatureOptions, Stub, World};

use crate::scene::Scene;

const LOST: &str = "select bool_or(state = 'lost') from dispatches where feature_id = $1";

fn tasks(n: usize) -> String {
    (0..n)
        .map(|n| format!("- key: task-{n}\n  title: Do it\n"))
        .collect()
}

async fn scene<'a>(world: &'a World, name: &str, n: usize) -> (Stub, Scene<'a>) {
    let stub = Stub::hello(world, name).await.unwrap();
    let scene = Scene::scratch(world, name, &tasks(n), FeatureOptions::default()).await;
    (stub, scene)
}

/// Iterations and input tokens of the run.
async fn spent(scene: &Scene<'_>) -> (i32, i64) {
    sqlx::query_as("select iterations, input_tokens from runs where id = $1")
        .bind(scene.run.0)
        .fetch_one(&scene.world.db)
        .await
        .unwrap()
}

/// Waits until every report in the stream is settled.
async fn drained(world: &World) {
    loop {
        let mut stream = world
            .bus
            .jetstream
            .get_stream(world.bus.subjects.reports_stream())
            .await
            .unwrap();
        if stream.info().await.unwrap().state.messages == 0 {
            return;
        }
        tokio::task::yield_now().await;
    }
}

fn fields(report: &Report) -> serde_json::Map<String, serde_json::Value> {
    match serde_json::to_value(report).unwrap() {
        serde_json::Value::Object(fields) => fields,
        other => panic!("{other}"),
    }
}

async fn sent_twice(world: &World) {
    let (stub, scene) = scene(world, "twice", 1).await;
    let claimed = stub.claim().await.unwrap();
    let report = stub.done(&claimed);
    stub.publish(&report).await.unwrap();
    stub.publish(&report).await.unwrap();
    assert_eq!(
        stub.settlement(&[], claimed.dispatch).await.unwrap(),
        Settlement::Applied
    );
    stub.publish(&report).await.unwrap();
    drained(world).await;
    scene.completes().await;
    assert_eq!(spent(&scene).await, (1, 10));
}

async fn late_but_before_the_next_claim(world: &World) {
    let (stub, scene) = scene(world, "late", 1).await;
    let claimed = stub.claim().await.unwrap();
    // The worker lives and doesn't know the dispatch, as after a lost answer to its claim.
    tokio::select! {
        () = scene.until(LOST) => {}
        never = stub.beats() => never,
    }
    scene
        .until("select lost_alone = 0 from tasks where feature_id = $1")
        .await;
    stub.publish(&stub.done(&claimed)).await.unwrap();
    scene.completes().await;
    assert_eq!(
        scene.attempts().await,
        [("settled".into(), "done".into(), String::new())]
    );
}

async fn of_an_older_dispatch(world: &World) {
    let (stub, scene) = scene(world, "older", 1).await;
    let older = stub.claim().await.unwrap();
    scene.until(LOST).await;
    scene
        .until("select lost_alone = 1 from tasks where feature_id = $1")
        .await;
    let newer = stub.claim().await.unwrap();
    assert_eq!((newer.task, newer.attempt), (older.task, older.attempt + 1));
    for _ in 0..2 {
        stub.publish(&stub.done(&older)).await.unwrap();
        let settled = stub.settlement(&[newer.dispatch], older.dispatch).await.unwrap();
        assert_eq!(settled, Settlement::Superseded);
        drained(world).await;
        assert_eq!(spent(&scene).await, (0, 10), "only the usage counts, and once");
    }
    stub.publish(&stub.done(&newer)).await.unwrap();
    scene.completes().await;
    assert_eq!(spent(&scene).await, (1, 20));
}

async fn after_a_person_took_the_task(world: &World) {
    let (stub, scene) = scene(world, "taken", 2).await;
    let claimed = stub.claim().await.unwrap();
    let (outcome, _) = control::task(&world.db, claimed.task, TaskCommand::Cancel, "test", None)
        .await
        .unwrap();
    assert_eq!(outcome, control::CommandOutcome::Done(1));
    assert_eq!(
        stub.settled(&[], claimed.dispatch).await.unwrap(),
        None,
        "its usage is still to come"
    );
    stub.publish(&stub.done(&claimed)).await.unwrap();
    assert_eq!(
        stub.settlement(&[], claimed.dispatch).await.unwrap(),
        Settlement::Superseded
    );
    assert_eq!(spent(&scene).await, (0, 10));
    world.check_counts(scene.feature).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_late_and_outdated_reports_count_once() {
    let mut world = World::start().await.unwrap();
    world.coordinator().await.unwrap();
    sent_twice(&world).await;
    after_a_person_took_the_task(&world).await;
    tokio::join!(
        late_but_before_the_next_claim(&world),
        of_an_older_dispatch(&world)
    );
}

async fn of_an_unknown_version(world: &World) {
    let (stub, scene) = scene(world, "version", 1).await;
    let claimed = stub.claim().await.unwrap();
    let mut report = fields(&stub.done(&claimed));
    report.insert("v".into(), 99.into());
    stub.publish_raw(serde_json::to_vec(&report).unwrap())
        .await
        .unwrap();
    let mut consumer = world.bus.reports().await.unwrap();
    while consumer.info().await.unwrap().num_redelivered == 0 {
        assert_eq!(
            stub.settled(&[claimed.dispatch], claimed.dispatch).await.unwrap(),
            None
        );
    }
    let mut stream = world
        .bus
        .jetstream
        .get_stream(world.bus.subjects.reports_stream())
        .await
        .unwrap();
    assert_eq!(
        stream.info().await.unwrap().state.messages,
        1,
        "the report was dropped"
    );
    stub.publish_raw(serde_json::to_vec(&report).unwrap())
        .await
        .unwrap();
    while stream.info().await.unwrap().state.messages != 1 {
        assert_eq!(
            stub.settled(&[claimed.dispatch], claimed.dispatch).await.unwrap(),
            None
        );
    }
    let state = stream.info().await.unwrap().state.clone();
    assert_eq!(state.first_sequence, state.last_sequence, "the newer copy stays");
    stream.purge().await.unwrap();
    stub.publish(&stub.done(&claimed)).await.unwrap();
    scene.completes().await;
}

async fn with_nul_and_invalid_utf8(world: &World) {
    let (stub, scene) = scene(world, "bytes", 1).await;
    let claimed = stub.claim().await.unwrap();
    let text = "<journal>nul \0 byte MARK end</journal><task-done>{id}</task-done>";
    let report = serde_json::to_string(&stub.report(&claimed, text)).unwrap();
    let (before, after) = report.split_once("MARK").unwrap();
    let bytes = [before.as_bytes(), b"\xff", after.as_bytes()].concat();
    stub.publish_raw(bytes).await.unwrap();
    scene.completes().await;
    let journal: String = sqlx::query_scalar("select journal from dispatches where id = $1")
        .bind(claimed.dispatch.0)
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert_eq!(journal, "nul \u{fffd} byte \u{fffd} end");
}

/// Publishes a broken report and checks that its attempt ends with this error.
async fn ends_as_error(
    world: &World,
    name: &str,
    expected: &str,
    broken: impl Fn(&Stub, &Assignment) -> Vec<u8>,
) {
    let (stub, scene) = scene(world, name, 1).await;
    let claimed = stub.claim().await.unwrap();
    stub.publish_raw(broken(&stub, &claimed)).await.unwrap();
    assert_eq!(
        stub.settlement(&[], claimed.dispatch).await.unwrap(),
        Settlement::Applied
    );
    let attempts = scene.attempts().await;
    let [(state, outcome, reason)] = &attempts[..] else {
        panic!("{attempts:?}")
    };
    assert_eq!((state.as_str(), outcome.as_str()), ("settled", "error"));
    assert!(reason.contains(expected), "{reason}");
    let again = stub.claim().await.unwrap();
    assert_eq!(again.attempt, 2);
    stub.publish(&stub.done(&again)).await.unwrap();
    scene.completes().await;
}

/// Errors of the reports that were set aside for a dispatch.
async fn set_aside(world: &World, dispatch: Option<DispatchId>) -> Vec<String> {
    sqlx::query_scalar("select error from bad_reports where dispatch_id is not distinct from $1")
        .bind(dispatch.map(|d| d.0))
        .fetch_all(&world.db)
        .await
        .unwrap()
}

async fn of_an_unknown_dispatch(world: &World) {
    let (stub, scene) = scene(world, "unknown", 1).await;
    let claimed = stub.claim().await.unwrap();
    let mut stray = stub.done(&claimed);
    stray.dispatch = DispatchId::new();
    stub.publish(&stray).await.unwrap();
    let settled = stub
        .settlement(&[claimed.dispatch], stray.dispatch)
        .await
        .unwrap();
    assert_eq!(settled, Settlement::UnknownDispatch);
    stub.publish_raw(format!("no report at all, from {}", getpid()).into_bytes())
        .await
        .unwrap();
    drained(world).await;
    assert_eq!(set_aside(world, Some(stray.dispatch)).await.len(), 1);
    assert_eq!(set_aside(world, None).await.len(), 1);
    stub.publish(&stub.done(&claimed)).await.unwrap();
    scene.completes().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_report_waits_or_ends_its_attempt_and_is_never_lost() {
    let mut world = World::start().await.unwrap();
    world.coordinator().await.unwrap();
    with_nul_and_invalid_utf8(&world).await;
    of_an_unknown_dispatch(&world).await;
    ends_as_error(&world, "no-report", "it is not a report", |stub, claimed| {
        let mut report = fields(&stub.done(claimed));
        report.remove("finished");
        report.remove("ended");
        serde_json::to_vec(&report).unwrap()
    })
    .await;
    ends_as_error(&world, "wrong-kind", "not of its kind", |stub, claimed| {
        let end = IntegrationEnd::GateFailed {
            command: "make test".to_owned(),
            output: String::new(),
        };
        let finished = Finished::Integration(end.into());
        let report = Report {
            finished,
            ..stub.done(claimed)
        };
        serde_json::to_vec(&report).unwrap()
    })
    .await;
    sqlx::query(
        "insert into blob_parts (sha256, index, bytes)
         select repeat('a', 64), n, decode(repeat('00', 40 * 1024 * 1024), 'hex') from generate_series(0, 1) n",
    )
    .execute(&world.db)
    .await
    .unwrap();
    ends_as_error(
        &world,
        "too-long",
        "at most 67108864 are read",
        |stub, claimed| {
            let mut report = stub.done(claimed);
            if let Finished::Session(session) = &mut report.finished {
                session.text = Text::Parts {
                    sha256: "a".repeat(64),
                    size_bytes: 1,
                };
            }
            serde_json::to_vec(&report).unwrap()
        },
    )
    .await;
    of_an_unknown_version(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poisoned_report_ends_its_attempt_and_stops_no_other() {
    let mut world = World::start().await.unwrap();
    world.coordinator().await.unwrap();
    // A refusal by the database represents every failure that nobody foresaw.
    sqlx::query("alter table dispatches add constraint refused check (journal is distinct from 'poison')")
        .execute(&world.db)
        .await
        .unwrap();
    let (stub, scene) = scene(&world, "poison", 5).await;
    let mut claimed = Vec::new();
    for _ in 0..5 {
        claimed.push(stub.claim().await.unwrap());
    }
    let text = "<journal>poison</journal><task-done>{id}</task-done>";
    let poisoned = stub.report(&claimed[2], text);
    let reports: Vec<Report> = claimed
        .iter()
        .map(|one| {
            if one.dispatch == poisoned.dispatch {
                poisoned.clone()
            } else {
                stub.done(one)
            }
        })
        .collect();
    futures::future::join_all(reports.iter().map(|report| stub.publish(report))).await;
    scene
        .until("select count(*) = 4 from tasks where feature_id = $1 and state = 'done'")
        .await;
    assert_eq!(
        stub.settlement(&[], poisoned.dispatch).await.unwrap(),
        Settlement::Applied
    );
    let errors = set_aside(&world, Some(poisoned.dispatch)).await;
    assert!(errors.len() == 1 && errors[0].contains("refused"), "{errors:?}");
    let again = stub.claim().await.unwrap();
    assert_eq!((again.task, again.attempt), (claimed[2].task, 2));
    stub.publish(&stub.done(&again)).await.unwrap();
    scene.completes().await;
}
