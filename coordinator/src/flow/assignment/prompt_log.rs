//! Stores the prompts of a batch of assignments, so that they can be explained later.

use std::collections::{BTreeMap, BTreeSet};

use ralph_shared::wire::sha256_hex;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use crate::domain::recall::Kind;
use crate::faults;
use crate::flow::claim::opened::Opened;
use crate::flow::memory::{distill, layout::PromptMemory};
use crate::prompt;
use crate::store;
use crate::store::dispatch::prompt::{Prompts, SentSection, StoredPrompt};
use crate::store::memory::exposures::Use;

/// Sent prompts and their memory entries, for storage after the claims are answered.
#[derive(Debug, Default)]
pub struct SentPrompts {
    pub(in crate::flow) prompts: BTreeMap<Uuid, Prompts>,
    pub(in crate::flow) frames: BTreeMap<String, String>,
    pub(in crate::flow) uses: Vec<Use>,
    pub(in crate::flow) trials: Vec<(Uuid, String, bool)>,
}

impl SentPrompts {
    /// Notes the prompt of a dispatch, and the memory entries in it.
    pub(super) fn note(
        &mut self,
        dispatch: &Opened,
        rendered: &prompt::Rendered,
        prompt_memory: Option<PromptMemory>,
        merging: Option<&distill::Order>,
    ) {
        if let Some(prompt_memory) = prompt_memory {
            self.uses.extend(prompt_memory.uses(rendered));
            self.trials.extend(prompt_memory.trial());
        }
        let merged = merging.map(|order| order.uses(dispatch.dispatch));
        self.uses.extend(merged.into_iter().flatten());
        let frame = self.frame(&rendered.prompt.frame);
        if let Some(row) = dispatch.prompts {
            let body = StoredPrompt {
                frame,
                body: rendered.prompt.body.clone(),
                sections: sections(&rendered.account),
            };
            self.prompts
                .entry(row)
                .or_default()
                .insert(dispatch.dispatch.0, body);
        }
    }

    /// The hash of a frame, which is stored once for all prompts.
    fn frame(&mut self, frame: &str) -> String {
        if let Some((hash, _)) = self.frames.iter().find(|(_, kept)| *kept == frame) {
            return hash.clone();
        }
        let hash = sha256_hex(frame.as_bytes());
        self.frames.insert(hash.clone(), frame.to_owned());
        hash
    }

    pub(in crate::flow) fn merge(&mut self, other: Self) {
        for (row, prompts) in other.prompts {
            self.prompts.entry(row).or_default().extend(prompts);
        }
        self.frames.extend(other.frames);
        self.uses.extend(other.uses);
        self.trials.extend(other.trials);
    }

    /// Stores the prompts. A crash that loses the newest ones costs an explanation, not work.
    pub async fn keep(self, db: &PgPool) -> sqlx::Result<()> {
        if self.prompts.is_empty() {
            return Ok(());
        }
        let mut tx = store::begin_unflushed(db).await?;
        if self.shown().next().is_some() {
            // A purge either comes first, and its entries are missing here, or later, and finds these rows.
            store::memory::exposures::hold_back_purges(&mut tx).await?;
        }
        self.within(&mut tx).await?;
        faults::point("prompt.before_commit");
        tx.commit().await
    }

    /// Stores the prompts within the caller's transaction, which holds purges back.
    pub(in crate::flow) async fn within(mut self, tx: &mut PgConnection) -> sqlx::Result<()> {
        self.leave_out_purged(tx).await?;
        let frames: Vec<_> = self.frames.into_iter().collect();
        store::dispatch::prompt::keep_frames(tx, &frames).await?;
        store::dispatch::prompt::keep(tx, &self.prompts).await?;
        store::memory::exposures::insert_uses(tx, &self.uses, &self.trials).await
    }

    /// Entries in the prompts that a purge may take.
    fn shown(&self) -> impl Iterator<Item = &Use> {
        let shown = self.uses.iter().filter(|one| one.left_out.is_none());
        shown.filter(|one| one.kind != Kind::Journal)
    }

    /// Omits prompts whose entries were purged since.
    async fn leave_out_purged(&mut self, conn: &mut PgConnection) -> sqlx::Result<()> {
        let shown: BTreeSet<Uuid> = self.shown().map(|one| one.entry).collect();
        if shown.is_empty() {
            return Ok(());
        }
        let shown: Vec<Uuid> = shown.into_iter().collect();
        let there = store::memory::exposures::not_purged(conn, &shown).await?;
        let purged = self.shown().filter(|one| !there.contains(&one.entry));
        let with_purged: BTreeSet<Uuid> = purged.map(|one| one.dispatch).collect();
        if with_purged.is_empty() {
            return Ok(());
        }
        let dispatches: Vec<Uuid> = with_purged.iter().copied().collect();
        store::blob::forget_prompts(conn, &dispatches).await?;
        for prompts in self.prompts.values_mut() {
            prompts.retain(|dispatch, _| !with_purged.contains(dispatch));
        }
        self.prompts.retain(|_, prompts| !prompts.is_empty());
        self.uses.retain(|one| !with_purged.contains(&one.dispatch));
        Ok(())
    }
}

/// The account of a prompt's sections, for storage.
pub fn sections(account: &[prompt::SectionAccount]) -> Vec<SentSection> {
    let kept = account.iter().map(|one| SentSection {
        name: one.section.as_str().to_owned(),
        status: one.fate.as_str().to_owned(),
        chars: one.chars,
        allowed: one.allowed,
    });
    kept.collect()
}
