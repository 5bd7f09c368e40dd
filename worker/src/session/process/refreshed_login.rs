//! Decides whether a session's copy of a login is that login, refreshed. Agents handle untrusted text, and
//! the user's own programs read the copy. It must not contain another account's settings or a command that
//! such a program runs. Therefore everything but tokens and times must be unchanged.

use serde_json::Value;

use super::logins::is_secret;

/// Numbers from here on count as times: 2001 in seconds.
const EARLIEST_TIME: f64 = 1e9;

/// Shortest token with `/` in it; shorter words may be paths. Bytes.
const ENCODED_BYTES: usize = 32;

/// Placeholders for tokens and times in comparisons.
const TOKEN: char = '\u{1}';
const TIME: char = '\u{2}';

/// Whether only tokens and times differ.
pub fn is_refreshed(old: &[u8], new: &[u8]) -> bool {
    let json = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).ok();
    match (json(old), json(new)) {
        (Some(old), Some(new)) => are_alike("", &old, &new),
        (None, None) => {
            let texts = (std::str::from_utf8(old), std::str::from_utf8(new));
            matches!(texts, (Ok(old), Ok(new)) if shape(old) == shape(new))
        }
        _ => false,
    }
}

/// Whether two values differ only in tokens and times. `name` is the name of the innermost field that
/// contains them.
fn are_alike(name: &str, old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let alike =
                |(name, old): (&String, &Value)| new.get(name).is_some_and(|new| are_alike(name, old, new));
            old.len() == new.len() && old.iter().all(alike)
        }
        (Value::Array(old), Value::Array(new)) => {
            old.len() == new.len() && old.iter().zip(new).all(|(old, new)| are_alike(name, old, new))
        }
        (Value::String(old), Value::String(new)) => old == new || shape(old) == shape(new),
        // A token where there was none before.
        (Value::Null, Value::String(new)) => shape(new).chars().eq([TOKEN]),
        (Value::Number(old), Value::Number(new)) if old != new => {
            let is_late =
                |number: &serde_json::Number| number.as_f64().is_some_and(|number| number >= EARLIEST_TIME);
            name.to_ascii_lowercase().contains("expir") || is_late(old) && is_late(new)
        }
        (old, new) => old == new,
    }
}

/// The text with placeholders for its tokens and times.
fn shape(text: &str) -> String {
    let mut shape = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let field = leading(rest, |c| is_of_word(c) || c == ':');
        if is_time(field) {
            shape.push(TIME);
            rest = &rest[field.len()..];
            continue;
        }
        let word = leading(rest, is_of_word);
        if is_token(word) {
            shape.push(TOKEN);
            // The padding belongs to the token.
            rest = rest[word.len()..].trim_start_matches('=');
        } else if word.is_empty() {
            shape.push(first);
            rest = &rest[first.len_utf8()..];
        } else {
            shape.push_str(word);
            rest = &rest[word.len()..];
        }
    }
    shape
}

/// The longest prefix of characters that satisfy the predicate.
fn leading(text: &str, is_of_it: impl Fn(char) -> bool) -> &str {
    let end = text.find(|c| !is_of_it(c)).unwrap_or(text.len());
    &text[..end]
}

fn is_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_.~+/".contains(c)
}

fn is_token(word: &str) -> bool {
    let is_encoded = || word.len() >= ENCODED_BYTES && !word.contains(['-', '_', '.', '~']);
    is_secret(word) && (!word.contains('/') || is_encoded())
}

/// Times such as `2026-11-24T04:14:16.123Z`.
fn is_time(field: &str) -> bool {
    let is_digit = |c: char| c.is_ascii_digit();
    field.len() >= "2026-11-24".len()
        && field.chars().take(4).all(is_digit)
        && field.chars().all(|c| is_digit(c) || "-:.+TZ".contains(c))
        && field[4..].starts_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "abc-DEF_0123456789xyz";
    const NEW: &str = "eyJhbGciOi.J9-0987654321.zyx";

    fn check(old: &str, new: &str, expected: bool) {
        assert_eq!(
            is_refreshed(old.as_bytes(), new.as_bytes()),
            expected,
            "{old} → {new}"
        );
    }

    #[test]
    fn tokens_and_times_may_differ() {
        let login = |token: &str, expires: u64, seen: &str, more: &str| {
            format!(
                r#"{{"oauth":{{"access":"{token}","expiresAt":{expires},"scopes":["user:inference"],"seen":"{seen}"{more}}}}}"#
            )
        };
        let old = login(OLD, 1_766_372_781_000, "2025-11-24T04:14:16Z", "");
        check(
            &old,
            &login(NEW, 1_766_472_781_123, "2025-12-24T05:00:00.1Z", ""),
            true,
        );
        check(&old, &login(NEW, 1_766_472_781_123, "yesterday", ""), false);
        check(
            &old,
            &login(
                OLD,
                1_766_372_781_000,
                "2025-11-24T04:14:16Z",
                r#","helper":"sh x""#,
            ),
            false,
        );
        check(r#"{"a":null}"#, &format!(r#"{{"a":"{NEW}"}}"#), true);
        check(r#"{"a":null}"#, r#"{"a":"sh x"}"#, false);
        check(r#"{"expires_in":3599}"#, r#"{"expires_in":28800}"#, true);
        check(r#"{"port":80}"#, r#"{"port":8080}"#, false);
        check(r#"{"a":true}"#, r#"{"a":false}"#, false);
        check(r#"{"a":[1]}"#, r#"{"a":[1,1]}"#, false);
    }

    #[test]
    fn addresses_paths_and_accounts_may_not_differ() {
        for (old, new) in [
            ("https://api.example.org/v1", "https://api.example.com/v1"),
            ("http://10.0.0.1:80", "http://10.0.0.2:80"),
            ("/usr/bin/helper-of-2025-tokens", "/home/me/helper-of-2025-tokens"),
            ("scripts/helper-of-2025.sh", "workspace/helper-of-2026.sh"),
            ("me@example.org", "you@example.org"),
        ] {
            let login = |value: &str| format!(r#"{{"value":"{value}"}}"#);
            check(&login(old), &login(new), false);
            check(old, new, false);
        }
        check(r#"{"a":1}"#, "a = 1", false);
        check(&format!("token = {OLD}"), &format!("proxy = {NEW}"), false);
        check(&format!("token={OLD}"), &format!("proxy={NEW}"), false);
        check("\u{fffd}", OLD, false);
    }

    #[test]
    fn files_other_than_json_are_compared_too() {
        check(OLD, NEW, true);
        check(&format!("{OLD}\n"), &format!("{NEW}==\n"), true);
        check(
            &format!("[a]\ntoken={OLD}\nexpires = \"2025-11-24T04:14:16Z\"\n"),
            &format!("[a]\ntoken={NEW}\nexpires = \"2026-01-01T00:00:00Z\"\n"),
            true,
        );
        check(
            &format!("token: {OLD}\n"),
            &format!("token: {NEW}\nrun: x\n"),
            false,
        );
        let encoded = [
            "AAAA+bbbb/0123456789/CCCCddddEEEE",
            "9999+zzzz/9876543210/XXXXyyyyZZZZ",
        ];
        check(encoded[0], encoded[1], true);
    }
}
