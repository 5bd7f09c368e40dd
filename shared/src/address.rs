//! Hides logins in repository addresses. An http address may carry a login for workers without their own; a
//! reader of the feature must not learn it.

/// The address without its http login, as an agent, a log or an API reader may see it. For other schemes, the
/// user name stays, since the address needs it, and the password is removed.
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

/// The login in an http address.
pub fn login_of(address: &str) -> Option<&str> {
    let (scheme, login, _) = parts(address)?;
    is_http(scheme).then_some(login)
}

/// The scheme, the login, and the rest after the login's `@`; `None` without a login.
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
