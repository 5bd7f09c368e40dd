//! Unavailable agents: work that needs other agents goes on (SPEC 7.3).

use ralph_coordinator::store::view;
use ralph_shared::wire::Unavailable;
use ralph_tests::harness::{FeatureOptions, WorkerOptions, World, binary, until};
use time::OffsetDateTime;

use crate::scene::Scene;

fn configure(world: &World, config: &str) {
    std::fs::write(world.dir().join(".ralph.toml"), config).unwrap();
}

async fn status(world: &World) -> view::SystemView {
    let lease_ms = world.settings.lease_ms();
    view::system(&mut world.db.acquire().await.unwrap(), lease_ms)
        .await
        .unwrap()
}

/// Waits for a status of the system that fits.
async fn wait_for_status(world: &World, fits: impl Fn(&view::SystemView) -> bool) -> view::SystemView {
    until("another status", async || {
        let status = status(world).await;
        match fits(&status) {
            true => Ok(status),
            false => Err(format!("{status:#?}")),
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unavailable_agent_leaves_its_worker_to_other_agents() {
    let mut world = World::calm().await.unwrap();
    configure(&world, "[agents.gone]\ncommand = \"/no/such/agent\"\n");
    world.coordinator().await.unwrap();
    // The unavailable agent's task is always first in the queue, and other work is always ready.
    let mut graph = "- key: gone\n  title: Never start\n  priority: -1\n  agent: gone\n".to_owned();
    for n in 0..40 {
        graph += &format!("- key: g{n}\n  title: Work\n  description: |\n    @done\n");
    }
    let scene = Scene::scratch(&world, "doors", &graph, FeatureOptions::default()).await;
    let _worker = world.worker(&WorkerOptions::named("w").pool("doors")).unwrap();
    let status = wait_for_status(&world, |status| {
        status
            .workers
            .first()
            .is_some_and(|worker| !worker.doors.is_empty())
    })
    .await;
    let door = &status.workers[0].doors[0];
    assert_eq!(
        (door.agent.as_str(), door.door, &door.account),
        ("gone", Unavailable::NotFound, &None)
    );
    assert!(door.reason.contains("/no/such/agent"), "{door}");
    scene
        .until(
            "select count(*) = 41 from tasks
             where feature_id = $1 and (state = 'done' or state = 'pending' and attempt > 0 or state = 'needs_review')",
        )
        .await;
    // Each failure makes the agent unavailable for longer. Meanwhile, the only slot has claimed other tasks.
    let between: i64 = sqlx::query_scalar(
        "with failed as (
           select settled_at, row_number() over (order by settled_at) as n
           from dispatches where feature_id = $1 and outcome = 'door'
         )
         select count(*)
         from dispatches d
         join failed f on d.claimed_at > f.settled_at
           and d.claimed_at < f.settled_at + power(2, f.n - 1) * interval '1 second'
         where d.feature_id = $1 and d.outcome = 'done'",
    )
    .bind(scene.feature.0)
    .fetch_one(&world.db)
    .await
    .unwrap();
    assert!(between > 0, "{}", world.tell().await);
    let early: i64 = sqlx::query_scalar(
        "with failed as (
           select claimed_at, settled_at, row_number() over (order by settled_at) as n
           from dispatches where feature_id = $1 and outcome = 'door'
         )
         select count(*)
         from failed f
         join failed next on next.n = f.n + 1 and next.claimed_at < f.settled_at + power(2, f.n - 1) * interval '0.9 seconds'",
    )
    .bind(scene.feature.0)
    .fetch_one(&world.db)
    .await
    .unwrap();
    assert_eq!(
        early,
        0,
        "the agent rests after each failure: {}",
        world.tell().await
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_over_its_rate_waits_everywhere_and_others_go_on() {
    let mut world = World::calm().await.unwrap();
    let agent = binary("ralph-scripted-agent");
    configure(
        &world,
        &format!(
            "[agent]\naccount = \"shared\"\n[agents.free]\ncommand = \"{}\"\n[agents.same]\ncommand = \"{}\"\naccount = \"shared\"\n",
            agent.display(),
            agent.display()
        ),
    );
    world.coordinator().await.unwrap();
    world.coordinator().await.unwrap();
    // The account failed before, so its next pause takes eight seconds.
    sqlx::query(
        "insert into account_doors (account, door, reason, worker, failures, closed_at, until)
         values ('shared', 'overload', 'before', 'a', 3, now(), now())",
    )
    .execute(&world.db)
    .await
    .unwrap();
    let _workers = ["a", "b"].map(|name| world.worker(&WorkerOptions::named(name).pool(name)).unwrap());
    let limited = "- key: only\n  title: Limited\n  description: |\n    \
                   @on-attempt 1 @error -32603 API Error: 429 too many requests\n    @done\n";
    let first = Scene::scratch(&world, "a", limited, FeatureOptions::default()).await;
    first
        .until("select $1::uuid is not null and exists (select 1 from account_doors where failures = 4)")
        .await;
    let until: OffsetDateTime = sqlx::query_scalar("select until from account_doors")
        .fetch_one(&world.db)
        .await
        .unwrap();
    let graph = "- {key: shared, title: A, description: \"@done\"}\n\
                 - {key: same, title: B, agent: same, description: \"@done\"}\n\
                 - {key: free, title: C, agent: free, description: \"@done\"}\n";
    let second = Scene::scratch(&world, "b", graph, FeatureOptions::default()).await;
    let status = wait_for_status(&world, |status| status.waiting.len() == 3).await;
    for worker in &status.workers {
        let doors: Vec<_> = worker
            .doors
            .iter()
            .map(|d| (d.agent.as_str(), d.account.as_deref()))
            .collect();
        assert_eq!(
            doors,
            [("default", Some("shared")), ("same", Some("shared"))],
            "{}",
            worker.name
        );
    }
    let waits = &status.waiting[1];
    assert_eq!(
        (waits.pool.as_str(), waits.agent.as_deref(), waits.tasks),
        ("b", Some("default"), 1)
    );
    assert!(
        waits
            .why
            .starts_with("account shared of agent default is over its rate (failed 4 times in a row), tried")
            && waits.why.contains("429 too many requests"),
        "{}",
        waits.why
    );
    first.completes().await;
    second.completes().await;
    let claimed: Vec<(String, OffsetDateTime)> = sqlx::query_as(
        "select x.key, d.claimed_at from dispatches d join task_texts x on x.task_id = d.task_id
         where d.outcome = 'done' order by x.key",
    )
    .fetch_all(&world.db)
    .await
    .unwrap();
    let at = |key: &str| claimed.iter().find(|(one, _)| one == key).unwrap().1;
    assert!(
        at("free") < until,
        "another account goes on: {claimed:?}, {until}"
    );
    for key in ["only", "shared", "same"] {
        assert!(at(key) >= until, "{key} has to wait: {claimed:?}, {until}");
    }
    let attempts = first.attempts().await;
    assert_eq!(attempts[0].1, "door", "{attempts:?}");
    let remaining: i64 = sqlx::query_scalar("select count(*) from account_doors where width = 1")
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert_eq!(remaining, 0, "a success resets it");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_five_waiting_tasks_tries_the_account_after_its_pause() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    sqlx::query(
        "insert into account_doors (account, door, reason, worker, failures, closed_at, until)
         values ('default', 'rate_limit', 'before', 'a', 1, now(), now())",
    )
    .execute(&world.db)
    .await
    .unwrap();
    let [answer, end] = ["answer", "end"].map(|name| world.gate(name));
    let (answers, ends) = (answer.display(), end.display());
    let mut graph = String::new();
    for n in 0..5 {
        // The first task to try meets the limit once more.
        let refused = "@on-attempt 1 @error -32603 API Error: 429 too many requests";
        graph += &format!(
            "- key: t{n}\n  title: T{n}\n  description: |\n    {}\n    @wait-for {answers}\n    @think yes\n    \
             @wait-for {ends}\n    @done\n",
            if n == 0 { refused } else { "" }
        );
    }
    let scene = Scene::scratch(&world, "five", &graph, FeatureOptions::default()).await;
    let _worker = world
        .worker(&WorkerOptions::named("w").slots(5).pool("five"))
        .unwrap();
    // The free slots of the worker claim every second.
    scene
        .until(
            "select count(*) = 2 and now() > max(claimed_at) + interval '3 seconds' from dispatches where feature_id = $1",
        )
        .await;
    let status = status(&world).await;
    let why = &status.waiting[0].why;
    assert!(
        why.contains("(failed 2 times in a row), one session tries it now: "),
        "{why}"
    );
    let states: Vec<String> = sqlx::query_scalar("select state::text from dispatches order by claimed_at")
        .fetch_all(&world.db)
        .await
        .unwrap();
    assert_eq!(states, ["settled", "live"]);
    std::fs::write(&answer, "").unwrap();
    scene
        .until("select count(*) = 5 from dispatches where feature_id = $1 and state = 'live'")
        .await;
    std::fs::write(&end, "").unwrap();
    scene.completes().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pause_of_a_quota_lasts_as_long_as_the_agent_says() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let graph = "- key: only\n  title: Limited\n  description: |\n    \
                 @on-attempt 1 @error -32603 You exceeded your current quota, please try again in 3s\n    @done\n";
    let scene = Scene::scratch(&world, "quota", graph, FeatureOptions::default()).await;
    let _worker = world.worker(&WorkerOptions::named("w").pool("quota")).unwrap();
    scene.completes().await;
    let (failure, waited): (String, f64) = sqlx::query_as(
        "select d.failure::text, extract(epoch from next.claimed_at - d.settled_at)::float8
         from dispatches d
         join dispatches next on next.task_id = d.task_id and next.attempt = 2
         where d.feature_id = $1 and d.attempt = 1",
    )
    .bind(scene.feature.0)
    .fetch_one(&world.db)
    .await
    .unwrap();
    assert_eq!(failure, "quota");
    // Without the agent's time, the pause would be a minute.
    assert!((2.9..20.0).contains(&waited), "{waited}");
}

/// The branches of attempts in a scene's repository.
fn attempt_branches(scene: &Scene<'_>) -> Vec<String> {
    let repository = scene.repository.as_ref().unwrap();
    let listed = repository
        .git(&["for-each-ref", "--format=%(refname)", "refs/ralph/attempts"])
        .unwrap();
    listed.lines().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_its_provider_refuses_leaves_no_empty_branch() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let limit = "@on-attempt {} @error -32603 API Error: 429 too many requests";
    let first = limit.replace("{}", "1");
    let second = limit.replace("{}", "2");
    // The second attempt has written a file before the refusal.
    let graph = format!(
        "- key: only\n  title: Limited\n  description: |\n    {first}\n    @on-attempt 2 @write half.txt half\n    \
         {second}\n    @run cat half.txt\n    @write only.txt only\n    @done\n"
    );
    let scene = Scene::submit(&world, "knocks", &graph).await;
    let _worker = world.worker(&WorkerOptions::named("w").pool("knocks")).unwrap();
    scene.completes().await;
    let outcomes: Vec<String> = scene
        .attempts()
        .await
        .into_iter()
        .map(|(_, outcome, _)| outcome)
        .collect();
    assert_eq!(outcomes, ["door", "door", "done"]);
    let pushed: Vec<bool> = sqlx::query_scalar(
        "select pushed_ref is not null from dispatches where feature_id = $1 and kind = 'work' order by claimed_at",
    )
    .bind(scene.feature.0)
    .fetch_all(&world.db)
    .await
    .unwrap();
    assert_eq!(pushed, [false, true, true], "{}", world.tell().await);
    let branches = attempt_branches(&scene);
    let of = |attempt: u32| {
        branches
            .iter()
            .any(|name| name.contains(&format!("/{attempt}-d-")))
    };
    assert_eq!([1, 2, 3].map(of), [false, true, true], "{branches:?}");
    let landed = scene.repository.as_ref().unwrap();
    assert_eq!(landed.file("ralph/knocks", "half.txt").unwrap().trim(), "half");
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_that_hang_at_their_start_do_not_delay_a_healthy_one() {
    let mut world = World::calm().await.unwrap();
    let agents: String = (0..6)
        .map(|n| format!("[agents.hangs{n}]\ncommand = \"sleep 600\"\nstart_seconds = 3\n"))
        .collect();
    configure(&world, &agents);
    world.coordinator().await.unwrap();
    let mut graph = String::new();
    for n in 0..6 {
        graph += &format!("- key: h{n}\n  title: Never start\n  priority: -1\n  agent: hangs{n}\n");
    }
    graph += "- key: good\n  title: Work\n  description: |\n    @done\n";
    let options = FeatureOptions {
        max_parallel: 10,
        ..FeatureOptions::default()
    };
    let scene = Scene::scratch(&world, "hung", &graph, options).await;
    let _worker = world
        .worker(&WorkerOptions::named("w").slots(2).pool("hung"))
        .unwrap();
    scene
        .until("select true from tasks where feature_id = $1 and state = 'done'")
        .await;
    // Two starts at a time would have failed all six agents.
    let ended: i64 = sqlx::query_scalar("select count(*) from dispatches where outcome = 'door'")
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert!(ended <= 4, "{ended} agents had failed to start before");
}
