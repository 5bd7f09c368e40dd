//! Confirmations after forms.

/// Confirmations by verb.
const CONFIRMATIONS: [(&str, &str); 16] = [
    ("approve", "Approved"),
    ("reject", "Sent back"),
    ("retry", "The task will be tried again"),
    ("feedback", "The next session gets the feedback"),
    ("answer", "Answered"),
    ("say", "The session gets the message"),
    ("skip", "Skipped"),
    ("cancel", "Cancelled"),
    ("interrupt", "The session is interrupted"),
    ("release", "The task is taken from its worker"),
    ("run", "The run has started"),
    ("resume", "The feature is resumed"),
    ("pause", "The feature is paused"),
    ("stop", "The run is stopped"),
    ("review", "A review has started"),
    (
        "merge",
        "The feature will be merged as soon as a worker has a slot",
    ),
];

/// Other confirmations.
const DONE: [&str; 10] = [
    "Done",
    "Submitted",
    "The limit is raised",
    "The text is stored, and counts as approved",
    "The worker finishes its sessions and takes no new work",
    "The worker is forgotten",
    "The entry is hidden",
    "The entry is restored",
    "The entry is changed",
    "The attempt's entries are revoked",
];

pub const RUN_RESUMED: &str = "; the run goes on";

pub fn confirmation(verb: &str) -> &'static str {
    let known = CONFIRMATIONS.iter().find(|(known, _)| *known == verb);
    known.map_or("Done", |(_, words)| words)
}

/// Whether the text is a confirmation. A link cannot make the page show any other text.
pub fn is_confirmation(words: &str) -> bool {
    let words = words.strip_suffix(RUN_RESUMED).unwrap_or(words);
    CONFIRMATIONS.iter().any(|(_, known)| *known == words) || DONE.contains(&words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_confirmations_are_shown() {
        assert!(is_confirmation("Approved; the run goes on") && is_confirmation("The limit is raised"));
        assert!(!is_confirmation("Call this number") && !is_confirmation(""));
    }
}
