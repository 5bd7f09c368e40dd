//! Unavailable agents: why, and until when (SPEC 7.3).

use std::collections::BTreeMap;

pub use ralph_api::view::{UnavailableAgent, WaitingView};
use ralph_shared::ids::FeatureId;
use ralph_shared::kind::SessionKind;
use ralph_shared::machine::is_dir_pool;
use sqlx::PgConnection;
use time::Duration;

use crate::domain::scheduling::availability::{
    ActiveWorker, BreakerState, Lack, NO_AGENT, Unavailability, lack,
};
use crate::store;
use crate::store::availability::Account;
use crate::store::queue::ready::Queued;
use crate::store::worker::Worker;

/// Most waiting tasks of one feature to count for each pool and agent.
const COUNTED: i64 = 1_000;

/// Workers that accept work, with the agents that they cannot start now.
pub fn sites(workers: &[Worker], accounts: &[Account]) -> Vec<ActiveWorker> {
    let takes_work = |worker: &&Worker| worker.alive && !worker.draining && !worker.drain_requested;
    workers
        .iter()
        .filter(takes_work)
        .map(|worker| site(worker, accounts))
        .collect()
}

fn site(worker: &Worker, accounts: &[Account]) -> ActiveWorker {
    let mut closed: BTreeMap<String, Unavailability> = BTreeMap::new();
    for (agent, account) in &worker.accounts {
        let mut waits = accounts
            .iter()
            .filter(|one| !matches!(one.state, BreakerState::Free(_)));
        if let Some(account) = waits.find(|one| one.account == *account) {
            let why = Unavailability {
                account: Some(account.account.clone()),
                door: account.door,
                reason: account.reason.clone(),
                failures: account.failures.unsigned_abs(),
                until: account.until,
                tried: account.state == BreakerState::HalfOpen,
                width: account.width.unsigned_abs(),
            };
            closed.insert(agent.clone(), why);
        }
    }
    for door in &worker.doors {
        let remaining = Duration::milliseconds(i64::try_from(door.left_ms).unwrap_or(0));
        let why = Unavailability {
            account: None,
            door: door.door,
            reason: door.reason.clone(),
            failures: door.failures,
            until: worker.seen_at.saturating_add(remaining),
            tried: false,
            width: 1,
        };
        if closed
            .get(&door.agent)
            .is_none_or(|other| other.until < why.until)
        {
            closed.insert(door.agent.clone(), why);
        }
    }
    ActiveWorker {
        worker: worker.name.clone(),
        pools: worker.pools.clone(),
        agents: worker.accounts.clone(),
        rules: worker.rules.clone(),
        closed,
    }
}

/// The agents that a worker cannot start now.
pub fn unavailable_agents(worker: &Worker, accounts: &[Account]) -> Vec<UnavailableAgent> {
    let site = site(worker, accounts);
    let doors = site
        .closed
        .iter()
        .map(|(agent, closed)| UnavailableAgent::new(agent, closed));
    doors.collect()
}

/// The `queued` tasks that nobody can start now.
pub fn waiting(queued: &[Queued], sites: &[ActiveWorker]) -> Vec<WaitingView> {
    let mut all: Vec<WaitingView> = Vec::new();
    for queued in queued {
        let Some(lack) = lack(&queued.pool, &queued.agent, queued.kind, sites) else {
            continue;
        };
        let agent = match &lack {
            Lack::Unavailable { agent, .. } => agent,
            Lack::Worker | Lack::Agent(_) => &queued.agent,
        };
        let one = WaitingView {
            pool: queued.pool.clone(),
            agent: Some(agent.clone()).filter(|agent| agent != NO_AGENT),
            tasks: queued.tasks,
            why: in_words(&lack, &queued.pool, agent),
            door: match &lack {
                Lack::Unavailable { agent, closed, .. } => Some(UnavailableAgent::new(agent, closed)),
                Lack::Worker | Lack::Agent(_) => None,
            },
        };
        // Sessions of several kinds may wait for the same.
        let same = all.iter_mut().find(|other| {
            let of = |view: &WaitingView| (view.pool.clone(), view.agent.clone(), view.why.clone());
            of(other) == of(&one)
        });
        match same {
            Some(same) => same.tasks += one.tasks,
            None => all.push(one),
        }
    }
    all
}

fn in_words(lack: &Lack, pool: &str, agent: &str) -> String {
    match lack {
        Lack::Worker if is_dir_pool(pool) => {
            "no worker on that machine takes work in folders: start one there with `ralph-worker run --dir FOLDER`"
                .to_owned()
        }
        Lack::Worker => {
            format!("no worker serves pool {pool}: start one with `ralph-worker run --pool {pool}`")
        }
        Lack::Agent(known) => {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            format!(
                "no worker of pool {pool} has agent {agent} (they have {}): add [agents.{agent}] to the .ralph.toml of one \
                 and start it again, or choose another agent with `task edit ID --agent NAME`",
                known.join(", ")
            )
        }
        Lack::Unavailable { agent, worker, closed } => {
            let door = UnavailableAgent::new(agent, closed);
            match closed.account {
                Some(_) => door.to_string(),
                None => format!("on every worker of pool {pool} that has it, first on {worker}: {door}"),
            }
        }
    }
}

/// The tasks of a feature that nobody can start now.
pub(super) async fn waiting_of(
    conn: &mut PgConnection,
    feature: FeatureId,
    lease_ms: i64,
) -> sqlx::Result<Vec<WaitingView>> {
    let queued = store::queue::ready::queued(conn, Some(feature), COUNTED).await?;
    if queued.is_empty() {
        return Ok(Vec::new());
    }
    let workers = store::worker::list(conn, lease_ms).await?;
    let accounts = store::availability::not_open(conn).await?;
    Ok(waiting(&queued, &sites(&workers, &accounts)))
}

/// Why nobody can start a ready task now, if so.
pub async fn lack_of(
    conn: &mut PgConnection,
    task: ralph_shared::ids::TaskId,
    lease_ms: i64,
) -> sqlx::Result<Option<String>> {
    let Some((pool, agent, kind)) = store::queue::ready::needed(conn, task).await? else {
        return Ok(None);
    };
    let workers = store::worker::list(conn, lease_ms).await?;
    let accounts = store::availability::not_open(conn).await?;
    Ok(lack_in_words(&pool, &agent, kind, &sites(&workers, &accounts)))
}

/// Why no site can start a task that needs this agent in this pool, if so.
pub(super) fn lack_in_words(
    pool: &str,
    agent: &str,
    kind: SessionKind,
    sites: &[ActiveWorker],
) -> Option<String> {
    let lack = lack(pool, agent, kind, sites)?;
    Some(in_words(&lack, pool, agent))
}
