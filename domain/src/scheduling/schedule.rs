//! When a schedule fires: by the wall clock of a time zone, with a policy for missed times.

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime};

/// A firing later than this was missed.
const MISSED_AFTER: Duration = Duration::minutes(1);

/// Whether one firing makes up for missed ones.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(
    feature = "postgres",
    derive(sqlx::Type),
    sqlx(type_name = "text", rename_all = "snake_case")
)]
pub enum Missed {
    /// Missed firings are dropped.
    Skip,
    /// One firing makes up for all missed ones, as soon as a coordinator runs again.
    #[default]
    Once,
}

/// The times of a cron expression in a time zone.
#[derive(Debug, Clone)]
pub struct Timetable {
    cron: Cron,
    zone: TimeZone,
}

impl Timetable {
    /// # Errors
    /// In words, when the expression or the zone is invalid.
    pub fn parse(cron: &str, zone: &str) -> Result<Self, String> {
        let parser = CronParser::builder()
            .seconds(Seconds::Disallowed)
            .year(Year::Disallowed)
            .build();
        let timetable = Self {
            cron: parser.parse(cron).map_err(|error| {
                format!(
                    "`{cron}` is not a cron expression ({error}); write minute, hour, day, month and weekday, as \"0 3 * * 1-5\""
                )
            })?,
            zone: zone_of(zone)?,
        };
        match timetable.after(OffsetDateTime::now_utc()) {
            Some(_) => Ok(timetable),
            None => Err(format!("`{cron}` never fires")),
        }
    }

    /// The first time after this one. An hour that the change of clocks skips fires right after it, and one
    /// that it repeats fires once, unless the expression fires every hour or minute.
    pub fn after(&self, at: OffsetDateTime) -> Option<OffsetDateTime> {
        let at = timestamp(at)?.to_zoned(self.zone.clone());
        let next = self.cron.find_next_occurrence(&at, false).ok()?;
        OffsetDateTime::from_unix_timestamp_nanos(next.timestamp().as_nanosecond()).ok()
    }
}

/// A time zone of the IANA database.
pub fn zone_of(name: &str) -> Result<TimeZone, String> {
    TimeZone::get(name)
        .map_err(|_| format!("`{name}` is not a time zone; write one such as Europe/Berlin or UTC"))
}

/// `20261201-0800`.
pub fn stamp(at: OffsetDateTime, zone: &TimeZone) -> String {
    let zoned = timestamp(at).unwrap_or_default().to_zoned(zone.clone());
    zoned.strftime("%Y%m%d-%H%M").to_string()
}

fn timestamp(at: OffsetDateTime) -> Option<Timestamp> {
    Timestamp::from_nanosecond(at.unix_timestamp_nanos()).ok()
}

/// The next step of a due schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    pub fires: bool,
    /// Time of the next firing.
    pub next: Option<OffsetDateTime>,
}

/// Decides on a schedule that was due at `due`; one with a timetable repeats.
pub fn decide(
    now: OffsetDateTime,
    due: OffsetDateTime,
    timetable: Option<&Timetable>,
    missed: Missed,
) -> Decision {
    Decision {
        fires: now - due <= MISSED_AFTER || missed == Missed::Once,
        next: timetable.and_then(|timetable| timetable.after(now)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use time::format_description::well_known::Rfc3339;

    use super::*;

    fn at(text: &str) -> OffsetDateTime {
        OffsetDateTime::parse(text, &Rfc3339).unwrap()
    }

    fn check(cron: &str, zone: &str, after: &str, expected: &[&str]) {
        let timetable = Timetable::parse(cron, zone).unwrap();
        let mut now = at(after);
        for expected in expected {
            now = timetable.after(now).unwrap();
            assert_eq!(now, at(expected), "{cron} in {zone}");
        }
    }

    #[test]
    fn a_leap_day_comes_every_four_years() {
        check(
            "0 12 29 2 *",
            "UTC",
            "2026-01-01T00:00:00Z",
            &["2028-02-29T12:00:00Z", "2032-02-29T12:00:00Z"],
        );
        // 2100 is no leap year.
        check(
            "0 0 29 2 *",
            "UTC",
            "2096-03-01T00:00:00Z",
            &["2104-02-29T00:00:00Z"],
        );
    }

    #[test]
    fn a_firing_in_a_skipped_hour_comes_right_after_it() {
        // From 02:00 to 03:00 on 29 March.
        check(
            "30 2 * * *",
            "Europe/Berlin",
            "2026-03-27T12:00:00Z",
            &[
                "2026-03-28T01:30:00Z",
                "2026-03-29T01:00:00Z",
                "2026-03-30T00:30:00Z",
            ],
        );
        check(
            "0 * * * *",
            "Europe/Berlin",
            "2026-03-29T00:00:00Z",
            &["2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"],
        );
    }

    #[test]
    fn a_repeated_hour_fires_once_unless_every_hour_does() {
        // From 03:00 to 02:00 on 25 October.
        check(
            "30 2 * * *",
            "Europe/Berlin",
            "2026-10-24T12:00:00Z",
            &["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"],
        );
        check(
            "30 * * * *",
            "Europe/Berlin",
            "2026-10-24T23:40:00Z",
            &[
                "2026-10-25T00:30:00Z",
                "2026-10-25T01:30:00Z",
                "2026-10-25T02:30:00Z",
            ],
        );
        // Another zone has another night.
        check(
            "30 1 * * *",
            "America/New_York",
            "2026-10-31T12:00:00Z",
            &["2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"],
        );
    }

    #[test]
    fn an_invalid_expression_or_zone_is_refused() {
        for cron in ["", "* * *", "61 * * * *", "0 0 0 * * *", "0 0 31 2 *", "noon"] {
            assert!(Timetable::parse(cron, "UTC").is_err(), "{cron}");
        }
        assert!(Timetable::parse("0 3 * * *", "Europe/Atlantis").is_err());
    }

    #[test]
    fn missed_firings_are_made_up_for_once_or_never() {
        let daily = Timetable::parse("0 3 * * *", "UTC").unwrap();
        let due = at("2026-05-01T03:00:00Z");
        let check = |now: &str, table: Option<&Timetable>, missed, fires, next: Option<&str>| {
            let decided = decide(at(now), due, table, missed);
            let next = next.map(at);
            assert_eq!(decided, Decision { fires, next }, "{now}");
        };
        let (in_time, late) = ("2026-05-01T03:00:05Z", "2026-05-09T12:00:00Z");
        check(
            in_time,
            Some(&daily),
            Missed::Skip,
            true,
            Some("2026-05-02T03:00:00Z"),
        );
        check(
            late,
            Some(&daily),
            Missed::Skip,
            false,
            Some("2026-05-10T03:00:00Z"),
        );
        check(
            late,
            Some(&daily),
            Missed::Once,
            true,
            Some("2026-05-10T03:00:00Z"),
        );
        check(in_time, None, Missed::Skip, true, None);
        check(late, None, Missed::Skip, false, None);
        check(late, None, Missed::Once, true, None);
    }
}
