//! What the page says once a form is done.

/// The confirmation of each verb.
const CONFIRMATIONS: [(&str, &str); 16] = [
    ("approve", "Approved"),
    ("reject", "Sent back"),
    ("retry", "It is tried again"),
    ("feedback", "The next session is told"),
    ("answer", "Answered"),
    ("say", "The session is told"),
    ("skip", "Skipped"),
    ("cancel", "Cancelled"),
    ("interrupt", "The session is interrupted"),
    ("release", "It is taken from its worker"),
    ("run", "It runs"),
    ("resume", "It goes on"),
    ("pause", "It is paused"),
    ("stop", "The run is stopped"),
    ("review", "It is reviewed once more"),
    ("merge", "It is merged as soon as a worker has a slot"),
];

/// The same of what has no verb of its own.
const DONE: [&str; 10] = [
    "Done",
    "Submitted",
    "The limit is raised",
    "It is stored, and counts as approved",
    "It finishes what runs and takes nothing new",
    "It is forgotten",
    "It is hidden from now on",
    "It is shown again",
    "It is changed",
    "What the attempt left is taken back",
];

pub const GOES_ON: &str = "; the run goes on";

pub fn confirmation(verb: &str) -> &'static str {
    let known = CONFIRMATIONS.iter().find(|(known, _)| *known == verb);
    known.map_or("Done", |(_, said)| said)
}

/// Whether these words are a confirmation. An address can make the page show nothing else.
pub fn is_confirmation(words: &str) -> bool {
    let words = words.strip_suffix(GOES_ON).unwrap_or(words);
    CONFIRMATIONS.iter().any(|(_, said)| *said == words) || DONE.contains(&words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_done_is_said() {
        assert!(is_confirmation("Approved; the run goes on") && is_confirmation("The limit is raised"));
        assert!(!is_confirmation("Call this number") && !is_confirmation(""));
    }
}
