//! Where the dispatches belong that this process opened lately: so that what their reports say is read without a query. Nothing
//! depends on it; what isn't known here is looked up.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use ralph_shared::ids::{DispatchId, FeatureId, RunId, TaskId};
use ralph_shared::kind::SessionKind;

use crate::store::dispatch::Dispatch;

/// Dispatches that are remembered, at least. Many workers' slots; a few hundred kilobytes.
const KEPT: usize = 4096;

/// What never changes of a dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Its task.
    pub task: TaskId,
    /// The task's feature.
    pub feature: FeatureId,
    /// The run that it counts for.
    pub run: RunId,
    /// What it was to do.
    pub kind: SessionKind,
}

impl From<&Dispatch> for Place {
    fn from(dispatch: &Dispatch) -> Self {
        Self {
            task: dispatch.task,
            feature: dispatch.feature,
            run: dispatch.run,
            kind: dispatch.kind,
        }
    }
}

/// The dispatches that were opened last.
#[derive(Debug, Default)]
pub struct Opens {
    kept: Mutex<Kept>,
}

/// Once the new ones are [`KEPT`], those before them are forgotten.
#[derive(Debug, Default)]
struct Kept {
    new: HashMap<DispatchId, Place>,
    old: HashMap<DispatchId, Place>,
}

impl Opens {
    /// Remembers dispatches that were opened.
    pub fn note(&self, opened: impl IntoIterator<Item = (DispatchId, Place)>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        for (dispatch, place) in opened {
            if kept.new.len() >= KEPT {
                kept.old = std::mem::take(&mut kept.new);
            }
            kept.new.insert(dispatch, place);
        }
    }

    /// Where a dispatch belongs, if it is remembered.
    pub fn place(&self, dispatch: DispatchId) -> Option<Place> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.new
            .get(&dispatch)
            .or_else(|| kept.old.get(&dispatch))
            .copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_remembered_and_no_more_than_twice_as_many() {
        let opens = Opens::default();
        let place = Place {
            task: TaskId::new(),
            feature: FeatureId::new(),
            run: RunId::new(),
            kind: SessionKind::Work,
        };
        let ids: Vec<DispatchId> = (0..3 * KEPT).map(|_| DispatchId::new()).collect();
        for id in &ids {
            opens.note([(*id, place)]);
        }
        let known = ids.iter().filter(|id| opens.place(**id) == Some(place)).count();
        assert_eq!(known, 2 * KEPT);
        assert_eq!(opens.place(ids[2 * KEPT - 1]), Some(place));
        assert_eq!(opens.place(ids[0]), None);
    }
}
