//! What a file says that nobody reads.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::keys::{KEYS, WITHOUT_EFFECT};

/// Tells of a key that nobody reads, once: a command may read its file several times.
pub(super) fn warn(path: &Path, key: &str) {
    static TOLD: Mutex<BTreeSet<(PathBuf, String)>> = Mutex::new(BTreeSet::new());
    let is_new = match TOLD.lock() {
        Ok(mut told) => told.insert((path.to_owned(), key.to_owned())),
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
        None => tracing::warn!(%file, key, "unknown key in the configuration; it is ignored"),
    }
}

/// Keys that nobody reads.
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
