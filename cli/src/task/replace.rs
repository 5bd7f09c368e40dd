//! Replacing stored texts. If two people do that at once, the second gets an error, and both texts are saved
//! in files.

use std::path::Path;
use std::process::Command;

use clap::Args;
use ralph_shared::terminal::tame;
use ralph_shared::wire::sha256_hex;

use crate::terminal::confirm::confirm;
use crate::terminal::editor;

const VERSION_CHARS: usize = 8;

/// Confirmation that a stored text may be replaced.
#[derive(Debug, Clone, Default, Args)]
pub struct ReplaceFlags {
    /// Version of the text to replace, as printed; if another version is stored, nothing changes
    #[arg(long, value_name = "VERSION", conflicts_with = "yes")]
    pub replaces: Option<String>,
    /// Replace the stored text without asking
    #[arg(long)]
    pub yes: bool,
}

/// The replacement of a stored text.
#[derive(Debug)]
pub struct Replacing<'a> {
    /// Kind of the text, for a file's name.
    pub which: &'a str,
    /// The text for people: `the spec of todo`.
    pub what: &'a str,
    /// The file that has the new text, if any.
    pub file: Option<&'a Path>,
    /// The command that stores a text from a file: `ralph feature spec todo --file`.
    pub command: &'a str,
}

/// The version of a text: the beginning of its hash.
pub fn version(text: &str) -> String {
    sha256_hex(text.as_bytes()).chars().take(VERSION_CHARS).collect()
}

impl Replacing<'_> {
    /// Confirms that `text` may replace the stored text, and saves an unread stored text in a file.
    ///
    /// # Errors
    /// When the person declines, another version is stored, or saving fails.
    pub fn replace(&self, flags: &ReplaceFlags, stored: &str, text: &str) -> anyhow::Result<()> {
        self.check(flags, stored, text)?;
        if flags.replaces.is_none() && !stored.is_empty() {
            let path = editor::save_silently(self.which, stored)?;
            eprintln!("what it replaces is kept in {}", path.display());
        }
        Ok(())
    }

    /// The error when `text` did not replace `before`: the present text if it has changed, else `error`.
    /// Saves `text` in a file.
    pub fn refused(
        &self,
        error: anyhow::Error,
        (before, now): (&str, Option<String>),
        text: &str,
    ) -> anyhow::Result<anyhow::Error> {
        if let Some(theirs) = now.filter(|now| now != before) {
            return self.collided(&theirs, text);
        }
        if self.file.is_none() {
            editor::save(self.which, text)?;
        }
        Ok(error)
    }

    /// Checks that the person agrees to replace the stored text: it is empty, has the named version, or is
    /// replaced whatever it is.
    fn check(&self, flags: &ReplaceFlags, stored: &str, text: &str) -> anyhow::Result<()> {
        match &flags.replaces {
            Some(seen) if *seen == version(stored) => Ok(()),
            Some(_) => Err(self.collided(stored, text)?),
            None if stored.is_empty() => Ok(()),
            None => confirm(
                &format!(
                    "Replace {}, version {now}? Give --replaces {now} once you have read it.",
                    self.what,
                    now = version(stored)
                ),
                flags.yes,
            ),
        }
    }

    /// The error for the second of two writers: saves both texts in files, and prints the difference.
    fn collided(&self, theirs: &str, text: &str) -> anyhow::Result<anyhow::Error> {
        let mine = match self.file {
            Some(file) => file.to_owned(),
            None => editor::save_silently(self.which, text)?,
        };
        let other = editor::save_silently(self.which, theirs)?;
        show_difference(&other, &mine);
        Ok(anyhow::anyhow!(
            "{} was changed by somebody else meanwhile, to version {now}; nothing was stored. Yours is in {mine}, theirs in {other}: \
             merge them into one file, and store it with `{} FILE --replaces {now}`",
            self.what,
            self.command,
            now = version(theirs),
            mine = mine.display(),
            other = other.display(),
        ))
    }
}

/// Prints the difference of two files on standard error, if `diff` is installed.
fn show_difference(theirs: &Path, mine: &Path) {
    let output = Command::new("diff")
        .args(["-u", "--label", "theirs", "--label", "yours"])
        .args([theirs, mine])
        .output();
    if let Ok(output) = output {
        eprint!("{}", tame(&String::from_utf8_lossy(&output.stdout)));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn only_a_text_that_was_read_can_be_replaced() {
        let replacing = Replacing {
            which: "spec",
            what: "the spec of todo",
            file: None,
            command: "store",
        };
        let flags = |replaces: Option<String>, yes| ReplaceFlags { replaces, yes };
        let read = flags(Some(version("theirs\n")), false);
        assert!(replacing.check(&read, "theirs\n", "mine\n").is_ok());
        assert!(replacing.check(&flags(None, true), "theirs\n", "mine\n").is_ok());
        assert!(replacing.check(&flags(None, false), "", "mine\n").is_ok());
        let error = replacing
            .check(&read, "theirs, too\n", "mine\n")
            .unwrap_err()
            .to_string();
        assert!(error.contains(&version("theirs, too\n")), "{error}");
        let saved: Vec<&str> = error
            .split([' ', ':'])
            .filter(|word| word.contains("ralph-spec-"))
            .map(|word| word.trim_end_matches(','))
            .collect();
        let read = |path: &str| std::fs::read_to_string(path).unwrap();
        assert_eq!([read(saved[0]), read(saved[1])], ["mine\n", "theirs, too\n"]);
        for path in saved {
            std::fs::remove_file(path).unwrap();
        }
    }
}
