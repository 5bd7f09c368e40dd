//! Accounts that are unavailable (SPEC 7.3): which tasks wait, and what ends the wait.

use std::collections::BTreeSet;

use ralph_coordinator::flow::apply::Incoming;
use ralph_coordinator::flow::claim::tickets;
use ralph_coordinator::store::availability::{self, Failed};
use ralph_shared::ids::DispatchId;
use ralph_shared::wire::{Ended, Finished, Unavailable, Usage};
use ralph_tests::harness::{FeatureOptions, World};

use super::pool::Pool;
use super::scene::turn;
use crate::scheduling::tickets::purge_tickets;

const TWO: &str = "- {key: a, title: A}\n- {key: b, title: B}";

fn failed() -> Failed {
    Failed {
        account: "default".to_owned(),
        door: Unavailable::RateLimit,
        reason: "429".to_owned(),
        worker: "w".to_owned(),
        dispatch: DispatchId::new(),
        asked: None,
    }
}

/// Consecutive failures of the account; `None` once it is available again.
async fn failures(world: &World) -> Option<i32> {
    sqlx::query_scalar("select failures from account_doors where width = 1")
        .fetch_optional(&world.db)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_an_unavailable_account_get_no_ticket_and_no_session() {
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
    let issued = tickets::top_up(&world.db, &world.bus, &world.settings, &mut pools).await;
    assert_eq!(issued.unwrap(), 0);
    assert_eq!(pool.claim_once(&[&["default"]]).await.len(), 0);
    sqlx::query("update account_doors set until = now()")
        .execute(&world.db)
        .await
        .unwrap();
    let issued = tickets::top_up(&world.db, &world.bus, &world.settings, &mut pools).await;
    assert_eq!(issued.unwrap(), 2);
    assert_eq!(pool.claim_once(&[&["default"]]).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_session_claimed_after_the_failure_reopens_its_account() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    world
        .submit("f", None, TWO, &FeatureOptions::default())
        .await
        .unwrap();
    let before = pool.claim_once(&[&["default"]]).await.remove(0);
    let mut conn = world.db.acquire().await.unwrap();
    availability::failed(&mut conn, &failed()).await.unwrap().unwrap();
    let passed = |assignment: &ralph_shared::wire::Assignment| {
        (
            vec![(assignment.task.0, "default".to_owned())],
            vec![("default".to_owned(), assignment.dispatch.0)],
        )
    };
    let (tasks, sessions) = passed(&before);
    availability::passed(&mut conn, &tasks, &sessions).await.unwrap();
    assert_eq!(
        failures(&world).await,
        Some(1),
        "the session began before the failure"
    );
    sqlx::query("update account_doors set until = now()")
        .execute(&world.db)
        .await
        .unwrap();
    let again = availability::failed(&mut conn, &failed()).await.unwrap().unwrap();
    assert_eq!(again.failures, 2, "the pause grows");
    sqlx::query("update account_doors set until = now()")
        .execute(&world.db)
        .await
        .unwrap();
    let after = pool.claim_once(&[&["default"]]).await.remove(0);
    let (tasks, mut sessions) = passed(&after);
    sessions[0].0 = "other".to_owned();
    availability::passed(&mut conn, &tasks, &sessions).await.unwrap();
    assert_eq!(
        failures(&world).await,
        Some(2),
        "another account's session proves nothing"
    );
    sessions[0].0 = "default".to_owned();
    availability::passed(&mut conn, &tasks, &sessions).await.unwrap();
    assert_eq!(failures(&world).await, None);
    drop(conn);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_coordinators_that_record_a_failure_at_once_count_it_once() {
    let world = World::calm().await.unwrap();
    let mut first = world.db.begin().await.unwrap();
    assert!(
        availability::failed(&mut first, &failed())
            .await
            .unwrap()
            .is_some()
    );
    let mut second = world.db.begin().await.unwrap();
    let noting = tokio::spawn(async move {
        let noted = availability::failed(&mut second, &failed()).await.unwrap();
        second.commit().await.unwrap();
        noted
    });
    let waits = "select $1::uuid is not null and exists (select 1 from pg_stat_activity where wait_event_type = 'Lock')";
    world.until(waits, uuid::Uuid::nil()).await.unwrap();
    first.commit().await.unwrap();
    assert_eq!(noting.await.unwrap(), None);
    assert_eq!(failures(&world).await, Some(1));
}

const FIVE: &str = "- {key: a, title: A}\n- {key: b, title: B}\n- {key: c, title: C}\n- {key: d, title: D}\n- {key: e, title: E}";

async fn pause_ends(world: &World) {
    sqlx::query("update account_doors set until = now()")
        .execute(&world.db)
        .await
        .unwrap();
}

/// Five tasks and five slots, whose account is unavailable.
async fn five_wait(world: &World) -> Pool<'_> {
    let pool = Pool::join(world).await;
    world
        .submit("f", None, FIVE, &FeatureOptions::default())
        .await
        .unwrap();
    let mut conn = world.db.acquire().await.unwrap();
    availability::failed(&mut conn, &failed()).await.unwrap().unwrap();
    assert_eq!(pool.claim_once(&[&["default"]; 5]).await.len(), 0);
    pool
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_pause_one_session_tries_until_its_model_answers() {
    let world = World::calm().await.unwrap();
    let pool = five_wait(&world).await;
    pause_ends(&world).await;
    let tries = pool.claim_once(&[&["default"]; 5]).await;
    assert_eq!(tries.len(), 1);
    pool.beat(&[&tries[0]], &[]).await;
    assert_eq!(
        pool.claim_once(&[&["default"]; 4]).await.len(),
        0,
        "its model has not answered yet"
    );
    pool.beat(&[&tries[0]], &[&tries[0]]).await;
    assert_eq!(failures(&world).await, None);
    // The first session still runs: it is one of the two allowed at a time.
    let second = pool.claim_once(&[&["default"]; 4]).await;
    assert_eq!(second.len(), 1);
    pool.beat(&[&tries[0], &second[0]], &[&tries[0]]).await;
    assert_eq!(
        pool.claim_once(&[&["default"]; 3]).await.len(),
        0,
        "an answer that was known already frees no slot"
    );
    pool.beat(&[&tries[0], &second[0]], &[&second[0]]).await;
    let wave = pool.claim_once(&[&["default"]; 3]).await;
    assert_eq!(wave.len(), 2);
    // One of four meets the rate limit again.
    let mut report = refused(&pool, &wave[0], Unavailable::RateLimit, None);
    of_account(&mut report);
    pool.report(vec![report]).await;
    assert_eq!(failures(&world).await, Some(2));
    pause_ends(&world).await;
    assert_eq!(
        pool.claim_once(&[&["default"]; 3]).await.len(),
        1,
        "one session tries alone again"
    );
}

/// A report of a session that its provider refused, with the time after which to retry.
fn refused(
    pool: &Pool<'_>,
    of: &ralph_shared::wire::Assignment,
    door: Unavailable,
    retry_after_ms: Option<u64>,
) -> Incoming {
    let ended = Ended::Unavailable {
        door,
        message: "no".to_owned(),
    };
    let mut report = pool.session(of, ended, "", 0);
    of_account(&mut report);
    if let Finished::Session(session) = &mut report.report.finished {
        session.retry_after_ms = retry_after_ms;
    }
    report
}

#[tokio::test(flavor = "multi_thread")]
async fn each_kind_of_refusal_has_its_pause_unless_the_provider_names_one() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    world
        .submit("f", None, TWO, &FeatureOptions::default())
        .await
        .unwrap();
    for (door, asked, least, most) in [
        (Unavailable::RateLimit, None, 1, 1),
        (Unavailable::Overload, None, 1, 1),
        (Unavailable::Quota, None, 60, 60),
        (Unavailable::Quota, Some(3_600_000), 3_600, 3_630),
        (Unavailable::Overload, Some(20_000), 20, 22),
    ] {
        sqlx::query("delete from account_doors")
            .execute(&world.db)
            .await
            .unwrap();
        backoffs_end(&world).await;
        let one = pool.claim_once(&[&["default"]]).await.remove(0);
        pool.report(vec![refused(&pool, &one, door, asked)]).await;
        let (stored, waits): (String, f64) =
            sqlx::query_as("select door, extract(epoch from until - closed_at)::float8 from account_doors")
                .fetch_one(&world.db)
                .await
                .unwrap();
        assert_eq!(stored, door.into_str());
        // The transaction reads the clock twice, so allow for its duration.
        let (least, most) = (f64::from(least), f64::from(most) + 2.0);
        assert!((least..most).contains(&waits), "{door:?} {asked:?} {waits}");
        let failure: String = sqlx::query_scalar("select failure::text from dispatches where id = $1")
            .bind(one.dispatch.0)
            .fetch_one(&world.db)
            .await
            .unwrap();
        assert_eq!(failure, door.into_str());
    }
    assert_eq!(
        count(&world, "select sum(failures + door_failures) from tasks").await,
        0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_try_lengthens_the_pause_and_the_next_session_goes_alone() {
    let world = World::calm().await.unwrap();
    let pool = five_wait(&world).await;
    for n in 2..=3 {
        pause_ends(&world).await;
        let tries = pool.claim_once(&[&["default"]; 5]).await;
        assert_eq!(tries.len(), 1);
        let ended = Ended::Unavailable {
            door: Unavailable::RateLimit,
            message: "429".to_owned(),
        };
        let mut report = pool.session(&tries[0], ended, "", 0);
        of_account(&mut report);
        pool.report(vec![report]).await;
        assert_eq!(failures(&world).await, Some(n));
        assert_eq!(pool.claim_once(&[&["default"]; 5]).await.len(), 0);
    }
    // A session that ends for another reason says nothing about the account: the next one tries.
    pause_ends(&world).await;
    let tries = pool.claim_once(&[&["default"]; 5]).await;
    let exited = Ended::AgentExited {
        code: Some(1),
        signal: None,
    };
    let mut report = pool.session(&tries[0], exited, "", 0);
    of_account(&mut report);
    pool.report(vec![report]).await;
    assert_eq!(failures(&world).await, Some(3));
    let tries = pool.claim_once(&[&["default"]; 5]).await;
    assert_eq!(tries.len(), 1);
    let mut report = pool.session(&tries[0], turn(), "", 1);
    of_account(&mut report);
    pool.report(vec![report]).await;
    assert_eq!(
        failures(&world).await,
        None,
        "a normal end also proves that the account works"
    );
    assert_eq!(pool.claim_once(&[&["default"]; 5]).await.len(), 2);
}

/// Marks the session as one of the account.
fn of_account(incoming: &mut Incoming) {
    if let Finished::Session(session) = &mut incoming.report.finished {
        session.agent.account = "default".to_owned();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_began_before_the_failure_do_not_lengthen_the_pause() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    world
        .submit("f", None, FIVE, &FeatureOptions::default())
        .await
        .unwrap();
    let all = pool.claim_once(&[&["default"]; 5]).await;
    assert_eq!(all.len(), 5);
    for one in &all {
        let ended = Ended::Unavailable {
            door: Unavailable::RateLimit,
            message: "429".to_owned(),
        };
        let mut report = pool.session(one, ended, "", 0);
        of_account(&mut report);
        pool.report(vec![report]).await;
        pause_ends(&world).await;
    }
    assert_eq!(failures(&world).await, Some(1));
}

/// A report of a session that ended normally without any work.
fn empty(pool: &Pool<'_>, of: &ralph_shared::wire::Assignment) -> Incoming {
    let mut report = pool.session(of, turn(), "", 0);
    of_account(&mut report);
    if let Finished::Session(session) = &mut report.report.finished {
        session.tool_calls = 0;
        session.usage = Usage::default();
    }
    report
}

/// Ends the back-offs of all tasks.
async fn backoffs_end(world: &World) {
    sqlx::query("update ready_tasks set not_before = now() where not_before > now()")
        .execute(&world.db)
        .await
        .unwrap();
}

async fn count(world: &World, query: &'static str) -> i64 {
    sqlx::query_scalar(query).fetch_one(&world.db).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_stays_silent_costs_no_task_an_attempt() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    let graph: String = (0..30)
        .map(|n| format!("- {{key: t{n}, title: T{n}}}\n"))
        .collect();
    let mut options = FeatureOptions::default();
    // While a back-off lasts, the other tasks go first.
    options.run.backoff_ms = 600_000;
    world.submit("f", None, &graph, &options).await.unwrap();
    let first = pool.claim_once(&[&["default"]; 2]).await;
    assert_eq!(first.len(), 2);
    pool.report(first.iter().map(|one| empty(&pool, one)).collect())
        .await;
    assert_eq!(
        failures(&world).await,
        None,
        "two empty sessions may be due to their tasks"
    );
    let third = pool.claim_once(&[&["default"]]).await;
    pool.report(vec![empty(&pool, &third[0])]).await;
    assert_eq!(failures(&world).await, Some(1));
    for n in 2..=8 {
        assert_eq!(
            pool.claim_once(&[&["default"]; 4]).await.len(),
            0,
            "the account pauses"
        );
        pause_ends(&world).await;
        backoffs_end(&world).await;
        let tries = pool.claim_once(&[&["default"]; 4]).await;
        assert_eq!(tries.len(), 1, "one session tries the account");
        pool.report(vec![empty(&pool, &tries[0])]).await;
        assert_eq!(failures(&world).await, Some(n));
    }
    let pauses = "select count(*) from notices where event = 'pool_paused'";
    assert_eq!(count(&world, pauses).await, 1);
    let reason: String = sqlx::query_scalar("select reason from account_doors")
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert!(reason.contains("without a word"), "{reason}");
    let troubled = "select count(*) from tasks where failures > 0 or state not in ('pending', 'in_progress')";
    assert_eq!(count(&world, troubled).await, 0);
    assert_eq!(count(&world, "select iterations::bigint from runs").await, 0);
    // The agent answers again.
    pause_ends(&world).await;
    backoffs_end(&world).await;
    let tries = pool.claim_once(&[&["default"]]).await;
    let mut good = pool.session(&tries[0], turn(), "hm", 1);
    of_account(&mut good);
    pool.report(vec![good]).await;
    assert_eq!(failures(&world).await, None);
    assert_eq!(count(&world, "select count(*) from empty_turns").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_alone_gets_empty_answers_fails_from_the_second_on() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    world
        .submit("f", None, "- {key: a, title: A}", &FeatureOptions::default())
        .await
        .unwrap();
    for failures in 0..3 {
        backoffs_end(&world).await;
        let one = pool.claim_once(&[&["default"]]).await.remove(0);
        pool.report(vec![empty(&pool, &one)]).await;
        assert_eq!(
            count(&world, "select failures::bigint from tasks").await,
            failures
        );
    }
    assert_eq!(failures(&world).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_cannot_start_costs_no_attempt_and_is_notified_once() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    world
        .submit("f", None, TWO, &FeatureOptions::default())
        .await
        .unwrap();
    for n in 0..24 {
        let doors = [
            Unavailable::NotFound,
            Unavailable::Silent,
            Unavailable::Authentication,
            Unavailable::ExitsAtOnce,
        ];
        backoffs_end(&world).await;
        let one = pool.claim_once(&[&["default"]]).await.remove(0);
        let ended = Ended::Unavailable {
            door: doors[n % doors.len()],
            message: "no".to_owned(),
        };
        let mut report = pool.session(&one, ended, "", 0);
        of_account(&mut report);
        pool.report(vec![report]).await;
    }
    let waiting = "select count(*) from tasks where state in ('pending', 'in_progress') and failures = 0";
    assert_eq!(count(&world, waiting).await, 2);
    let pauses = "select count(*) from notices where event = 'pool_paused'";
    assert_eq!(count(&world, pauses).await, 1);
    assert_eq!(count(&world, "select count(*) from notices").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completion_after_only_failed_tool_calls_says_so_in_its_reason() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    world
        .submit("f", None, "- {key: a, title: A}", &FeatureOptions::default())
        .await
        .unwrap();
    let one = pool.claim_once(&[&["default"]]).await.remove(0);
    let done = format!("<task-done>{}</task-done>", one.task.short());
    let mut report = pool.session(&one, turn(), &done, 0);
    if let Finished::Session(session) = &mut report.report.finished {
        (session.tool_calls, session.failed_tool_calls) = (3, 3);
    }
    pool.report(vec![report]).await;
    let reason: String = sqlx::query_scalar("select reason from dispatches")
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert_eq!(
        reason,
        "it said done, but all 3 tool calls failed and nothing changed"
    );
}
