//! The kinds of session that a dispatch can hold (SPEC 5).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The kind of a dispatch. Every kind except `Integrate`, `Git` and `Check` is one agent session.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "postgres", derive(sqlx::Type))]
#[cfg_attr(
    feature = "postgres",
    sqlx(type_name = "session_kind", rename_all = "snake_case")
)]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum SessionKind {
    /// Turns a description into a specification.
    Spec,
    /// Turns a specification into a plan.
    Plan,
    /// Turns a plan into a task graph.
    Build,
    /// Works on one task.
    Work,
    /// Judges an attempt, read-only.
    Verify,
    /// Reviews a whole feature when its tasks are done.
    Review,
    /// Merges learnings.
    Distill,
    /// Lands an attempt's commit on the feature branch, without an agent.
    Integrate,
    /// Changes a branch for a person or for the feature's end, without an agent.
    Git,
    /// Tries the gate on the feature's base commit, without an agent.
    Check,
}

impl SessionKind {
    /// Every kind, in the order in which a feature meets them.
    pub const ALL: [Self; 10] = [
        Self::Spec,
        Self::Plan,
        Self::Build,
        Self::Work,
        Self::Verify,
        Self::Review,
        Self::Distill,
        Self::Integrate,
        Self::Git,
        Self::Check,
    ];

    /// Whether a dispatch of the kind begins an attempt; a verification and an integration belong to one
    /// (SPEC 1).
    pub fn begins_attempt(self) -> bool {
        !matches!(self, Self::Verify | Self::Integrate)
    }

    /// Whether its sessions may change the files of their workspace, which then count as work (SPEC 5).
    pub fn changes_files(self) -> bool {
        matches!(self, Self::Work | Self::Review | Self::Git)
    }

    /// Whether an agent runs.
    pub fn has_agent(self) -> bool {
        !matches!(self, Self::Integrate | Self::Git | Self::Check)
    }
}

impl fmt::Display for SessionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.into_str())
    }
}

/// A text that names no session kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no session kind")]
pub struct UnknownKind(String);

impl FromStr for SessionKind {
    type Err = UnknownKind;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.into_str() == text)
            .ok_or_else(|| UnknownKind(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_can_be_parsed_from_its_word() {
        for kind in SessionKind::ALL {
            assert_eq!(kind.to_string().parse::<SessionKind>(), Ok(kind));
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{kind}\""));
        }
        assert!("Work".parse::<SessionKind>().is_err());
    }
}
