//! Kinds of remote failure, read from git's words (`LC_ALL=C`), and advice for a person.

use std::fmt;

/// Kinds of trouble with a remote, as far as they need different advice (issue text 4, remotes).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// The credentials are missing, wrong or not enough.
    Authentication,
    /// The server's ssh key is not known.
    HostKey,
    /// The server's ssh key has changed.
    HostKeyChanged,
    /// The server's certificate is not trusted, has expired, or belongs to another server.
    Certificate,
    /// A hook or a rule of the server refused the push.
    Declined,
    /// As [`Self::Declined`], for a ref outside of `refs/heads`.
    DeclinedOutside,
    /// The server is out of space or quota.
    NoSpace,
    /// The server could not be reached, or hung up.
    Unreachable,
    /// There is no repository at this address.
    NotFound,
    /// Git refuses a repository on disk that belongs to another user.
    Ownership,
    /// The branch is checked out at its remote, and that checkout can't follow.
    CheckedOut,
    /// As [`Self::CheckedOut`], and the repository's own configuration refuses such a push.
    DeniedThere,
    /// Another git process holds a lock there.
    Locked,
    /// A lock is so old that its owner must be gone.
    StaleLock,
    /// Git could not sign a commit without a person.
    Signing,
    /// A filter of the repository's attributes is unknown here, or fails.
    Filter,
    /// As [`Self::Filter`], for a filter that the attempt itself names.
    OwnFilter,
    /// The ref is not at the commit that the push expected.
    Moved,
    /// The repository keeps files in Git LFS, which this machine lacks.
    NoLfs,
    /// Two histories have no common commit, or a repository would have to accept a truncated one: one of them
    /// may be a shallow clone's.
    Shallow,
    TimedOut,
    Other,
}

/// Git's words and their meaning, the more specific first. All lower case.
const WORDS: &[(&str, Trouble)] = &[
    ("git-lfs is not installed", Trouble::NoLfs),
    ("cannot run git-lfs", Trouble::NoLfs),
    ("git-lfs: not found", Trouble::NoLfs),
    ("git-lfs: command not found", Trouble::NoLfs),
    ("'lfs' is not a git command", Trouble::NoLfs),
    ("refusing to merge unrelated histories", Trouble::Shallow),
    ("shallow update not allowed", Trouble::Shallow),
    ("remote host identification has changed", Trouble::HostKeyChanged),
    ("host key verification failed", Trouble::HostKey),
    ("ssl certificate problem", Trouble::Certificate),
    ("certificate verification failed", Trouble::Certificate),
    ("certificate subject name", Trouble::Certificate),
    ("no space left on device", Trouble::NoSpace),
    ("disk quota exceeded", Trouble::NoSpace),
    ("quota exceeded", Trouble::NoSpace),
    ("exceeds github's file size limit", Trouble::Declined),
    ("refusing to update checked out branch", Trouble::DeniedThere),
    ("branch is currently checked out", Trouble::DeniedThere),
    ("working directory has", Trouble::CheckedOut),
    ("could not update working tree", Trouble::CheckedOut),
    ("stale info", Trouble::Moved),
    ("fetch first", Trouble::Moved),
    ("non-fast-forward", Trouble::Moved),
    // A branch `a` excludes branches below `a/`.
    ("exists; cannot create", Trouble::Declined),
    (".lock': file exists", Trouble::Locked),
    ("cannot lock ref", Trouble::Moved),
    ("gpg failed to sign", Trouble::Signing),
    ("failed to write commit object", Trouble::Signing),
    ("gpg.ssh.defaultkeycommand", Trouble::Signing),
    ("user.signingkey", Trouble::Signing),
    ("reference already exists", Trouble::Moved),
    ("protected branch", Trouble::Declined),
    ("hook declined", Trouble::Declined),
    ("hidden ref", Trouble::Declined),
    ("funny ref", Trouble::Declined),
    ("prohibited by gerrit", Trouble::Declined),
    ("detected dubious ownership", Trouble::Ownership),
    ("authentication failed", Trouble::Authentication),
    ("could not read username", Trouble::Authentication),
    ("could not read password", Trouble::Authentication),
    ("terminal prompts disabled", Trouble::Authentication),
    ("permission denied (", Trouble::Authentication),
    ("access denied", Trouble::Authentication),
    ("returned error: 401", Trouble::Authentication),
    ("returned error: 403", Trouble::Authentication),
    ("returned error: 404", Trouble::NotFound),
    ("does not appear to be a git repository", Trouble::NotFound),
    ("repository not found", Trouble::NotFound),
    ("/' not found", Trouble::NotFound),
    ("could not resolve host", Trouble::Unreachable),
    ("could not resolve hostname", Trouble::Unreachable),
    ("connection refused", Trouble::Unreachable),
    ("connection reset", Trouble::Unreachable),
    ("connection timed out", Trouble::Unreachable),
    ("connection closed", Trouble::Unreachable),
    ("network is unreachable", Trouble::Unreachable),
    ("no route to host", Trouble::Unreachable),
    ("failed to connect", Trouble::Unreachable),
    ("couldn't connect", Trouble::Unreachable),
    ("operation timed out", Trouble::Unreachable),
    ("operation too slow", Trouble::Unreachable),
    ("hung up unexpectedly", Trouble::Unreachable),
    ("early eof", Trouble::Unreachable),
    ("rpc failed", Trouble::Unreachable),
    ("returned error: 5", Trouble::Unreachable),
    // Any other message of the HTTP library.
    ("unable to access 'http", Trouble::Unreachable),
    ("could not read from remote repository", Trouble::Unreachable),
    ("remote rejected", Trouble::Declined),
    // A failed filter may name the cause, and the cause takes precedence.
    ("clean filter", Trouble::Filter),
    ("smudge filter", Trouble::Filter),
    ("external filter", Trouble::Filter),
    ("filter process", Trouble::Filter),
];

impl Trouble {
    pub fn of(words: &str) -> Self {
        let words = words.to_lowercase();
        WORDS
            .iter()
            .find(|(pattern, _)| words.contains(pattern))
            .map_or(Self::Other, |(_, trouble)| *trouble)
    }

    /// Whether trying again without a person can help.
    pub fn retry_can_help(self) -> bool {
        matches!(
            self,
            Self::Unreachable | Self::NoSpace | Self::Moved | Self::Locked | Self::TimedOut | Self::Other
        )
    }

    /// Whether waiting can help.
    pub fn is_away(self) -> bool {
        matches!(self, Self::Unreachable | Self::NoSpace | Self::TimedOut)
    }

    /// Whether the server is at fault, or the worker's access to it: no task caused it or can solve it.
    pub fn is_elsewhere(self) -> bool {
        self.is_away()
            || matches!(
                self,
                Self::Authentication
                    | Self::HostKey
                    | Self::HostKeyChanged
                    | Self::Certificate
                    | Self::NotFound
                    | Self::Ownership
                    | Self::NoLfs
                    | Self::Filter
            )
    }

    /// Whether the fault is at the remote rather than on this side.
    pub fn is_remote(self) -> bool {
        !matches!(
            self,
            Self::Other
                | Self::Moved
                | Self::NoSpace
                | Self::NoLfs
                | Self::Filter
                | Self::OwnFilter
                | Self::Shallow
        )
    }

    pub fn advice(self) -> &'static str {
        match self {
            Self::Authentication => {
                "give the worker's user credentials for this address (an ssh key in its agent, or a git credential \
                 helper) with the right to write"
            }
            Self::HostKey => {
                "check the server's key and add it to the known_hosts of the worker's user (`ssh-keyscan HOST`)"
            }
            Self::HostKeyChanged => {
                "find out whether the server has a new key or another server answers; only then replace the old key in \
                 the known_hosts of the worker's user (`ssh-keygen -R HOST`)"
            }
            Self::Certificate => {
                "have the server's certificate renewed, or its authority trusted by the worker's user (`git config \
                 --global http.https://HOST/.sslCAInfo FILE`)"
            }
            Self::Declined => {
                "let the worker push to this ref: look at the server's branch protection, push rules and hooks"
            }
            Self::DeclinedOutside => {
                "let the worker push to refs below `refs/ralph/`: look at the server's branch protection, push rules and hooks; if it accepts branches \
                 alone, set `[workspace] attempts = \"branches\"` in the coordinator's .ralph.toml, and retry"
            }
            Self::CheckedOut => {
                "the branch is checked out there with uncommitted changes: commit or stash them, or check \
                 another branch out; then retry"
            }
            Self::DeniedThere => {
                "the repository refuses pushes to its checked-out branch (receive.denyCurrentBranch): check another \
                 branch out there, or let its files follow (`git config receive.denyCurrentBranch updateInstead` in it); then \
                 retry"
            }
            Self::NoSpace => "free space or raise the quota, on the server or where the message says",
            Self::Unreachable => "check the address, the network and the server; Ralph tries again by itself",
            Self::NotFound => {
                "check the address of the repository, and that the worker's user may read it; a path must exist on the \
                 worker's machine"
            }
            Self::Ownership => {
                "run `git config --global --add safe.directory PATH` as the worker's user, or run the worker as \
                 the owner"
            }
            Self::NoLfs => "install git-lfs on the worker's machine",
            Self::Shallow => {
                "if the repository is a shallow clone, run `git fetch --unshallow` in it; otherwise merge a commit that both \
                 histories have; then retry"
            }
            Self::Moved => "nothing: Ralph looks the ref up and tries again",
            Self::Locked => {
                "nothing while another git works there: Ralph tries again; a lock that stays was left by a git that died"
            }
            Self::StaleLock => {
                "make sure that no git works there any more, remove the file, then retry this task"
            }
            Self::Signing => {
                "let git sign without asking a person: unlock the key in the agent (gpg-agent, ssh-agent) of the worker's user, or \
                 switch signing off for that user (`git config --global commit.gpgSign false`); test it with `ralph-worker doctor`; then \
                 approve this task"
            }
            Self::Filter => {
                "set the filter up for the worker's user (`git config --global filter.NAME.clean COMMAND`, `….smudge COMMAND`), or name \
                 its commands in `[git.filters.NAME]` of the worker's .ralph.toml"
            }
            Self::OwnFilter => {
                "leave the filter out of .gitattributes; or let a person set it up on the worker first (`[git.filters.NAME]`)"
            }
            Self::TimedOut => "check the network and the server's load; Ralph tries again by itself",
            Self::Other => "look at git's own words above",
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Authentication => "authentication failed",
            Self::HostKey => "the server's ssh host key is not known",
            Self::HostKeyChanged => "the server's ssh host key is another one than before",
            Self::Certificate => "the server's certificate could not be verified",
            Self::Declined => "the server declined it",
            Self::DeclinedOutside => "the server declined it, as the ref is no branch",
            Self::CheckedOut => "the branch is checked out",
            Self::DeniedThere => "the branch is checked out, and its repository refuses pushes to it",
            Self::NoSpace => "no space or quota left",
            Self::Unreachable => "the server could not be reached",
            Self::NotFound => "there is no such repository",
            Self::Ownership => "the repository on disk belongs to another user",
            Self::NoLfs => "the repository keeps files in Git LFS",
            Self::Shallow => "the histories have no common commit, as far as they are present",
            Self::Moved => "the ref has moved",
            Self::Locked => "another git holds a lock",
            Self::StaleLock => "there is a stale lock",
            Self::Signing => "signing failed, or waits for a person",
            Self::Filter | Self::OwnFilter => "files could not be converted",
            Self::TimedOut => "it took too long",
            Self::Other => "git failed",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_messages_map_to_kinds_of_trouble() {
        let rows = [
            (
                "fatal: Authentication failed for 'https://x/'",
                Trouble::Authentication,
            ),
            (
                "fatal: could not read Username for 'https://x': terminal prompts disabled",
                Trouble::Authentication,
            ),
            (
                "git@x: Permission denied (publickey).\nfatal: Could not read from remote repository.",
                Trouble::Authentication,
            ),
            (
                "Host key verification failed.\nfatal: Could not read from remote repository.",
                Trouble::HostKey,
            ),
            (
                "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.\nfatal: Could not read",
                Trouble::HostKeyChanged,
            ),
            (
                "fatal: unable to access 'https://x/': server certificate verification failed. CAfile: none",
                Trouble::Certificate,
            ),
            (
                "fatal: unable to access 'https://x/': SSL certificate problem: certificate has expired",
                Trouble::Certificate,
            ),
            (
                "fatal: unable to access 'https://x/': SSL: no alternative certificate subject name matches target \
                 host name 'x'",
                Trouble::Certificate,
            ),
            (
                "! refs/heads/a:refs/heads/a [remote rejected] (pre-receive hook declined)",
                Trouble::Declined,
            ),
            (
                "! [remote rejected] a -> a (protected branch hook declined)",
                Trouble::Declined,
            ),
            (
                "! a:refs/heads/a [remote rejected] (branch is currently checked out)",
                Trouble::DeniedThere,
            ),
            (
                "! a:refs/heads/a [remote rejected] (Working directory has unstaged changes)",
                Trouble::CheckedOut,
            ),
            ("! a:refs/heads/a [rejected] (stale info)", Trouble::Moved),
            (
                "error: file write error: No space left on device",
                Trouble::NoSpace,
            ),
            (
                "ssh: connect to host x port 22: Connection refused",
                Trouble::Unreachable,
            ),
            (
                "fatal: unable to access 'https://x/': Could not resolve host: x",
                Trouble::Unreachable,
            ),
            (
                "fatal: unable to access 'https://x/': The requested URL returned error: 503",
                Trouble::Unreachable,
            ),
            (
                "fatal: '/x' does not appear to be a git repository",
                Trouble::NotFound,
            ),
            (
                "fatal: detected dubious ownership in repository at '/x'",
                Trouble::Ownership,
            ),
            ("fatal: refusing to merge unrelated histories", Trouble::Shallow),
            (
                "! a:refs/heads/a [remote rejected] (shallow update not allowed)",
                Trouble::Shallow,
            ),
            (
                "error: update_ref failed for ref 'refs/heads/a': cannot lock ref 'refs/heads/a': Unable to create \
                 '/x/refs/heads/a.lock': File exists.",
                Trouble::Locked,
            ),
            (
                "fatal: Unable to create '/x/.git/index.lock': File exists.",
                Trouble::Locked,
            ),
            (
                "error: gpg failed to sign the data:\n[GNUPG:] BEGIN_SIGNING",
                Trouble::Signing,
            ),
            ("fatal: s/a: smudge filter git-crypt failed", Trouble::Filter),
            (
                "error: external filter 'git-crypt clean' failed 127",
                Trouble::Filter,
            ),
            (
                "! a:refs/ralph/attempts/a [remote rejected] (deny updating a hidden ref)",
                Trouble::Declined,
            ),
            ("fatal: bad object", Trouble::Other),
        ];
        for (words, trouble) in rows {
            assert_eq!(Trouble::of(words), trouble, "{words}");
        }
    }
}
