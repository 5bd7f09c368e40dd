//! Unknown keys of a file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use ralph_domain::graph::nearest;

use super::keys::{KEYS, WITHOUT_EFFECT};
use crate::config::read::read_table;

/// Warns of an unknown key, once per process: a command may read its file several times.
pub(super) fn warn(path: &Path, key: &str) {
    static WARNED: Mutex<BTreeSet<(PathBuf, String)>> = Mutex::new(BTreeSet::new());
    let is_new = match WARNED.lock() {
        Ok(mut warned) => warned.insert((path.to_owned(), key.to_owned())),
        Err(_) => true,
    };
    if !is_new {
        return;
    }
    let file = path.display();
    match WITHOUT_EFFECT.iter().find(|(table, _)| *table == key) {
        Some((_, instead)) => {
            tracing::warn!(%file, key, instead, "this table of the configuration does nothing")
        }
        None => {
            let hint = hint(key).map_or_else(String::new, |hint| format!("; {hint}"));
            tracing::warn!(%file, key, "unknown key in the configuration; it is ignored{hint}")
        }
    }
}

/// The unknown keys of a file, each with a suggestion where there is one.
pub fn unread(path: &Path) -> anyhow::Result<Vec<String>> {
    let keys = unknown(&read_table(path)?);
    let lines = keys.iter().map(|key| match hint(key) {
        Some(hint) => format!("`{key}` ({hint})"),
        None => format!("`{key}`"),
    });
    Ok(lines.collect())
}

/// The known key that was probably meant, or the replacement.
fn hint(key: &str) -> Option<String> {
    if let Some((_, instead)) = WITHOUT_EFFECT.iter().find(|(table, _)| *table == key) {
        return Some((*instead).to_owned());
    }
    let mut above: Vec<&str> = key.split('.').collect();
    let last = above.pop()?;
    let known = beside(&above);
    if known.contains(&last) {
        return Some(format!("it is a table: [{key}]"));
    }
    let longer = known
        .iter()
        .copied()
        .find(|name| name.strip_suffix(last).is_some_and(|begin| begin.ends_with('_')));
    let meant = longer.or_else(|| nearest(last, known));
    meant.map(|found| format!("did you mean `{found}`?"))
}

/// The known key names of a table; the tables themselves if `above` is empty.
fn beside(above: &[&str]) -> Vec<&'static str> {
    let of_the_file = KEYS.iter().filter(|key| key.name.contains('.'));
    of_the_file
        .filter_map(|key| {
            let mut parts = key.name.split('.');
            let fits = above
                .iter()
                .all(|one| parts.next().is_some_and(|part| part == "NAME" || part == *one));
            parts.next().filter(|part| fits && *part != "NAME")
        })
        .collect()
}

pub(super) fn unknown(file: &toml::Table) -> Vec<String> {
    let mut unknown = Vec::new();
    for (table, value) in file {
        let prefix = format!("{table}.");
        let inside: Vec<&str> = KEYS
            .iter()
            .filter_map(|key| key.name.strip_prefix(&prefix))
            .collect();
        let Some(value) = value.as_table().filter(|_| !inside.is_empty()) else {
            unknown.push(table.clone());
            continue;
        };
        for (name, value) in value {
            if inside.contains(&name.as_str()) {
                continue;
            }
            let named: Vec<&str> = inside
                .iter()
                .filter_map(|key| key.split_once('.'))
                .filter(|(table, _)| *table == "NAME" || *table == name)
                .map(|(_, key)| key)
                .collect();
            match value.as_table().filter(|_| !named.is_empty()) {
                None => unknown.push(format!("{table}.{name}")),
                Some(value) => unknown.extend(
                    value
                        .keys()
                        .filter(|key| !named.contains(&key.as_str()))
                        .map(|key| format!("{table}.{name}.{key}")),
                ),
            }
        }
    }
    unknown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelled_key_gets_a_suggestion() {
        for (key, expected) in [
            ("limits.max_csot", "did you mean `max_cost`?"),
            ("execution.retries", "did you mean `max_retries`?"),
            ("verfy", "did you mean `verify`?"),
            ("agents.fast.comand", "did you mean `command`?"),
            ("memory.embedings", "did you mean `embeddings`?"),
            ("memory.embeddings.modle", "did you mean `model`?"),
            ("agent", "it is a table: [agent]"),
        ] {
            assert_eq!(hint(key).as_deref(), Some(expected), "{key}");
        }
        assert!(hint("sandbox").is_some_and(|hint| hint.contains("[workspace] sandbox")));
        for key in ["colour", "limits.frobnicate", "agents.fast.frobnicate"] {
            assert_eq!(hint(key), None, "{key}");
        }
    }
}
