//! Random histories: a feature of random shape, and random steps on it.

use ralph_coordinator::domain::states::{FailurePolicy, FeatureState, RunOutcome};
use ralph_coordinator::flow::apply::Incoming;
use ralph_coordinator::flow::control::{self, FeatureCommand, TaskCommand};
use ralph_coordinator::flow::{finish, integrate, workers::rescue};
use ralph_coordinator::store;
use ralph_shared::ids::{FeatureId, TaskId};
use ralph_shared::kind::SessionKind;
use ralph_shared::wire::{Assignment, DecideRequest, DispatchUsage, EndReason, Ended, IntegrationEnd, Usage};
use ralph_tests::harness::{FeatureOptions, Repository, World};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::invariants;
use super::pool::Pool;
use super::shape::graph;

/// Order in which reports are applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// All in one transaction.
    Together,
    /// One after the other.
    Forward,
    /// The last first.
    Backward,
}

pub struct History<'a> {
    pub(super) world: &'a World,
    pub(super) pool: Pool<'a>,
    pub(super) random: StdRng,
    pub(super) feature: FeatureId,
    pub(super) running: Vec<Assignment>,
    sent: Vec<Incoming>,
    seed: u64,
}

impl<'a> History<'a> {
    pub async fn begin(world: &'a World, seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let graph = graph(&mut random);
        let dir = tempfile::tempdir().unwrap();
        let repository = Repository::create(dir.path(), &[("a", "a")]).unwrap();
        let options = FeatureOptions {
            verify: u64::is_multiple_of(seed, 2),
            max_parallel: 4,
            avoid_conflicts: seed % 4 == 1 || seed % 4 == 2,
            max_retries: 2,
            failure_policy: if u64::is_multiple_of(seed, 3) {
                FailurePolicy::Stop
            } else {
                FailurePolicy::Continue
            },
            run: ralph_coordinator::domain::run::RunSettings {
                max_iterations: None,
                backoff_ms: 0,
                review: seed % 5 != 2,
                gate: if seed % 3 == 1 {
                    vec!["make test".to_owned()]
                } else {
                    Vec::new()
                },
                ..FeatureOptions::default().run
            },
            ..FeatureOptions::default()
        };
        let with_code = !u64::is_multiple_of(seed, 4);
        let (feature, _, _) = world
            .submit(
                &format!("h{seed}"),
                with_code.then_some(&repository),
                &graph,
                &options,
            )
            .await
            .unwrap();
        let pool = Pool::join(world).await;
        Self {
            world,
            pool,
            random,
            feature,
            running: Vec::new(),
            sent: Vec::new(),
            seed,
        }
    }

    /// Checks that the rows agree with a recount.
    pub async fn agrees(&self, after: &str) {
        if let Err(broken) = invariants::check(&self.world.db).await {
            let (seed, tell) = (self.seed, self.world.tell().await);
            panic!("seed {seed}, after {after}: {broken}\n{tell}");
        }
    }

    /// Takes one random step; returns its description.
    pub async fn step(&mut self) -> String {
        match self.random.random_range(0..30) {
            0..=5 => {
                let slots = self.random.random_range(1..4);
                self.claim(slots).await
            }
            6..=12 => self.end_some().await,
            13 => self.lose_one().await,
            14 => self.repeat_one().await,
            15 | 16 => self.steer_a_task().await,
            17 => self.steer_the_feature().await,
            18 => self.decide_one().await,
            19 => self.tell_usage().await,
            20 => self.change_an_edge().await,
            21 => self.delete_a_task().await,
            22 => self.approve_a_task().await,
            23 => self.interrupt_a_task().await,
            24 => self.add_a_task().await,
            25 => self.edit_a_task().await,
            26 => self.retry_all().await,
            27 => self.fail_and_take_back().await,
            28 | 29 => self.steer_a_task().await,
            _ => {
                finish::tick(&self.world.db).await.unwrap();
                "a tick".to_owned()
            }
        }
    }

    /// Claims for `slots` slots.
    pub async fn claim(&mut self, slots: usize) -> String {
        let got = self.pool.claim(slots).await;
        let did = format!("claiming {} of {slots}", got.len());
        self.running.extend(got);
        did
    }

    pub(super) async fn end_some(&mut self) -> String {
        let n = self.random.random_range(1..=3).min(self.running.len());
        self.end(n, Order::Together).await
    }

    /// Ends all running sessions, one report after the other.
    pub async fn end_all(&mut self, order: Order) -> String {
        self.end(self.running.len(), order).await
    }

    async fn end(&mut self, n: usize, order: Order) -> String {
        let mut batch = Vec::new();
        let mut did = String::from("reports:");
        for _ in 0..n {
            let at = self.random.random_range(0..self.running.len());
            let of = self.running.swap_remove(at);
            let (report, what) = self.some_end(&of);
            did.push_str(&format!(" {} {what}", of.kind));
            batch.push(report);
        }
        self.sent.extend(batch.clone());
        match order {
            Order::Together => {
                self.pool.report(batch).await;
            }
            Order::Forward | Order::Backward => {
                if order == Order::Backward {
                    batch.reverse();
                }
                for one in batch {
                    self.pool.report(vec![one]).await;
                }
            }
        }
        did
    }

    fn some_end(&mut self, of: &Assignment) -> (Incoming, &'static str) {
        let id = of.task;
        let turn = |stop_reason: &str| Ended::Turn {
            stop_reason: stop_reason.into(),
        };
        if Pool::is_check(of) {
            let end = match self.random.random_range(0..6) {
                0..=2 => (IntegrationEnd::Checked, "passes"),
                3 => (
                    IntegrationEnd::Failed {
                        message: "away".into(),
                        retry: true,
                        away: true,
                    },
                    "failed",
                ),
                _ => (
                    IntegrationEnd::GateFailed {
                        command: "make test".into(),
                        output: "o".into(),
                    },
                    "gate",
                ),
            };
            return (self.pool.integration(of, end.0), end.1);
        }
        if Pool::is_integration(of) {
            let end = match self.random.random_range(0..9) {
                0..=3 => (
                    IntegrationEnd::Merged {
                        commit: format!("{:040x}", 7),
                        empty: false,
                    },
                    "merged",
                ),
                4 => {
                    let conflict = IntegrationEnd::Conflict {
                        paths: vec!["a".into()],
                        hunks: String::new(),
                        head: "h".into(),
                        source: None,
                        source_ref: None,
                        others: vec!["t-000000000000".into(), "nobody".into()],
                    };
                    (conflict, "conflict")
                }
                5 => (
                    IntegrationEnd::Void {
                        reason: "elsewhere".into(),
                    },
                    "void",
                ),
                6 => (
                    IntegrationEnd::Rewritten {
                        commit: format!("{:040x}", 8),
                        commit_ref: "refs/ralph/attempts/rewritten".into(),
                    },
                    "rewritten",
                ),
                7 => (
                    IntegrationEnd::Failed {
                        message: "away".into(),
                        retry: true,
                        away: self.random.random_range(0..2) == 0,
                    },
                    "failed",
                ),
                _ => (
                    IntegrationEnd::GateFailed {
                        command: "t".into(),
                        output: "o".into(),
                    },
                    "gate",
                ),
            };
            return (self.pool.integration(of, end.0), end.1);
        }
        if of.kind == SessionKind::Verify {
            let text = [
                "<verify-pass/>",
                "<verify-pass/>",
                "<verify-fail>no</verify-fail>",
                "hm",
            ];
            let text = text[self.random.random_range(0..text.len())];
            return (self.pool.session(of, turn("end_turn"), text, 0), "verdict");
        }
        let graph = "- {key: a, title: A}\n- {key: b, title: B, after: [a]}\n- {key: c, title: C, parent: b}";
        let (ended, text, what) = match self.random.random_range(0..12) {
            0..=5 => (turn("end_turn"), format!("<task-done>{id}</task-done>"), "done"),
            6 => (
                turn("end_turn"),
                format!("<task-failed>{id}</task-failed>"),
                "failed",
            ),
            7 => (turn("end_turn"), "well".to_owned(), "no sigil"),
            8 => (
                Ended::AgentExited {
                    code: Some(1),
                    signal: None,
                },
                String::new(),
                "crash",
            ),
            9 => (
                Ended::Told {
                    reason: EndReason::Interrupted,
                },
                String::new(),
                "interrupted",
            ),
            10 => (
                turn("end_turn"),
                format!("<task-graph>{graph}</task-graph>"),
                "split",
            ),
            _ => (
                turn("end_turn"),
                "<task-graph>- nonsense</task-graph>".to_owned(),
                "bad split",
            ),
        };
        (self.pool.session(of, ended, &text, 1), what)
    }

    /// Reports a session's usage in a heartbeat, even if the session has lost its task.
    async fn tell_usage(&mut self) -> String {
        if self.running.is_empty() {
            return "nothing to tell".to_owned();
        }
        let of = &self.running[self.random.random_range(0..self.running.len())];
        let usd = f64::from(self.random.random_range(0..16)) / 64.0;
        let usage = Usage {
            cost_usd: Some(usd),
            ..Usage::default()
        };
        let used = DispatchUsage {
            dispatch: of.dispatch,
            usage,
            asks: true,
        };
        self.pool.tells(&[used]).await;
        format!("{usd} USD of {}", of.task)
    }

    async fn lose_one(&mut self) -> String {
        if self.running.is_empty() {
            return "nothing to lose".to_owned();
        }
        let at = self.random.random_range(0..self.running.len());
        let of = self.running.swap_remove(at);
        sqlx::query("update dispatches set lease_until = '-infinity' where id = $1 and state = 'live'")
            .bind(of.dispatch.0)
            .execute(&self.world.db)
            .await
            .unwrap();
        rescue::rescue(&self.world.db, self.world.settings.lease_ms(), true)
            .await
            .unwrap();
        let (report, what) = self.some_end(&of);
        self.sent.push(report);
        format!("losing a {} whose late report would be {what}", of.kind)
    }

    async fn repeat_one(&mut self) -> String {
        if self.sent.is_empty() {
            return "nothing to repeat".to_owned();
        }
        let at = self.random.random_range(0..self.sent.len());
        let report = self.sent[at].clone();
        let fates = self.pool.report(vec![report.clone(), report]).await;
        format!("a report twice: {fates:?}")
    }

    async fn decide_one(&mut self) -> String {
        let Some(of) = self.running.iter().find(|of| Pool::is_integration(of)) else {
            return "no turn".to_owned();
        };
        let request = DecideRequest {
            dispatch: of.dispatch,
            incarnation: self.pool.incarnation,
            old: format!("{:040x}", 1),
            new: format!("{:040x}", 2),
        };
        let first = integrate::decide(&self.world.db, &request).await.unwrap();
        let second = integrate::decide(&self.world.db, &request).await.unwrap();
        assert_eq!(first, second);
        format!("deciding: {first:?}")
    }

    /// Retries and completes everything that is open: every feature can be brought to its end.
    pub async fn finish(mut self) {
        let db = &self.world.db;
        for _ in 0..400 {
            let mut conn = db.acquire().await.unwrap();
            let state = store::feature::lock(&mut conn, &[self.feature.0]).await.unwrap()[0].state;
            let stuck: Vec<uuid::Uuid> = sqlx::query_scalar(
                "select t.id from tasks t left join tasks p on p.id = t.parent_id
                 where t.feature_id = $1 and t.children = 0 and t.state in ('failed', 'needs_review', 'cancelled')
                   and (p.id is null or p.state not in ('done', 'skipped', 'cancelled'))",
            )
            .bind(self.feature.0)
            .fetch_all(&mut *conn)
            .await
            .unwrap();
            drop(conn);
            for task in stuck {
                control::task(db, TaskId(task), TaskCommand::Retry, "test", None)
                    .await
                    .unwrap();
            }
            let cancelled: Vec<uuid::Uuid> = sqlx::query_scalar(
                "select t.id from tasks t left join tasks p on p.id = t.parent_id
                 where t.feature_id = $1 and t.state = 'cancelled'
                   and (t.children > 0 or p.state in ('done', 'skipped', 'cancelled'))",
            )
            .bind(self.feature.0)
            .fetch_all(db)
            .await
            .unwrap();
            for task in cancelled {
                control::task(db, TaskId(task), TaskCommand::Skip, "test", None)
                    .await
                    .unwrap();
            }
            match state {
                FeatureState::Done => return,
                FeatureState::Running => {}
                FeatureState::Paused => {
                    control::feature(db, self.feature, &FeatureCommand::Resume)
                        .await
                        .unwrap();
                }
                _ => {
                    let run = FeatureCommand::Run(Box::new(FeatureOptions::default().run));
                    control::feature(db, self.feature, &run).await.unwrap();
                }
            }
            sqlx::query("update ready_tasks set not_before = now()")
                .execute(db)
                .await
                .unwrap();
            let got = self.pool.claim(4).await;
            self.running.extend(got);
            let batch: Vec<Incoming> = std::mem::take(&mut self.running)
                .iter()
                .map(|of| {
                    if Pool::is_check(of) {
                        return self.pool.integration(of, IntegrationEnd::Checked);
                    }
                    if Pool::is_integration(of) {
                        let merged = IntegrationEnd::Merged {
                            commit: format!("{:040x}", 9),
                            empty: false,
                        };
                        return self.pool.integration(of, merged);
                    }
                    let text = format!("<task-done>{}</task-done>\n<verify-pass/>", of.task);
                    self.pool.session(
                        of,
                        Ended::Turn {
                            stop_reason: "end_turn".into(),
                        },
                        &text,
                        1,
                    )
                })
                .collect();
            self.pool.report(batch).await;
            finish::tick(db).await.unwrap();
        }
        panic!(
            "the feature did not come to its end ({:?}):\n{}",
            RunOutcome::Complete,
            self.world.tell().await
        );
    }
}
