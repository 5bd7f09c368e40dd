//! The identity of a repository: its origin's address, normalised, so that memory and names are the same however it was
//! reached (SPEC 6.5).

/// Normalises an address: host in lower case, no scheme, no credentials, no default port, no `.git` or slash at its end. A
/// path stays a path.
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

/// Whether git would take it for an address rather than a path.
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
    fn paths_are_told_from_addresses() {
        for address in ["https://host/a", "git@host:a", "host:a"] {
            assert!(is_address(address), "{address}");
        }
        for path in ["/a", "a", "./a:b", "../x", "/a:b"] {
            assert!(!is_address(path), "{path}");
        }
    }
}
