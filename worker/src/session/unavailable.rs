//! Failed starts: the agent or its account fails, not the task (SPEC 7.3). They are recognized by error codes
//! and by known phrases, since most agents pass their provider's answer on as text.

use ralph_shared::plain::plain;
use ralph_shared::wire::Unavailable;

/// ACP's error code for "log in first".
const AUTH_REQUIRED: i64 = -32000;

/// Longest message that may be only an error. Characters.
const SHORT_MESSAGE_CHARS: usize = 400;

/// How many of the last lines on standard error are read: an error and its stack trace.
const STDERR_LINES: usize = 20;

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
    "resource_exhausted",
    "resource exhausted",
];

const QUOTA: &[&str] = &[
    "quota exceeded",
    "exceeded your current quota",
    "insufficient_quota",
    "insufficient quota",
    "usage limit",
    "hit your limit",
    "reached your limit",
    "credit balance is too low",
    "out of credits",
    "insufficient credits",
    "payment required",
];

/// Words for a quota that renews soon, which makes it a rate limit.
const SOON: &[&str] = &["per minute", "perminute", "per second", "per_minute"];

const OVERLOAD: &[&str] = &[
    "overloaded",
    "service unavailable",
    "service_unavailable",
    "server is busy",
    "temporarily unavailable",
    "at capacity",
    "model is overloaded",
];

/// How often a refusal must be reported to count as repeated.
const REPEATED: usize = 2;

/// Availability according to an agent's error, if it says anything. `code` is JSON-RPC's, `text` its message
/// with data.
pub fn of_error(code: Option<i64>, text: &str) -> Option<Unavailable> {
    let words = of_words(text);
    // Providers use one code for rate limits and quotas.
    if let Some(door) = of_status(code.unwrap_or(0)).filter(|_| words != Some(Unavailable::Quota)) {
        return Some(door);
    }
    if code == Some(AUTH_REQUIRED) {
        // Some agents use this code for everything, so words about the provider take precedence.
        return words.or(Some(Unavailable::Authentication));
    }
    words
}

/// Availability according to a turn that ended in order. Some agents end a turn with only the provider's
/// error, or with a last message that is only an error. `text` is the agent's whole text, `last` its text
/// after the last tool call.
///
/// Only a short text without a sigil can count as an error. An agent that worked may describe errors that it
/// fixed, so its message must itself look like an error.
pub fn of_turn(text: &str, last: &str, tool_calls: u32) -> Option<Unavailable> {
    if ENDING_SIGILS
        .iter()
        .any(|sigil| text.contains(&format!("<{sigil}")))
    {
        return None;
    }
    let bare = |text: &str| text.chars().count() <= SHORT_MESSAGE_CHARS && !text.contains("</");
    if tool_calls == 0 && bare(text) && speaks_of_error(text) {
        return of_words(text);
    }
    if bare(last) && is_error(last) {
        return of_words(last);
    }
    None
}

/// Prefixes of sigils that tell a session's outcome.
const ENDING_SIGILS: &[&str] = &["task-", "promise", "verify-", "review-", "document"];

/// Whether a text contains a complete sigil that tells the session's outcome.
pub fn is_concluded(text: &str) -> bool {
    ENDING_SIGILS
        .iter()
        .any(|sigil| text.contains(&format!("</{sigil}")))
        || ["<verify-pass/>", "<review-pass/>"]
            .iter()
            .any(|sigil| text.contains(sigil))
}

/// Whether an agent's whole text begins like an error.
fn speaks_of_error(text: &str) -> bool {
    let lower = text.trim_start().to_ascii_lowercase();
    [
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
    .any(|start| lower.starts_with(start))
}

/// Whether a message is itself an error as providers and agents write them, rather than a description of one.
fn is_error(message: &str) -> bool {
    const STARTS: &[&str] = &[
        "api error",
        "apierror",
        "error:",
        "error code",
        "internal error",
        "provider error",
        "request failed",
        "http 4",
        "http 5",
        "401 ",
        "402 ",
        "403 ",
        "429 ",
        "503 ",
        "529 ",
        "{\"error\"",
        "{\"type\":\"error\"",
        "rate limit exceeded",
        "rate limit reached",
        "rate_limit_error",
        "overloaded_error",
        "resource_exhausted",
        "too many requests",
        "quota exceeded",
        "usage limit reached",
        "claude ai usage limit reached",
        "claude usage limit reached",
        "credit balance is too low",
        "you've hit your",
        "you've reached your",
        "you have hit your",
        "you have reached your",
        "you exceeded your",
        "you have exceeded your",
        "please run /login",
        "invalid api key",
        "not logged in",
    ];
    let lower = message.to_lowercase();
    let begins = lower.trim_start_matches(|c: char| !(c.is_alphanumeric() || c == '{'));
    STARTS.iter().any(|start| begins.starts_with(start)) && !describes_work(&lower)
}

/// Whether a lower-case text describes work.
fn describes_work(lower: &str) -> bool {
    const WORDS: &[&str] = &[
        " i ",
        " i'",
        "fixed",
        "added",
        "implement",
        "changed",
        "updated",
        "handled",
        " test",
    ];
    WORDS.iter().any(|word| lower.contains(word))
}

/// The refusal reported in a line of standard error or a message. `None` for a line without an error.
fn of_line(line: &str) -> Option<Unavailable> {
    const OF_ERRORS: &[&str] = &[
        "error",
        "fail",
        "exceeded",
        "too many requests",
        "exhausted",
        "overloaded",
        "unavailable",
        "insufficient",
        "unauthorized",
        "forbidden",
        "expired",
        "retry",
        "log in",
        "/login",
    ];
    let lower = line.to_lowercase();
    OF_ERRORS
        .iter()
        .any(|word| lower.contains(word))
        .then(|| of_words(line))
        .flatten()
}

/// Whether a text only reports a provider's refusal: short, and no description of work.
pub fn is_complaint(text: &str) -> bool {
    // Longer texts are not searched at all. A character takes at most four bytes, and colours a few more.
    if text.len() > 8 * SHORT_MESSAGE_CHARS {
        return false;
    }
    let text = plain(text);
    let is_short = text.chars().count() <= SHORT_MESSAGE_CHARS;
    is_short && of_line(&text).is_some() && !describes_work(&text.to_lowercase())
}

/// The newest refusal in the lines, if they report one repeatedly.
pub fn of_repeated<'l>(lines: impl Iterator<Item = &'l str>) -> Option<Unavailable> {
    let doors: Vec<Unavailable> = lines.filter_map(of_line).collect();
    doors.last().copied().filter(|_| doors.len() >= REPEATED)
}

/// Availability according to an agent's last lines on standard error that report an error, whether or not the
/// agent worked.
pub fn of_stderr(stderr: &str) -> Option<Unavailable> {
    let lines = stderr.lines().rev().filter(|line| !line.trim().is_empty());
    lines.take(STDERR_LINES).find_map(of_line)
}

/// Availability according to words, if they say anything.
pub fn of_words(text: &str) -> Option<Unavailable> {
    let lower = text.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|words| lower.contains(words));
    if says(QUOTA) && !says(SOON) {
        return Some(Unavailable::Quota);
    }
    if says(QUOTA) || says(RATE_LIMIT) {
        return Some(Unavailable::RateLimit);
    }
    if says(OVERLOAD) {
        return Some(Unavailable::Overload);
    }
    if says(AUTHENTICATION) {
        return Some(Unavailable::Authentication);
    }
    http_status(&lower).and_then(of_status)
}

fn of_status(status: i64) -> Option<Unavailable> {
    match status {
        401 | 403 => Some(Unavailable::Authentication),
        402 => Some(Unavailable::Quota),
        429 => Some(Unavailable::RateLimit),
        503 | 529 => Some(Unavailable::Overload),
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
    fn errors_are_classified_by_code_and_words() {
        let check =
            |code, text: &str, expected| assert_eq!(of_error(code, text), expected, "{code:?} {text}");
        check(
            Some(-32000),
            "Authentication required",
            Some(Unavailable::Authentication),
        );
        check(Some(-32000), "", Some(Unavailable::Authentication));
        check(
            Some(-32000),
            "429 Too Many Requests",
            Some(Unavailable::RateLimit),
        );
        check(
            Some(-32603),
            "Internal error: please run /login",
            Some(Unavailable::Authentication),
        );
        check(
            Some(-32603),
            "API Error: 429 {\"type\":\"error\"}",
            Some(Unavailable::RateLimit),
        );
        check(
            Some(-32603),
            "{\"error\":{\"code\":529}}",
            Some(Unavailable::Overload),
        );
        check(Some(429), "slow down", Some(Unavailable::RateLimit));
        check(
            Some(-32603),
            "overloaded_error: Overloaded",
            Some(Unavailable::Overload),
        );
        check(Some(-32603), "HTTP 503", Some(Unavailable::Overload));
        check(Some(-32603), "RESOURCE_EXHAUSTED", Some(Unavailable::RateLimit));
        check(Some(-32603), "API Error: 400 bad request", None);
        check(Some(-32603), "line 429 of the file is wrong", None);
        check(Some(-32603), "HTTP 402", Some(Unavailable::Quota));
        check(Some(-32603), "429 insufficient_quota", Some(Unavailable::Quota));
        check(
            Some(-32603),
            "Quota exceeded: requests per minute",
            Some(Unavailable::RateLimit),
        );
        check(Some(-32602), "unknown session", None);
    }

    #[test]
    fn turns_that_are_only_an_error_are_recognized() {
        let check = |text: &str, expected| assert_eq!(of_turn(text, text, 0), expected, "{text}");
        check("API Error: 529 Overloaded", Some(Unavailable::Overload));
        check("Please run /login", Some(Unavailable::Authentication));
        check(
            "Invalid API key · Please run /login",
            Some(Unavailable::Authentication),
        );
        check("I added the rate limit. <task-done>t-1</task-done>", None);
        check("The rate limit is now configurable.", None);
        check(&format!("error: rate limit {}", "x".repeat(400)), None);
    }

    #[test]
    fn an_error_after_work_is_distinguished_from_a_description_of_one() {
        let work = "I look at the tests.\nThe API answers 429 at times.\n";
        let check = |last: &str, expected| {
            assert_eq!(of_turn(&format!("{work}{last}"), last, 20), expected, "{last}");
        };
        check("\nAPI Error: 429 Too Many Requests", Some(Unavailable::RateLimit));
        check("API Error: 529 Overloaded", Some(Unavailable::Overload));
        check("**Error:** 429 rate_limit_error", Some(Unavailable::RateLimit));
        check("⚠ Error: 401 Unauthorized", Some(Unavailable::Authentication));
        check(
            "429 {\"type\":\"error\"} rate_limit_error",
            Some(Unavailable::RateLimit),
        );
        check(
            "{\"error\":{\"code\":429,\"message\":\"slow down\"}}",
            Some(Unavailable::RateLimit),
        );
        check(
            "You've hit your usage limit · resets 3pm",
            Some(Unavailable::Quota),
        );
        check(
            "Claude AI usage limit reached|1760000000",
            Some(Unavailable::Quota),
        );
        check("", None);
        check("API Error: 400 prompt is too long", None);
        check("You can set the rate limit by RATE_LIMIT now.", None);
        check("Error handling for 429 Too Many Requests is in place.", None);
        check("Error: 429 was not retried; I fixed that.", None);
        check("The server answers HTTP 429 when it is overloaded.", None);
        check("429 responses are retried, as the tests say.", None);
        check("API Error: 429 <task-done>t-1</task-done>", None);
        let long = format!("API Error: 429 {}", "x".repeat(400));
        check(&long, None);
        let done = "<task-done>t-1</task-done>\n";
        assert_eq!(
            of_turn(&format!("{done}{work}API Error: 429"), "API Error: 429", 20),
            None
        );
    }

    #[test]
    fn complaints_are_recognized_and_counted() {
        let check = |text: &str, expected| assert_eq!(is_complaint(text), expected, "{text}");
        check("Error: 429 Too Many Requests, retrying in 4 s", true);
        check("\u{1b}[31mAPI error\u{1b}[0m 401: Unauthorized", true);
        check("Retry 3 of 10: overloaded", true);
        check("I handled the error 429 Too Many Requests", false);
        check("error: cannot read a.js", false);
        check(&format!("Error: 429 {}", "x".repeat(400)), false);
        let of = |lines: &[&str]| of_repeated(lines.iter().copied());
        assert_eq!(of(&["Error: 429", "on we go"]), None);
        assert_eq!(
            of(&["Error: 429", "Error: 401"]),
            Some(Unavailable::Authentication)
        );
    }

    #[test]
    fn only_a_complete_sigil_concludes_a_session() {
        let check = |text: &str, expected| assert_eq!(is_concluded(text), expected, "{text}");
        check("done. <task-done>t-1</task-done>", true);
        check("<task-done>t-1", false);
        check("<verify-pass/>", true);
        check("<promise>COMPLETE</promise>", true);
        check("all is done", false);
    }

    #[test]
    fn standard_error_counts_only_lines_that_report_errors() {
        let check = |stderr: &str, expected| assert_eq!(of_stderr(stderr), expected, "{stderr}");
        check(
            "Error: 429 Too Many Requests\n    at fetch (a.js:1)\n\n",
            Some(Unavailable::RateLimit),
        );
        check("retrying: overloaded_error (529)", Some(Unavailable::Overload));
        check("error: token expired", Some(Unavailable::Authentication));
        check("rate limit: 50 requests left", None);
        check("error: cannot read a.js", None);
        check(&format!("Error: HTTP 429\n{}", "on we go\n".repeat(20)), None);
        check("", None);
    }
}
