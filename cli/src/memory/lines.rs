//! Files of JSON lines.

use std::path::Path;

use ralph_shared::file;
use serde::de::DeserializeOwned;
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::args::usage::Usage;

/// Reads a file of JSON lines, each of this `shape`; skips blank lines.
///
/// # Errors
/// When the file is unreadable, or a line is invalid; the error has its number.
pub fn read<T: DeserializeOwned>(path: &Path, shape: &str) -> anyhow::Result<Vec<T>> {
    let text = file::read_text(path, file::LARGE_BYTES)?;
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(number, line)| {
            item(line).map_err(|error| {
                let at = format!("{}:{}", path.display(), number + 1);
                Usage(format!("{at}: not a line of {shape}: {error}")).into()
            })
        })
        .collect()
}

/// Parses a line. Its `date` may be a day, which means the start of that day in UTC.
fn item<T: DeserializeOwned>(line: &str) -> Result<T, String> {
    let mut value: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    if let Some(Value::String(date)) = value.get_mut("date") {
        let is_time = |text: &str| OffsetDateTime::parse(text, &Rfc3339).is_ok();
        let midnight = format!("{date}T00:00:00Z");
        if is_time(&midnight) {
            *date = midnight;
        } else if !is_time(date) {
            return Err(format!("the date `{date}` is not RFC 3339 or YYYY-MM-DD"));
        }
    }
    serde_json::from_value(value).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use time::macros::datetime;

    use super::*;
    use ralph_api::body::QueryLine;

    #[test]
    fn a_date_is_a_point_in_time_or_a_day() {
        let dated = |date: &str| {
            let line = format!(r#"{{"query_id": "q", "date": "{date}", "title": "Parse zones"}}"#);
            item::<QueryLine>(&line).map(|query| query.date)
        };
        let midnight = datetime!(2026-01-31 00:00 UTC);
        assert_eq!(dated("2026-01-31").unwrap(), midnight);
        assert_eq!(dated("2026-01-31T00:00:00Z").unwrap(), midnight);
        assert_eq!(dated("2026-01-31T02:00:00+02:00").unwrap(), midnight);
        for wrong in ["2026-02-31", "2026-1-31", "today", ""] {
            let error = dated(wrong).unwrap_err();
            assert!(error.contains("RFC 3339 or YYYY-MM-DD"), "{error}");
        }
        let error = item::<QueryLine>(r#"{"query_id": "q", "date": "2026-01-31"}"#).unwrap_err();
        assert!(error.contains("title"), "{error}");
    }
}
