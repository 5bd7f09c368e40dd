//! The sigils' names, and the session kinds that accept them.

use std::fmt;

use crate::kind::SessionKind;

/// One sigil of SPEC 4.1, by the name of its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum SigilName {
    /// `<task-done>ID</task-done>`
    TaskDone,
    /// `<task-failed>ID</task-failed>`
    TaskFailed,
    /// `<promise>COMPLETE</promise>` or `FAILURE`
    Promise,
    /// `<next-model>NAME</next-model>`
    NextModel,
    Journal,
    /// `<knowledge tags="…" title="…">…</knowledge>`
    Knowledge,
    FailureReport,
    RetrySuggestion,
    /// `<learning category="…" tags="…">…</learning>`
    Learning,
    DifficultyEstimate,
    TaskGraph,
    /// `<memory kind="…">…</memory>`
    Memory,
    /// `<question choices="…">…</question>`
    Question,
    VerifyPass,
    VerifyFail,
    ReviewPass,
    ReviewChanges,
    /// `<used helped="…" misled="…"/>`
    Used,
}

impl SigilName {
    pub const COUNT: usize = Self::ALL.len();

    /// Every sigil, in the order of SPEC 4.1.
    pub const ALL: [Self; 18] = [
        Self::TaskDone,
        Self::TaskFailed,
        Self::Promise,
        Self::NextModel,
        Self::Journal,
        Self::Knowledge,
        Self::FailureReport,
        Self::RetrySuggestion,
        Self::Learning,
        Self::DifficultyEstimate,
        Self::TaskGraph,
        Self::Memory,
        Self::Question,
        Self::VerifyPass,
        Self::VerifyFail,
        Self::ReviewPass,
        Self::ReviewChanges,
        Self::Used,
    ];

    /// Whether a session of this kind may use it (SPEC 4.1, column "kinds").
    #[must_use]
    pub const fn is_allowed_for(self, kind: SessionKind) -> bool {
        use SessionKind as Kind;
        match self {
            Self::TaskDone
            | Self::TaskFailed
            | Self::Promise
            | Self::NextModel
            | Self::FailureReport
            | Self::RetrySuggestion
            | Self::DifficultyEstimate
            | Self::Memory => matches!(kind, Kind::Work),
            Self::Journal | Self::Used => matches!(kind, Kind::Work | Kind::Review),
            Self::Knowledge | Self::Learning => !matches!(kind, Kind::Verify | Kind::Integrate | Kind::Git),
            Self::Question => matches!(
                kind,
                Kind::Spec | Kind::Plan | Kind::Build | Kind::Work | Kind::Review
            ),
            Self::TaskGraph => matches!(kind, Kind::Build | Kind::Work | Kind::Review),
            Self::VerifyPass | Self::VerifyFail => matches!(kind, Kind::Verify),
            Self::ReviewPass | Self::ReviewChanges => matches!(kind, Kind::Review),
        }
    }

    /// The sigil whose name begins `bytes`, whatever follows it. No name begins another, so there is at most
    /// one.
    pub(super) fn beginning(bytes: &[u8]) -> Option<Self> {
        // Texts full of half names call this every few bytes, so it looks at only as many bytes as
        // distinguish the names.
        if !bytes.first()?.is_ascii_lowercase() {
            return None;
        }
        let name = match bytes {
            [b't', b'a', _, _, _, b'd', ..] => Self::TaskDone,
            [b't', b'a', _, _, _, b'f', ..] => Self::TaskFailed,
            [b't', b'a', _, _, _, b'g', ..] => Self::TaskGraph,
            [b'p', b'r', ..] => Self::Promise,
            [b'n', b'e', ..] => Self::NextModel,
            [b'j', b'o', ..] => Self::Journal,
            [b'k', b'n', ..] => Self::Knowledge,
            [b'f', b'a', ..] => Self::FailureReport,
            [b'r', b'e', b't', ..] => Self::RetrySuggestion,
            [b'r', b'e', b'v', _, _, _, _, b'p', ..] => Self::ReviewPass,
            [b'r', b'e', b'v', _, _, _, _, b'c', ..] => Self::ReviewChanges,
            [b'l', b'e', ..] => Self::Learning,
            [b'd', b'i', ..] => Self::DifficultyEstimate,
            [b'm', b'e', ..] => Self::Memory,
            [b'u', b's', ..] => Self::Used,
            [b'q', b'u', ..] => Self::Question,
            [b'v', b'e', _, _, _, _, _, b'p', ..] => Self::VerifyPass,
            [b'v', b'e', _, _, _, _, _, b'f', ..] => Self::VerifyFail,
            _ => return None,
        };
        bytes.starts_with(name.into_str().as_bytes()).then_some(name)
    }
}

impl fmt::Display for SigilName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.into_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_by_its_beginning() {
        for name in SigilName::ALL {
            assert_eq!(SigilName::beginning(name.into_str().as_bytes()), Some(name));
            assert_eq!(
                SigilName::beginning(&name.into_str().as_bytes()[1..]),
                None,
                "{name}"
            );
        }
    }

    #[test]
    fn no_name_begins_another() {
        for one in SigilName::ALL {
            for other in SigilName::ALL {
                assert!(
                    one == other || !one.into_str().starts_with(other.into_str()),
                    "{one} {other}"
                );
            }
        }
    }

    #[test]
    fn kinds_accept_the_sigils_of_the_table() {
        let taken = |kind| {
            SigilName::ALL
                .into_iter()
                .filter(|name| name.is_allowed_for(kind))
                .map(|one| one.into_str())
                .collect::<Vec<_>>()
        };
        assert_eq!(taken(SessionKind::Spec), ["knowledge", "learning", "question"]);
        assert_eq!(taken(SessionKind::Plan), ["knowledge", "learning", "question"]);
        assert_eq!(
            taken(SessionKind::Build),
            ["knowledge", "learning", "task-graph", "question"]
        );
        assert_eq!(taken(SessionKind::Work).len(), 14);
        assert_eq!(taken(SessionKind::Verify), ["verify-pass", "verify-fail"]);
        assert_eq!(
            taken(SessionKind::Review),
            [
                "journal",
                "knowledge",
                "learning",
                "task-graph",
                "question",
                "review-pass",
                "review-changes",
                "used"
            ]
        );
        assert_eq!(taken(SessionKind::Distill), ["knowledge", "learning"]);
        assert_eq!(taken(SessionKind::Integrate), [""; 0]);
    }
}
