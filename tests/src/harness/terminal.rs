//! A command at a terminal of its own, and a person who reads and types there.

use std::ffi::OsStr;
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Instant;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// How long something is waited for.
const WAIT_MS: u16 = 60_000;

/// A command at a terminal of its own, which `script` makes.
#[derive(Debug)]
pub struct Terminal {
    child: Child,
    keys: ChildStdin,
    screen: ChildStdout,
    shown: String,
    seen: usize,
}

impl Terminal {
    /// Starts a command: its program, arguments, folder and variables; the streams are the terminal's.
    ///
    /// # Panics
    /// When it can't be started.
    pub fn open(command: &Command) -> Self {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let words: Vec<_> = words.map(OsStr::to_string_lossy).collect();
        let mut script = Command::new("script");
        script
            .args(["--quiet", "--return", "--command"])
            // A shell that stayed would die of the Ctrl+C that the command takes.
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

    /// Reads on until this is shown.
    ///
    /// # Panics
    /// When the command ends before, or a minute has passed.
    pub fn until(&mut self, words: &str) {
        let mut buffer = [0; 4096];
        let began = Instant::now();
        loop {
            if let Some(at) = self.shown[self.seen..].find(words) {
                self.seen += at + words.len();
                return;
            }
            let mut screen = [PollFd::new(self.screen.as_fd(), PollFlags::POLLIN)];
            let left_ms =
                WAIT_MS.saturating_sub(u16::try_from(began.elapsed().as_millis()).unwrap_or(WAIT_MS));
            let ready = poll(&mut screen, PollTimeout::from(left_ms)).unwrap_or(0);
            assert!(ready > 0, "`{words}` doesn't come after {}", self.shown);
            let count = self.screen.read(&mut buffer).unwrap_or(0);
            assert!(count > 0, "no `{words}` in {}", self.shown);
            self.shown += &String::from_utf8_lossy(&buffer[..count]);
        }
    }

    /// Types.
    ///
    /// # Panics
    /// When nobody takes it.
    pub fn press(&mut self, keys: &str) {
        let typed = self.keys.write_all(keys.as_bytes());
        assert!(typed.is_ok(), "nobody takes `{keys:?}`: {}", self.shown);
    }

    /// All that was shown so far.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Reads to the command's end; gives how it ended and all that was shown.
    ///
    /// # Panics
    /// When its end can't be told.
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
    /// Without its terminal, the command ends as well.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
