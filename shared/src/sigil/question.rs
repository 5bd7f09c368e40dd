//! The sigil that asks a person.

use serde::{Deserialize, Serialize};

use super::attributes::Attributes;
use super::cut::cut_at_word;
use super::value::{Fault, one_line, required};
use crate::plain::{plain, visible};

/// A question keeps this many characters.
pub const QUESTION_CHARS: usize = 4_000;
/// Maximum number of kept choices, and of characters of each.
pub const MOST_CHOICES: usize = 20;
/// See [`MOST_CHOICES`].
pub const CHOICE_CHARS: usize = 200;

/// `<question>`: a question of an agent to a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// Never empty, at most [`QUESTION_CHARS`] characters.
    pub asked: String,
    /// The possible answers; any answer if it is empty.
    pub choices: Vec<String>,
}

impl Question {
    /// A question with bounded texts and without invisible characters; `None` if nothing is asked.
    #[must_use]
    pub fn new(asked: &str, choices: impl IntoIterator<Item = impl AsRef<str>>) -> Option<Self> {
        let asked = plain(asked);
        let asked = visible(&asked);
        let asked = cut_at_word(asked.trim(), QUESTION_CHARS).trim_end();
        let choices = choices.into_iter().filter_map(|choice| {
            let choice = one_line(&visible(&plain(choice.as_ref())));
            (!choice.is_empty()).then(|| cut_at_word(&choice, CHOICE_CHARS).to_owned())
        });
        (!asked.is_empty()).then(|| Self {
            asked: asked.to_owned(),
            choices: choices.take(MOST_CHOICES).collect(),
        })
    }

    pub(super) fn read(attributes: Attributes<'_>, body: &str) -> Result<Self, Fault> {
        let choices = attributes.choices.unwrap_or_default();
        Self::new(required(body)?, choices.split('|')).ok_or(Fault::Malformed)
    }

    /// Question and choices in one text.
    #[must_use]
    pub fn words(&self) -> String {
        match self.choices[..] {
            [] => self.asked.clone(),
            _ => format!("{} ({})", self.asked, self.choices.join(" | ")),
        }
    }

    /// The choice that an answer names: by its words, ignoring case, or by its number from 1.
    #[must_use]
    pub fn choice(&self, answer: &str) -> Option<&str> {
        let answer = answer.trim();
        let by_words = self
            .choices
            .iter()
            .find(|choice| choice.to_lowercase() == answer.to_lowercase());
        let by_number = || {
            let at = answer.parse::<usize>().ok()?.checked_sub(1)?;
            self.choices.get(at)
        };
        by_words.or_else(by_number).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_choice_is_named_by_its_words_or_its_number() {
        let question = Question::new(" Which? ", ["Postgres", " SQLite ", ""]).unwrap();
        assert_eq!(question.words(), "Which? (Postgres | SQLite)");
        assert_eq!(question.choice("sqlite\n"), Some("SQLite"));
        assert_eq!(question.choice("1"), Some("Postgres"));
        for other in ["", "0", "3", "-1", "Oracle"] {
            assert_eq!(question.choice(other), None, "{other}");
        }
        let numbers = Question::new("How many?", ["2", "1"]).unwrap();
        assert_eq!(numbers.choice("1"), Some("1"));
    }

    #[test]
    fn a_question_of_any_length_is_bounded() {
        let question = Question::new(&"größe ".repeat(200_000), vec!["x ".repeat(10_000); 1_000]).unwrap();
        assert!(question.asked.chars().count() <= QUESTION_CHARS);
        assert_eq!(question.choices.len(), MOST_CHOICES);
        assert!(
            question
                .choices
                .iter()
                .all(|choice| choice.chars().count() <= CHOICE_CHARS)
        );
        assert_eq!(Question::new(" \n", ["a"]), None);
        let odd = Question::new("Which \u{1b}[31m\u{202e}one\0?", ["\u{1b}]0;t\u{7}A\u{200b}"]).unwrap();
        assert_eq!(odd.words(), "Which one? (A)");
    }
}
