//! Transcripts, prompts, memory uses and bad reports are deleted once they are old, and nothing else is.

use ralph_coordinator::flow::maintenance::expired::{self, Removed, RetentionDays};
use ralph_tests::harness::{FeatureOptions, World};
use sqlx::PgPool;

use super::scene::Scene;

/// Rows of each kind: transcripts, prompts, uses, bad reports.
async fn counts(db: &PgPool) -> [i64; 4] {
    let (transcripts, prompts, uses, bad_reports) = sqlx::query_as(
        "select (select count(*) from transcripts), (select count(*) from prompts), (select count(*) from memory_uses),
                (select count(*) from bad_reports)",
    )
    .fetch_one(db)
    .await
    .unwrap();
    [transcripts, prompts, uses, bad_reports]
}

#[tokio::test(flavor = "multi_thread")]
async fn old_rows_are_removed_in_batches_and_open_ones_stay() {
    let world = World::calm().await.unwrap();
    let graph = "- {key: a, title: A}\n- {key: b, title: B}";
    let scene = Scene::set(&world, graph, &FeatureOptions::default()).await;
    let old = scene.claim().await;
    scene.done(&old).await;
    let new = scene.claim().await;
    // More bad reports than one transaction removes. One of the uses belongs to an attempt without an
    // outcome.
    sqlx::query(
        "with aged as (
           select $1::uuid as dispatch, now() - interval '100 days' as at union all select $2, now() - interval '80 days'
         ), transcripts as (
           insert into transcripts (dispatch_id, body, entries, stored_at) select dispatch, '', 0, at from aged
         ), prompts as (
           insert into prompts (id, packed, created_at) select gen_random_uuid(), '', at from aged
         ), uses as (
           insert into memory_uses (dispatch_id, kind, entry, place, score, outcome, used_at)
           select dispatch, 'learning', gen_random_uuid(), 0, 0, outcome, at - interval '300 days'
           from aged, (values ('landed'::memory_outcome), (null)) o (outcome)
         )
         insert into bad_reports (error, body, received_at)
         select 'unread', '', at - interval '60 days' from aged, generate_series(1, 601)",
    )
    .bind(old.dispatch.0)
    .bind(new.dispatch.0)
    .execute(&world.db)
    .await
    .unwrap();
    let before = counts(&world.db).await;

    let for_ever = RetentionDays {
        transcripts: None,
        prompts: None,
        uses: None,
        bad_reports: None,
    };
    assert_eq!(
        expired::tick(&world.db, &for_ever).await.unwrap(),
        Removed::default()
    );
    assert_eq!(counts(&world.db).await, before);

    let expected = Removed {
        transcripts: 1,
        prompts: 1,
        uses: 2,
        bad_reports: 1_202,
    };
    assert_eq!(
        expired::tick(&world.db, &RetentionDays::default()).await.unwrap(),
        expected
    );
    let gone = [1, 1, 2, 1_202];
    let after: Vec<i64> = before
        .iter()
        .zip(gone)
        .map(|(before, gone)| before - gone)
        .collect();
    assert_eq!(counts(&world.db).await.as_slice(), after);
    assert_eq!(
        expired::tick(&world.db, &RetentionDays::default()).await.unwrap(),
        Removed::default()
    );
    let open: i64 =
        sqlx::query_scalar("select count(*) from memory_uses where outcome is null and left_out is null")
            .fetch_one(&world.db)
            .await
            .unwrap();
    assert_eq!(open, 2);
}
