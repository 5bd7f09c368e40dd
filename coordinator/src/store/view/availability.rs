//! Who waits at a closed door, for what, and until when (SPEC 7.3).

use std::collections::BTreeMap;

use ralph_shared::ids::FeatureId;
use ralph_shared::kind::SessionKind;
use ralph_shared::machine::is_dir_pool;
use ralph_shared::wire::Unavailable;
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;
use time::macros::format_description;
use time::{Duration, OffsetDateTime};

use crate::domain::scheduling::availability::{BreakerState, Closed, Lack, NO_AGENT, Site, lack};
use crate::store;
use crate::store::availability::Account;
use crate::store::queue::ready::Queued;
use crate::store::worker::Worker;

/// Tasks of one feature that wait are counted no further, in each pool and for each agent.
const COUNTED: i64 = 1_000;

/// An agent that its worker doesn't start for a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DoorView {
    /// The agent, by its name among the worker's.
    pub agent: String,
    /// The account that it uses, where it is that which fails: then every worker waits that uses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// What failed.
    pub door: Unavailable,
    /// What it said.
    pub reason: String,
    /// Failures in a row.
    pub failures: u32,
    /// When it is tried again.
    #[serde(with = "time::serde::rfc3339")]
    pub until: OffsetDateTime,
    /// Whether one session tries it now, and the others wait for that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tried: bool,
    /// How many sessions may use the account at a time; 1 until it answers again, then 2, 4 and so on.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub width: u32,
}

fn one() -> u32 {
    1
}

fn is_one(width: &u32) -> bool {
    *width == 1
}

impl DoorView {
    fn new(agent: &str, closed: &Closed) -> Self {
        Self {
            agent: agent.to_owned(),
            account: closed.account.clone(),
            door: closed.door,
            reason: closed.reason.clone(),
            failures: closed.failures,
            until: closed.until,
            tried: closed.tried,
            width: closed.width,
        }
    }
}

impl std::fmt::Display for DoorView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            agent, door, until, ..
        } = self;
        let words = door.in_words();
        match &self.account {
            Some(account) => write!(f, "account {account} of agent {agent} {words}")?,
            None => write!(f, "agent {agent} {words}")?,
        }
        let times = if self.failures == 1 { "once" } else { "in a row" };
        let n = if self.failures == 1 {
            String::new()
        } else {
            format!("{} times ", self.failures)
        };
        let next = match (self.tried, self.width) {
            (true, 1) => "one session tries it now".to_owned(),
            (true, width) => format!("it answers again, and {width} sessions may use it so far"),
            (false, _) => format!("tried again at {}", clock(*until)),
        };
        write!(f, " (failed {n}{times}), {next}: {}", on_one_line(&self.reason))
    }
}

/// On one line.
fn on_one_line(reason: &str) -> String {
    reason.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn clock(at: OffsetDateTime) -> String {
    let form = format_description!("[hour]:[minute]:[second]Z");
    at.to_offset(time::UtcOffset::UTC)
        .format(form)
        .unwrap_or_default()
}

/// Tasks that could start, but that no worker can start now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WaitingView {
    /// Their pool.
    pub pool: String,
    /// The agent that they need; none, if any worker of the pool would do.
    pub agent: Option<String>,
    /// How many, counted up to 10,000; of one feature up to 1,000.
    pub tasks: i64,
    /// What they wait for, and what to do about it.
    pub why: String,
    /// The agent that isn't started now; none, where no worker has what they need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub door: Option<DoorView>,
}

impl WaitingView {
    /// Whether this is the same wait as another one, whenever the agent is tried again.
    pub fn is_like(&self, other: &Self) -> bool {
        let failures = |view: &Self| {
            view.door
                .as_ref()
                .map(|door| (door.failures, door.reason.clone()))
        };
        let same_why = self.door.is_some() || self.why == other.why;
        same_why
            && (&self.pool, &self.agent, self.tasks) == (&other.pool, &other.agent, other.tasks)
            && failures(self) == failures(other)
    }
}

impl std::fmt::Display for WaitingView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tasks = if self.tasks == 1 {
            "task waits"
        } else {
            "tasks wait"
        };
        write!(f, "{} {tasks}: {}", self.tasks, self.why)
    }
}

/// The workers that take work, with what they can't start now.
pub fn sites(workers: &[Worker], accounts: &[Account]) -> Vec<Site> {
    let takes_work = |worker: &&Worker| worker.alive && !worker.draining && !worker.drain_requested;
    workers
        .iter()
        .filter(takes_work)
        .map(|worker| site(worker, accounts))
        .collect()
}

fn site(worker: &Worker, accounts: &[Account]) -> Site {
    let mut closed: BTreeMap<String, Closed> = BTreeMap::new();
    for (agent, account) in &worker.accounts {
        let mut waits = accounts
            .iter()
            .filter(|one| !matches!(one.standing, BreakerState::Free(_)));
        if let Some(account) = waits.find(|one| one.account == *account) {
            let why = Closed {
                account: Some(account.account.clone()),
                door: account.door,
                reason: account.reason.clone(),
                failures: account.failures.unsigned_abs(),
                until: account.until,
                tried: account.standing == BreakerState::Tried,
                width: account.width.unsigned_abs(),
            };
            closed.insert(agent.clone(), why);
        }
    }
    for door in &worker.doors {
        let left = Duration::milliseconds(i64::try_from(door.left_ms).unwrap_or(0));
        let why = Closed {
            account: None,
            door: door.door,
            reason: door.reason.clone(),
            failures: door.failures,
            until: worker.seen_at.saturating_add(left),
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
    Site {
        worker: worker.name.clone(),
        pools: worker.pools.clone(),
        agents: worker.accounts.clone(),
        rules: worker.rules.clone(),
        closed,
    }
}

/// The agents that a worker doesn't start now.
pub fn doors(worker: &Worker, accounts: &[Account]) -> Vec<DoorView> {
    let site = site(worker, accounts);
    let doors = site
        .closed
        .iter()
        .map(|(agent, closed)| DoorView::new(agent, closed));
    doors.collect()
}

/// What of `queued` nobody can start now.
pub fn waiting(queued: &[Queued], sites: &[Site]) -> Vec<WaitingView> {
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
                Lack::Unavailable { agent, closed, .. } => Some(DoorView::new(agent, closed)),
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
            "no worker takes work in folders of that machine: start one there with `ralph-worker run --dir FOLDER`"
                .to_owned()
        }
        Lack::Worker => {
            format!("no worker takes work of pool {pool}: start one with `ralph-worker run --pool {pool}`")
        }
        Lack::Agent(known) => {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            format!(
                "no worker of pool {pool} has agent {agent} (they have {}): add [agents.{agent}] to the .ralph.toml of one \
                 and start it again, or choose another agent with `task edit ID --agent NAME`",
                known.join(", ")
            )
        }
        Lack::Unavailable { worker, closed, .. } => {
            let door = DoorView::new(agent, closed);
            match closed.account {
                Some(_) => door.to_string(),
                None => format!("on every worker of pool {pool} that has it, first on {worker}: {door}"),
            }
        }
    }
}

/// What of a feature nobody can start now.
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

/// What a task waits for that could start, if nobody can start it now.
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

/// Why nobody there can start what needs this agent in this pool, if that is so.
pub(super) fn lack_in_words(pool: &str, agent: &str, kind: SessionKind, sites: &[Site]) -> Option<String> {
    let lack = lack(pool, agent, kind, sites)?;
    Some(match &lack {
        Lack::Unavailable { agent, .. } => in_words(&lack, pool, agent),
        Lack::Worker | Lack::Agent(_) => in_words(&lack, pool, agent),
    })
}
