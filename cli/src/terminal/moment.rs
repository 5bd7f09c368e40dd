//! Points in time on the command line: `2026-12-01T08:00+01:00`, local `2026-12-01 08:00`, or `6h` from now.

use std::str::FromStr;

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use super::duration::Span;

/// A moment from the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment(pub Timestamp);

impl Moment {
    /// Parses a moment. A time without an offset is in this zone.
    pub fn read(text: &str, zone: &TimeZone) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is not a time; write 2026-12-01T08:00+01:00, \"2026-12-01 08:00\" for local time, or 6h from now"
            )
        };
        if let Ok(at) = text.parse::<Timestamp>() {
            return Ok(Self(at));
        }
        if let Ok(Span(span)) = text.parse() {
            return Timestamp::now().checked_add(span).map(Self).map_err(|_| wrong());
        }
        let civil: jiff::civil::DateTime = text.parse().map_err(|_| wrong())?;
        let zoned: Zoned = zone.to_zoned(civil).map_err(|_| wrong())?;
        Ok(Self(zoned.timestamp()))
    }
}

impl std::fmt::Display for Moment {
    /// RFC 3339.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::read(text, &TimeZone::system())
    }
}

/// Parses a moment, or `none`, for a request.
pub fn moment_or_none(text: &str) -> Result<String, String> {
    match text {
        "none" => Ok("none".to_owned()),
        text => text.parse::<Moment>().map(|at| at.to_string()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn moments_parse_with_or_without_offset() {
        let berlin = TimeZone::get("Europe/Berlin").unwrap();
        let check = |text: &str, expected: &str| {
            assert_eq!(
                Moment::read(text, &berlin).unwrap().to_string(),
                expected,
                "{text}"
            );
        };
        check("2026-12-01T08:00+01:00", "2026-12-01T07:00:00Z");
        check("2026-12-01T08:00:30Z", "2026-12-01T08:00:30Z");
        check("2026-12-01 08:00", "2026-12-01T07:00:00Z");
        check("2026-07-01T08:00", "2026-07-01T06:00:00Z");
        // Skipped and repeated times at clock changes.
        check("2026-03-29T02:30", "2026-03-29T01:30:00Z");
        check("2026-10-25T02:30", "2026-10-25T00:30:00Z");
        for wrong in ["", "soon", "2026-13-01T08:00", "08:00"] {
            assert!(Moment::read(wrong, &berlin).is_err(), "{wrong}");
        }
        let later = Moment::read("6h", &berlin).unwrap().0;
        assert!(later > Timestamp::now() + std::time::Duration::from_secs(5 * 3600));
    }
}
