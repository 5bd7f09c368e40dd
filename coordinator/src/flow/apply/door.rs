//! What reports tell of agents' doors (SPEC 7.3): people hear of a pool whose sessions don't get past them, and what concerns an
//! account holds back whatever needs it.

use std::collections::BTreeMap;

use ralph_shared::ids::TaskId;
use ralph_shared::wire::{ClosedDoor, Concerns, Ended, SessionReport};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::judge::Judgement;
use crate::domain::states::Outcome;
use crate::store;
use crate::store::dispatch::Dispatch;
use crate::store::door::Failed;

/// So many sessions of a pool fail at the door, none between gets past it, and people are told.
const TOLD_AT_DOOR: i32 = 3;

/// What a batch of reports tells of them.
#[derive(Debug, Default)]
pub(super) struct Doors {
    /// Tasks whose sessions failed there, and why.
    at_door: Vec<(TaskId, String)>,
    /// Tasks whose sessions got past it.
    past_door: Vec<Uuid>,
    /// The accounts of these sessions, and their dispatches.
    open: Vec<(String, Uuid)>,
    /// Accounts that failed: sessions that ended together fail together.
    failed: BTreeMap<String, Failed>,
}

impl Doors {
    /// Notes how a session began.
    pub(super) fn note(&mut self, dispatch: &Dispatch, session: &SessionReport, judgement: &Judgement) {
        let account = &session.agent.account;
        match judgement.outcome {
            Outcome::Door => {
                let reason = judgement.reason.clone().unwrap_or_default();
                if let Ended::Door { door, message } = &session.ended
                    && door.concerns() == Concerns::Account
                    && !account.is_empty()
                {
                    let end = message.floor_char_boundary(ClosedDoor::SAID_BYTES);
                    let failed = Failed {
                        account: account.clone(),
                        door: *door,
                        reason: message[..end].to_owned(),
                        worker: dispatch.worker.clone(),
                        dispatch: dispatch.id,
                    };
                    self.failed.insert(account.clone(), failed);
                }
                self.at_door.push((dispatch.task, reason));
            }
            Outcome::Error | Outcome::Interrupted | Outcome::Lost => {}
            _ => {
                self.past_door.push(dispatch.task.0);
                if !account.is_empty() {
                    self.open.push((account.clone(), dispatch.id.0));
                }
            }
        }
    }

    /// Writes it.
    pub(super) async fn write(&self, conn: &mut PgConnection) -> sqlx::Result<()> {
        if !self.past_door.is_empty() {
            store::door::passed(conn, &self.past_door, &self.open).await?;
        }
        for (task, reason) in &self.at_door {
            store::notice::door_closed(conn, *task, reason, TOLD_AT_DOOR).await?;
        }
        for failed in self.failed.values() {
            if let Some(pause) = store::door::failed(conn, failed).await? {
                tracing::warn!(account = failed.account, door = failed.door.as_str(), failures = pause.failures,
                    until = %pause.until, "an account fails; what needs it waits");
            }
        }
        Ok(())
    }
}
