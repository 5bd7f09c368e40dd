//! Addresses of repositories and names of refs: mirror names, removal of logins, and checks.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ralph_shared::address::login_of;
pub(in crate::workspace) use ralph_shared::address::public;
use ralph_shared::wire::sha256_hex;

/// Hex digits of a mirror's folder name: 96 bits.
const NAME_DIGITS: usize = 24;

/// The mirror's name for `address`. Spellings that surely mean the same repository have the same name.
pub(in crate::workspace) fn mirror_name(address: &str) -> String {
    let mut name = sha256_hex(normalised(address).as_bytes());
    name.truncate(NAME_DIGITS);
    name
}

/// `scheme://host/path` with scheme and host in lower case, without the login of http and without trailing `/` and
/// `.git`; `user@host:path` as ssh; local paths as they are, without `file://` and trailing `/`.
fn normalised(address: &str) -> String {
    let address = address.trim();
    if let Some((scheme, rest)) = address.split_once("://") {
        let scheme = scheme.to_ascii_lowercase();
        if scheme == "file" {
            return local(rest);
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, host) = authority
            .rsplit_once('@')
            .map_or((None, authority), |(login, host)| (Some(login), host));
        let host = host.to_ascii_lowercase();
        return match login.filter(|_| !scheme.starts_with("http")) {
            Some(login) => format!("{scheme}://{login}@{host}/{}", remote(path)),
            None => format!("{scheme}://{host}/{}", remote(path)),
        };
    }
    match address.split_once(':') {
        Some((host, path)) if !host.contains('/') => match host.rsplit_once('@') {
            Some((login, host)) => format!("ssh://{login}@{}/{}", host.to_ascii_lowercase(), remote(path)),
            None => format!("ssh://{}/{}", host.to_ascii_lowercase(), remote(path)),
        },
        _ => local(address),
    }
}

fn remote(path: &str) -> &str {
    let path = path.trim_matches('/');
    path.strip_suffix(".git").unwrap_or(path)
}

fn local(path: &str) -> String {
    match path.trim_end_matches('/') {
        "" => path.to_owned(),
        path => path.to_owned(),
    }
}

/// Whether the address is a folder of this machine.
pub(in crate::workspace) fn is_local(address: &str) -> bool {
    address.starts_with('/') || address.starts_with("file://")
}

/// `text` without the login in `address`.
pub(in crate::workspace) fn redacted(text: &str, address: &str) -> String {
    let Some(login) = login_of(address) else {
        return text.to_owned();
    };
    let text = text.replace(&format!("{login}@"), "");
    match login.split_once(':') {
        Some((_, password)) if !password.is_empty() => text.replace(password, "***"),
        _ => text,
    }
}

/// The setting by which git sends the login of an http address, password included. Git would pass an address
/// with a login to programs as an argument, which everybody on the machine can read.
pub(in crate::workspace) fn login_setting(address: &str) -> Option<(String, String)> {
    let login = login_of(address)?;
    let (name, password) = login.split_once(':')?;
    if password.is_empty() {
        return None;
    }
    let (scheme, rest) = address.split_once("://")?;
    let host = rest.split('/').next()?.rsplit('@').next()?;
    let login = [decoded(name), b":".to_vec(), decoded(password)].concat();
    Some((
        format!("http.{scheme}://{host}/.extraHeader"),
        format!("Authorization: Basic {}", STANDARD.encode(login)),
    ))
}

/// Decodes `%` escapes.
fn decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let escaped = text_of(after.get(..2)).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match escaped.filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

fn text_of(bytes: Option<&[u8]>) -> Option<&str> {
    std::str::from_utf8(bytes?)
        .ok()
        .filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Whether `name` is a whole ref name (`refs/…`) that git accepts and that has no other meaning in a refspec.
pub(in crate::workspace) fn is_ref(name: &str) -> bool {
    name.starts_with("refs/")
        && !name.ends_with(['/', '.'])
        && !name.contains("..")
        && !name.contains("@{")
        && !name
            .bytes()
            .any(|b| b <= b' ' || b == 0x7f || b"~^:?*[\\".contains(&b))
        && name
            .split('/')
            .all(|part| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock"))
}

/// Whether `text` is a whole object id, SHA-1 or SHA-256.
pub(in crate::workspace) fn is_object_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_address_share_a_mirror() {
        let rows = [
            (
                "https://GitHub.com/a/b.git",
                "https://me:secret@github.com/a/b/",
                true,
            ),
            ("git@github.com:a/b.git", "ssh://git@github.com/a/b", true),
            ("/srv/a/", "file:///srv/a", true),
            ("/srv/a", "/srv/a.git", false),
            ("https://h/a", "https://h/A", false),
            ("ssh://x@h/a", "ssh://y@h/a", false),
        ];
        for (one, other, same) in rows {
            assert_eq!(mirror_name(one) == mirror_name(other), same, "{one} {other}");
        }
    }

    #[test]
    fn logins_are_removed_from_git_messages() {
        let address = "https://me:s3cret@h/a.git";
        let words = "fatal: unable to access 'https://me:s3cret@h/a.git/': s3cret";
        assert_eq!(
            redacted(words, address),
            "fatal: unable to access 'https://h/a.git/': ***"
        );
    }

    #[test]
    fn a_login_with_its_password_becomes_a_header() {
        let header = |address: &str| login_setting(address).map(|(key, value)| format!("{key}={value}"));
        let expected = format!(
            "http.https://h:8443/.extraHeader=Authorization: Basic {}",
            STANDARD.encode("m@e:s%3/ü")
        );
        assert_eq!(
            header("https://m%40e:s%253%2f%C3%BC@h:8443/a.git"),
            Some(expected)
        );
        for without in [
            "https://h/a",
            "https://me@h/a",
            "https://me:@h/a",
            "ssh://me:x@h/a",
            "/a:b@c",
        ] {
            assert_eq!(header(without), None, "{without}");
        }
    }

    #[test]
    fn refs_are_checked() {
        for good in [
            "refs/heads/ralph/x",
            "refs/ralph/attempts/f/t-1/1-d-2",
            "refs/heads/ü",
        ] {
            assert!(is_ref(good), "{good}");
        }
        for bad in [
            "heads/x",
            "refs/heads/a b",
            "refs/heads/a:b",
            "refs/heads/*",
            "refs//a",
            "refs/a/",
            "refs/a..b",
            "refs/a.lock",
            "refs/.a",
            "refs/a\n",
        ] {
            assert!(!is_ref(bad), "{bad}");
        }
    }
}
