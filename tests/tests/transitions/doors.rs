//! Accounts at closed doors (SPEC 7.3): who waits, and what opens them.

use std::collections::BTreeSet;

use ralph_coordinator::flow::ready;
use ralph_coordinator::store::door::{self, Failed};
use ralph_shared::wire::Door;
use ralph_tests::harness::{FeatureOptions, World};

use super::pool::Pool;
use super::tickets::purge_tickets;

const TWO: &str = "- {key: a, title: A}\n- {key: b, title: B}";

fn failed() -> Failed {
    Failed {
        account: "default".to_owned(),
        door: Door::RateLimit,
        reason: "429".to_owned(),
        worker: "w".to_owned(),
    }
}

async fn failures(world: &World) -> Option<i32> {
    sqlx::query_scalar("select failures from account_doors")
        .fetch_optional(&world.db)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_a_closed_account_gets_no_ticket_and_is_not_handed_out() {
    let world = World::calm().await.unwrap();
    world.bus.ensure_streams().await.unwrap();
    let pool = Pool::join(&world).await;
    world
        .submit("f", None, TWO, &FeatureOptions::default())
        .await
        .unwrap();
    sqlx::query(
        "insert into account_doors (account, door, reason, worker, failures, closed_at, until)
         values ('default', 'overload', 'no', 'w', 1, now(), now() + interval '1 hour')",
    )
    .execute(&world.db)
    .await
    .unwrap();
    let mut pools = BTreeSet::new();
    purge_tickets(&world, 2).await;
    let issued = ready::top_up(&world.db, &world.bus, &world.settings, &mut pools).await;
    assert_eq!(issued.unwrap(), 0);
    assert_eq!(pool.claim_once(&[&["default"]]).await.len(), 0);
    sqlx::query("update account_doors set until = now()")
        .execute(&world.db)
        .await
        .unwrap();
    let issued = ready::top_up(&world.db, &world.bus, &world.settings, &mut pools).await;
    assert_eq!(issued.unwrap(), 2);
    assert_eq!(pool.claim_once(&[&["default"]]).await.len(), 1);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_session_that_was_claimed_after_the_failure_opens_its_account() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    world
        .submit("f", None, TWO, &FeatureOptions::default())
        .await
        .unwrap();
    let before = pool.claim_once(&[&["default"]]).await.remove(0);
    let mut conn = world.db.acquire().await.unwrap();
    door::failed(&mut conn, &failed()).await.unwrap().unwrap();
    let passed = |assignment: &ralph_shared::wire::Assignment| {
        (
            vec![assignment.task.0],
            vec![("default".to_owned(), assignment.dispatch.0)],
        )
    };
    let (tasks, sessions) = passed(&before);
    door::passed(&mut conn, &tasks, &sessions).await.unwrap();
    assert_eq!(failures(&world).await, Some(1), "it began before");
    sqlx::query("update account_doors set until = now()")
        .execute(&world.db)
        .await
        .unwrap();
    let again = door::failed(&mut conn, &failed()).await.unwrap().unwrap();
    assert_eq!(again.failures, 2, "the pause grows");
    sqlx::query("update account_doors set until = now()")
        .execute(&world.db)
        .await
        .unwrap();
    let after = pool.claim_once(&[&["default"]]).await.remove(0);
    let (tasks, mut sessions) = passed(&after);
    sessions[0].0 = "other".to_owned();
    door::passed(&mut conn, &tasks, &sessions).await.unwrap();
    assert_eq!(failures(&world).await, Some(2), "another account says nothing");
    sessions[0].0 = "default".to_owned();
    door::passed(&mut conn, &tasks, &sessions).await.unwrap();
    assert_eq!(failures(&world).await, None);
    drop(conn);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_two_coordinators_note_at_once_is_one_failure() {
    let world = World::calm().await.unwrap();
    let mut first = world.db.begin().await.unwrap();
    assert!(door::failed(&mut first, &failed()).await.unwrap().is_some());
    let mut second = world.db.begin().await.unwrap();
    let noting = tokio::spawn(async move {
        let noted = door::failed(&mut second, &failed()).await.unwrap();
        second.commit().await.unwrap();
        noted
    });
    let waits = "select $1::uuid is not null and exists (select 1 from pg_stat_activity where wait_event_type = 'Lock')";
    world.until(waits, uuid::Uuid::nil()).await.unwrap();
    first.commit().await.unwrap();
    assert_eq!(noting.await.unwrap(), None);
    assert_eq!(failures(&world).await, Some(1));
    world.stop().await;
}
