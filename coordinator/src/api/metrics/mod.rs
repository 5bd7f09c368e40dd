//! `/metrics`: Prometheus metrics, read from the database so that every coordinator returns the same values.

pub(crate) mod cached;
mod families;
pub(crate) mod load;

use async_nats::connection::State as Connection;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;

use self::families::{Families, label};
use crate::api::http::app::App;
use crate::api::http::problem::Problem;
use crate::api::metrics::load::{Now, Own};
use crate::store;
use crate::store::figures;
use crate::store::memory::upkeep::Fates;
use crate::store::memory::vectors::Progress;
use crate::store::view::{self, MemorySizes, SystemView, WorkerStatus};

/// Prometheus' text format.
const FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Metrics in Prometheus' text format.
#[utoipa::path(
    get,
    path = "/metrics",
    operation_id = "metrics",
    tag = "health",
    responses((status = 200, body = String, content_type = "text/plain"))
)]
pub async fn metrics(State(app): State<App>) -> Result<impl IntoResponse, Problem> {
    let lease_ms = app.deps.settings.lease_ms();
    let (fates, counts) = app.counted.counts(&app.deps.db).await?;
    let mut conn = app.db().await?;
    let system = view::system(&mut conn, lease_ms).await?;
    let memory = view::memory_sizes(&mut conn).await?;
    let now = Now {
        loads: load::with_idle_pools(figures::loads(&mut conn).await?, system.pools.keys()),
        features: figures::features(&mut conn).await?,
        sessions: system.live_sessions,
        need_person: system.needs_person.tasks,
        undelivered: system.undelivered.as_ref().map_or(0, |them| them.notices),
        shut_out: system.waiting.clone(),
    };
    let own = Own {
        version: env!("CARGO_PKG_VERSION"),
        is_connected: app.deps.bus.client.connection_state() == Connection::Connected,
        connections: app.deps.db.size(),
        idle: app.deps.db.num_idle(),
    };
    let mut text = render(&system, &memory, &fates);
    text += &load::render(&now, &counts, &own);
    if let Some(embedder) = &app.deps.settings.embedder {
        let progress = store::memory::vectors::progress(&mut conn, embedder.model()).await?;
        text += &embeddings(&progress, embedder.trouble().is_some());
    }
    Ok(([(header::CONTENT_TYPE, FORMAT)], text))
}

/// Metrics of the external embedding model.
fn embeddings(progress: &Progress, is_failing: bool) -> String {
    let mut text = Families::default();
    for (name, help, value) in [
        (
            "made",
            "Entries that have a vector of the current model.",
            progress.made,
        ),
        (
            "waiting",
            "Entries that wait for a vector, up to 10,000.",
            progress.waiting,
        ),
        ("refused", "Entries that the model refuses.", progress.refused),
        (
            "failing",
            "Whether the last call of the model failed; the memory works without it.",
            i64::from(is_failing),
        ),
    ] {
        text.one(&format!("memory_embeddings_{name}"), help, value);
    }
    text.0
}

fn render(system: &SystemView, memory: &MemorySizes, fates: &Fates) -> String {
    let mut text = Families::default();
    let pools = |value: fn(&view::Pool) -> i64| {
        let of = move |(name, pool): (&String, &view::Pool)| (label("pool", name), value(pool));
        system.pools.iter().map(of)
    };
    text.gauge(
        "tasks_ready",
        "Ready tasks, up to 10,000 a pool.",
        pools(|pool| pool.ready),
    );
    text.gauge("slots", "Slots of live workers.", pools(|pool| pool.slots));
    text.one("sessions", "Sessions under way.", system.live_sessions);
    let workers = [WorkerStatus::Ready, WorkerStatus::Draining, WorkerStatus::Away].map(|status| {
        let of_status = system.workers.iter().filter(|worker| worker.status == status);
        (label("status", status.into_str()), of_status.count())
    });
    text.gauge("workers", "Workers by status.", workers);
    let entries = memory.entries.iter();
    let entries = entries.map(|(kind, entries)| (label("kind", kind.into_str()), entries));
    text.gauge("memory_entries", "Memory entries that can be found.", entries);
    text.one(
        "memory_uncounted",
        "Entries whose words are not counted yet, up to 10,000.",
        memory.uncounted,
    );
    text.one(
        "memory_calibrated",
        "Memories with a calibrated floor.",
        memory.calibrated,
    );
    let states = fates.entries.iter();
    let states = states.map(|(status, entries)| (label("status", status), entries));
    text.gauge(
        "memory_learned",
        "All entries that are not deleted, by status.",
        states,
    );
    text.one(
        "memory_distillations",
        "Sessions that merged learnings.",
        fates.distillations,
    );
    text.one(
        "memory_merged",
        "Learnings that such sessions merged.",
        fates.merged,
    );
    text.0
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::{BTreeMap, BTreeSet};
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::domain::recall::Kind;
    use crate::store::view::{NeedsPerson, Pool};

    fn rendered() -> String {
        let system = SystemView {
            version: String::new(),
            features: Vec::new(),
            more_features: 0,
            needs_person: NeedsPerson::default(),
            cost_usd: 0.0,
            total_cost_usd: 0.0,
            in_flight_usd: 0.0,
            estimated: false,
            held_by_limits: Vec::new(),
            sessions: Vec::new(),
            live_sessions: 3,
            held: Vec::new(),
            waiting: Vec::new(),
            workers: Vec::new(),
            queued: Vec::new(),
            pools: BTreeMap::from([("gpu".to_owned(), Pool { slots: 4, ready: 7 })]),
            full_keys: Vec::new(),
            undelivered: None,
        };
        let memory = MemorySizes {
            entries: vec![(Kind::Learning, 12)],
            uncounted: 2,
            calibrated: 1,
        };
        let fates = Fates {
            entries: BTreeMap::from([("pruned_unused".to_owned(), 5)]),
            distillations: 1,
            merged: 9,
            made: 2,
        };
        render(&system, &memory, &fates)
    }

    #[test]
    fn metrics_have_the_text_form_of_prometheus() {
        let text = rendered();
        for line in [
            "ralph_tasks_ready{pool=\"gpu\"} 7",
            "ralph_slots{pool=\"gpu\"} 4",
            "ralph_sessions 3",
            "ralph_memory_entries{kind=\"learning\"} 12",
            "ralph_memory_uncounted 2",
            "ralph_memory_calibrated 1",
            "ralph_memory_learned{status=\"pruned_unused\"} 5",
            "ralph_memory_distillations 1",
            "ralph_memory_merged 9",
        ] {
            assert!(text.lines().any(|has| has == line), "{line} in {text}");
        }
    }

    /// All files below a folder.
    fn files(folder: &Path) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        entries
            .flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] })
            .collect()
    }

    #[test]
    fn dashboards_alarms_and_autoscaling_name_existing_metrics() {
        let mut text = rendered() + &embeddings(&Progress::default(), false);
        text += &load::render(&Now::default(), &load::Counts::default(), &Own::default());
        let existing: BTreeSet<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE "))
            .filter_map(|family| family.split(' ').next())
            .collect();
        let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy");
        let (mut named, mut unknown) = (BTreeSet::new(), Vec::new());
        for file in ["observability", "kubernetes"]
            .map(|folder| files(&deploy.join(folder)))
            .concat()
        {
            let text = std::fs::read_to_string(&file).unwrap();
            for word in text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
                if !word.starts_with("ralph_") {
                    continue;
                }
                if !existing.contains(word) {
                    unknown.push(format!("{word} in {}", file.display()));
                }
                named.insert(word.to_owned());
            }
        }
        assert!(unknown.is_empty(), "{unknown:#?} of {existing:#?}");
        assert!(named.len() > 20, "{named:?}");
    }
}
