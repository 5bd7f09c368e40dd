//! Commits by the worker: message, trailers, author, and signature if the user signs.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::workspace::error::GitError;
use crate::workspace::git::Git;
use crate::workspace::git::environment::Identity;
use crate::workspace::git::trouble::Trouble;

/// Longest first line. Characters.
const SUBJECT_CHARS: usize = 200;
/// Longest text below it. Characters.
const BODY_CHARS: usize = 16_000;

/// A commit message without its trailers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommitMessage {
    pub subject: String,
    /// The text below the subject; may be empty.
    pub body: String,
}

impl CommitMessage {
    /// The whole message. The trailers are a separate last paragraph, so that no line of the body counts as
    /// one.
    pub(in crate::workspace) fn render(&self, trailers: &BTreeMap<String, String>) -> String {
        let line = |text: &str| {
            text.split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
                .replace('\0', "")
        };
        let subject: String = line(&self.subject).chars().take(SUBJECT_CHARS).collect();
        let subject = if subject.is_empty() {
            "Work of an agent"
        } else {
            &subject
        };
        let body: String = self
            .body
            .trim()
            .replace('\0', "")
            .chars()
            .take(BODY_CHARS)
            .collect();
        let trailers: Vec<_> = trailers
            .iter()
            .filter(|(key, _)| is_trailer_key(key))
            .map(|(key, value)| format!("{key}: {}", line(value)))
            .collect();
        let parts = [subject.to_owned(), body, trailers.join("\n")];
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join("\n\n") + "\n"
    }
}

fn is_trailer_key(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

/// Whether `text` has the form `Name <address>`.
pub fn is_author(text: &str) -> bool {
    Identity::parse(text).is_some()
}

/// The author of commits: the worker's configured author, or git's identity of this user, or Ralph.
pub(in crate::workspace) fn author(git: &Git) -> Identity {
    git.environment().identity.clone().unwrap_or_else(|| Identity {
        name: "Ralph".to_owned(),
        email: "ralph@localhost".to_owned(),
    })
}

/// Whether a commit is signed and signed off. Landed commits follow the user's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::workspace) enum Signature {
    AsConfigured,
    Never,
}

/// Treats a failed signed commit as a failed signature, because git's message may be short.
fn as_signing_trouble(error: GitError, bound: Duration) -> GitError {
    match error.trouble {
        Trouble::TimedOut => GitError {
            trouble: Trouble::Signing,
            words: format!(
                "a commit was not signed within {} s: a passphrase or a pinentry prompt seems to wait",
                bound.as_secs()
            ),
            ..error
        },
        Trouble::Other => GitError {
            trouble: Trouble::Signing,
            ..error
        },
        _ => error,
    }
}

/// Signs an empty commit as landed commits are signed; `false` where the user signs none.
///
/// # Errors
/// When signing fails or needs a person.
pub(in crate::workspace) async fn try_to_sign(git: &Git) -> Result<bool, GitError> {
    if !git.environment().signs {
        return Ok(false);
    }
    let tree = git.run("mktree").output().await?.word();
    let author = author(git);
    commit_tree(git, &tree, &[], "Try to sign\n", &author, Signature::AsConfigured).await?;
    Ok(true)
}

/// Makes a commit of `tree` on `parents`.
pub(in crate::workspace) async fn commit_tree(
    git: &Git,
    tree: &str,
    parents: &[&str],
    message: &str,
    author: &Identity,
    signature: Signature,
) -> Result<String, GitError> {
    let signs = signature == Signature::AsConfigured && git.environment().signs;
    let mut message = message.to_owned();
    if signature == Signature::AsConfigured && git.environment().sign_off {
        // Joins the trailers, which are the last paragraph.
        message.push_str(&format!("Signed-off-by: {} <{}>\n", author.name, author.email));
    }
    let sign = if signs { &["-S"][..] } else { &["--no-gpg-sign"] };
    let commit = git
        .run("commit-tree")
        .args(sign)
        .args(parents.iter().flat_map(|parent| ["-p", parent]))
        .args(["-F", "-", tree])
        .variable("GIT_AUTHOR_NAME", &author.name)
        .variable("GIT_AUTHOR_EMAIL", &author.email)
        .variable("GIT_COMMITTER_NAME", &author.name)
        .variable("GIT_COMMITTER_EMAIL", &author.email)
        .input(message);
    if !signs {
        return Ok(commit.output().await?.word());
    }
    let bound = git.environment().time.signing;
    let signed = commit.within(bound).output().await;
    Ok(signed.map_err(|error| as_signing_trouble(error, bound))?.word())
}

/// The trailer with the id of the landed task.
pub const TASK_TRAILER: &str = "Ralph-Task";

/// The trailer with the id of the task whose landing a commit reverts.
pub const REVERT_TRAILER: &str = "Ralph-Reverts";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailers_are_the_last_paragraph_and_one_line_each() {
        let message = CommitMessage {
            subject: " Add\nit ".into(),
            body: "Why.\n\nRalph-Task: t-0\n".into(),
        };
        let trailers = [("Ralph-Task", "t-1"), ("Ralph-Run", "a\nb"), ("bad key", "x")];
        let trailers = trailers
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
        assert_eq!(
            message.render(&trailers),
            "Add it\n\nWhy.\n\nRalph-Task: t-0\n\nRalph-Run: a b\nRalph-Task: t-1\n"
        );
        assert_eq!(
            CommitMessage::default().render(&BTreeMap::new()),
            "Work of an agent\n"
        );
    }
}
