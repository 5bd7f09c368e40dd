//! Parses and formats durations: `90s`, `24h`, `1h30m`.

use std::str::FromStr;
use std::time::Duration;

/// A duration from the command line; `0` is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span(pub Duration);

impl Span {
    pub fn ms(self) -> i64 {
        i64::try_from(self.0.as_millis()).unwrap_or(i64::MAX)
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a time; write 90s, 15m, 24h, 1h30m, 2d, 500ms, or 0");
        if text == "0" {
            return Ok(Self(Duration::ZERO));
        }
        let mut rest = text;
        let mut total = Duration::ZERO;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
            let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
            rest = &rest[digits..];
            let letters = rest
                .find(|c: char| !c.is_ascii_alphabetic())
                .unwrap_or(rest.len());
            let unit_ms: u64 = match &rest[..letters] {
                "ms" => 1,
                "s" => 1000,
                "m" | "min" => 60 * 1000,
                "h" => 60 * 60 * 1000,
                "d" => 24 * 60 * 60 * 1000,
                _ => return Err(wrong()),
            };
            rest = &rest[letters..];
            let part = number
                .checked_mul(unit_ms)
                .map(Duration::from_millis)
                .ok_or_else(wrong)?;
            total = total.checked_add(part).ok_or_else(wrong)?;
        }
        if text.is_empty() {
            Err(wrong())
        } else {
            Ok(Self(total))
        }
    }
}

/// `4.2 s`, `3m07s`, `2h05m`.
pub fn show_ms(ms: i64) -> String {
    let seconds = ms / 1000;
    match seconds {
        ..60 => {
            #[allow(clippy::cast_precision_loss)]
            let exact = ms.max(0) as f64 / 1000.0;
            format!("{exact:.1}s")
        }
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_parse_with_units() {
        let check = |text: &str, ms: Option<i64>| {
            assert_eq!(text.parse::<Span>().ok().map(Span::ms), ms, "{text}");
        };
        check("90s", Some(90_000));
        check("24h", Some(86_400_000));
        check("1h30m", Some(5_400_000));
        check("500ms", Some(500));
        check("0", Some(0));
        check("2d", Some(172_800_000));
        for wrong in [
            "",
            "90",
            "s",
            "1x",
            "1h30",
            "-1s",
            "1.5h",
            "99999999999999999999s",
            "9999999999999999d",
        ] {
            check(wrong, None);
        }
    }

    #[test]
    fn durations_are_formatted_with_two_units() {
        for (ms, text) in [
            (0, "0.0s"),
            (4_249, "4.2s"),
            (187_000, "3m07s"),
            (7_500_000, "2h05m"),
        ] {
            assert_eq!(show_ms(ms), text);
        }
    }
}
