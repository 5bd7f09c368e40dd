//! Entries that the database refuses stop neither work nor other entries.

use ralph_coordinator::domain::recall::Kind;
use ralph_coordinator::flow::memory::library::{self, ImportLine};
use ralph_coordinator::flow::memory::upkeep;
use ralph_tests::harness::World;
use rand::prelude::*;
use time::OffsetDateTime;
use uuid::Uuid;

use super::pool::Pool;
use super::scene;
use super::trust::shown;

/// Incompressible text, longer than an index entry may be.
fn long(seed: u64) -> String {
    let mut random = StdRng::seed_from_u64(seed);
    (0..700)
        .map(|_| format!("{:07x} ", random.random_range(0..1 << 28)))
        .collect()
}

async fn is_done(world: &World, task: ralph_shared::ids::TaskId) -> bool {
    sqlx::query_scalar("select state = 'done' from tasks where id = $1")
        .bind(task.0)
        .fetch_one(&world.db)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_title_of_any_length_is_stored() {
    let world = scene::world().await;
    let pool = Pool::join(&world).await;
    scene::submit(&world, "long", "- {key: a, title: Learn}").await;
    let title = long(1);
    let learned = format!("<knowledge tags='kettle,{title}' title='Kettles {title}'>They boil.</knowledge>");
    let of = scene::does(&pool, &learned).await;
    assert!(is_done(&world, of.task).await);
    let found = shown(&world, Kind::Knowledge, "Boil the kettles").await;
    assert_eq!(found.len(), 1);
    assert!(
        found[0].starts_with("Kettles ") && found[0].chars().count() <= 300,
        "{found:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn titles_and_names_of_any_length_are_imported() {
    let world = scene::world().await;
    let line = |seed: u64, kind: Kind| ImportLine {
        id: long(seed),
        date: OffsetDateTime::now_utc() - time::Duration::days(3),
        title: format!("Kettles {}", long(seed)),
        body: "They boil.".to_owned(),
        paths: vec![long(seed)],
        tags: vec!["kettle".to_owned()],
        kind,
        category: Some(long(seed)),
        feature: None,
    };
    let lines = [
        line(1, Kind::Knowledge),
        line(2, Kind::Learning),
        line(3, Kind::Knowledge),
    ];
    assert_eq!(library::import(&world.db, "", &lines).await.unwrap(), 3);
    assert_eq!(library::import(&world.db, "", &lines).await.unwrap(), 0);
}

/// Makes the database refuse to release knowledge of this title.
async fn refuse(world: &World, title: &str) {
    let refusal = format!(
        "create function refuse() returns trigger language plpgsql as $$ begin raise exception 'it is refused'; end $$;
         create trigger refuses before update on knowledge
         for each row when (new.title = '{title}') execute function refuse()"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(refusal))
        .execute(&world.db)
        .await
        .unwrap();
}

fn knows(title: &str) -> String {
    format!("<knowledge tags='kettle' title='{title}'>The kettle boils.</knowledge>")
}

#[tokio::test(flavor = "multi_thread")]
async fn work_lands_although_its_memory_cannot_be_stored() {
    let world = scene::world().await;
    let pool = Pool::join(&world).await;
    scene::submit(&world, "kettle", "- {key: a, title: Learn}").await;
    refuse(&world, "poison").await;
    let of = scene::does(&pool, &knows("poison")).await;
    assert!(is_done(&world, of.task).await);
    let bad_reports: Vec<(Uuid, String)> = sqlx::query_as("select dispatch_id, error from bad_reports")
        .fetch_all(&world.db)
        .await
        .unwrap();
    assert_eq!(bad_reports.len(), 1);
    assert!(
        bad_reports[0].0 == of.dispatch.0 && bad_reports[0].1.contains("it is refused"),
        "{bad_reports:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_cannot_be_released_does_not_stop_the_others() {
    let world = scene::world().await;
    let pool = Pool::join(&world).await;
    let graph = "- {key: a, title: Learn}\n- {key: b, title: Learn, after: [a]}\n- {key: c, title: Learn, after: [b]}\n";
    scene::submit(&world, "kettle", graph).await;
    for title in ["poison", "Kettles boil", "Spouts whistle"] {
        scene::does(&pool, &knows(title)).await;
    }
    // As if a person had marked the tasks done.
    sqlx::raw_sql("update knowledge set released_at = null; delete from memory_docs")
        .execute(&world.db)
        .await
        .unwrap();
    refuse(&world, "poison").await;
    let upkept = upkeep::tick(&world.db).await.unwrap();
    assert_eq!((upkept.released, upkept.indexed, upkept.failed), (2, 0, 0));
    let found: Vec<String> =
        sqlx::query_scalar("select title from knowledge where released_at is not null order by title")
            .fetch_all(&world.db)
            .await
            .unwrap();
    assert_eq!(found, ["Kettles boil", "Spouts whistle"]);
    // Only the refused entry remains, and the later steps of the round still work.
    sqlx::query("update runs set ended_at = now(), journal_indexed_at = null")
        .execute(&world.db)
        .await
        .unwrap();
    sqlx::query("update dispatches set journal = 'It boiled.'")
        .execute(&world.db)
        .await
        .unwrap();
    let upkept = upkeep::tick(&world.db).await.unwrap();
    assert_eq!((upkept.released, upkept.indexed, upkept.failed), (0, 3, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_that_cannot_be_indexed_does_not_stop_other_runs() {
    let world = scene::world().await;
    let pool = Pool::join(&world).await;
    scene::submit(&world, "poison", "- {key: a, title: Boil}").await;
    let poison = scene::does(&pool, "<journal>It boiled over.</journal>").await;
    scene::submit(&world, "kettle", "- {key: a, title: Boil}").await;
    scene::does(&pool, "<journal>It boiled.</journal>").await;
    sqlx::query("update runs set ended_at = now(), journal_indexed_at = null")
        .execute(&world.db)
        .await
        .unwrap();
    let refusal = format!(
        "create function refuse() returns trigger language plpgsql as $$ begin raise exception 'it is refused'; end $$;
         create trigger refuses before insert on memory_docs
         for each row when (new.entry = '{}') execute function refuse()",
        poison.dispatch.0
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(refusal))
        .execute(&world.db)
        .await
        .unwrap();
    let upkept = upkeep::tick(&world.db).await.unwrap();
    assert_eq!((upkept.indexed, upkept.failed), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_of_ten_megabytes_is_cut_and_stored() {
    let world = scene::world().await;
    let pool = Pool::join(&world).await;
    scene::submit(
        &world,
        "long",
        "- {key: a, title: Learn}\n- {key: b, title: Boil the kettle, after: [a]}\n",
    )
    .await;
    let body = "Kettles boil over. ".repeat(550_000);
    assert!(body.len() > 10_000_000);
    let learned = format!(
        "<learning category='pitfall' tags='kettle'>{body}</learning><knowledge tags='kettle' title='Kettles'>{body}\
         </knowledge><journal>{body}</journal><memory kind='decision'>{body}</memory>"
    );
    let of = scene::does(&pool, &learned).await;
    assert!(is_done(&world, of.task).await);
    let lengths: Vec<i32> = sqlx::query_scalar(
        "select length(body) from learnings union all select length(body) from knowledge
         union all select length(body) from session_memory union all select length(journal) from dispatches
         where journal is not null",
    )
    .fetch_all(&world.db)
    .await
    .unwrap();
    assert!(
        lengths.len() == 4 && lengths.iter().all(|chars| (1_000..21_000).contains(chars)),
        "{lengths:?}"
    );
    let prompt = scene::prompt(&scene::claims(&pool).await);
    assert!(prompt.contains("Kettles boil over.") && prompt.chars().count() < 60_000);
}
