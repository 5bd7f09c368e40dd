//! How long a refusing provider asks to wait, as its agent passes that on: as a header, as a JSON field, or
//! in words.

use std::sync::LazyLock;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp, Zoned};
use regex::{Captures, Regex};

/// A number with a unit, optionally followed by others: `20s`, `1m30s`, `2 hours and 5 minutes`.
const SPAN: &str = r"(?:\d+(?:\.\d+)?\s*(?:ms|milli|s|m|h|d)[a-z]*[,\s]*(?:and\s+)?)+";

/// Patterns, each with the meaning of its first group. The first match counts.
static FORMS: LazyLock<Vec<(Regex, Form)>> = LazyLock::new(|| {
    let form = |pattern: String, form| {
        Regex::new(&format!("(?i){pattern}"))
            .ok()
            .map(|regex| (regex, form))
    };
    let behind = r#"["']?\s*[:=]?\s*["']?"#;
    let forms = [
        form(format!(r"retry[-_ ]?after[-_ ]?(?:ms|millis\w*){behind}(\d+(?:\.\d+)?)"), Form::Millis),
        form(format!(r"retry[-_ ]?(?:after|delay)(?:[-_ ]?s(?:ec\w*)?)?{behind}({SPAN})"), Form::Span),
        form(format!(r"retry[-_ ]?(?:after|delay)(?:[-_ ]?s(?:ec\w*)?)?{behind}(\d+(?:\.\d+)?)"), Form::Seconds),
        form(format!(r"retry[-_ ]?after{behind}([a-z]{{3}}, \d{{1,2}} [a-z]{{3}} \d{{4}} [\d:]{{8}} GMT)"), Form::HttpDate),
        form(format!(r"resets?[-_ ]?in[-_ ]?seconds{behind}(\d+(?:\.\d+)?)"), Form::Seconds),
        form(format!(r"(?:again|retry\w*|resets?|wait)\s+(?:in|for|after)\s+(?:about\s+)?({SPAN})"), Form::Span),
        form(r#"(?:reached|resets?[-_ ]?at)["']?\s*[:=|]\s*["']?(\d{10,13})\b"#.to_owned(), Form::Epoch),
        form(r#"reset[-_ a-z]*["']?\s*[:=]?\s*["']?(\d{4}-\d\d-\d\dt[\d:.]+(?:z|[-+]\d\d:\d\d))"#.to_owned(), Form::Rfc3339),
        form(
            r"(?:again|resets?)\s+(?:at\s+)?(\d{1,2}(?::\d\d)?\s*(?:[ap]m)?)(?:\s*\(([a-z_]+(?:/[a-z_]+)*)\))?".to_owned(),
            Form::Clock,
        ),
    ];
    forms.into_iter().flatten().collect()
});

#[derive(Debug, Clone, Copy)]
enum Form {
    Millis,
    Seconds,
    Span,
    HttpDate,
    Epoch,
    Rfc3339,
    Clock,
}

/// The wait that the text asks for, if any. Times without a zone are in the zone of `now`.
pub fn of(text: &str, now: &Zoned) -> Option<Duration> {
    let wait = FORMS.iter().find_map(|(regex, form)| {
        let found = regex.captures(text)?;
        form.read(&found, now)
    })?;
    Duration::try_from(wait).ok().filter(|wait| !wait.is_zero())
}

impl Form {
    fn read(self, found: &Captures<'_>, now: &Zoned) -> Option<SignedDuration> {
        let text = found.get(1)?.as_str().trim();
        let until = |at: Timestamp| at.duration_since(now.timestamp());
        match self {
            Self::Millis => seconds(text.parse::<f64>().ok()? / 1_000.0),
            Self::Seconds => seconds(text.parse().ok()?),
            Self::Span => span(text),
            Self::HttpDate => Some(until(jiff::fmt::rfc2822::parse(text).ok()?.timestamp())),
            Self::Epoch => {
                let number: i64 = text.parse().ok()?;
                let at = match text.len() {
                    10 => Timestamp::from_second(number),
                    _ => Timestamp::from_millisecond(number),
                };
                Some(until(at.ok()?))
            }
            Self::Rfc3339 => Some(until(text.to_uppercase().parse().ok()?)),
            Self::Clock => clock(text, found.get(2).map(|zone| zone.as_str()), now),
        }
    }
}

fn seconds(seconds: f64) -> Option<SignedDuration> {
    SignedDuration::try_from_secs_f64(seconds).ok()
}

fn span(text: &str) -> Option<SignedDuration> {
    static PART: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"(?i)(\d+(?:\.\d+)?)\s*(ms|milli|s|m|h|d)").ok());
    let parts = PART.as_ref()?.captures_iter(text).map(|part| {
        let number: f64 = part[1].parse().unwrap_or(0.0);
        let unit = match part[2].to_lowercase().as_str() {
            "ms" | "milli" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3_600.0,
            _ => 86_400.0,
        };
        number * unit
    });
    seconds(parts.sum())
}

/// Time until the next occurrence of a clock time: `3pm`, `15:30`. A number alone is none.
fn clock(text: &str, zone: Option<&str>, now: &Zoned) -> Option<SignedDuration> {
    let lower = text.to_lowercase();
    let is_half = lower.ends_with('m');
    let digits = lower.trim_end_matches(['a', 'p', 'm', ' ']);
    let (hour, minute) = digits.split_once(':').unwrap_or((digits, ""));
    if minute.is_empty() && !is_half {
        return None;
    }
    let hour: i8 = hour.parse().ok()?;
    let hour = match (is_half, lower.contains('p')) {
        (false, _) => hour,
        (true, afternoon) => hour % 12 + if afternoon { 12 } else { 0 },
    };
    let minute = minute.parse().unwrap_or(0);
    let here = match zone.and_then(|zone| now.in_tz(zone).ok()) {
        Some(there) => there,
        None => now.clone(),
    };
    let today = here
        .with()
        .hour(hour)
        .minute(minute)
        .second(0)
        .subsec_nanosecond(0)
        .build()
        .ok()?;
    let next = if today > here {
        today
    } else {
        today.tomorrow().ok()?
    };
    Some(next.duration_since(&here))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_is_read() {
        let now: Zoned = "2026-01-05T13:00:00[UTC]".parse().unwrap();
        let check = |text: &str, expected: Option<u64>| {
            let got = of(text, &now).map(|wait| wait.as_millis());
            assert_eq!(got, expected.map(u128::from), "{text}");
        };
        // Headers.
        check("429 Too Many Requests\nRetry-After: 20", Some(20_000));
        check("retry-after-ms: 1500", Some(1_500));
        check("Retry-After: Mon, 05 Jan 2026 13:00:30 GMT", Some(30_000));
        check(r#"{"headers":{"retry-after":"7"}}"#, Some(7_000));
        // Fields.
        check(r#"{"error":{"code":429,"retry_after":2.5}}"#, Some(2_500));
        check(r#"{"retryAfterMs": 250}"#, Some(250));
        check(r#"{"@type":"RetryInfo","retryDelay":"34s"}"#, Some(34_000));
        check(r#"{"resets_in_seconds":90}"#, Some(90_000));
        check(r#"{"resets_at":1767618060}"#, Some(60_000));
        check(r#"{"reset_at":"2026-01-05T14:00:00Z"}"#, Some(3_600_000));
        // Words.
        check("Rate limit reached. Please try again in 20s.", Some(20_000));
        check("Please try again in 1m30s", Some(90_000));
        check("retry after 2 hours and 5 minutes", Some(7_500_000));
        check("Try again in 120ms.", Some(120));
        check("You've hit your limit · resets at 3pm", Some(7_200_000));
        check("limit reached, resets 3:15pm (Europe/Berlin)", Some(4_500_000));
        check("usage limit reached, resets at 09:00", Some(72_000_000));
        check("Claude AI usage limit reached|1767618060", Some(60_000));
        check("API Error: 429 rate_limit_error", None);
        check("it resets 3 counters", None);
        check("reached|1000000000", None);
        check("Retry-After: 0", None);
    }
}
