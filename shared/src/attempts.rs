//! Refs of attempts at a remote. They have a folder of their own, which no list of branches shows, no clone
//! fetches and no CI starts for; or they are branches, for servers that accept nothing else.

/// The folder of refs for attempts.
pub const REFS: &str = "refs/ralph/attempts/";
/// The same among branches.
pub const BRANCHES: &str = "refs/heads/ralph-attempts/";

/// The folder for new attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptPlace {
    /// Refs of their own.
    #[default]
    Refs,
    Branches,
}

impl AttemptPlace {
    #[must_use]
    pub fn folder(self) -> &'static str {
        match self {
            Self::Refs => REFS,
            Self::Branches => BRANCHES,
        }
    }
}

/// The name of an attempt's ref below either folder; `None` for other refs.
#[must_use]
pub fn below(name: &str) -> Option<&str> {
    name.strip_prefix(REFS).or_else(|| name.strip_prefix(BRANCHES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_has_one_name_in_each_place() {
        let names = [
            "refs/ralph/attempts/f/t-1/1-d",
            "refs/heads/ralph-attempts/f/t-1/1-d",
        ];
        assert_eq!(names.map(below), [Some("f/t-1/1-d"); 2]);
        for other in [
            "refs/heads/main",
            "refs/heads/ralph-attempts",
            "refs/ralph/attempts",
            "ralph-attempts/f",
        ] {
            assert_eq!(below(other), None, "{other}");
        }
    }
}
