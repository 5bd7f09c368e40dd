//! A real ssh server for the user that runs the test, on a loopback port.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Usual paths of servers outside of users' `PATH`; `RALPH_SSHD` names another one.
const PLACES: [&str; 3] = ["/usr/sbin/sshd", "/usr/local/sbin/sshd", "/usr/bin/sshd"];

/// The server program, if one is installed.
pub fn program() -> Option<PathBuf> {
    let named = std::env::var_os("RALPH_SSHD").map(PathBuf::from);
    let places = PLACES.map(PathBuf::from);
    let found = named.into_iter().chain(places).find(|path| path.is_file());
    assert!(
        found.is_some() || std::env::var_os("CI").is_none(),
        "an ssh server must be installed in CI: run `make setup`, or set RALPH_SSHD"
    );
    if found.is_none() {
        eprintln!("no ssh server is installed here; RALPH_SSHD can name one");
    }
    found
}

/// Makes a key pair without a passphrase; the public half is in the file with `.pub`.
pub fn make_key(path: &Path) {
    let _ = fs::remove_file(path);
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "test", "-f"])
        .arg(path)
        .stdin(Stdio::null())
        .status();
    assert!(made.unwrap().success());
}

pub fn public(key: &Path) -> String {
    let text = fs::read_to_string(key.with_extension("pub")).unwrap();
    text.trim().to_owned()
}

/// The server process; it ends when this value is dropped.
pub struct Server {
    program: PathBuf,
    dir: PathBuf,
    child: Option<Child>,
    pub port: u16,
}

impl Server {
    /// Starts a server with its files in `dir`; it accepts no key yet.
    pub fn start(program: &Path, dir: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        if nix::unistd::geteuid().is_root() {
            // The server requires this folder; an installed service makes it at boot.
            fs::create_dir_all("/run/sshd").unwrap();
        }
        let mut server = Self {
            program: program.to_owned(),
            dir: dir.to_owned(),
            child: None,
            port,
        };
        server.let_in("");
        server.renew_key();
        server
    }

    /// URL of the repository at this path.
    pub fn url(&self, repository: &Path) -> String {
        let user = nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap();
        let user = user.unwrap().name;
        format!("ssh://{user}@127.0.0.1:{}{}", self.port, repository.display())
    }

    /// From now on the server accepts only these keys: lines of `authorized_keys`.
    pub fn let_in(&self, keys: &str) {
        fs::write(self.dir.join("authorized_keys"), format!("{keys}\n")).unwrap();
    }

    /// The server's line in `known_hosts`.
    pub fn known(&self) -> String {
        format!(
            "[127.0.0.1]:{} {}\n",
            self.port,
            public(&self.dir.join("host_key"))
        )
    }

    /// Restarts with a new host key.
    pub fn renew_key(&mut self) {
        make_key(&self.dir.join("host_key"));
        self.come_back();
    }

    /// Restarts.
    pub fn come_back(&mut self) {
        self.go_away();
        let config = format!(
            "ListenAddress 127.0.0.1:{}\nHostKey {}\nPidFile none\nUsePAM no\nStrictModes no\nPermitRootLogin yes\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\nAuthorizedKeysFile {}\n\
             SetEnv GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1\n",
            self.port,
            self.dir.join("host_key").display(),
            self.dir.join("authorized_keys").display()
        );
        fs::write(self.dir.join("sshd_config"), config).unwrap();
        let mut command = Command::new(&self.program);
        command.args(["-D", "-e", "-f"]).arg(self.dir.join("sshd_config"));
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut heard = String::new();
        let ready = log.by_ref().map_while(Result::ok).any(|line| {
            heard.push_str(&line);
            line.contains("Server listening")
        });
        assert!(ready, "the ssh server didn't start: {heard}");
        // The server would end if nobody read its output.
        std::thread::spawn(move || log.for_each(drop));
        self.child = Some(child);
    }

    /// Stops: connections are refused.
    pub fn go_away(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.go_away();
    }
}
