//! Limits of cost and tokens hold while sessions run: shares, usage in heartbeats, and usage in reports.

use futures::future::join_all;
use ralph_coordinator::domain::run::{Run, RunSettings};
use ralph_coordinator::domain::states::RunOutcome;
use ralph_coordinator::flow::{finish, workers::rescue};
use ralph_coordinator::store;
use ralph_shared::wire::{
    Assignment, Basis, DispatchUsage, EndReason, Ended, Finished, SessionLimit, Share, Usage, Work,
};
use ralph_tests::harness::{FeatureOptions, World};

use super::pool::Pool;
use super::scene::{Scene, turn};

const USD: u64 = 1_000_000;

pub fn limits(max_cost_usd: Option<f64>, max_tokens: Option<i64>) -> FeatureOptions {
    let default = FeatureOptions::default();
    FeatureOptions {
        max_parallel: 4,
        run: RunSettings {
            max_cost_usd,
            max_tokens,
            ..default.run.clone()
        },
        ..default
    }
}

pub fn graph(tasks: usize) -> String {
    (0..tasks)
        .map(|n| format!("- {{key: k{n}, title: T}}\n"))
        .collect()
}

pub fn share(of: &Assignment) -> Share {
    match &of.work {
        Work::Session(order) => order.share,
        other => panic!("{other:?}"),
    }
}

pub fn cost(usd: f64) -> Usage {
    Usage {
        cost_usd: Some(usd),
        ..Usage::default()
    }
}

pub fn used(of: &Assignment, usage: Usage, asks: bool) -> DispatchUsage {
    DispatchUsage {
        dispatch: of.dispatch,
        usage,
        asks,
    }
}

async fn run(scene: &Scene<'_>) -> Run {
    let mut conn = scene.world.db.acquire().await.unwrap();
    store::run::last(&mut conn, scene.feature).await.unwrap().unwrap()
}

/// Cost of ended and of running sessions, in US dollars.
async fn costs(scene: &Scene<'_>) -> (f64, f64) {
    let run = run(scene).await;
    (run.cost_usd, run.in_flight.cost_usd)
}

pub async fn reports(scene: &Scene<'_>, of: &Assignment, ended: Ended, usage: Usage) {
    let text = format!("<task-done>{}</task-done>", of.task);
    let mut report = scene.pool.session(of, ended, &text, 1);
    if let Finished::Session(session) = &mut report.report.finished {
        session.usage = usage;
    }
    scene.pool.report(vec![report]).await;
}

async fn lose(world: &World) {
    sqlx::query("update dispatches set lease_until = '-infinity' where state = 'live'")
        .execute(&world.db)
        .await
        .unwrap();
    rescue::rescue(&world.db, world.settings.lease_ms(), false)
        .await
        .unwrap();
}

/// Coordinators that serve claims at once never give more than the limit.
#[tokio::test(flavor = "multi_thread")]
async fn shares_given_at_once_stay_within_the_limit() {
    let world = World::calm().await.unwrap();
    for (max_cost_usd, max_tokens) in [(Some(0.15), None), (None, Some(25))] {
        let scene = Scene::set(&world, &graph(4), &limits(max_cost_usd, max_tokens)).await;
        let claims = (0..8).map(|_| scene.pool.claim_once(&[["default"]]));
        let got: Vec<Assignment> = join_all(claims).await.into_iter().flatten().collect();
        assert!(got.len() > 1, "{} sessions began", got.len());
        let microusd: u64 = got.iter().filter_map(|of| share(of).microusd).sum();
        let tokens: u64 = got.iter().filter_map(|of| share(of).tokens).sum();
        assert!(microusd <= 150_000 && tokens <= 25, "{microusd} {tokens}");
        scene.forget().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn shares_grow_to_the_limit_and_unused_parts_are_returned() {
    let world = World::calm().await.unwrap();
    let scene = Scene::set(&world, &graph(3), &limits(Some(1.0), None)).await;
    let (one, other) = (scene.claim().await, scene.claim().await);
    assert_eq!(
        (share(&one).microusd, share(&other).microusd),
        (Some(USD / 4), Some(USD / 4))
    );
    let (granted, _) = scene.pool.tells(&[used(&one, cost(0.125), true)]).await;
    assert_eq!(granted[0].share.microusd, Some(USD / 2));
    // The answer was lost: the same report gets the same share again.
    let (again, _) = scene.pool.tells(&[used(&one, cost(0.125), true)]).await;
    assert_eq!(again, granted);
    // The session takes the rest bit by bit; the other keeps its share, and no further session begins.
    let mut last = 0;
    loop {
        let usd = (last.max(USD / 4) as f64) / 1e6;
        let (granted, _) = scene.pool.tells(&[used(&one, cost(usd), true)]).await;
        let now = granted[0].share.microusd.unwrap();
        if now == last {
            break;
        }
        last = now;
    }
    assert_eq!(last, 3 * USD / 4);
    scene.nothing_is_ready().await;
    // The unused part of its share is available to others again.
    reports(&scene, &other, turn(), cost(0.05)).await;
    let (granted, _) = scene.pool.tells(&[used(&one, cost(0.75), true)]).await;
    assert!(granted[0].share.microusd.unwrap() > last);
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_reported_while_a_session_runs_counts_once() {
    let world = World::calm().await.unwrap();
    let scene = Scene::set(&world, &graph(2), &limits(None, None)).await;
    let of = scene.claim().await;
    let tells = async |usd, expected| {
        scene.pool.tells(&[used(&of, cost(usd), false)]).await;
        assert_eq!(costs(&scene).await, expected, "{usd}");
    };
    tells(0.5, (0.0, 0.5)).await;
    // A lower or negative number returns nothing.
    tells(0.25, (0.0, 0.5)).await;
    tells(-1.0, (0.0, 0.5)).await;
    // Usage of another worker's dispatch does not count.
    let stranger = DispatchUsage {
        dispatch: ralph_shared::ids::DispatchId::new(),
        ..used(&of, cost(9.0), true)
    };
    scene.pool.tells(&[stranger]).await;
    assert_eq!(costs(&scene).await, (0.0, 0.5));
    // The report says less: the greater number counts.
    reports(&scene, &of, turn(), cost(0.375)).await;
    assert_eq!(costs(&scene).await, (0.5, 0.0));
    // Usage reported after the end.
    tells(0.5, (0.5, 0.0)).await;
    tells(0.625, (0.625, 0.0)).await;
    tells(0.5, (0.625, 0.0)).await;
    // Tokens known only as context count until input and output are reported separately.
    let landing = scene.claim().await;
    scene.done(&landing).await;
    let of = scene.claim().await;
    let context = Usage {
        context_tokens: Some(1_000),
        ..Usage::default()
    };
    scene.pool.tells(&[used(&of, context, false)]).await;
    assert_eq!(run(&scene).await.in_flight.tokens, 1_000);
    let apart = Usage {
        input_tokens: Some(900),
        output_tokens: Some(300),
        ..Usage::default()
    };
    reports(&scene, &of, turn(), apart).await;
    let run = run(&scene).await;
    assert_eq!(
        (run.input_tokens, run.output_tokens, run.in_flight.tokens),
        (900, 300, 0)
    );
}

/// A killed worker leaves a share and the usage it reported; its late report adds only the difference.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_sessions_late_report_adds_only_the_difference() {
    let world = World::calm().await.unwrap();
    let scene = Scene::set(&world, &graph(1), &limits(Some(1.0), None)).await;
    let of = scene.claim().await;
    scene.pool.tells(&[used(&of, cost(0.25), false)]).await;
    lose(&world).await;
    assert_eq!(costs(&scene).await, (0.25, 0.0));
    let again = scene.claim().await;
    assert_eq!(again.task, of.task);
    assert_eq!(
        share(&again).microusd,
        Some(187_500),
        "the lost session's share is free"
    );
    // The lost session still runs and reports usage.
    scene.pool.tells(&[used(&of, cost(0.375), false)]).await;
    assert_eq!(costs(&scene).await, (0.375, 0.0));
    reports(&scene, &of, turn(), cost(0.5)).await;
    assert_eq!(costs(&scene).await, (0.5, 0.0));
    // The same report again.
    reports(&scene, &of, turn(), cost(0.5)).await;
    assert_eq!(costs(&scene).await, (0.5, 0.0));
    // A person skips the task while the other session works on it.
    scene.pool.tells(&[used(&again, cost(0.125), false)]).await;
    let skip = ralph_coordinator::flow::control::TaskCommand::Skip;
    scene.steer(again.task, skip).await;
    assert_eq!(costs(&scene).await, (0.625, 0.0));
    reports(&scene, &again, turn(), cost(0.25)).await;
    assert_eq!(costs(&scene).await, (0.75, 0.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_below_the_spent_cost_ends_running_sessions() {
    let world = World::calm().await.unwrap();
    let scene = Scene::set(&world, &graph(2), &limits(Some(20.0), None)).await;
    let of = scene.claim().await;
    scene.pool.tells(&[used(&of, cost(0.5), false)]).await;
    let mut conn = world.db.acquire().await.unwrap();
    let run = run(&scene).await;
    let settings = RunSettings {
        max_cost_usd: Some(0.25),
        ..run.settings
    };
    store::run::change(&mut conn, run.id, &settings).await.unwrap();
    drop(conn);
    scene.nothing_is_ready().await;
    finish::tick(&world.db).await.unwrap();
    let (granted, end) = scene.pool.tells(&[used(&of, cost(0.5), true)]).await;
    assert_eq!(end[0].reason, EndReason::RunLimit);
    assert_eq!(granted[0].share, share(&of), "the limit leaves nothing to grant");
    let interrupted = Ended::Told {
        reason: EndReason::RunLimit,
    };
    reports(&scene, &of, interrupted, cost(0.5)).await;
    scene.ends(RunOutcome::LimitReached).await;
}

/// Too little is left to begin another session: the running one may end, and its work still lands.
#[tokio::test(flavor = "multi_thread")]
async fn no_session_begins_with_less_than_the_smallest_share() {
    let world = World::calm().await.unwrap();
    let scene = Scene::set(&world, &graph(2), &limits(Some(1.0), None)).await;
    let of = scene.claim().await;
    scene.pool.tells(&[used(&of, cost(0.97), true)]).await;
    scene.nothing_is_ready().await;
    reports(&scene, &of, turn(), cost(0.97)).await;
    let landing = scene.claim().await;
    assert!(Pool::is_integration(&landing));
    scene.done(&landing).await;
    scene.ends(RunOutcome::LimitReached).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_used_up_its_share_counts_no_failure() {
    let world = World::calm().await.unwrap();
    let scene = Scene::set(&world, &graph(1), &limits(Some(20.0), None)).await;
    let of = scene.claim().await;
    let limit = Ended::Limit {
        limit: SessionLimit::Cost,
    };
    reports(&scene, &of, limit, cost(2.0)).await;
    scene.no_pauses().await;
    let again = scene.claim().await;
    assert_eq!(again.task, of.task);
    assert_eq!(
        share(&again).microusd,
        Some(4 * USD),
        "twice the first session's usage"
    );
    let failures: i16 = sqlx::query_scalar("select failures from tasks")
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert_eq!(failures, 0);
}

/// An agent that reports no cost counts by an estimate until a surer number arrives; a lost session counts
/// what is known of it.
#[tokio::test(flavor = "multi_thread")]
async fn an_estimate_counts_until_the_cost_is_reported() {
    let world = World::calm().await.unwrap();
    let scene = Scene::set(&world, &graph(4), &limits(Some(20.0), None)).await;
    let about = |usd| Usage {
        basis: Some(Basis::Estimated),
        ..cost(usd)
    };
    let of = scene.claim().await;
    scene.pool.tells(&[used(&of, about(0.5), false)]).await;
    scene.pool.tells(&[used(&of, about(0.25), false)]).await;
    let now = run(&scene).await;
    assert_eq!((now.used_usd(), now.estimated_usd), (0.5, 0.5));
    assert_eq!(now.used_words(), "~0.50");
    // The cost, reported at the end, is lower.
    reports(&scene, &of, turn(), cost(0.375)).await;
    let now = run(&scene).await;
    assert_eq!((now.used_usd(), now.estimated_usd), (0.375, 0.0));
    let landing = scene.claim().await;
    scene.done(&landing).await;
    // Lost with an estimate; the cost that it reports late replaces the estimate.
    let of = scene.claim().await;
    scene.pool.tells(&[used(&of, about(0.5), false)]).await;
    lose(&world).await;
    let now = run(&scene).await;
    assert_eq!((now.cost_usd, now.estimated_usd), (0.875, 0.5));
    scene.pool.tells(&[used(&of, cost(0.25), false)]).await;
    scene.pool.tells(&[used(&of, about(9.0), false)]).await;
    let now = run(&scene).await;
    assert_eq!((now.cost_usd, now.estimated_usd), (0.625, 0.0));
}

/// A subscription counts as no cost, and is shown as a subscription.
#[tokio::test(flavor = "multi_thread")]
async fn usage_of_a_subscription_is_not_reported_as_a_cost_of_zero() {
    let world = World::calm().await.unwrap();
    let subscription = Usage {
        input_tokens: Some(10),
        basis: Some(Basis::Subscription),
        ..Usage::default()
    };
    let scene = Scene::set(&world, &graph(1), &limits(Some(1.0), None)).await;
    let of = scene.claim().await;
    let cost_basis = || async {
        let run = run(&scene).await;
        (run.is_subscription(), run.reports_cost(), run.used_usd())
    };
    scene.pool.tells(&[used(&of, subscription, false)]).await;
    assert_eq!(cost_basis().await, (true, false, 0.0), "live");
    reports(&scene, &of, turn(), subscription).await;
    assert_eq!(cost_basis().await, (true, false, 0.0), "ended");
    scene.forget().await;
}
