//! A large feature on a real git server with a login, while its workers are killed and halted at random
//! points. In the end everything landed once and nothing is lost. The short form always runs; the long one is
//! `make soak`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use nix::sys::signal::Signal;
use ralph_coordinator::domain::run::RunSettings;
use ralph_coordinator::domain::states::RunOutcome;
use ralph_coordinator::domain::train::Landing;
use ralph_coordinator::flow::control::{self, FeatureCommand, TaskCommand};
use ralph_coordinator::store;
use ralph_git_server::{GitServer, Login};
use ralph_shared::ids::{FeatureId, RunId, TaskId};
use ralph_tests::harness::{Fault, FeatureOptions, Repository, WorkerOptions, World};
use ralph_worker::faults::{DISPATCH_POINTS, POINTS};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};

use crate::faults::git_server::with_login;

/// Tasks that append to one file, and others with a file of their own.
const COLLIDING: usize = 10;
const APART: usize = 20;
const WORKERS: u32 = 8;
/// After this time, the feature counts as stuck.
const STUCK: Duration = Duration::from_secs(15 * 60);

/// Resolves a conflict: keeps what both sides added, and drops their base.
const UNION: &str = r"awk '/^\|\|\|\|\|\|\| /{base=1;next} /^=======$/{base=0;next} /^(<<<<<<<|>>>>>>>) /{next} !base' \
    shared.txt > .union; cat .union > shared.txt; rm .union";

/// Refuses conflict markers, and other work now and then.
const GATE: &str = "! grep -q '^<<<<<<<' shared.txt && test $(od -An -N1 -tu1 /dev/urandom) -ge 12";

/// A feature whose attempts land in trains: in batches for an even seed, one by one for an odd one.
fn options(seed: u64) -> FeatureOptions {
    let options = FeatureOptions::default();
    FeatureOptions {
        max_parallel: i32::try_from(WORKERS).unwrap(),
        run: RunSettings {
            gate: vec![GATE.to_owned()],
            gate_may_fail: true,
            landing: match seed.is_multiple_of(2) {
                true => Landing::Batch,
                false => Landing::Each,
            },
            ..options.run.clone()
        },
        ..options
    }
    .pool("soak")
}

fn graph() -> String {
    let union = UNION.replace("\\\n    ", "");
    let mut graph = String::new();
    for n in 0..COLLIDING {
        let _ = write!(
            graph,
            "- key: shared{n}\n  title: Append {n}\n  description: |\n    @run {union}\n    \
             @run grep -qx 'line {n}' shared.txt || echo 'line {n}' >> shared.txt\n    @effect shared{n}\n    @done\n"
        );
    }
    for n in 0..APART {
        let _ = write!(graph, "- key: apart{n}\n  title: Write {n}\n");
        if n >= 5 {
            let _ = writeln!(graph, "  after: [apart{}, shared{}]", n - 5, n % COLLIDING);
        }
        let _ = write!(
            graph,
            "  description: |\n    @write apart{n}.txt {n}\n    @effect apart{n}\n    @done\n"
        );
    }
    graph
}

/// Runs one worker again and again. Each run is killed or halted at a random point, until no faults remain.
async fn worker_lives(
    world: &World,
    n: u32,
    seed: u64,
    remaining: &AtomicU32,
    env: &BTreeMap<String, String>,
) {
    let mut random = StdRng::seed_from_u64(seed ^ u64::from(n) << 32);
    let points: Vec<&str> = POINTS.iter().chain(DISPATCH_POINTS).copied().collect();
    for life in 0.. {
        let mut options = WorkerOptions::named(&format!("w{n}")).pool("soak");
        options.env.extend(env.clone());
        let wanted = remaining.load(Ordering::SeqCst) > 0;
        let halts = random.random_bool(0.2);
        if wanted {
            let mut some = || *points.choose(&mut random).unwrap();
            let fault = match halts {
                true => format!("{}:stop", some()),
                // The first of the two counts: near the feature's end few points are passed.
                false => format!("{}:kill,{}:kill", some(), some()),
            };
            let once = world.dir().join(format!("once-{n}-{life}"));
            options = options.fault(&Fault::new(&fault, &once));
        }
        let mut process = world.worker(&options).unwrap();
        if !wanted {
            process.wait().await;
            panic!("a worker without a fault ended:\n{}", process.output());
        }
        if halts {
            process.stopped_by_fault().await.unwrap();
            take_one(remaining);
            // Long enough for its lease to end.
            tokio::time::sleep(world.settings.lease * 2).await;
            process.signal(Signal::SIGCONT);
            // The worker continues after it wakes, and then drains.
            process.signal(Signal::SIGTERM);
            process.wait().await;
        } else {
            process.killed_by_fault().await.unwrap();
            take_one(remaining);
        }
    }
}

fn take_one(remaining: &AtomicU32) {
    let _ = remaining.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
}

/// Waits for the feature's end and retries tasks that need a person; gives the number of retries.
async fn completes(world: &World, feature: FeatureId, mut run: RunId, settings: FeatureOptions) -> usize {
    let began = Instant::now();
    let mut asked = 0;
    loop {
        assert!(began.elapsed() < STUCK, "{}", world.tell().await);
        let outcome = store::run::read(&mut world.db.acquire().await.unwrap(), &[run.0])
            .await
            .unwrap()
            .first()
            .and_then(|run| run.outcome);
        match outcome {
            None => tokio::time::sleep(Duration::from_millis(100)).await,
            Some(RunOutcome::Complete) => return asked,
            Some(RunOutcome::Blocked) => {
                let waiting: Vec<uuid::Uuid> = sqlx::query_scalar(
                    "select id from tasks where feature_id = $1 and state = 'needs_review' order by id",
                )
                .bind(feature.0)
                .fetch_all(&world.db)
                .await
                .unwrap();
                asked += waiting.len();
                for task in waiting {
                    let again = control::task(&world.db, TaskId(task), TaskCommand::Retry, "a test", None);
                    world.bus.emit(again.await.unwrap().1).await;
                }
                let command = FeatureCommand::Run(Box::new(settings.run.clone()));
                let (outcome, next, signals) = control::feature(&world.db, feature, &command).await.unwrap();
                run = next.unwrap_or_else(|| panic!("{outcome:?}"));
                world.bus.emit(signals).await;
            }
            Some(other) => panic!("{other:?}: {}", world.tell().await),
        }
    }
}

async fn soak(seed: u64, faults: u32) {
    let mut world = World::start().await.unwrap();
    world.coordinator().await.unwrap();
    let repository = Repository::create(world.dir(), &[("shared.txt", "begin\n")]).unwrap();
    let server = GitServer::start(world.dir(), Login::new("ann", "s3cret"))
        .await
        .unwrap();
    let repository = repository.served_at(server.url("origin.git"));
    let env = with_login(world.dir()).env;
    let options = options(seed);
    let submitted = world.submit("soak", Some(&repository), &graph(), &options).await;
    let (feature, run, ids) = submitted.unwrap();
    let remaining = AtomicU32::new(faults);
    let lives = join_all((0..WORKERS).map(|n| worker_lives(&world, n, seed, &remaining, &env)));
    let asked = tokio::select! {
        _ = lives => unreachable!("workers live until the feature is complete"),
        asked = completes(&world, feature, run, options) => asked,
    };
    let missed = remaining.into_inner();
    let checks: i64 =
        sqlx::query_scalar("select count(*) from dispatches where feature_id = $1 and kind = 'check'")
            .bind(feature.0)
            .fetch_one(&world.db)
            .await
            .unwrap();
    println!(
        "seed {seed}: {} kills and stalls, {checks} checks, {asked} tasks tried again by a person",
        faults - missed
    );
    assert_eq!(missed, 0, "the feature was complete before all faults");
    assert!(checks > 0, "nothing was checked ahead of its turn");

    let branch = "ralph/soak";
    let checked = world.check_complete(feature, Some((&repository, branch))).await;
    checked.unwrap_or_else(|error| panic!("seed {seed}: {error:#}"));
    let shared = repository.file(branch, "shared.txt").unwrap();
    let mut lines: Vec<&str> = shared.lines().collect();
    lines.sort_unstable();
    let expected: BTreeSet<String> = (0..COLLIDING).map(|n| format!("line {n}")).collect();
    let expected: Vec<&str> = std::iter::once("begin")
        .chain(expected.iter().map(String::as_str))
        .collect();
    assert_eq!(lines, expected, "seed {seed}");
    assert_eq!(ids.len(), COLLIDING + APART);
    let pushed: Vec<(String, String)> = sqlx::query_as(
        "select pushed_ref, commit from dispatches where feature_id = $1 and pushed_ref is not null and commit is not null",
    )
    .bind(feature.0)
    .fetch_all(&world.db)
    .await
    .unwrap();
    for (name, commit) in &pushed {
        let found = repository.git(&["rev-parse", name]).unwrap();
        assert_eq!(found.trim(), commit, "seed {seed}: {name}");
    }
    repository.git(&["fsck", "--strict"]).unwrap();
    world.check_processes().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_lands_once_under_random_kills_and_stalls() {
    soak(1, 12).await;
}

/// `make soak`: ten rounds with 60 kills and stalls each, or as `RALPH_SOAK_ROUNDS` and `RALPH_SOAK_SEED` say.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "long; run by `make soak`"]
async fn long() {
    let number = |name: &str, default: u64| {
        let given = std::env::var(name).ok();
        given.and_then(|n| n.parse().ok()).unwrap_or(default)
    };
    let seed = number("RALPH_SOAK_SEED", 1);
    for round in 0..number("RALPH_SOAK_ROUNDS", 10) {
        soak(seed + round, 60).await;
    }
}
