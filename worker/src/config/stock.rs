//! What a worker fetches of repositories and keeps of them, from `[workspace]`.

use anyhow::bail;

use super::file::WorkspaceTable;
use crate::workspace::History;

/// How much of a repository is fetched.
///
/// # Errors
/// When a value can't be used.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> WorkspaceTable {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn histories_are_read_and_unusable_ones_named() {
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
}
