//! Failures at the door: the agent or its account fails, not the task (SPEC 7.3). They are recognised by error codes,
//! and by words that agents are known to use, since most of them pass their provider's answer on as text.

use ralph_shared::wire::Door;

/// ACP's error code for "log in first".
const AUTH_REQUIRED: i64 = -32000;

/// Longest message of an agent that may be nothing but an error. Characters.
const SHORT_MESSAGE_CHARS: usize = 400;

const AUTHENTICATION: &[&str] = &[
    "log in first",
    "login first",
    "please log in",
    "please login",
    "please run /login",
    "run /login",
    "not logged in",
    "you need to log in",
    "you must log in",
    "must be logged in",
    "authentication required",
    "authentication_error",
    "authentication failed",
    "failed to authenticate",
    "unauthenticated",
    "not authenticated",
    "invalid api key",
    "invalid x-api-key",
    "incorrect api key",
    "api key not valid",
    "api key is missing",
    "missing api key",
    "no api key",
    "api key required",
    "expired token",
    "token expired",
    "token has expired",
    "401 unauthorized",
    "403 forbidden",
    "permission_error",
];

const RATE_LIMIT: &[&str] = &[
    "rate limit",
    "rate_limit",
    "rate-limit",
    "ratelimit",
    "too many requests",
    "quota exceeded",
    "exceeded your current quota",
    "insufficient_quota",
    "insufficient quota",
    "resource_exhausted",
    "resource exhausted",
    "usage limit",
    "credit balance is too low",
    "out of credits",
];

const OVERLOAD: &[&str] = &[
    "overloaded",
    "service unavailable",
    "service_unavailable",
    "server is busy",
    "temporarily unavailable",
    "at capacity",
    "model is overloaded",
];

/// What an error of the agent's says about the door, if anything. `code` is JSON-RPC's, `text` its message with data.
pub fn of_error(code: Option<i64>, text: &str) -> Option<Door> {
    if let Some(door) = of_status(code.unwrap_or(0)) {
        return Some(door);
    }
    let words = of_words(text);
    if code == Some(AUTH_REQUIRED) {
        // Some agents send this code for everything: what the words say about the provider goes first.
        return words.or(Some(Door::Authentication));
    }
    words
}

/// What a turn that ended well says about the door: some agents end their turn with nothing but the provider's error.
/// Only a short text without a sigil, of a session that called no tool, is taken for one.
pub fn of_turn(text: &str, tool_calls: u32) -> Option<Door> {
    let bare = tool_calls == 0
        && text.chars().count() <= SHORT_MESSAGE_CHARS
        && !["<task-", "<promise", "<verify-", "<review-", "</"]
            .iter()
            .any(|sigil| text.contains(sigil));
    let lower = text.trim_start().to_ascii_lowercase();
    let speaks_of_error = [
        "error",
        "api error",
        "failed",
        "please",
        "you",
        "not logged in",
        "invalid",
        "{",
        "4",
        "5",
    ]
    .iter()
    .any(|start| lower.starts_with(start));
    if bare && speaks_of_error {
        of_words(text)
    } else {
        None
    }
}

/// What words say about the door, if anything.
pub fn of_words(text: &str) -> Option<Door> {
    let lower = text.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|words| lower.contains(words));
    if says(RATE_LIMIT) {
        return Some(Door::RateLimit);
    }
    if says(OVERLOAD) {
        return Some(Door::Overload);
    }
    if says(AUTHENTICATION) {
        return Some(Door::Authentication);
    }
    http_status(&lower).and_then(of_status)
}

fn of_status(status: i64) -> Option<Door> {
    match status {
        401 | 403 => Some(Door::Authentication),
        402 | 429 => Some(Door::RateLimit),
        503 | 529 => Some(Door::Overload),
        _ => None,
    }
}

/// A number that the text calls a status: `API Error: 429 …`, `status code 529`, `HTTP 503`, `"code":429`.
fn http_status(lower: &str) -> Option<i64> {
    const BEFORE: &[&str] = &["error", "status", "code", "http", "http/1.1", "http/2"];
    let words: Vec<&str> = lower
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '/' || c == '.'))
        .filter(|word| !word.is_empty())
        .collect();
    words.windows(2).find_map(|pair| {
        let number: i64 = pair[1].parse().ok()?;
        (BEFORE.contains(&pair[0]) && of_status(number).is_some()).then_some(number)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_apart() {
        let check =
            |code, text: &str, expected| assert_eq!(of_error(code, text), expected, "{code:?} {text}");
        check(
            Some(-32000),
            "Authentication required",
            Some(Door::Authentication),
        );
        check(Some(-32000), "", Some(Door::Authentication));
        check(Some(-32000), "429 Too Many Requests", Some(Door::RateLimit));
        check(
            Some(-32603),
            "Internal error: please run /login",
            Some(Door::Authentication),
        );
        check(
            Some(-32603),
            "API Error: 429 {\"type\":\"error\"}",
            Some(Door::RateLimit),
        );
        check(Some(-32603), "{\"error\":{\"code\":529}}", Some(Door::Overload));
        check(Some(429), "slow down", Some(Door::RateLimit));
        check(Some(-32603), "overloaded_error: Overloaded", Some(Door::Overload));
        check(Some(-32603), "HTTP 503", Some(Door::Overload));
        check(Some(-32603), "RESOURCE_EXHAUSTED", Some(Door::RateLimit));
        check(Some(-32603), "API Error: 400 bad request", None);
        check(Some(-32603), "line 429 of the file is wrong", None);
        check(Some(-32602), "unknown session", None);
    }

    #[test]
    fn turns_that_are_only_an_error_are_recognised() {
        let check = |text: &str, tools, expected| assert_eq!(of_turn(text, tools), expected, "{text}");
        check("API Error: 529 Overloaded", 0, Some(Door::Overload));
        check("Please run /login", 0, Some(Door::Authentication));
        check(
            "Invalid API key · Please run /login",
            0,
            Some(Door::Authentication),
        );
        check("API Error: 529 Overloaded", 1, None);
        check("I added the rate limit. <task-done>t-1</task-done>", 0, None);
        check("The rate limit is now configurable.", 0, None);
        check(&format!("error: rate limit {}", "x".repeat(400)), 0, None);
    }
}
