//! What was sent with a batch of assignments, to be explained later.

use std::collections::BTreeMap;

use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use crate::faults;
use crate::store;
use crate::store::prompt::Prompts;
use crate::store::uses::Use;

/// Prompts that are sent, and what memory they show: to be kept, once the claim is answered.
#[derive(Debug, Default)]
pub struct Sent {
    pub(super) prompts: BTreeMap<Uuid, Prompts>,
    pub(super) frames: BTreeMap<String, String>,
    pub(super) uses: Vec<Use>,
    pub(super) trials: Vec<(Uuid, String, bool)>,
}

impl Sent {
    /// Takes up what was sent with others.
    pub(super) fn merge(&mut self, other: Self) {
        for (row, prompts) in other.prompts {
            self.prompts.entry(row).or_default().extend(prompts);
        }
        self.frames.extend(other.frames);
        self.uses.extend(other.uses);
        self.trials.extend(other.trials);
    }

    /// Keeps them. Losing the newest in a crash costs an explanation, not work.
    pub async fn keep(self, db: &PgPool) -> sqlx::Result<()> {
        if self.prompts.is_empty() {
            return Ok(());
        }
        let mut tx = db.begin().await?;
        self.within(&mut tx).await?;
        faults::point("prompt.before_commit");
        tx.commit().await
    }

    /// The same but for the commit.
    pub(super) async fn within(self, tx: &mut PgConnection) -> sqlx::Result<()> {
        let frames: Vec<_> = self.frames.into_iter().collect();
        store::prompt::commit_unhurried(tx).await?;
        store::prompt::keep_frames(tx, &frames).await?;
        store::prompt::keep(tx, &self.prompts).await?;
        store::uses::insert_uses(tx, &self.uses, &self.trials).await
    }
}
