//! The memory entries for one prompt, and the record of those that it showed.

use ralph_shared::ids::DispatchId;
use uuid::Uuid;

use crate::domain::recall::Kind as EntryKind;
use crate::prompt::{self, Rendered, Section};
use crate::store::memory::exposures::Use;

/// The memory entries for one prompt.
#[derive(Debug)]
pub(in crate::flow) struct PromptMemory {
    pub(in crate::flow) memory: prompt::Memory,
    pub(in crate::flow) dispatch: DispatchId,
    /// The entry behind each learning of the prompt: a recalled one, or one of the task itself, which has no
    /// score. `None` for the journal of this run.
    pub(in crate::flow) learnings: Vec<Option<(Uuid, f64)>>,
    pub(in crate::flow) knowledge: Vec<Option<(Uuid, f64)>>,
    pub(in crate::flow) journal: Vec<Option<(Uuid, f64)>>,
    pub(in crate::flow) left_out: Vec<(EntryKind, Uuid, f64, &'static str)>,
    pub(in crate::flow) trial: Option<(String, bool)>,
}

impl PromptMemory {
    /// The entries that the rendered prompt shows and those left out, for storage.
    pub(in crate::flow) fn uses(&self, rendered: &Rendered) -> Vec<Use> {
        let mut uses = Vec::new();
        for (section, kind, entries) in [
            (Section::Learnings, EntryKind::Learning, &self.learnings),
            (Section::Knowledge, EntryKind::Knowledge, &self.knowledge),
            (Section::Journal, EntryKind::Journal, &self.journal),
        ] {
            let shown = rendered.shown(section);
            for (index, behind) in entries.iter().enumerate() {
                if let Some((entry, score)) = behind {
                    let why = (!shown.contains(&index)).then_some("no room in its section");
                    uses.push(self.used(kind, *entry, *score, uses.len(), why));
                }
            }
        }
        for (kind, entry, score, why) in &self.left_out {
            uses.push(self.used(*kind, *entry, *score, uses.len(), Some(*why)));
        }
        uses
    }

    fn used(&self, kind: EntryKind, entry: Uuid, score: f64, place: usize, why: Option<&str>) -> Use {
        Use {
            dispatch: self.dispatch.0,
            kind,
            entry,
            place: i16::try_from(place).unwrap_or(i16::MAX),
            score: score as f32,
            left_out: why.map(str::to_owned),
        }
    }

    /// Whether the memory was queried: dispatch, repository, and whether the answer was held out.
    pub(in crate::flow) fn trial(&self) -> Option<(Uuid, String, bool)> {
        let (repo_id, held_out) = self.trial.clone()?;
        Some((self.dispatch.0, repo_id, held_out))
    }
}
