//! Variables of the environment. An empty one counts as unset, and each may come from a file: `NAME_FILE` has
//! the path of a file with the value of `NAME`, as containers get their secrets.

use std::io;
use std::path::Path;

use crate::file;

/// Variables that hold a secret of Ralph's own. No agent and no command of a user inherits them, nor the
/// names of their files.
const SECRETS: [&str; 12] = [
    "DATABASE_URL",
    "PGPASSWORD",
    "NATS_URL",
    "NATS_CREDS",
    "NATS_KEY",
    "NATS_NKEY",
    "NATS_PASSWORD",
    "NATS_TOKEN",
    "RALPH_WORKER_NATS_URL",
    "RALPH_NOTIFY_SECRET",
    "RALPH_EMBEDDINGS_KEY",
    "RALPH_TOKEN",
];

/// A variable without a usable value.
#[derive(Debug, thiserror::Error)]
pub enum EnvironmentError {
    #[error("{0} and {0}_FILE are both set; unset one of them")]
    Both(String),
    #[error("{0} is not UTF-8 text; correct it")]
    NoText(String),
    #[error("{0}_FILE names a file that can't be used")]
    File(String, #[source] io::Error),
}

/// The value of `name`, from the environment or from the file that `name_FILE` names.
///
/// # Errors
/// If both are set, or the file can't be read.
pub fn value(name: &str) -> Result<Option<String>, EnvironmentError> {
    resolve(name, |name| {
        std::env::var_os(name).filter(|value| !value.is_empty())
    })
}

fn resolve(
    name: &str,
    variable: impl Fn(&str) -> Option<std::ffi::OsString>,
) -> Result<Option<String>, EnvironmentError> {
    match (variable(name), variable(&format!("{name}_FILE"))) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(EnvironmentError::Both(name.to_owned())),
        (Some(value), None) => match value.into_string() {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(EnvironmentError::NoText(name.to_owned())),
        },
        (None, Some(path)) => {
            let text = file::read_text(Path::new(&path), file::SMALL_BYTES)
                .map_err(|error| EnvironmentError::File(name.to_owned(), error))?;
            Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty()))
        }
    }
}

/// Whether a variable holds a secret of Ralph's own, or the path of its file.
pub fn is_secret(name: &str) -> bool {
    SECRETS.contains(&name.strip_suffix("_FILE").unwrap_or(name))
}

/// All variables for which [`is_secret`] holds.
pub fn secrets() -> impl Iterator<Item = String> {
    SECRETS
        .iter()
        .flat_map(|name| [(*name).to_owned(), format!("{name}_FILE")])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn value_of(set: &[(&str, &str)]) -> Result<Option<String>, String> {
        let found = |name: &str| {
            let found = set.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).into())
        };
        resolve("DATABASE_URL", found).map_err(|error| error.to_string())
    }

    #[test]
    fn a_value_comes_from_the_variable_or_from_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("url");
        std::fs::write(&path, "postgres://h/d\n").unwrap();
        let path = path.to_str().unwrap();
        assert_eq!(value_of(&[]).unwrap(), None);
        assert_eq!(value_of(&[("DATABASE_URL", "a")]).unwrap().unwrap(), "a");
        assert_eq!(
            value_of(&[("DATABASE_URL_FILE", path)]).unwrap().unwrap(),
            "postgres://h/d"
        );
        let both = value_of(&[("DATABASE_URL", "a"), ("DATABASE_URL_FILE", path)]);
        assert!(both.unwrap_err().contains("unset one of them"));
        let missing = value_of(&[("DATABASE_URL_FILE", "/none")]);
        assert!(missing.unwrap_err().contains("DATABASE_URL_FILE names"));
    }

    #[test]
    fn the_variable_of_a_secrets_file_is_secret() {
        assert!(is_secret("NATS_TOKEN") && is_secret("NATS_TOKEN_FILE"));
        assert!(!is_secret("NATS_CA") && !is_secret("SSL_CERT_FILE"));
    }
}
