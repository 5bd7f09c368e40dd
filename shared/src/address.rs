//! What of a repository's address may be shown. Addresses of http may carry a login, for workers that have none of their own; whoever
//! only looks at a feature must not get to know it.

/// The address without the login that http carries in it, as an agent, a log or a reader of the API may see it. Of other schemes
/// the name stays, which is part of the way there, and a password goes.
pub fn public(address: &str) -> String {
    let Some((scheme, login, rest)) = parts(address) else {
        return address.to_owned();
    };
    let name = login.split(':').next().unwrap_or_default();
    if is_http(scheme) || name.is_empty() {
        format!("{scheme}://{rest}")
    } else {
        format!("{scheme}://{name}@{rest}")
    }
}

/// The login that an address of http carries.
pub fn login_of(address: &str) -> Option<&str> {
    let (scheme, login, _) = parts(address)?;
    is_http(scheme).then_some(login)
}

/// Scheme, login, and what follows the login's `@`, of an address that has one.
fn parts(address: &str) -> Option<(&str, &str, &str)> {
    let (scheme, rest) = address.split_once("://")?;
    let authority = rest.split('/').next()?;
    let (login, _) = authority.rsplit_once('@')?;
    let rest = rest.strip_prefix(login)?.strip_prefix('@')?;
    Some((scheme, login, rest))
}

fn is_http(scheme: &str) -> bool {
    scheme.trim_start().to_ascii_lowercase().starts_with("http")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_are_not_shown() {
        for (address, shown) in [
            ("https://me:s3cret@h/a.git", "https://h/a.git"),
            ("HTTPS://token@h:8443/a@b", "HTTPS://h:8443/a@b"),
            ("https://me:p@ss@h/a", "https://h/a"),
            ("https://h/a@b", "https://h/a@b"),
            ("ssh://git@h/a", "ssh://git@h/a"),
            ("ssh://git:s3cret@h/a", "ssh://git@h/a"),
            ("ftp://:s3cret@h/a", "ftp://h/a"),
            ("git@h:a/b.git", "git@h:a/b.git"),
            ("/srv/a:b@c", "/srv/a:b@c"),
            ("file:///srv/a:b@c", "file:///srv/a:b@c"),
        ] {
            assert_eq!(public(address), shown);
        }
    }
}
