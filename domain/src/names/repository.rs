//! The identity of a repository: the normalised address of its origin, so that memory and names do not depend
//! on how it was reached (SPEC 6.5).

/// Normalises an address: host in lower case, no scheme, no credentials, no default port, no `.git` or slash
/// at its end. A path stays a path.
pub fn normalised(address: &str) -> String {
    let address = address.trim();
    if let Some((scheme, rest)) = address.split_once("://") {
        if scheme.eq_ignore_ascii_case("file") {
            return path(rest);
        }
        let (authority, rest) = rest.split_once('/').unwrap_or((rest, ""));
        return host_and_path(authority, rest, default_port(scheme));
    }
    // git@host:path, unless a slash comes before the colon: then it is a path.
    if let Some((authority, rest)) = address.split_once(':')
        && !authority.contains('/')
    {
        return host_and_path(authority, rest, None);
    }
    path(address)
}

/// Whether git reads the text as an address, not as a path.
pub fn is_address(text: &str) -> bool {
    let before_slash = text.split('/').next().unwrap_or(text);
    text.contains("://") || before_slash.contains(':')
}

fn default_port(scheme: &str) -> Option<&'static str> {
    match scheme.to_ascii_lowercase().as_str() {
        "https" => Some("443"),
        "http" => Some("80"),
        "ssh" | "git+ssh" => Some("22"),
        "git" => Some("9418"),
        _ => None,
    }
}

fn host_and_path(authority: &str, rest: &str, default_port: Option<&str>) -> String {
    let host = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host)
        .to_ascii_lowercase();
    let host = match (host.rsplit_once(':'), default_port) {
        (Some((name, port)), Some(default)) if port == default => name.to_owned(),
        _ => host,
    };
    format!("{host}/{}", path(rest).trim_start_matches('/'))
}

fn path(text: &str) -> String {
    let text = text.trim_end_matches('/');
    text.strip_suffix(".git")
        .filter(|rest| !rest.ends_with('/'))
        .unwrap_or(text)
        .to_owned()
}

/// The base among the refs of `git ls-remote --symref`: a branch, a tag (its target), or the commit of a ref;
/// by default the repository's own choice.
pub fn choose_base(refs: &str, base: Option<&str>) -> Option<(String, String)> {
    let rows = || refs.lines().filter_map(|line| line.split_once('\t'));
    let commit_of = |name: &str| {
        rows()
            .find(|(_, found)| *found == name)
            .map(|(commit, _)| commit.to_owned())
    };
    let base = match base {
        Some(base) => base.to_owned(),
        None => rows()
            .filter(|(_, name)| *name == "HEAD")
            .find_map(|(target, _)| target.strip_prefix("ref: refs/heads/"))?
            .to_owned(),
    };
    let names = [
        format!("refs/heads/{base}"),
        format!("refs/tags/{base}^{{}}"),
        format!("refs/tags/{base}"),
        base.clone(),
    ];
    let commit = names.iter().find_map(|name| commit_of(name)).or_else(|| {
        rows()
            .find(|(commit, _)| *commit == base)
            .map(|(commit, _)| commit.to_owned())
    })?;
    Some((base, commit))
}

/// The address without user name and password, for messages.
pub fn without_secret(address: &str) -> String {
    match address.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            format!("{scheme}://{host}/{path}")
        }
        None => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_repository_has_one_identity() {
        for address in [
            "https://github.com/Team/todo.git",
            "https://user:secret@GitHub.com/Team/todo",
            "https://github.com:443/Team/todo/",
            "git@github.com:Team/todo.git",
            "ssh://git@github.com/Team/todo.git",
            "ssh://git@github.com:22/Team/todo",
        ] {
            assert_eq!(normalised(address), "github.com/Team/todo", "{address}");
        }
        for (address, expected) in [
            ("ssh://git@host:2222/a", "host:2222/a"),
            ("/srv/git/todo.git", "/srv/git/todo"),
            ("/srv/todo/.git", "/srv/todo/.git"),
            ("file:///srv/git/todo.git/", "/srv/git/todo"),
            ("/srv/a:b", "/srv/a:b"),
        ] {
            assert_eq!(normalised(address), expected, "{address}");
        }
    }

    #[test]
    fn paths_are_distinguished_from_addresses() {
        for address in ["https://host/a", "git@host:a", "host:a"] {
            assert!(is_address(address), "{address}");
        }
        for path in ["/a", "a", "./a:b", "../x", "/a:b"] {
            assert!(!is_address(path), "{path}");
        }
    }

    #[test]
    fn the_base_is_picked_among_branches_tags_and_commits() {
        let refs = "ref: refs/heads/main\tHEAD
aaaa\tHEAD
aaaa\trefs/heads/main
bbbb\trefs/heads/v1
cccc\trefs/tags/v1
dddd\trefs/tags/v2
eeee\trefs/tags/v2^{}
ffff\trefs/pull/7/head";
        let check = |base: Option<&str>, expected: Option<(&str, &str)>| {
            let expected = expected.map(|(name, commit)| (name.to_owned(), commit.to_owned()));
            assert_eq!(choose_base(refs, base), expected, "{base:?}");
        };
        check(None, Some(("main", "aaaa")));
        check(Some("main"), Some(("main", "aaaa")));
        check(Some("v1"), Some(("v1", "bbbb")));
        check(Some("v2"), Some(("v2", "eeee")));
        check(Some("refs/pull/7/head"), Some(("refs/pull/7/head", "ffff")));
        check(Some("dddd"), Some(("dddd", "dddd")));
        check(Some("none"), None);
        assert_eq!(choose_base("", None), None);
    }

    #[test]
    fn messages_contain_no_password() {
        assert_eq!(
            without_secret("https://me:secret@host/a.git"),
            "https://host/a.git"
        );
        assert_eq!(without_secret("git@host:a.git"), "git@host:a.git");
    }
}
