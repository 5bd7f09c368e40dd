//! Runs a test as some user of this machine: in its own process, whose home the test fills.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// In that process: the path of the home.
const HOME: &str = "RALPH_TEST_HOME";

/// The user as which this process runs.
pub struct User {
    home: PathBuf,
}

impl User {
    /// Runs `test` (its full name) again as a user with an empty home, fails if that fails, and returns
    /// `None`. In that run, returns the user.
    pub fn or_run_as_one(test: &str) -> Option<Self> {
        Self::or_run_with(test, &[])
    }

    /// Like [`Self::or_run_as_one`], with variables that name files in that home.
    pub fn or_run_with(test: &str, files: &[(&str, &str)]) -> Option<Self> {
        if let Some(home) = std::env::var_os(HOME).map(PathBuf::from) {
            return Some(Self { home });
        }
        let home = tempfile::tempdir().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("GIT_")) {
            command.env_remove(name);
        }
        let output = command
            .args(["--exact", test, "--nocapture"])
            .env(HOME, home.path())
            .env("HOME", home.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("SSH_AUTH_SOCK")
            .envs(
                files
                    .iter()
                    .map(|(variable, file)| (variable, home.path().join(file))),
            )
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "as its own user: {errors}");
        let ran = String::from_utf8_lossy(&output.stdout);
        assert!(ran.contains("1 passed"), "`{test}` is no test: {ran}");
        None
    }

    pub fn home(&self) -> &Path {
        &self.home
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.home.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }
}
