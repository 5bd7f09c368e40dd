//! The effect of memory is measured against attempts without it, and harmful entries lose weight by
//! themselves.

use ralph_coordinator::domain::recall::{Ended, lift};
use ralph_coordinator::flow::assignment::preview;
use ralph_coordinator::flow::memory::library::{self, ImportLine};
use ralph_coordinator::flow::memory::upkeep;
use ralph_coordinator::store::{self, view};
use ralph_shared::ids::TaskId;
use ralph_tests::harness::{FeatureOptions, WorkerOptions, World};

use super::pool::Pool;
use super::scene;
use super::trust::settings;

fn learned(id: &str, body: &str) -> ImportLine {
    super::outcomes::learned(id, "Serial numbers of zones", body)
}

const TASKS: usize = 30;

#[tokio::test(flavor = "multi_thread")]
async fn the_lift_compares_first_attempts_with_held_out_ones() {
    let mut settings = settings();
    settings.hold_out = 0.5;
    let mut world = World::start_with(settings).await.unwrap();
    library::import(&world.db, "", &[learned("serials", "They wrap around.")])
        .await
        .unwrap();
    world.coordinator().await.unwrap();
    let worker = world.worker(&WorkerOptions::named("w1").slots(4)).unwrap();
    let graph: String = (0..TASKS)
        .map(|n| {
            format!(
                "- key: k{n}\n  title: Compare the serial numbers of zones {n}\n  description: |\n    \
                 @unless-prompt-has They wrap around : @fail not shown\n    @done\n"
            )
        })
        .collect();
    let options = FeatureOptions {
        max_retries: 1,
        ..FeatureOptions::default()
    };
    let (_, run, _) = world.submit("serials", None, &graph, &options).await.unwrap();
    scene::completes(&world, run).await;
    upkeep::tick(&world.db).await.unwrap();
    let mut conn = world.db.acquire().await.unwrap();
    let [with, without] = view::trials(&mut conn, Some("")).await.unwrap();
    let ended = |(landed, ended)| Ended { landed, ended };
    let first: (i64, i64) = sqlx::query_as(
        "select count(*) filter (where t.held_out), count(*) filter (where not t.held_out)
         from memory_trials t join dispatches d on d.id = t.dispatch_id where d.attempt = 1",
    )
    .fetch_one(&mut *conn)
    .await
    .unwrap();
    assert_eq!(first.0 + first.1, i64::try_from(TASKS).unwrap());
    // Held-out attempts failed, and had memory when they were retried.
    assert_eq!(without, (0, first.0));
    assert_eq!(with, (first.1, first.1), "retries are not counted");
    let lift = lift(ended(with), ended(without)).unwrap();
    assert!(
        lift.difference == 1.0 && lift.low > 0.5 && lift.high <= 1.0,
        "{lift:?}"
    );
    drop(conn);
    drop(worker);
}

/// Weight of the entry with this name in the import.
async fn weight(world: &World, name: &str) -> f32 {
    sqlx::query_scalar("select weight from learnings where external_id = $1")
        .bind(name)
        .fetch_one(&world.db)
        .await
        .unwrap()
}

/// Short id of the entry with this text in a prompt.
fn id_of(prompt: &str, text: &str) -> String {
    let (before, _) = prompt.split_once(text).expect("the prompt shows the entry");
    let at = before.rfind("l-").expect("the entry has an id");
    before[at..at + 14].to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_misleads_loses_weight_until_it_is_hidden() {
    let world = scene::world().await;
    let pool = Pool::join(&world).await;
    let lines = [
        learned("wrong", "They never wrap around."),
        ImportLine {
            title: "Names of zones".to_owned(),
            ..learned("other", "Compare the names of zones without their case.")
        },
    ];
    library::import(&world.db, "", &lines).await.unwrap();
    let graph = "- {key: a, title: Compare the serial numbers of zones, max_retries: 100}";
    scene::submit(&world, "serials", graph).await;
    let mut failed = 0;
    while failed < 30 {
        let of = scene::claims(&pool).await;
        let prompt = scene::prompt(&of);
        if !prompt.contains("They never wrap around.") {
            break;
        }
        let id = id_of(&prompt, "They never wrap around.");
        let text = format!("<used misled='{id}'/>\n<task-failed>{}</task-failed>", of.task);
        scene::says(&pool, &of, &text).await;
        scene::upkeep(&world).await;
        failed += 1;
    }
    assert!((4..30).contains(&failed), "{failed}");
    assert!(weight(&world, "wrong").await < 0.25);
    // It was shown as often, and did not mislead anybody.
    assert!((weight(&world, "other").await - 1.0).abs() < 1e-6);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_gains_weight_by_helping_not_by_being_shown() {
    let world = scene::world().await;
    let pool = Pool::join(&world).await;
    library::import(&world.db, "", &[learned("right", "They wrap around.")])
        .await
        .unwrap();
    for n in 0..4 {
        let graph = format!("- {{key: a, title: Compare the serial numbers of zones {n}}}");
        scene::submit(&world, &format!("serials{n}"), &graph).await;
        let of = scene::claims(&pool).await;
        let id = id_of(&scene::prompt(&of), "They wrap around.");
        let used = if n < 2 {
            String::new()
        } else {
            format!("<used helped='{id}'/>")
        };
        scene::says(&pool, &of, &format!("{used}<task-done>{}</task-done>", of.task)).await;
        scene::upkeep(&world).await;
        let weight = weight(&world, "right").await;
        match n {
            0 | 1 => assert!((weight - 1.0).abs() < 1e-6, "{weight}"),
            _ => assert!((1.01..1.4).contains(&weight), "{weight}"),
        }
    }
}

/// Whether a task's next prompt would show an entry, and the reasons for those left out.
async fn would_show(world: &World, task: TaskId) -> (bool, Vec<Option<String>>) {
    let next_prompt = preview::preview(&world.db, &world.settings, task)
        .await
        .unwrap()
        .unwrap();
    let shown = next_prompt.uses.iter().any(|one| one.left_out.is_none());
    (
        shown,
        next_prompt.uses.into_iter().map(|one| one.left_out).collect(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_memory_that_hurts_is_switched_off_until_a_person_resumes_it() {
    let mut settings = settings();
    settings.hold_out = 0.5;
    let world = World::start_with(settings).await.unwrap();
    let pool = Pool::join(&world).await;
    library::import(&world.db, "", &[learned("wrong", "They never wrap around.")])
        .await
        .unwrap();
    let graph: String = (0..90)
        .map(|n| format!("- {{key: k{n}, title: Compare the serial numbers of zones {n}, max_retries: 0}}\n"))
        .collect();
    scene::submit(&world, "serials", &graph).await;
    for _ in 0..90 {
        for of in pool.claim(1).await {
            let word = match scene::prompt(&of).contains("They never wrap around.") {
                true => "failed",
                false => "done",
            };
            scene::says(&pool, &of, &format!("<task-{word}>{}</task-{word}>", of.task)).await;
        }
    }
    scene::upkeep(&world).await;
    let mut conn = world.db.acquire().await.unwrap();
    let off = store::memory::worth::switched_off(&mut conn).await.unwrap();
    assert_eq!(off.len(), 1, "{off:?}");
    assert!(off[0].reason.contains("land less often"), "{off:?}");
    let inbox = view::inbox(&mut conn, 1_000).await.unwrap();
    let in_inbox = inbox
        .items
        .iter()
        .any(|item| item.kind == view::InboxKind::Memory);
    assert!(in_inbox, "{:?}", inbox.items);
    scene::submit(
        &world,
        "more",
        "- {key: a, title: Compare the serial numbers of zones again}",
    )
    .await;
    let task: TaskId = sqlx::query_scalar("select id from tasks order by id desc limit 1")
        .fetch_one(&mut *conn)
        .await
        .unwrap();
    let (shown, why) = would_show(&world, task).await;
    let is_off = |why: &Option<String>| why.as_ref().is_some_and(|why| why.contains("switched off"));
    assert!(!shown && !why.is_empty() && why.iter().all(is_off), "{why:?}");
    assert!(store::memory::worth::resume(&mut conn, "").await.unwrap());
    scene::upkeep(&world).await;
    assert!(would_show(&world, task).await.0, "the comparison starts anew");
    drop(conn);
}
