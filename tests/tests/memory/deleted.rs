//! Memory of tasks and features that end early or are deleted.

use ralph_coordinator::domain::recall::Kind;

use ralph_coordinator::flow::control::CommandOutcome;
use ralph_coordinator::flow::{
    claim,
    edit::{self, remove},
    finish,
    memory::{distill, library},
};
use ralph_coordinator::store;
use ralph_shared::ids::DispatchId;
use ralph_shared::wire::{Assignment, ClaimAnswer, EndReason, Ended, Text, Work, sha256_hex};
use ralph_tests::harness::World;
use uuid::Uuid;

use super::distill::ABOVE;
use super::pool::Pool;
use super::scene;
use crate::revoking::revoked::somebody_waits;

const NOTED: &str = "<journal>The kettle boils over when it is full.</journal>";

/// Journals in the index: documents, and the count in the statistics.
async fn journals(world: &World) -> (i64, i64) {
    sqlx::query_as(
        "select (select count(*) from memory_docs where kind = $1),
                coalesce((select sum(entries) from memory_stats where kind = $1), 0)::bigint",
    )
    .bind(Kind::Journal)
    .fetch_one(&world.db)
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn journals_of_a_deleted_feature_leave_the_index() {
    let world = scene::world().await;
    let pool = Pool::join(&world).await;
    let feature = scene::submit(
        &world,
        "kettle",
        "- {key: a, title: Boil}\n- {key: b, title: Pour}",
    )
    .await;
    scene::does(&pool, NOTED).await;
    scene::does(&pool, NOTED).await;
    finish::tick(&world.db).await.unwrap();
    scene::upkeep(&world).await;
    assert_eq!(journals(&world).await, (2, 2));
    let outcome = edit::delete_feature(&world.db, feature).await.unwrap();
    assert_eq!(outcome, CommandOutcome::Done(1));
    assert_eq!(journals(&world).await, (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn journals_of_sessions_that_outlive_their_run_are_indexed() {
    let world = scene::world().await;
    let pool = Pool::join(&world).await;
    let feature = scene::submit(&world, "kettle", "- {key: a, title: Boil}").await;
    let of = scene::claims(&pool).await;
    let (outcome, ..) = finish::stop(&world.db, feature, "a person".into()).await.unwrap();
    assert_eq!(outcome, CommandOutcome::Done(1));
    scene::upkeep(&world).await;
    assert_eq!(journals(&world).await, (0, 0));
    let ended = Ended::Told {
        reason: EndReason::Interrupted,
    };
    pool.report(vec![pool.session(&of, ended, NOTED, 0)]).await;
    scene::upkeep(&world).await;
    assert_eq!(journals(&world).await, (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_of_a_deleted_task_stay_without_a_task() {
    let world = scene::world().await;
    let pool = Pool::join(&world).await;
    scene::submit(
        &world,
        "kettle",
        "- {key: a, title: Boil}\n- {key: b, title: Pour, after: [a]}",
    )
    .await;
    let learned = "<learning category='pitfall' tags='kettle'>It boils over.</learning>
        <knowledge tags='kettle' title='The kettle boils'>At 100 degrees.</knowledge>";
    let of = scene::does(&pool, learned).await;
    scene::does(&pool, &learned.replace("kettle", "pot")).await;
    remove::task(&world.db, of.task, "test").await.unwrap();
    let tasks: Vec<(String, bool)> = sqlx::query_as(
        "select body, exists (select from tasks t where t.id = e.task_id)
         from (select body, tags, task_id from learnings union all select body, tags, task_id from knowledge) e
         where task_id is not null
         order by body",
    )
    .fetch_all(&world.db)
    .await
    .unwrap();
    let expected = ["At 100 degrees.", "It boils over."].map(|body| (body.to_owned(), true));
    assert_eq!(tasks, expected, "only entries of the other task name a task");
    let entries: i64 =
        sqlx::query_scalar("select (select count(*) from learnings) + (select count(*) from knowledge)")
            .fetch_one(&world.db)
            .await
            .unwrap();
    assert_eq!(entries, 4);
}

async fn prompt_of(world: &World, of: &Assignment) -> Option<(String, String)> {
    let mut conn = world.db.acquire().await.unwrap();
    store::dispatch::prompt::read(&mut conn, of.dispatch)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_prompt_of_another_task_stays_when_a_task_is_deleted() {
    let world = scene::world().await;
    let pool = Pool::join(&world).await;
    scene::submit(
        &world,
        "kettle",
        "- {key: a, title: Boil}\n- {key: b, title: Pour}",
    )
    .await;
    let both = pool.claim_once(&[["default"], ["default"]]).await;
    for of in &both {
        let text = format!("<task-done>{}</task-done>", of.task);
        scene::says(&pool, of, &text).await;
        assert!(prompt_of(&world, of).await.is_some());
    }
    let (outcome, _) = remove::task(&world.db, both[0].task, "test").await.unwrap();
    assert_eq!(outcome, CommandOutcome::Done(1));
    assert!(prompt_of(&world, &both[1]).await.is_some());
}

fn given(number: usize) -> library::ImportLine {
    library::ImportLine {
        id: format!("e{number}"),
        date: time::OffsetDateTime::now_utc() - time::Duration::days(3),
        title: format!("The kettle boils over, {number}"),
        body: "Fill it to two thirds.".to_owned(),
        paths: Vec::new(),
        tags: vec!["kettle".to_owned()],
        kind: Kind::Learning,
        category: None,
        feature: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn imported_entries_are_not_distilled() {
    let world = scene::world().await;
    let lines: Vec<_> = (0..9).map(given).collect();
    library::import(&world.db, "kettle", &lines).await.unwrap();
    let (begun, _) = distill::begin(&world.db, ABOVE).await.unwrap();
    assert_eq!(begun, 0);
    sqlx::query("update learnings set origin = 'attempt'")
        .execute(&world.db)
        .await
        .unwrap();
    let (begun, _) = distill::begin(&world.db, ABOVE).await.unwrap();
    assert_eq!(begun, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_deletes_the_prompt_of_a_running_session() {
    let world = scene::world().await;
    let pool = Pool::join(&world).await;
    scene::submit(
        &world,
        "kettle",
        "- {key: a, title: Boil a kettle}\n- {key: b, title: Boil a kettle again, after: [a]}",
    )
    .await;
    scene::does(
        &pool,
        "<knowledge tags='kettle' title='The kettle boils'>The code is 4711.</knowledge>",
    )
    .await;
    scene::upkeep(&world).await;
    let of = scene::claims(&pool).await;
    assert!(scene::prompt(&of).contains("4711"), "{}", scene::prompt(&of));
    assert!(prompt_of(&world, &of).await.is_some());
    let entry: Uuid = sqlx::query_scalar("select id from knowledge")
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert_eq!(library::purge(&world.db, &[entry]).await.unwrap(), (1, 1));
    assert_eq!(prompt_of(&world, &of).await, None);
}

/// Submits two tasks and completes the first. The second has a prompt too long for one message, which shows
/// what the first one learned.
async fn learns_a_secret(world: &World, pool: &Pool<'_>) {
    let graph = format!(
        "- {{key: a, title: Boil a kettle}}\n- {{key: b, title: Boil a kettle again, after: [a], description: '{}'}}",
        ". ".repeat(60_000)
    );
    scene::submit(world, "kettle", &graph).await;
    scene::does(
        pool,
        "<knowledge tags='kettle' title='The kettle boils'>The code is 4711.</knowledge>",
    )
    .await;
    scene::upkeep(world).await;
}

/// A prompt that a worker fetches in parts, or `None` once the parts are deleted.
async fn parts(world: &World, of: &Assignment) -> Option<String> {
    let Work::Session(order) = &of.work else {
        panic!("no session: {of:?}");
    };
    let Text::Parts { sha256, .. } = &order.prompt else {
        panic!("it fits a message");
    };
    let mut conn = world.db.acquire().await.unwrap();
    store::blob::text(&mut conn, sha256).await.unwrap().ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_deletes_the_parts_of_a_long_prompt_that_shows_the_entry() {
    let world = scene::world().await;
    let pool = Pool::join(&world).await;
    learns_a_secret(&world, &pool).await;
    let of = scene::claims(&pool).await;
    let prompt = parts(&world, &of).await.unwrap();
    assert!(prompt.contains("4711"));
    let other = {
        let mut conn = world.db.acquire().await.unwrap();
        let other = Some(DispatchId::new());
        store::blob::put_text(&mut conn, "another prompt", other)
            .await
            .unwrap()
    };
    let entry: Uuid = sqlx::query_scalar("select id from knowledge")
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert_eq!(library::purge(&world.db, &[entry]).await.unwrap(), (1, 1));
    assert_eq!(parts(&world, &of).await, None);
    let mut conn = world.db.acquire().await.unwrap();
    let other_text = store::blob::text(&mut conn, &other).await.unwrap();
    assert_eq!(other_text.as_deref(), Ok("another prompt"));
    drop(conn);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_sent_again_keeps_its_new_parts() {
    let world = World::calm().await.unwrap();
    let mut conn = world.db.acquire().await.unwrap();
    let dispatch = DispatchId::new();
    for text in ["before", "anew"] {
        store::blob::put_text(&mut conn, text, Some(dispatch))
            .await
            .unwrap();
    }
    let [before, anew] = ["before", "anew"].map(|text| sha256_hex(text.as_bytes()));
    store::dispatch::prompt::forget(&mut conn, dispatch, Some(&anew))
        .await
        .unwrap();
    assert!(store::blob::text(&mut conn, &before).await.unwrap().is_err());
    assert!(store::blob::text(&mut conn, &anew).await.unwrap().is_ok());
    drop(conn);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_sent_during_a_purge_is_not_stored() {
    let world = scene::world().await;
    let pool = Pool::join(&world).await;
    learns_a_secret(&world, &pool).await;
    let claims = pool.requests(&[["default"]]);
    let answered = claim::serve(&world.db, &world.settings, &claims, ())
        .await
        .unwrap();
    let [ClaimAnswer::Assigned { assignment: of }] = answered.answers.as_slice() else {
        panic!("{:?}", answered.answers);
    };
    assert!(parts(&world, of).await.unwrap().contains("4711"));
    let entry: Uuid = sqlx::query_scalar("select id from knowledge")
        .fetch_one(&world.db)
        .await
        .unwrap();
    // The purge has searched for prompts and is not committed yet.
    let mut purge = world.db.begin().await.unwrap();
    store::memory::exposures::hold_back_prompts(&mut purge)
        .await
        .unwrap();
    assert_eq!(
        store::memory::library::purge(&mut purge, &[entry]).await.unwrap(),
        (1, 0)
    );
    let (db, sent) = (world.db.clone(), answered.sent);
    let keeping = tokio::spawn(async move { sent.keep(&db).await.unwrap() });
    somebody_waits(&world).await;
    purge.commit().await.unwrap();
    keeping.await.unwrap();
    assert_eq!(prompt_of(&world, of).await, None);
    assert_eq!(parts(&world, of).await, None);
    let uses: i64 = sqlx::query_scalar("select count(*) from memory_uses where entry = $1")
        .bind(entry)
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert_eq!(uses, 0);
}
