//! Concurrency keys limit the live sessions with a key, in the whole installation.

use serde::{Deserialize, Serialize};

use crate::graph::is_key;

/// The largest limit.
pub const MAX_LIMIT: i32 = 10_000;

/// A key and its limit.
#[derive(
    Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema, utoipa::ToSchema,
)]
#[serde(deny_unknown_fields)]
pub struct Concurrency {
    /// Name of the key in the whole installation: letters, digits and `. _ - / :`, at most 100.
    pub key: String,
    /// Sessions that may be live at once. The last given limit counts for all tasks with the key.
    #[schemars(range(min = 1, max = 10_000))]
    #[schema(minimum = 1, maximum = 10_000)]
    pub limit: i32,
}

impl Concurrency {
    /// Checks the key's rules.
    ///
    /// # Errors
    /// The broken rule, in words.
    pub fn check(&self) -> Result<(), String> {
        if !is_key(&self.key) {
            return Err("the `key` of `concurrency` is at most 100 letters, digits and . _ - / : and begins with a letter, a digit or _".to_owned());
        }
        if !(1..=MAX_LIMIT).contains(&self.limit) {
            return Err(format!("the `limit` of `concurrency` is 1 to {MAX_LIMIT}"));
        }
        Ok(())
    }
}

impl std::str::FromStr for Concurrency {
    type Err = String;

    /// `KEY=LIMIT`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a key with a limit; write database=2");
        let (key, limit) = text.split_once('=').ok_or_else(wrong)?;
        let concurrency = Self {
            key: key.to_owned(),
            limit: limit.parse().map_err(|_| wrong())?,
        };
        concurrency.check()?;
        Ok(concurrency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_a_limit() {
        let read = |text: &str| text.parse::<Concurrency>().map(|it| (it.key, it.limit));
        assert_eq!(read("team/db=2"), Ok(("team/db".to_owned(), 2)));
        for wrong in ["db", "db=0", "db=x", "=2", "a b=2", "db=10001"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
