//! `[repositories]` of `.ralph.toml`: which repositories may be named by who submits work.

use ralph_shared::repositories::Repositories;
use serde::Deserialize;

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct RepositoriesTable {
    /// Schemes that addresses may have, and helpers of git's with `::` at their end; https, http, ssh and git when it isn't given.
    pub schemes: Option<Vec<String>>,
    /// Whether paths and addresses of the workers' own machines may be named; where it isn't given, as long as the API listens on
    /// loopback alone.
    pub local: Option<bool>,
}

impl RepositoriesTable {
    pub fn checked(&self) -> anyhow::Result<Repositories> {
        let default = Repositories::default();
        let schemes = match &self.schemes {
            None => default.schemes,
            Some(schemes) => schemes.iter().map(|scheme| scheme.to_ascii_lowercase()).collect(),
        };
        let is_scheme = |scheme: &String| {
            let name = scheme.strip_suffix("::").unwrap_or(scheme);
            let is_in_name = |b: u8| b.is_ascii_alphanumeric() || b"+.-".contains(&b);
            !name.is_empty() && name.bytes().all(is_in_name)
        };
        if let Some(bad) = schemes.iter().find(|scheme| !is_scheme(scheme)) {
            anyhow::bail!(
                "repositories.schemes has `{bad}`; expected schemes such as `https`, or helpers such as `codecommit::`"
            );
        }
        Ok(Repositories {
            schemes,
            local: self.local.unwrap_or(default.local),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use crate::config::Config;

    #[test]
    fn schemes_are_read_in_lower_case_and_what_is_none_is_named() {
        let read = |text: &str| Config::parse(text).unwrap().0.repositories.checked();
        let given = read("[repositories]\nschemes = [\"HTTPS\", \"codecommit::\"]\nlocal = false").unwrap();
        assert_eq!(given.schemes, ["https", "codecommit::"]);
        assert!(!given.local);
        let error = read("[repositories]\nschemes = [\"https://\"]")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("`https://`") && error.contains("such as `https`"),
            "{error}"
        );
    }
}
