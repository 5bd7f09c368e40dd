//! What reports reveal about the availability of agents (SPEC 7.3). People get a notice of a pool whose
//! agents do not start. A failing account holds back every task that needs it.

use std::collections::BTreeMap;
use std::time::Duration;

use ralph_shared::ids::TaskId;
use ralph_shared::wire::{ClosedAgent, Ended, SessionReport, Unavailable};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::failure::silence::Meaning;
use crate::domain::failure::{Audience, Failure};
use crate::domain::outcome::Judgement;
use crate::domain::states::Outcome;
use crate::store;
use crate::store::availability::Failed;
use crate::store::dispatch::Dispatch;

/// Sessions in a row that fail to start in a pool before a notice is written.
const NOTICE_AFTER_FAILURES: i32 = 3;

/// Findings of a batch of reports.
#[derive(Debug, Default)]
pub(super) struct AvailabilityChanges {
    /// Tasks whose agent did not start, with the agent and the reason.
    failed_starts: Vec<(TaskId, String, String)>,
    /// Tasks whose agent started, with the agent.
    started_agents: Vec<(Uuid, String)>,
    /// Accounts with empty turns, each with its task.
    empty: Vec<(String, Uuid)>,
    /// Accounts of these sessions, with their dispatches.
    open: Vec<(String, Uuid)>,
    /// Accounts that failed. Sessions that end together count as one failure.
    failed: BTreeMap<String, Failed>,
}

impl AvailabilityChanges {
    /// Notes how a session began.
    pub(super) fn note(
        &mut self,
        dispatch: &Dispatch,
        session: &SessionReport,
        judgement: &Judgement,
        meaning: Option<Meaning>,
    ) {
        let (agent, account) = (&session.agent.configured, &session.agent.account);
        if meaning.is_some() {
            self.empty.push((account.clone(), dispatch.task.0));
        }
        match judgement.failure.map(Failure::policy) {
            Some(policy) if policy.audience == Audience::Pool => {
                let reason = judgement.reason.clone().unwrap_or_default();
                if policy.account.is_some() && !account.is_empty() {
                    let (door, message) = match &session.ended {
                        Ended::Unavailable { door, message } => (*door, message.as_str()),
                        _ => (Unavailable::Empty, reason.as_str()),
                    };
                    let end = message.floor_char_boundary(ClosedAgent::REASON_BYTES);
                    let failed = Failed {
                        account: account.clone(),
                        door,
                        reason: message[..end].to_owned(),
                        worker: dispatch.worker.clone(),
                        dispatch: dispatch.id,
                        asked: session.retry_after_ms.map(Duration::from_millis),
                    };
                    self.failed.insert(account.clone(), failed);
                }
                self.failed_starts.push((dispatch.task, agent.clone(), reason));
            }
            // An empty turn is no answer.
            _ if meaning.is_some() => {}
            _ if is_inconclusive(judgement.outcome) => {}
            _ => {
                self.started_agents.push((dispatch.task.0, agent.clone()));
                if !account.is_empty() {
                    self.open.push((account.clone(), dispatch.id.0));
                }
            }
        }
    }

    pub(super) async fn write(&self, conn: &mut PgConnection) -> sqlx::Result<()> {
        if !self.started_agents.is_empty() {
            store::availability::passed(conn, &self.started_agents, &self.open).await?;
        }
        store::availability::was_empty(conn, &self.empty).await?;
        for (task, agent, reason) in &self.failed_starts {
            store::notice::record_failed_start(conn, *task, agent, reason, NOTICE_AFTER_FAILURES).await?;
        }
        for failed in self.failed.values() {
            if let Some(pause) = store::availability::failed(conn, failed).await? {
                tracing::warn!(account = failed.account, door = failed.door.into_str(), failures = pause.failures,
                    until = %pause.until, "an account failed; tasks that need it wait");
            }
        }
        Ok(())
    }
}

/// Whether a session with this outcome may have ended before its agent started.
fn is_inconclusive(outcome: Outcome) -> bool {
    matches!(
        outcome,
        Outcome::Error | Outcome::Interrupted | Outcome::Lost | Outcome::Unavailable
    )
}
