//! The table of failures in `docs/failures.md`.

use std::time::Duration;

use super::retry::{
    MAX_AWAY, MAX_CONFLICTS, MAX_LACKS, MAX_LOST_ALONE, MAX_LOST_WITH_OTHERS, MAX_NO_SIGILS, MAX_VERIFY_TRIES,
};
use crate::failure::{Audience, Counts, Delay, Failure, Policy};

/// The table in Markdown.
pub fn table() -> String {
    let mut text =
        "| reason | what happened | counts as | tried again | stronger model | who is notified |\n\
                    | --- | --- | --- | --- | --- | --- |\n"
            .to_owned();
    for failure in Failure::ALL {
        let policy = failure.policy();
        let cells = [
            format!("`{}`", failure.as_str()),
            failure.means().to_owned(),
            counts_in_words(policy.counts),
            again_in_words(policy),
            if policy.raises_model { "yes" } else { "no" }.to_owned(),
            audience_in_words(policy.audience).to_owned(),
        ];
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    text
}

fn counts_in_words(counts: Counts) -> String {
    match counts {
        Counts::Nothing => "nothing".to_owned(),
        Counts::Failure => "a failure".to_owned(),
        Counts::Unfinished => {
            format!("a failure if nothing changed, or at {MAX_NO_SIGILS} in a row")
        }
        Counts::Conflict => format!("one of {MAX_CONFLICTS} conflicts"),
        Counts::Away => format!("one of {MAX_AWAY} tries in a row"),
        Counts::Lack => format!("one of {MAX_LACKS} tries in a row"),
        Counts::Verification => format!("one of {MAX_VERIFY_TRIES} tries to verify"),
        Counts::DeathAlone => format!("one of {MAX_LOST_ALONE} deaths"),
        Counts::DeathWithOthers => format!("one of {MAX_LOST_WITH_OTHERS} deaths"),
    }
}

fn again_in_words(policy: Policy) -> String {
    if let Some(pauses) = policy.account {
        let (first, longest) = (in_words(pauses.first), in_words(pauses.longest));
        return format!("when the provider says, else after {first}, doubled up to {longest}");
    }
    match policy.delay {
        Delay::Never => "no",
        Delay::None => "at once",
        Delay::Growing => "after the back-off, doubled with each failure in a row",
        Delay::Pause => "after the back-off, not doubled, once the agent can start",
        Delay::Elsewhere => "after 250 ms, doubled up to 1 min",
    }
    .to_owned()
}

fn in_words(pause: Duration) -> String {
    match pause.as_secs() {
        s if s % 3600 == 0 => format!("{} h", s / 3600),
        s if s % 60 == 0 => format!("{} min", s / 60),
        s => format!("{s} s"),
    }
}

fn audience_in_words(audience: Audience) -> &'static str {
    match audience {
        Audience::Nobody => "nobody",
        Audience::AtTheEnd => "a person, when no try is left",
        Audience::AtOnce => "a person, at once",
        Audience::Pool => "`[notify]`, at 3 in a row",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `RALPH_UPDATE_SCHEMA=1` rewrites the table in the page.
    #[test]
    fn the_page_is_made_from_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/failures.md");
        let page = std::fs::read_to_string(path).unwrap();
        let (before, rest) = page.split_once("| reason |").unwrap();
        let after = rest.split_once("\n\n").map_or("", |(_, after)| after);
        let expected = format!("{before}{}\n{after}", table());
        if std::env::var_os("RALPH_UPDATE_SCHEMA").is_some() {
            return std::fs::write(path, &expected).unwrap();
        }
        assert!(
            page == expected,
            "docs/failures.md: run this with RALPH_UPDATE_SCHEMA=1"
        );
    }
}
