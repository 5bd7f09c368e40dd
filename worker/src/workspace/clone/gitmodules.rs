//! A repository's declarations of submodules: `.gitmodules` of a commit, and addresses relative to the
//! repository's own.

use std::collections::BTreeMap;

use crate::workspace::error::GitError;
use crate::workspace::git::Git;

/// The usable addresses, by path, of the submodules that `commit` declares.
pub(in crate::workspace) async fn declared(
    git: &Git,
    commit: &str,
    parent: &str,
) -> Result<BTreeMap<String, String>, GitError> {
    let blob = format!("{commit}:.gitmodules");
    let listed = git
        .run("config")
        .args([
            "-z",
            "--blob",
            &blob,
            "--get-regexp",
            r"^submodule\..*\.(path|url)$",
        ])
        .accept(&[0, 1, 128])
        .output()
        .await?;
    if listed.code != 0 {
        return Ok(BTreeMap::new());
    }
    Ok(read(&listed.text(), parent))
}

/// Reads `submodule.NAME.KEY\nVALUE\0`.
fn read(listed: &str, parent: &str) -> BTreeMap<String, String> {
    let (mut paths, mut addresses) = (BTreeMap::new(), BTreeMap::new());
    for (key, value) in listed.split('\0').filter_map(|entry| entry.split_once('\n')) {
        match key.rsplit_once('.') {
            Some((name, "path")) => paths.insert(name, value),
            Some((name, "url")) => addresses.insert(name, value),
            _ => None,
        };
    }
    let found = paths.into_iter().filter_map(|(name, path)| {
        let url = addresses.get(name)?;
        if is_of_this_machine(url) && !is_of_this_machine(parent) {
            tracing::warn!(
                path,
                "a submodule stays empty: a remote repository names a path on this machine"
            );
        }
        let address = resolve(parent, url)?;
        is_plain(path).then(|| (path.to_owned(), address))
    });
    found.collect()
}

/// Whether a path has no part that leads elsewhere or into a `.git`.
fn is_plain(path: &str) -> bool {
    !path.is_empty()
        && path
            .split('/')
            .all(|part| !matches!(part, "" | "." | "..") && !part.eq_ignore_ascii_case(".git"))
}

/// Whether git takes an address for a path on this machine: every address except `SCHEME://…` and
/// `HOST:PATH`.
fn is_of_this_machine(url: &str) -> bool {
    if url.starts_with("./") || url.starts_with("../") {
        return false;
    }
    match (url.split_once("://"), url.split_once(':')) {
        (Some((scheme, _)), _) => scheme.eq_ignore_ascii_case("file"),
        (None, Some((host, _))) => host.contains('/'),
        (None, None) => true,
    }
}

/// Resolves `url` in a repository whose own address is `parent`. `None` for a URL that git would take for an
/// option or run as a program. `None` also for a path of this machine in a repository from elsewhere: it
/// could name anything that the worker's user may read.
fn resolve(parent: &str, url: &str) -> Option<String> {
    if url.is_empty() || url.starts_with('-') || url.contains("::") || url.contains(['\n', '\0']) {
        return None;
    }
    if is_of_this_machine(url) && !is_of_this_machine(parent) {
        return None;
    }
    if !url.starts_with("./") && !url.starts_with("../") {
        return Some(url.to_owned());
    }
    let mut base = parent.trim_end_matches('/').to_owned();
    let mut rest = url;
    loop {
        if let Some(after) = rest.strip_prefix("./") {
            rest = after;
        } else if let Some(after) = rest.strip_prefix("../") {
            // As in git: drop the last part at a `/`, or at the `:` of `host:path`.
            let end = base
                .rfind('/')
                .or_else(|| base.rfind(':').map(|colon| colon + 1))?;
            let ends_in_host = base.ends_with(':') || base[..end].ends_with('/');
            if ends_in_host {
                return None;
            }
            base.truncate(end);
            rest = after;
        } else {
            break;
        }
    }
    let between = if base.ends_with(':') { "" } else { "/" };
    (!rest.is_empty()).then(|| format!("{base}{between}{}", rest.trim_end_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_addresses_are_resolved_as_git_does() {
        let rows = [
            ("https://h/a/b.git", "../c.git", Some("https://h/a/c.git")),
            ("https://h/a/b.git", "../../c", Some("https://h/c")),
            ("https://h/b.git", "../../c", None),
            ("git@h:a/b.git", "../c.git", Some("git@h:a/c.git")),
            ("git@h:b.git", "../c.git", Some("git@h:c.git")),
            ("/srv/a/", "./sub", Some("/srv/a/sub")),
            ("/srv/a", "../b/", Some("/srv/b")),
            ("/srv/a", "https://h/c", Some("https://h/c")),
            ("/srv/a", "/srv/b", Some("/srv/b")),
            ("file:///srv/a", "file:///srv/b", Some("file:///srv/b")),
            ("https://h/a", "/srv/b", None),
            ("https://h/a", "file:///srv/b", None),
            ("https://h/a", "File:///srv/b", None),
            ("git@h:a.git", "srv/b", None),
            ("git@h:a.git", "srv/b:c", None),
            ("git@h:a.git", "i:srv/b", Some("i:srv/b")),
            ("/srv/a", "ext::sh -c x", None),
            ("/srv/a", "--upload-pack=x", None),
        ];
        for (parent, url, expected) in rows {
            assert_eq!(resolve(parent, url).as_deref(), expected, "{parent} {url}");
        }
    }

    #[test]
    fn paths_and_addresses_are_matched_by_submodule_name() {
        let listed = "submodule.a.path\nlib/a\0submodule.a.url\n../a.git\0\
                      submodule.b.c.path\n../b\0submodule.b.c.url\n/b\0submodule.d.path\nd\0";
        let found = read(listed, "/srv/r.git");
        assert_eq!(found, [("lib/a".to_owned(), "/srv/a.git".to_owned())].into());
    }
}
