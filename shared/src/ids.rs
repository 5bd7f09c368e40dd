//! Typed ids. A key is a UUIDv7, so that rows sort by age; people and agents see a prefix and the key's last
//! 12 hex digits, `t-9f2c41aa07be` (SPEC 1). Those 48 bits are random, and the database keeps them unique.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A text that is not an id of the wanted type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {what} id: expected `{prefix}-` and up to 12 hex digits")]
pub struct NotAnId {
    text: String,
    what: &'static str,
    prefix: &'static str,
}

/// The end of a key as people type it: 1 to 12 lower-case hex digits that begin the key's short form, as git
/// accepts a prefix of a commit's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShortPrefix(String);

impl ShortPrefix {
    /// The hex digits, without the type's prefix.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether all 12 digits are given.
    pub fn is_whole(&self) -> bool {
        self.0.len() == SHORT_DIGITS
    }
}

const SHORT_DIGITS: usize = 12;

fn short_digits(id: Uuid) -> String {
    let hex = id.simple().to_string();
    hex[hex.len() - SHORT_DIGITS..].to_owned()
}

fn parse_prefix(text: &str, what: &'static str, prefix: &'static str) -> Result<ShortPrefix, NotAnId> {
    let wrong = || NotAnId {
        text: text.chars().take(80).collect(),
        what,
        prefix,
    };
    let digits = text
        .strip_prefix(prefix)
        .and_then(|rest| rest.strip_prefix('-'))
        .ok_or_else(wrong)?;
    let fits = (1..=SHORT_DIGITS).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit());
    if !fits {
        return Err(wrong());
    }
    Ok(ShortPrefix(digits.to_ascii_lowercase()))
}

macro_rules! typed_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        #[cfg_attr(feature = "postgres", derive(sqlx::Type))]
        #[cfg_attr(feature = "postgres", sqlx(transparent))]
        pub struct $name(pub Uuid);

        impl $name {
            /// The part before the dash of the short form.
            pub const PREFIX: &'static str = $prefix;

            /// A new key, later than every earlier one of this process.
            pub fn new() -> Self {
                Self(Uuid::now_v7())
            }

            /// The form that people and agents see: prefix, dash, 12 hex digits.
            pub fn short(&self) -> String {
                format!("{}-{}", $prefix, short_digits(self.0))
            }

            /// Reads a typed short form, whole or abbreviated.
            ///
            /// # Errors
            /// If the type's prefix is missing, or the rest isn't 1 to 12 hex digits.
            pub fn parse_prefix(text: &str) -> Result<ShortPrefix, NotAnId> {
                parse_prefix(text, $what, $prefix)
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.short())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", self.short(), self.0)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            /// Reads the whole key, not the short form, which only the database can resolve.
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Uuid::parse_str(text).map(Self)
            }
        }
    };
}

typed_id!(
    /// A feature: what a user submitted.
    FeatureId, "f", "feature"
);
typed_id!(
    /// A task: a node of a feature's graph.
    TaskId, "t", "task"
);
typed_id!(
    /// A run: one execution of a feature under one set of limits.
    RunId, "run", "run"
);
typed_id!(
    /// A dispatch: one session handed to one worker. Its id is the fence (DESIGN 1.2). A worker's slot makes
    /// it for its claim, so that a repeated claim with the same id gets the same answer.
    DispatchId, "d", "dispatch"
);
typed_id!(
    /// One start of a worker process. A name survives restarts, an incarnation doesn't (DESIGN 2).
    Incarnation, "i", "incarnation"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_form_is_the_keys_last_twelve_digits() {
        let id = TaskId(Uuid::parse_str("01936f2e-0000-7000-8000-9f2c41aa07be").unwrap());
        assert_eq!(id.to_string(), "t-9f2c41aa07be");
        assert_eq!(TaskId::parse_prefix("t-9F2C").unwrap().as_str(), "9f2c");
        assert!(TaskId::parse_prefix("t-9f2c41aa07be").unwrap().is_whole());
    }

    #[test]
    fn an_invalid_id_is_refused() {
        for text in [
            "",
            "t",
            "t-",
            "f-12",
            "t-xyz",
            "t-9f2c41aa07be0",
            "t-9f2c 1",
            "T-12",
        ] {
            assert!(TaskId::parse_prefix(text).is_err(), "{text}");
        }
        let error = TaskId::parse_prefix("f-12").unwrap_err().to_string();
        assert_eq!(
            error,
            "`f-12` is not a task id: expected `t-` and up to 12 hex digits"
        );
    }

    #[test]
    fn keys_of_one_process_sort_by_age() {
        let ids: Vec<_> = (0..1000).map(|_| DispatchId::new()).collect();
        assert!(ids.is_sorted());
    }
}
