//! The environment of every git run, determined once; and the author of commits.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::time::Duration;

use ralph_shared::agents::requires::OLDEST_GIT;
use ralph_shared::environment::is_secret;

use crate::workspace::clone::filters;
use crate::workspace::error::{GitError, WorkspaceError};
use crate::workspace::settings::Settings;
use crate::workspace::snapshot::bulk::BulkLimits;
use crate::workspace::{clone::lfs, git};

/// The user's `GIT_…` variables that are passed on: programs, keys, proxies, certificates, locations of
/// configuration, identity. All others (`GIT_DIR`, `GIT_INDEX_FILE`, `GIT_TRACE`, …) are dropped.
const INHERITED: &[&str] = &[
    "GIT_ASKPASS",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_SSH_VARIANT",
    "GIT_PROXY_COMMAND",
    "GIT_EXEC_PATH",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
];
const INHERITED_PREFIXES: &[&str] = &["GIT_SSL_", "GIT_HTTP_"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::workspace) struct Identity {
    pub name: String,
    pub email: String,
}

impl Identity {
    /// Parses `Name <address>`.
    pub(in crate::workspace) fn parse(text: &str) -> Option<Self> {
        let (name, rest) = text.split_once('<')?;
        let (email, _) = rest.split_once('>')?;
        let clean = |part: &str| part.replace(['<', '>', '\n', '\0'], "").trim().to_owned();
        let (name, email) = (clean(name), clean(email));
        (!name.is_empty() && !email.is_empty()).then_some(Self { name, email })
    }
}

/// The environment of every git run, determined once.
#[derive(Debug)]
pub(in crate::workspace) struct Environment {
    /// The variables of every run, except those that say where git works.
    pub variables: Vec<(OsString, OsString)>,
    /// The configured author, or git's identity of this user, if any.
    pub identity: Option<Identity>,
    pub signs: bool,
    /// Whether landed commits are signed off.
    pub sign_off: bool,
    /// Settings for filters: those of the worker's configuration, and `required` for all known filters.
    pub filters: Vec<(String, String)>,
    /// Settings for Git LFS besides the user's own configuration.
    pub lfs: &'static [(&'static str, &'static str)],
    /// Git LFS settings in the user's configuration.
    pub lfs_of_user: Vec<(String, String)>,
    /// Limits above which new files are reported.
    pub bulk: BulkLimits,
    pub time: Bounded,
}

#[derive(Debug, Clone, Copy)]
pub(in crate::workspace) struct Bounded {
    pub local: Duration,
    pub remote: Duration,
    pub signing: Duration,
}

impl Environment {
    /// Reads git's version and the user's settings. The worker's own settings override them.
    ///
    /// # Errors
    /// When git is missing or too old.
    pub(in crate::workspace) async fn probe(settings: &Settings) -> Result<Arc<Self>, WorkspaceError> {
        let mut environment = Self {
            variables: inherited(),
            identity: None,
            signs: false,
            sign_off: settings.sign_off,
            filters: Vec::new(),
            lfs: &[],
            lfs_of_user: Vec::new(),
            bulk: settings.bulk.clone(),
            time: Bounded {
                local: settings.local_bound,
                remote: settings.remote_bound,
                signing: settings.signing_bound,
            },
        };
        let version = environment
            .query(&["version"])
            .await
            .map_err(|error| match error.code {
                None => WorkspaceError::NoGit(format!("git could not be started ({})", error.words)),
                Some(_) => WorkspaceError::Git(error),
            })?;
        if version_of(&version).is_none_or(|found| found < OLDEST_GIT) {
            return Err(WorkspaceError::NoGit(format!(
                "`git version` says `{}`",
                version.trim()
            )));
        }
        let identity = environment.query(&["-c", "user.useConfigOnly=true", "var", "GIT_COMMITTER_IDENT"]);
        let known = identity.await.ok().and_then(|text| Identity::parse(&text));
        environment.identity = settings.author.as_deref().and_then(Identity::parse).or(known);
        environment.signs = environment
            .query(&["config", "--type=bool", "--get", "commit.gpgSign"])
            .await
            .is_ok_and(|text| text.trim() == "true");
        environment.lfs = match environment
            .query(&["config", "--get-regexp", r"^filter\.lfs\."])
            .await
        {
            Ok(_) => &[],
            Err(_) => match environment.query(&["lfs", "version"]).await {
                Ok(_) => lfs::FILTER,
                Err(_) => lfs::MISSING,
            },
        };
        let known = environment.query(&["config", "--null", "--get-regexp", filters::OF_USER]);
        let known = known.await.map(|listed| lfs::pairs(&listed)).unwrap_or_default();
        environment.filters = filters::settings(&known, &settings.filters);
        let of_user = environment.query(&["config", "--null", "--get-regexp", lfs::OF_USER]);
        let of_user = of_user.await.map(|listed| lfs::pairs(&listed));
        environment.lfs_of_user = of_user.unwrap_or_default();
        let configured_ssh = environment.query(&["config", "--get", "core.sshCommand"]);
        let configured_ssh = configured_ssh.await.ok();
        environment.disable_ssh_prompts(configured_ssh);
        Ok(Arc::new(environment))
    }

    async fn query(&self, arguments: &[&str]) -> Result<String, GitError> {
        git::query(arguments, &self.variables, self.time.local).await
    }

    /// Makes ssh fail instead of prompting. A command that is not ssh is left alone.
    fn disable_ssh_prompts(&mut self, configured: Option<String>) {
        let set = |name: &str| self.variables.iter().position(|(key, _)| key == name);
        if set("GIT_SSH").is_some() && set("GIT_SSH_COMMAND").is_none() {
            return;
        }
        let position = set("GIT_SSH_COMMAND");
        let command = match position {
            Some(position) => self.variables.remove(position).1.to_string_lossy().into_owned(),
            None => configured.unwrap_or_default(),
        };
        let command = match command.trim() {
            "" => "ssh",
            command => command,
        };
        let program = command
            .split_whitespace()
            .next()
            .and_then(|word| word.rsplit('/').next());
        let quiet = match program {
            Some("ssh") => format!("{command} -o BatchMode=yes -o ConnectTimeout=30"),
            _ => command.to_owned(),
        };
        self.variables.push(("GIT_SSH_COMMAND".into(), quiet.into()));
    }
}

/// Variables that git gets with other values, or not at all. No pinentry may use the worker's terminal.
const REPLACED: &[&str] = &[
    "LC_ALL",
    "LANGUAGE",
    "GPG_TTY",
    "SSH_ASKPASS_REQUIRE",
    "GCM_INTERACTIVE",
];

fn inherited() -> Vec<(OsString, OsString)> {
    let is_inherited = |name: &OsStr| {
        let name = name.to_string_lossy();
        !is_secret(&name) && !name.starts_with("GIT_")
            || INHERITED.contains(&&*name)
            || INHERITED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    };
    let mut variables: Vec<_> = std::env::vars_os()
        .filter(|(name, _)| is_inherited(name) && !REPLACED.iter().any(|replaced| name == replaced))
        .collect();
    if !variables.iter().any(|(name, _)| name == "SSH_ASKPASS") {
        // ssh and ssh-keygen fail instead of prompting at the worker's terminal.
        variables.push(("SSH_ASKPASS".into(), "false".into()));
        variables.push(("SSH_ASKPASS_REQUIRE".into(), "force".into()));
    }
    for (name, value) in [
        ("LC_ALL", "C"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_OPTIONAL_LOCKS", "0"),
        // Git Credential Manager opens no window.
        ("GCM_INTERACTIVE", "never"),
    ] {
        variables.push((name.into(), value.into()));
    }
    variables
}

fn version_of(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.trim().strip_prefix("git version ")?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!(version_of("git version 2.39.5\n"), Some((2, 39)));
        assert_eq!(version_of("git version 2.47.3 (Apple Git-1)"), Some((2, 47)));
        assert_eq!(version_of("hub 1"), None);
    }

    #[test]
    fn identities_are_read() {
        let identity = Identity::parse("A B <a@b> 1700000000 +0000").unwrap();
        assert_eq!((identity.name.as_str(), identity.email.as_str()), ("A B", "a@b"));
        assert_eq!(Identity::parse("nobody"), None);
        assert_eq!(Identity::parse(" <a@b>"), None);
    }

    #[test]
    fn ssh_gets_batch_mode_and_other_programs_are_unchanged() {
        let quiet = |variables: Vec<(OsString, OsString)>, configured: Option<&str>| {
            let time = Bounded {
                local: Duration::ZERO,
                remote: Duration::ZERO,
                signing: Duration::ZERO,
            };
            let mut environment = Environment {
                variables,
                identity: None,
                signs: false,
                sign_off: false,
                filters: Vec::new(),
                lfs: &[],
                lfs_of_user: Vec::new(),
                bulk: BulkLimits::default(),
                time,
            };
            environment.disable_ssh_prompts(configured.map(str::to_owned));
            environment.variables
        };
        let value =
            |variables: &[(OsString, OsString)]| variables.last().unwrap().1.to_string_lossy().into_owned();
        assert_eq!(
            value(&quiet(vec![], None)),
            "ssh -o BatchMode=yes -o ConnectTimeout=30"
        );
        assert!(value(&quiet(vec![], Some("/usr/bin/ssh -i k\n"))).starts_with("/usr/bin/ssh -i k -o Batch"));
        assert_eq!(
            value(&quiet(
                vec![("GIT_SSH_COMMAND".into(), "plink -x".into())],
                Some("ssh")
            )),
            "plink -x"
        );
        assert_eq!(quiet(vec![("GIT_SSH".into(), "plink".into())], None).len(), 1);
    }
}
