//! Conditions and waiting times for people, in their time zone.

use ralph_domain::status::condition::{Condition, Word};
use ralph_shared::terminal::Tone;
use time::OffsetDateTime;

use super::local_time::when;
use crate::terminal::color::tone_of;

/// A feature's condition, with the time until which it lasts.
pub fn words(condition: &Condition) -> String {
    match (condition.word, condition.until) {
        (Word::Scheduled, Some(at)) => format!("{condition}: begins {}", when(at)),
        (_, at) => until(&condition.to_string(), at),
    }
}

pub fn tone(condition: &Condition) -> Tone {
    tone_of(condition.word.into_str())
}

/// A text, with the time until which it holds.
pub fn until(words: &str, until: Option<OffsetDateTime>) -> String {
    match until {
        Some(at) => format!("{words} until {}", when(at)),
        None => words.to_owned(),
    }
}
