//! Times for people, in their zone: that of `TZ`, else the machine's. Programs get UTC.

use std::io::IsTerminal as _;

use jiff::tz::TimeZone;
use time::macros::format_description;
use time::{Duration, OffsetDateTime, UtcOffset};

/// A time for people, with its offset from UTC.
pub fn when(at: OffsetDateTime) -> String {
    shown(at, offset_at(at).unwrap_or(UtcOffset::UTC))
}

/// A time relative to now at a terminal; the time itself elsewhere, and after 30 days.
pub fn ago(at: OffsetDateTime) -> String {
    let span = OffsetDateTime::now_utc() - at;
    match std::io::stdout().is_terminal() {
        true => relative(span).unwrap_or_else(|| when(at)),
        false => when(at),
    }
}

/// An elapsed time in few words; `None` when a date is clearer.
pub fn relative(span: Duration) -> Option<String> {
    let seconds = span.whole_seconds().unsigned_abs();
    let words = match seconds {
        0..45 => return Some("just now".to_owned()),
        45..5_400 => format!("{} min", (seconds + 30) / 60),
        5_400..129_600 => format!("{} h", (seconds + 1_800) / 3_600),
        129_600..2_592_000 => format!("{} days", (seconds + 43_200) / 86_400),
        _ => return None,
    };
    Some(if span.is_negative() {
        format!("in {words}")
    } else {
        format!("{words} ago")
    })
}

fn shown(at: OffsetDateTime, offset: UtcOffset) -> String {
    let at = at.checked_to_offset(offset).unwrap_or(at);
    let text = if at.offset().is_utc() {
        at.format(format_description!(
            "[year]-[month]-[day] [hour]:[minute]:[second]Z"
        ))
    } else {
        at.format(format_description!(
            "[year]-[month]-[day] [hour]:[minute]:[second][offset_hour sign:mandatory]:[offset_minute]"
        ))
    };
    text.unwrap_or_default()
}

/// Local time's offset from UTC at that time.
fn offset_at(at: OffsetDateTime) -> Option<UtcOffset> {
    let at = jiff::Timestamp::from_second(at.unix_timestamp()).ok()?;
    UtcOffset::from_whole_seconds(TimeZone::system().to_offset(at).seconds()).ok()
}

#[cfg(test)]
mod tests {
    use time::macros::offset;

    use super::*;

    #[test]
    fn a_time_near_now_is_relative() {
        let check = |seconds: i64, expected: Option<&str>| {
            let words = relative(Duration::seconds(seconds));
            assert_eq!(words.as_deref(), expected, "{seconds}");
        };
        check(0, Some("just now"));
        check(-44, Some("just now"));
        check(180, Some("3 min ago"));
        check(-3_600, Some("in 60 min"));
        check(7_300, Some("2 h ago"));
        check(3 * 86_400, Some("3 days ago"));
        check(31 * 86_400, None);
        check(i64::MIN, None);
    }

    #[test]
    fn a_time_shows_its_offset_from_utc() {
        let check = |offset: UtcOffset, expected: &str| {
            assert_eq!(shown(OffsetDateTime::UNIX_EPOCH, offset), expected);
        };
        check(UtcOffset::UTC, "1970-01-01 00:00:00Z");
        check(offset!(+5:30), "1970-01-01 05:30:00+05:30");
        check(offset!(-3:30), "1969-12-31 20:30:00-03:30");
    }
}
