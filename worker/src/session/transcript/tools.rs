//! The tool calls of a session and their kinds. Bounded, whatever an agent sends.

use std::collections::{HashMap, VecDeque};

use agent_client_protocol::v1::schema::{ToolCallStatus, ToolKind};

/// How many calls are stored. Above that the oldest are dropped, which ended long ago.
const MOST_CALLS: usize = 1024;

/// Announced calls by id.
#[derive(Debug, Default)]
pub struct Tools {
    kinds: HashMap<String, ToolKind>,
    /// Final statuses, as far as the agent reports them.
    ends: HashMap<String, ToolCallStatus>,
    ids: VecDeque<String>,
}

impl Tools {
    /// Takes an update of a call. Returns whether the call is new. Without a kind in the update its kind
    /// stays.
    pub fn update(&mut self, id: &str, kind: Option<ToolKind>) -> bool {
        if let Some(known) = self.kinds.get_mut(id) {
            *known = kind.unwrap_or(*known);
            return false;
        }
        if self.ids.len() == MOST_CALLS
            && let Some(oldest) = self.ids.pop_front()
        {
            self.kinds.remove(&oldest);
            self.ends.remove(&oldest);
        }
        self.ids.push_back(id.to_owned());
        self.kinds.insert(id.to_owned(), kind.unwrap_or_default());
        true
    }

    /// Takes a status of a known call. Returns whether it failed now, and whether it had failed before.
    pub fn ended(&mut self, id: &str, status: ToolCallStatus) -> (bool, bool) {
        let is_end = matches!(status, ToolCallStatus::Completed | ToolCallStatus::Failed);
        let before = match is_end {
            true => self.ends.insert(id.to_owned(), status),
            false => self.ends.remove(id),
        };
        let failed = |status| status == ToolCallStatus::Failed;
        (failed(status), before.is_some_and(failed))
    }

    /// Whether the newest call is running, as far as is known.
    pub fn newest_runs(&self) -> bool {
        self.ids.back().is_some_and(|id| !self.ends.contains_key(id))
    }

    pub fn kind(&self, id: &str) -> Option<ToolKind> {
        self.kinds.get(id).copied()
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_stored_by_id_and_the_oldest_are_dropped() {
        let mut tools = Tools::default();
        assert!(tools.update("a", Some(ToolKind::Edit)));
        assert!(!tools.update("a", None));
        assert_eq!(tools.kind("a"), Some(ToolKind::Edit));
        assert!(!tools.update("a", Some(ToolKind::Read)));
        assert_eq!(tools.kind("a"), Some(ToolKind::Read));
        for call in 0..10 * MOST_CALLS {
            assert!(tools.update(&format!("call-{call}"), None));
        }
        assert_eq!(tools.kind("a"), None);
        assert_eq!((tools.kinds.len(), tools.ids.len()), (MOST_CALLS, MOST_CALLS));
        assert!(!tools.update(&format!("call-{}", 10 * MOST_CALLS - 1), None));
    }
}
