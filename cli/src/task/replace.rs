//! Texts that stand and are replaced. Two people may do that at once: then the second is told, and the words of both are kept.

use std::path::Path;
use std::process::Command;

use clap::Args;
use ralph_shared::wire::sha256_hex;

use crate::terminal::color::tame;
use crate::terminal::confirm::confirm;
use crate::terminal::editor;

const VERSION_CHARS: usize = 8;

/// Which text is meant to go.
#[derive(Debug, Clone, Default, Args)]
pub struct ReplaceFlags {
    /// The version of the text that is replaced, as it was printed; where another one stands by now, nothing is stored
    #[arg(long, value_name = "VERSION", conflicts_with = "yes")]
    pub replaces: Option<String>,
    /// Don't ask whether what stands is replaced
    #[arg(long)]
    pub yes: bool,
}

/// A text that is stored in the place of another.
#[derive(Debug)]
pub struct Replacing<'a> {
    /// What it is, in a file's name.
    pub which: &'a str,
    /// What it is, for people: `the spec of todo`.
    pub what: &'a str,
    /// The file that holds them already.
    pub file: Option<&'a Path>,
    /// How they are stored from a file: `ralph feature spec todo --file`.
    pub command: &'a str,
}

/// The version of a text: the beginning of its hash, so that nobody has to count.
pub fn version(text: &str) -> String {
    sha256_hex(text.as_bytes()).chars().take(VERSION_CHARS).collect()
}

impl Replacing<'_> {
    /// Asks whether `text` is to replace what stands, which is kept where nobody has read it.
    ///
    /// # Errors
    /// When it isn't, another version stands, or it can't be kept.
    pub fn replace(&self, flags: &ReplaceFlags, stands: &str, text: &str) -> anyhow::Result<()> {
        self.check(flags, stands, text)?;
        if flags.replaces.is_none() && !stands.is_empty() {
            let path = editor::keep_quietly(self.which, stands)?;
            eprintln!("what it replaces is kept in {}", path.display());
        }
        Ok(())
    }

    /// Why a `text` that was to replace `before` isn't stored: what stands now, or else `error`. The text is kept.
    ///
    /// # Errors
    /// When it can't be kept.
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
            editor::keep(self.which, text)?;
        }
        Ok(error)
    }

    /// Whether the person means to replace what stands with `text`: nothing, the version that they name, or whatever it is.
    fn check(&self, flags: &ReplaceFlags, stands: &str, text: &str) -> anyhow::Result<()> {
        match &flags.replaces {
            Some(seen) if *seen == version(stands) => Ok(()),
            Some(_) => Err(self.collided(stands, text)?),
            None if stands.is_empty() => Ok(()),
            None => confirm(
                &format!(
                    "Replace {}, version {now}? Say --replaces {now} once you have read it.",
                    self.what,
                    now = version(stands)
                ),
                flags.yes,
            ),
        }
    }

    /// What the loser of two, who wanted `text`, is told: both texts are in files, and how they differ is shown.
    ///
    /// # Errors
    /// When they can't be kept.
    fn collided(&self, theirs: &str, text: &str) -> anyhow::Result<anyhow::Error> {
        let mine = match self.file {
            Some(file) => file.to_owned(),
            None => editor::keep_quietly(self.which, text)?,
        };
        let other = editor::keep_quietly(self.which, theirs)?;
        show_difference(&other, &mine);
        Ok(anyhow::anyhow!(
            "{} was changed by somebody else meanwhile, to version {now}; nothing was stored. Yours is in {mine}, theirs in {other}: \
             bring them together in one file, and store it with `{} FILE --replaces {now}`",
            self.what,
            self.command,
            now = version(theirs),
            mine = mine.display(),
            other = other.display(),
        ))
    }
}

/// How two files differ, on standard error, where there is a `diff`.
fn show_difference(theirs: &Path, mine: &Path) {
    let told = Command::new("diff")
        .args(["-u", "--label", "theirs", "--label", "yours"])
        .args([theirs, mine])
        .output();
    if let Ok(told) = told {
        eprint!("{}", tame(&String::from_utf8_lossy(&told.stdout)));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn only_what_was_read_is_replaced() {
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
        let kept: Vec<&str> = error
            .split([' ', ':'])
            .filter(|word| word.contains("ralph-spec-"))
            .map(|word| word.trim_end_matches(','))
            .collect();
        let read = |path: &str| std::fs::read_to_string(path).unwrap();
        assert_eq!([read(kept[0]), read(kept[1])], ["mine\n", "theirs, too\n"]);
        for path in kept {
            std::fs::remove_file(path).unwrap();
        }
    }
}
