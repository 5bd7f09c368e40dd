//! Reading one value or one file of the configuration.

use std::path::Path;

use anyhow::Context as _;
use ralph_shared::trust;

/// The variable's value, else the file's. An empty variable counts as unset.
pub fn chosen(variable: Option<String>, file: Option<&str>) -> Option<String> {
    let variable = variable.filter(|text| !text.is_empty());
    variable.or_else(|| file.map(str::to_owned))
}

/// Reads the file as a table.
pub fn read_table(path: &Path) -> anyhow::Result<toml::Table> {
    trust::read(path)?
        .parse()
        .with_context(|| format!("{} can't be used", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_wins_unless_it_is_empty() {
        for (variable, file, expected) in [
            (Some("a"), Some("b"), Some("a")),
            (Some(""), Some("b"), Some("b")),
            (Some(""), None, None),
            (None, Some("b"), Some("b")),
        ] {
            assert_eq!(chosen(variable.map(str::to_owned), file).as_deref(), expected);
        }
    }
}
