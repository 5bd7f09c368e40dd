//! Finds the tools of the worker's user, with their readable paths and variables.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::table::{Set, TOOLS, Tool};
use crate::session::secret_values;

#[derive(Debug, Clone, Default)]
pub struct Tools {
    pub found: Vec<FoundTool>,
    pub(super) home: PathBuf,
    pub(super) own: BTreeMap<OsString, OsString>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundTool {
    pub tool: &'static Tool,
    pub folder: PathBuf,
}

impl Tools {
    /// Finds the current tools of this process's user.
    pub fn of_user() -> Self {
        let home = std::env::home_dir().unwrap_or_default();
        Self::find(&home, std::env::vars_os().collect())
    }

    /// Finds the tools of the given home and environment.
    pub fn find(home: &Path, own: BTreeMap<OsString, OsString>) -> Self {
        let found = TOOLS.iter().filter_map(|tool| {
            let folder = folder(tool, home, &own)?;
            Some(FoundTool { tool, folder })
        });
        Self {
            found: found.collect(),
            home: home.to_owned(),
            own,
        }
    }

    pub fn opened(&self) -> Vec<PathBuf> {
        let folders = self.found.iter().flat_map(|FoundTool { tool, folder }| {
            let parts = tool.open.iter().map(|part| folder.join(part));
            let whole = tool.open.is_empty().then(|| folder.clone());
            parts.chain(whole)
        });
        let named = self.passed().into_iter().map(|(_, value)| PathBuf::from(value));
        folders.chain(named.filter(|path| path.is_absolute())).collect()
    }

    /// Variables of the user that their tools need.
    pub(super) fn passed(&self) -> Vec<(&'static str, OsString)> {
        let names = TOOLS.iter().flat_map(|tool| tool.passes);
        names.filter_map(|name| Some((*name, self.own(name)?))).collect()
    }

    /// Variables that make tools find their folders.
    pub(super) fn set(&self) -> Vec<(&'static str, OsString)> {
        let sets = self.found.iter().flat_map(|found| {
            let there = |set: &&Set| found.folder.join(set.needs).exists();
            let sets = found.tool.sets.iter().filter(there);
            sets.filter_map(|set| Some((set.variable, self.value(set, found.folder.to_str()?))))
        });
        sets.collect()
    }

    fn value(&self, set: &Set, folder: &str) -> OsString {
        let own = self.own(set.variable);
        let own = own.as_deref().and_then(OsStr::to_str).unwrap_or(set.default);
        let value = set.value.replace("{own}", own).replace("{}", folder);
        value.trim().into()
    }

    /// A variable of the user, unless it contains a login.
    pub(super) fn own(&self, name: &str) -> Option<OsString> {
        let value = self.own.get(OsStr::new(name)).filter(|value| !value.is_empty())?;
        let text = (name.to_owned(), value.to_string_lossy().into_owned());
        secret_values([text]).is_empty().then(|| value.clone())
    }
}

/// The tool's folder. Never the user's whole home, nor a folder above it.
fn folder(tool: &Tool, home: &Path, own: &BTreeMap<OsString, OsString>) -> Option<PathBuf> {
    let named = tool.variables.iter().find_map(|(variable, below)| {
        let value = own.get(OsStr::new(variable)).filter(|value| !value.is_empty())?;
        let value = Path::new(value);
        Some(if below.is_empty() {
            value.to_owned()
        } else {
            value.join(below)
        })
    });
    let usual = || {
        tool.folders
            .iter()
            .map(|folder| home.join(folder))
            .find(|folder| folder.is_dir())
    };
    let folder = named.filter(|folder| folder.is_absolute()).or_else(usual)?;
    let real = folder.canonicalize().ok().filter(|real| real.is_dir())?;
    let home = home.canonicalize().unwrap_or_else(|_| home.to_owned());
    (real.parent().is_some() && !home.starts_with(&real)).then_some(folder)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;
    use crate::sandbox::{PolicyRequest, policy};

    struct User(TempDir);

    impl User {
        fn with(files: &[&str]) -> Self {
            let user = Self(tempfile::tempdir().unwrap());
            for file in files {
                fs::create_dir_all(user.at(file).parent().unwrap()).unwrap();
                fs::write(user.at(file), "x").unwrap();
            }
            user
        }

        fn at(&self, name: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(name)
        }

        fn tools(&self, own: &[(&str, &str)]) -> Tools {
            let home = self.at("");
            let own = own
                .iter()
                .map(|(name, value)| (name.into(), value.replace("~/", home.to_str().unwrap()).into()));
            Tools::find(&home, own.collect())
        }
    }

    fn value<'a>(variables: &'a [(&'static str, OsString)], name: &str) -> Option<&'a str> {
        let mut named = variables.iter().filter(|(variable, _)| *variable == name);
        named.next().and_then(|(_, value)| value.to_str())
    }

    #[test]
    fn tools_are_found_by_variable_or_in_their_usual_folder() {
        let user = User::with(&[
            ".rustup/settings.toml",
            "else/rustup/settings.toml",
            ".nvm/nvm.sh",
            ".pyenv/version",
        ]);
        let at = |name: &str| user.at(name).display().to_string();
        let set = user.tools(&[]).set();
        assert_eq!(value(&set, "RUSTUP_HOME"), Some(&*at(".rustup")));
        assert_eq!(value(&set, "NVM_DIR"), Some(&*at(".nvm")));
        assert_eq!(value(&set, "PYENV_ROOT"), Some(&*at(".pyenv")));
        assert_eq!(value(&set, "VOLTA_HOME"), None);
        let set = user
            .tools(&[("RUSTUP_HOME", "~/else/rustup"), ("NVM_DIR", "")])
            .set();
        assert_eq!(value(&set, "RUSTUP_HOME"), Some(&*at("else/rustup")));
        assert_eq!(value(&set, "NVM_DIR"), Some(&*at(".nvm")));
    }

    #[test]
    fn a_home_is_never_opened_for_a_tool() {
        let user = User::with(&["notes"]);
        for home in ["~/", "/", "relative", "~/.."] {
            let tools = user.tools(&[("RUSTUP_HOME", home), ("CARGO_HOME", home)]);
            assert_eq!(tools.opened(), Vec::<PathBuf>::new(), "{home}");
        }
    }

    #[test]
    fn tools_get_read_only_paths_of_existing_downloads() {
        let user = User::with(&[
            "go/pkg/mod/cache/download/x",
            ".m2/repository/x",
            ".gradle/caches/modules-2/x",
            ".nuget/packages/x",
        ]);
        let at = |name: &str| user.at(name).display().to_string();
        let set = user
            .tools(&[
                ("GOPROXY", "https://u:password@proxy.example.org"),
                ("MAVEN_ARGS", "-B"),
            ])
            .set();
        let go = format!(
            "file://{}/cache/download,https://proxy.golang.org,direct",
            at("go/pkg/mod")
        );
        assert_eq!(value(&set, "GOPROXY"), Some(&*go));
        let maven = format!("-Dmaven.repo.local.tail={}/repository -B", at(".m2"));
        assert_eq!(value(&set, "MAVEN_ARGS"), Some(&*maven));
        assert_eq!(value(&set, "GRADLE_RO_DEP_CACHE"), Some(&*at(".gradle/caches")));
        assert_eq!(
            value(&set, "NUGET_FALLBACK_PACKAGES"),
            Some(&*at(".nuget/packages"))
        );
        assert_eq!(value(&user.tools(&[("GOPATH", "~/else")]).set(), "GOPROXY"), None);
    }

    #[test]
    fn files_with_credentials_stay_inaccessible() {
        let credentials = [
            ".cargo/credentials.toml",
            ".cargo/config.toml",
            ".npmrc",
            ".m2/settings.xml",
            ".m2/settings-security.xml",
            ".gradle/gradle.properties",
            ".pypirc",
            ".netrc",
            ".config/pip/pip.conf",
            ".config/composer/auth.json",
            ".config/pypoetry/auth.toml",
            ".config/mise/config.toml",
            ".config/uv/uv.toml",
            ".local/share/uv/credentials/x",
            ".nuget/NuGet/NuGet.Config",
            ".ssh/id_ed25519",
            ".condarc",
            ".git-credentials",
        ];
        let tools = [
            ".cargo/bin/cargo",
            ".cargo/registry/cache/x",
            ".m2/repository/x",
            ".gradle/caches/modules-2/x",
            ".config/composer/vendor/bin/x",
            ".local/share/uv/tools/x",
            ".local/share/pypoetry/venv/x",
            ".asdf/shims/x",
        ];
        let user = User::with(&[&credentials[..], &tools].concat());
        let home = user.at("");
        let own = [("PATH", "~/.cargo/bin:~/.asdf/shims:~/.config/composer/vendor/bin")];
        let tools_of_user = user.tools(&own);
        let path = tools_of_user.own("PATH").unwrap();
        let decided = policy(&PolicyRequest {
            cwd: Path::new("/usr"),
            cwd_writable: false,
            session_folder: None,
            home: Path::new("/usr"),
            tmp: Path::new("/usr"),
            argv: &[],
            environment: &BTreeMap::from([("PATH".into(), path)]),
            given: &[],
            passed: &[],
            user_home: Some(&home),
            tools: &tools_of_user,
            read: &[],
            write: &[],
        });
        let reached = |name: &str| decided.read.iter().any(|open| user.at(name).starts_with(open));
        for credential in credentials {
            assert!(!reached(credential), "{credential}");
        }
        for tool in tools {
            assert!(reached(tool), "{tool}");
        }
    }

    #[test]
    fn variables_with_a_login_are_not_passed_on() {
        let user = User::with(&[]);
        let tools = user.tools(&[
            ("HTTPS_PROXY", "http://u:p@proxy:1"),
            ("NO_PROXY", "localhost"),
            ("JAVA_HOME", "/usr/lib/jvm/x"),
        ]);
        assert_eq!(tools.own("HTTPS_PROXY"), None);
        assert_eq!(tools.own("NO_PROXY"), Some("localhost".into()));
        assert_eq!(value(&tools.passed(), "JAVA_HOME"), Some("/usr/lib/jvm/x"));
    }
}
