//! Metrics of work: amounts, outcomes, costs, and the state of the answering coordinator.

use std::collections::BTreeMap;

use super::families::{Families, label};
use crate::domain::states::FeatureState;
use crate::store::costs::Spending;
use crate::store::figures::{EndedSessions, Features, Load, Totals, Trains};
use crate::store::view::WaitingView;

/// Values that each request reads again.
#[derive(Debug, Default)]
pub struct Now {
    pub loads: Vec<Load>,
    pub features: Vec<Features>,
    /// Sessions and integrations under way.
    pub sessions: i64,
    /// Tasks that no worker can start now.
    pub shut_out: Vec<WaitingView>,
    pub need_person: i64,
    pub undelivered: i64,
}

/// Values that are counted once a minute.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    pub totals: Totals,
    pub ended: Vec<EndedSessions>,
    pub spending: Vec<Spending>,
    pub drifted: i64,
    pub trains: Trains,
}

/// Values that only this coordinator knows.
#[derive(Debug, Default)]
pub struct Own {
    pub version: &'static str,
    pub is_connected: bool,
    pub connections: u32,
    pub idle: usize,
}

/// Adds idle pools: an autoscaler needs a zero instead of a missing value.
pub fn with_idle_pools<'a>(mut loads: Vec<Load>, pools: impl IntoIterator<Item = &'a String>) -> Vec<Load> {
    for pool in pools {
        if loads.iter().all(|load| load.pool != *pool) {
            loads.push(Load {
                pool: pool.clone(),
                ..Load::default()
            });
        }
    }
    loads
}

pub fn render(now: &Now, counts: &Counts, own: &Own) -> String {
    let mut text = Families::default();
    pools(&mut text, now);
    work(&mut text, now);
    outcomes(&mut text, counts);
    landings(&mut text, counts.trains);
    health(&mut text, now, counts, own);
    text.0
}

fn pools(text: &mut Families, now: &Now) {
    let pool = |load: &Load| label("pool", &load.pool);
    text.gauge(
        "slots_busy",
        "Sessions and integrations under way.",
        now.loads.iter().map(|load| (pool(load), load.busy)),
    );
    text.gauge(
        "slots_wanted",
        "Busy slots, and ready tasks as far as their features have room: the number of slots that could be busy.",
        now.loads.iter().map(|load| (pool(load), load.wanted)),
    );
    text.gauge(
        "ready_oldest_seconds",
        "Longest wait among the next tasks.",
        now.loads.iter().map(|load| (pool(load), load.waits_s)),
    );
    let mut shut_out: BTreeMap<&str, i64> = BTreeMap::new();
    for waiting in &now.shut_out {
        *shut_out.entry(&waiting.pool).or_default() += waiting.tasks;
    }
    text.gauge(
        "tasks_shut_out",
        "Ready tasks that no worker can start now.",
        shut_out
            .into_iter()
            .map(|(pool, tasks)| (label("pool", pool), tasks)),
    );
}

fn work(text: &mut Families, now: &Now) {
    text.gauge(
        "features",
        "Features by status.",
        now.features
            .iter()
            .map(|row| (label("status", row.state.into_str()), row.features)),
    );
    let sum = |of: fn(&Features) -> i64| -> i64 {
        let under_way = |row: &&Features| matches!(row.state, FeatureState::Running | FeatureState::Paused);
        now.features.iter().filter(under_way).map(of).sum()
    };
    let pending = sum(|row| row.pending);
    // The two values are from slightly different moments.
    let in_progress = now.sessions.min(pending);
    let tasks = [
        ("pending", pending - in_progress),
        ("in_progress", in_progress),
        ("blocked", sum(|row| row.blocked)),
        ("done", sum(|row| row.done)),
        ("failed", sum(|row| row.failed)),
        ("cancelled", sum(|row| row.cancelled)),
        ("skipped", sum(|row| row.skipped)),
        ("needs_review", sum(|row| row.needs_review)),
    ];
    text.gauge(
        "tasks",
        "Tasks of features that run or are paused, by status.",
        tasks.map(|(status, n)| (label("status", status), n)),
    );
    text.one(
        "tasks_need_person",
        "Tasks of all features that wait for a person.",
        now.need_person,
    );
}

fn outcomes(text: &mut Families, counts: &Counts) {
    let (mut ended, mut failed): (BTreeMap<String, i64>, BTreeMap<String, i64>) = Default::default();
    for row in &counts.ended {
        let (kind, outcome) = (row.kind.into_str(), row.outcome.as_str());
        *ended
            .entry(format!("{{kind=\"{kind}\",outcome=\"{outcome}\"}}"))
            .or_default() += row.sessions;
        if let Some(failure) = row.failure {
            let labels = format!("{{kind=\"{kind}\",failure=\"{}\"}}", failure.as_str());
            *failed.entry(labels).or_default() += row.sessions;
        }
    }
    text.gauge(
        "sessions_ended",
        "Sessions and integrations that ended in the last ten minutes, among the 10,000 newest.",
        ended,
    );
    spending(text, &counts.spending);
    text.gauge(
        "failures",
        "Failed sessions and integrations among them, by the reason of docs/failures.md.",
        failed,
    );
    totals(text, &counts.totals);
}

fn spending(text: &mut Families, spending: &[Spending]) {
    let of = |row: &Spending| {
        let quoted = |text: &str| {
            text.replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n")
        };
        format!(
            "model=\"{}\",agent=\"{}\"",
            quoted(&row.model),
            quoted(&row.agent)
        )
    };
    text.counter(
        "spent_usd_total",
        "Total cost of ended sessions, by model and agent. US dollars.",
        spending
            .iter()
            .map(|row| (format!("{{{}}}", of(row)), row.cost_usd)),
    );
    text.counter(
        "spent_tokens_total",
        "Total tokens of ended sessions, by model and agent.",
        spending.iter().flat_map(|row| {
            let labels = |direction| format!("{{{},direction=\"{direction}\"}}", of(row));
            [
                (labels("input"), row.input_tokens),
                (labels("output"), row.output_tokens),
            ]
        }),
    );
}

fn totals(text: &mut Families, totals: &Totals) {
    let tokens = [("input", totals.input_tokens), ("output", totals.output_tokens)];
    // Gauges, since they fall when a feature is deleted.
    text.gauge(
        "tokens",
        "Tokens that all runs used.",
        tokens.map(|(direction, n)| (label("direction", direction), n)),
    );
    text.one(
        "cost_usd",
        "Cost of ended sessions of all runs. US dollars.",
        totals.cost_usd,
    );
    text.one(
        "in_flight_usd",
        "Additional cost of live sessions so far. US dollars.",
        totals.in_flight_usd,
    );
    text.one("iterations", "Iterations of all runs.", totals.iterations);
    text.one(
        "iterations_succeeded",
        "Successful iterations of all runs.",
        totals.succeeded,
    );
}

fn landings(text: &mut Families, trains: Trains) {
    text.one(
        "landing_queue",
        "Attempts that passed and wait to land.",
        trains.waiting,
    );
    text.one(
        "landing_oldest_seconds",
        "Longest wait of an attempt to land.",
        trains.oldest_s,
    );
    text.one(
        "landing_checks",
        "Checks ahead of their turn, for attempts that wait to land or landed in the last hour.",
        trains.checks,
    );
    text.one(
        "landing_checks_wasted",
        "Checks among them that were ended because the attempts ahead changed.",
        trains.wasted,
    );
    text.one(
        "landings",
        "Attempts that landed in the last hour, at most 1,000.",
        trains.landings,
    );
    text.one(
        "landing_seconds",
        "Total time of these attempts from passed to landed.",
        trains.landing_s,
    );
}

fn health(text: &mut Families, now: &Now, counts: &Counts, own: &Own) {
    text.counter(
        "bad_reports_total",
        "Reports that could not be applied and were set aside.",
        [(String::new(), counts.totals.bad_reports)],
    );
    text.one(
        "counters_drifted",
        "Running features among the newest 20 whose counters differ from a recount of their tasks.",
        counts.drifted,
    );
    text.one(
        "notices_undelivered",
        "Notices of the last day that could not be delivered, up to 1,000.",
        now.undelivered,
    );
    text.one(
        "database_bytes",
        "Size of the database.",
        counts.totals.database_bytes,
    );
    text.one(
        "broker_connected",
        "Whether this coordinator is connected to NATS.",
        u8::from(own.is_connected),
    );
    let idle = u32::try_from(own.idle).unwrap_or(u32::MAX);
    let connections = [("idle", idle), ("busy", own.connections.saturating_sub(idle))];
    text.gauge(
        "database_connections",
        "Connections of this coordinator to Postgres, without those for claims and reports.",
        connections.map(|(state, n)| (label("state", state), n)),
    );
    text.gauge(
        "build_info",
        "Release of this coordinator.",
        [(label("version", own.version), 1)],
    );
}

#[cfg(test)]
mod tests {
    use ralph_shared::kind::SessionKind;

    use super::*;
    use crate::domain::failure::Failure;
    use crate::domain::states::Outcome;

    fn features(state: FeatureState, pending: i64, done: i64) -> Features {
        Features {
            state,
            features: 2,
            pending,
            blocked: 0,
            done,
            failed: 0,
            cancelled: 0,
            skipped: 0,
            needs_review: 0,
        }
    }

    #[test]
    fn each_idle_pool_appears_once() {
        let busy = Load {
            pool: "gpu".to_owned(),
            busy: 1,
            wanted: 1,
            waits_s: 0.0,
        };
        let pools = ["cpu".to_owned(), "gpu".to_owned()];
        let loads = with_idle_pools(vec![busy], &pools);
        let wanted: Vec<(&str, i64)> = loads
            .iter()
            .map(|load| (load.pool.as_str(), load.wanted))
            .collect();
        assert_eq!(wanted, [("gpu", 1), ("cpu", 0)]);
    }

    #[test]
    fn metrics_show_pending_work_outcomes_costs_and_health() {
        let now = Now {
            loads: vec![Load {
                pool: "gpu".to_owned(),
                busy: 3,
                wanted: 7,
                waits_s: 1.5,
            }],
            features: vec![
                features(FeatureState::Running, 10, 4),
                features(FeatureState::Paused, 1, 1),
                features(FeatureState::Done, 0, 100),
            ],
            sessions: 3,
            shut_out: Vec::new(),
            need_person: 2,
            undelivered: 1,
        };
        let counts = Counts {
            totals: Totals {
                cost_usd: 12.25,
                in_flight_usd: 0.5,
                input_tokens: 4_000_000_000,
                bad_reports: 1,
                ..Totals::default()
            },
            ended: vec![EndedSessions {
                kind: SessionKind::Work,
                outcome: Outcome::Unavailable,
                failure: Some(Failure::Quota),
                sessions: 9,
            }],
            spending: vec![Spending {
                model: "say \"big\"".to_owned(),
                agent: "claude".to_owned(),
                sessions: 2,
                cost_usd: 1.5,
                input_tokens: 30,
                output_tokens: 4,
            }],
            drifted: 0,
            trains: Trains {
                waiting: 3,
                wasted: 1,
                landing_s: 2.5,
                ..Trains::default()
            },
        };
        let own = Own {
            version: "1.2.3",
            is_connected: true,
            connections: 9,
            idle: 4,
        };
        let text = render(&now, &counts, &own);
        for line in [
            "ralph_slots_busy{pool=\"gpu\"} 3",
            "ralph_slots_wanted{pool=\"gpu\"} 7",
            "ralph_ready_oldest_seconds{pool=\"gpu\"} 1.5",
            "ralph_features{status=\"done\"} 2",
            "ralph_tasks{status=\"pending\"} 8",
            "ralph_tasks{status=\"in_progress\"} 3",
            "ralph_tasks{status=\"done\"} 5",
            "ralph_tasks_need_person 2",
            "ralph_sessions_ended{kind=\"work\",outcome=\"door\"} 9",
            "ralph_failures{kind=\"work\",failure=\"quota\"} 9",
            "ralph_tokens{direction=\"input\"} 4000000000",
            r#"ralph_spent_usd_total{model="say \"big\"",agent="claude"} 1.5"#,
            r#"ralph_spent_tokens_total{model="say \"big\"",agent="claude",direction="output"} 4"#,
            "ralph_cost_usd 12.25",
            "ralph_in_flight_usd 0.5",
            "ralph_bad_reports_total 1",
            "ralph_counters_drifted 0",
            "ralph_notices_undelivered 1",
            "ralph_broker_connected 1",
            "ralph_database_connections{state=\"busy\"} 5",
            "ralph_build_info{version=\"1.2.3\"} 1",
            "ralph_landing_queue 3",
            "ralph_landing_checks_wasted 1",
            "ralph_landing_seconds 2.5",
        ] {
            assert!(text.lines().any(|has| has == line), "{line} in {text}");
        }
    }
}
