//! `[repositories]` of `.ralph.toml`: addresses that submitted work may name.

use ralph_shared::config::{toml, words};
use ralph_shared::config_table;
use ralph_shared::repositories::Repositories;
use serde::Deserialize;

config_table! {
    #[derive(Debug, Clone, Default, PartialEq, Deserialize)]
    #[serde(default)]
    ["repositories", Coordinator]
    pub struct RepositoriesTable {
        /// Allowed schemes of repository addresses; git remote helpers end in ::
        schemes: Option<Vec<String>> = toml("['https', 'http', 'ssh', 'git']"),
        /// Whether work may name paths and addresses of the workers' own machines as repositories
        local: Option<bool> = words("whether the API listens on loopback alone"),
    }
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
    fn schemes_become_lower_case_and_an_error_names_a_bad_one() {
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
