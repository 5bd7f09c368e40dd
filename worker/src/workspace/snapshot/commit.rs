//! Commits that the worker makes: their message, trailers, author, and signature where the user signs.

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

/// What a commit says, without its trailers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommitMessage {
    /// The first line.
    pub subject: String,
    /// The text below it; may be empty.
    pub body: String,
}

impl CommitMessage {
    /// The whole message: the trailers are a paragraph of their own at the end, so that nothing in the body is one.
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

/// Whether it says who commits: `Name <address>`.
pub fn is_author(text: &str) -> bool {
    Identity::parse(text).is_some()
}

/// Who commits: whom the worker's configuration names, else as git knows this user, else Ralph.
pub(in crate::workspace) fn author(git: &Git) -> Identity {
    git.environment().identity.clone().unwrap_or_else(|| Identity {
        name: "Ralph".to_owned(),
        email: "ralph@localhost".to_owned(),
    })
}

/// Whether a commit is signed, and signed off, as the user has it: what lands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::workspace) enum Signature {
    AsConfigured,
    Never,
}

/// What fails where a commit is signed is the signature; git's words may be few.
fn as_signing_trouble(error: GitError, bound: Duration) -> GitError {
    match error.trouble {
        Trouble::TimedOut => GitError {
            trouble: Trouble::Signing,
            words: format!(
                "a commit was not signed within {} s: a passphrase or a pinentry seems to be asked for",
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

/// Signs a commit of nothing, as what lands is signed; `false` where the user signs none.
///
/// # Errors
/// When that fails, or a person is asked for.
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
        // The trailers are its last paragraph.
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

/// The trailer that says which task a commit landed.
pub const TASK_TRAILER: &str = "Ralph-Task";

/// The trailer that says whose landing a commit takes back.
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
