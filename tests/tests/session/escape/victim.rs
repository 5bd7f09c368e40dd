//! Another process of the worker's user, and a folder beside the workspace, which a session must not change.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

pub struct Victim {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    variables: String,
    out: PathBuf,
}

impl Victim {
    pub fn start(out: &Path) -> Self {
        let mut child = Command::new("python3")
            .args(["-c", include_str!("victim.py")])
            .arg(out)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut variables = String::new();
        output.read_line(&mut variables).unwrap();
        Self {
            input: child.stdin.take(),
            child,
            output,
            variables: variables.trim().to_owned(),
            out: out.to_owned(),
        }
    }

    /// Its resources, as shell assignments.
    pub fn variables(&self) -> &str {
        &self.variables
    }

    /// Everything that others could have changed of the victim, of the worker and of the folder.
    pub fn state(&mut self) -> Vec<String> {
        self.input.as_mut().unwrap().write_all(b"state\n").unwrap();
        let mut victim = String::new();
        self.output.read_line(&mut victim).unwrap();
        let mut state = vec![victim, std::fs::read_to_string("/proc/self/limits").unwrap()];
        let entries = std::fs::read_dir(&self.out).unwrap();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.push(self.out.clone());
        paths.sort();
        // Any change of a file updates its change time.
        state.extend(paths.iter().map(|path| {
            let file = path.symlink_metadata().unwrap();
            format!(
                "{} {:o} {} {}",
                path.display(),
                file.mode(),
                file.ctime(),
                file.ctime_nsec()
            )
        }));
        state
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // The victim removes its resources at the end of its input.
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
