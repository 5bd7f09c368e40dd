//! A command at its own terminal, with a simulated person who reads and types.

use std::ffi::OsStr;
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Instant;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Time limit of a wait.
const WAIT_MS: u16 = 60_000;

/// A command at its own terminal, created by `script`.
#[derive(Debug)]
pub struct Terminal {
    child: Child,
    keys: ChildStdin,
    screen: ChildStdout,
    shown: String,
    seen: usize,
}

impl Terminal {
    /// Starts a command with its arguments, folder and variables; its streams are those of the terminal.
    pub fn open(command: &Command) -> Self {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let words: Vec<_> = words.map(OsStr::to_string_lossy).collect();
        let mut script = Command::new("script");
        script
            .args(["--quiet", "--return", "--command"])
            // A remaining shell would die of the Ctrl+C meant for the command.
            .arg(format!("exec {}", shell_words::join(&words)))
            .arg("/dev/null")
            .env("SHELL", "/bin/sh")
            .env("TERM", "xterm")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if let Some(folder) = command.get_current_dir() {
            script.current_dir(folder);
        }
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => script.env(name, value),
                None => script.env_remove(name),
            };
        }
        let mut child = script
            .spawn()
            .unwrap_or_else(|error| panic!("no `script`: {error}"));
        let (Some(keys), Some(screen)) = (child.stdin.take(), child.stdout.take()) else {
            panic!("`script` has no streams");
        };
        Self {
            child,
            keys,
            screen,
            shown: String::new(),
            seen: 0,
        }
    }

    /// Reads until these words are shown.
    pub fn until(&mut self, words: &str) {
        let mut buffer = [0; 4096];
        let began = Instant::now();
        loop {
            if let Some(at) = self.shown[self.seen..].find(words) {
                self.seen += at + words.len();
                return;
            }
            let mut screen = [PollFd::new(self.screen.as_fd(), PollFlags::POLLIN)];
            let remaining_ms =
                WAIT_MS.saturating_sub(u16::try_from(began.elapsed().as_millis()).unwrap_or(WAIT_MS));
            let ready = poll(&mut screen, PollTimeout::from(remaining_ms)).unwrap_or(0);
            assert!(ready > 0, "`{words}` does not appear after {}", self.shown);
            let count = self.screen.read(&mut buffer).unwrap_or(0);
            assert!(count > 0, "no `{words}` in {}", self.shown);
            self.shown += &String::from_utf8_lossy(&buffer[..count]);
        }
    }

    pub fn press(&mut self, keys: &str) {
        let typed = self.keys.write_all(keys.as_bytes());
        assert!(
            typed.is_ok(),
            "the terminal does not accept `{keys:?}`: {}",
            self.shown
        );
    }

    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Reads until the command's end; returns its status and all output.
    pub fn end(mut self) -> (ExitStatus, String) {
        let mut rest = Vec::new();
        let _ = self.screen.read_to_end(&mut rest);
        self.shown += &String::from_utf8_lossy(&rest);
        let status = self
            .child
            .wait()
            .unwrap_or_else(|error| panic!("no end: {error}"));
        (status, std::mem::take(&mut self.shown))
    }
}

impl Drop for Terminal {
    /// Closing the terminal ends the command too.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
