//! What a worker fetches and keeps of repositories, from `[workspace]`.

use std::path::{Component, PathBuf};

use anyhow::bail;
use ralph_shared::subjects::is_label;

use super::machine::Machine;
use crate::session::Redactor;
use crate::workspace::{BulkLimits, CacheRule, FilterRule, History, Settings, WarmRule};
use ralph_shared::config::{CacheTable, FilterTable, GitTable, WorkspaceTable};

/// How much of a repository to fetch.
pub(super) fn history(table: &WorkspaceTable) -> anyhow::Result<History> {
    if table.depth == Some(0) {
        bail!("`depth` of [workspace] is 0: a clone needs at least one commit; leave it out for all");
    }
    let filter = table.filter.clone();
    let usable = |filter: &String| {
        let size = filter.strip_prefix("blob:limit=");
        let digits = size.map(|size| size.strip_suffix(['k', 'm', 'g']).unwrap_or(size));
        filter == "blob:none" || digits.is_some_and(|digits| digits.parse::<u32>().is_ok())
    };
    if let Some(filter) = filter.as_ref().filter(|filter| !usable(filter)) {
        bail!("`filter = \"{filter}\"` of [workspace] is no filter: use \"blob:none\" or \"blob:limit=1m\"");
    }
    Ok(History {
        depth: table.depth,
        filter,
    })
}

/// The folders that setup fills once.
pub(super) fn caches(table: &WorkspaceTable) -> anyhow::Result<Vec<CacheRule>> {
    let plain = |path: &PathBuf| {
        let mut parts = path.components();
        let git = |part: Component| part.as_os_str().eq_ignore_ascii_case(".git");
        parts.clone().next().is_some() && parts.all(|part| matches!(part, Component::Normal(_)) && !git(part))
    };
    let rule = |(name, table): (&String, &CacheTable)| {
        if !is_label(&name.replace('_', "-")) {
            bail!("`{name}` can't name a cache: use 1 to 40 of a-z, 0-9, `-` and `_`");
        }
        if table.key.is_empty() {
            bail!(
                "cache `{name}` of [workspace.caches] has no `key`: name the files that it depends on, such as a lock file"
            );
        }
        if let Some(path) = [&table.path]
            .into_iter()
            .chain(&table.key)
            .find(|path| !plain(path))
        {
            bail!(
                "{} of cache `{name}` is not inside a checkout: give its path from the repository's root",
                path.display()
            );
        }
        Ok(CacheRule {
            name: name.clone(),
            path: table.path.clone(),
            key: table.key.clone(),
            setup: table.setup.clone(),
        })
    };
    table.caches.iter().map(rule).collect()
}

/// Which build output to keep for later checkouts.
pub(super) fn warm(table: &WorkspaceTable) -> anyhow::Result<WarmRule> {
    let default = WarmRule::default();
    let folders = table.warm.clone().unwrap_or(default.folders);
    if let Some(bad) = folders.iter().find(|name| name.is_empty() || name.contains('/')) {
        bail!(
            "`{bad}` can't be in `warm` of [workspace]: give names of folders without their path, such as `target`"
        );
    }
    Ok(WarmRule {
        folders,
        most_bytes: table
            .warm_mb
            .map_or(default.most_bytes, |mib| mib.saturating_mul(1 << 20)),
    })
}

/// The disk quota of the data folder. Bytes.
pub(super) fn disk_budget_bytes(table: &WorkspaceTable) -> anyhow::Result<Option<u64>> {
    if table.disk_budget_mb == Some(0) {
        bail!("`disk_budget_mb` of [workspace] is 0: nothing could be cloned; leave it out for no bound");
    }
    Ok(table.disk_budget_mb.map(|mib| mib.saturating_mul(1 << 20)))
}

/// Limits above which new files are reported.
pub(super) fn bulk(table: &WorkspaceTable) -> anyhow::Result<BulkLimits> {
    let default = BulkLimits::default();
    let folders = table.build_folders.clone().unwrap_or(default.folders);
    if let Some(bad) = folders.iter().find(|name| name.is_empty() || name.contains('/')) {
        bail!(
            "`{bad}` can't be in `build_folders` of [workspace]: give names of folders without their path, such as `target`"
        );
    }
    Ok(BulkLimits {
        file_bytes: table
            .new_file_mb
            .map_or(default.file_bytes, |mb| mb.saturating_mul(1_000_000)),
        files: table.new_files.unwrap_or(default.files),
        folders,
    })
}

pub(super) fn filters(table: GitTable) -> anyhow::Result<Vec<FilterRule>> {
    let rule = |(
        name,
        FilterTable {
            clean,
            smudge,
            process,
        },
    ): (String, FilterTable)| {
        let commands = [&clean, &smudge, &process];
        if name.is_empty() || name.contains(['\n', '\0', '=']) {
            bail!(
                "`{name}` can't be a filter's name in [git.filters]: use the name after `filter=` in .gitattributes"
            );
        }
        let mut given = commands.iter().filter_map(|command| command.as_ref()).peekable();
        if given.peek().is_none() || given.any(|command| command.trim().is_empty()) {
            bail!("[git.filters.{name}] needs `clean` and `smudge`, or `process`, each with a command");
        }
        Ok(FilterRule {
            name,
            clean,
            smudge,
            process,
        })
    };
    table.filters.into_iter().map(rule).collect()
}

impl Machine {
    /// Settings of the workspaces on this machine.
    pub fn workspace_settings(&self, redactor: Redactor) -> Settings {
        Settings {
            history: self.history.clone(),
            caches: self.caches.clone(),
            warm: self.warm.clone(),
            disk_budget_bytes: self.disk_budget_bytes,
            keep_files_days: self.keep_files_days,
            setup: self.setup.clone(),
            on_complete: self.on_complete.clone(),
            author: self.author.clone(),
            sign_off: self.sign_off,
            bulk: self.bulk.clone(),
            filters: self.filters.clone(),
            dirs: self.dirs.clone(),
            configured_in: self.configured_in.clone(),
            sandbox: self.sandbox.clone(),
            redactor,
            ..Settings::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> WorkspaceTable {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn histories_are_read_and_invalid_ones_refused() {
        let read = history(&table("depth = 50\nfilter = \"blob:limit=1m\"")).unwrap();
        assert_eq!(
            (read.depth, read.filter.as_deref()),
            (Some(50), Some("blob:limit=1m"))
        );
        let error = |text: &str| history(&table(text)).unwrap_err().to_string();
        assert!(error("depth = 0").contains("at least one commit"));
        assert!(error("filter = \"tree:0\"").contains("is no filter: use \"blob:none\""));
        assert!(error("filter = \"blob:limit=x\"").contains("is no filter"));
    }

    #[test]
    fn caches_are_read_and_invalid_ones_refused() {
        let text = "caches.node_modules = { path = \"web/node_modules\", key = [\"web/package-lock.json\"], \
                    setup = [\"npm ci\"] }";
        let read = caches(&table(text)).unwrap();
        assert_eq!((read[0].name.as_str(), read[0].setup.len()), ("node_modules", 1));
        let error = |text: &str| caches(&table(text)).unwrap_err().to_string();
        assert!(error("caches.a = { path = \"x\", key = [] }").contains("has no `key`"));
        assert!(
            error("caches.a = { path = \"../x\", key = [\"k\"] }")
                .contains("../x of cache `a` is not inside a checkout")
        );
        assert!(
            error("caches.a = { path = \".git/x\", key = [\"k\"] }").contains("is not inside a checkout")
        );
        assert!(error("caches.\"a b\" = { path = \"x\", key = [\"k\"] }").contains("can't name a cache"));
        assert!(disk_budget_bytes(&table("disk_budget_mb = 0")).is_err());
        assert_eq!(
            disk_budget_bytes(&table("disk_budget_mb = 2")).unwrap(),
            Some(2 << 20)
        );
    }
}
