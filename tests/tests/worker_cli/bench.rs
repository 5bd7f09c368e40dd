//! A folder to work in, and the worker's program.

use std::path::PathBuf;
use std::process::{Command, Output};

use ralph_tests::harness::{binary, configure};
use tempfile::TempDir;

pub const AGENT: &str = env!("CARGO_BIN_EXE_ralph-scripted-agent");

pub struct Bench {
    folder: TempDir,
}

impl Bench {
    /// Creates the folder with this `.ralph.toml`; `{agent}` becomes the scripted agent's path.
    pub fn new(configuration: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text = configuration.replace("{agent}", AGENT);
        configure(folder.path(), &text);
        Self { folder }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `ralph-worker` with these arguments, in the folder, which is also its `HOME`.
    pub fn worker(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary("ralph-worker"));
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env("HOME", self.folder.path())
            .env_remove("XDG_STATE_HOME")
            // rustup sets it for the tests.
            .env_remove("CARGO_HOME")
            .env_remove("NATS_URL");
        command
    }

    pub fn output(&self, arguments: &[&str]) -> Output {
        self.worker(arguments).output().unwrap()
    }
}
