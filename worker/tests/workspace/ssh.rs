//! A real ssh server, where one is installed: a key that nobody knows, and a login that it doesn't take.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use ralph_shared::wire::WorkspaceOrder;

use crate::remote::Remote;
use crate::user::User;

/// Who the server runs as when the test is root: as root it wants an account of its own on the machine.
const NOBODY: u32 = 65_534;

/// Where servers are installed that are not in the `PATH` of users; `RALPH_SSHD` names another one.
const PLACES: [&str; 3] = ["/usr/sbin/sshd", "/usr/local/sbin/sshd", "/usr/bin/sshd"];

fn sshd() -> Option<PathBuf> {
    let named = std::env::var_os("RALPH_SSHD").map(PathBuf::from);
    let places = PLACES.map(PathBuf::from);
    named.into_iter().chain(places).find(|path| path.is_file())
}

/// A server on a port of the loopback that takes no login.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(program: &Path, dir: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let key = dir.join("host_key");
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(&key)
            .status();
        assert!(made.unwrap().success());
        let config = format!(
            "ListenAddress 127.0.0.1:{port}\nHostKey {}\nPidFile none\nUsePAM no\nStrictModes no\n\
             PasswordAuthentication no\nAuthorizedKeysFile none\n",
            key.display()
        );
        fs::write(dir.join("sshd_config"), config).unwrap();
        let mut command = Command::new(program);
        command.args(["-D", "-e", "-f"]).arg(dir.join("sshd_config"));
        if nix::unistd::geteuid().is_root() {
            fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
            chown(&key, Some(NOBODY), Some(NOBODY)).unwrap();
            command.uid(NOBODY).gid(NOBODY);
        }
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        let ready = said.find(|line| line.as_ref().is_ok_and(|line| line.contains("Server listening")));
        assert!(ready.is_some(), "the ssh server didn't start");
        // It would end when nobody reads what it says.
        std::thread::spawn(move || said.for_each(drop));
        Self { child, port }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn an_unknown_host_key_and_a_refused_login_have_their_own_reasons() {
    let test = "ssh::an_unknown_host_key_and_a_refused_login_have_their_own_reasons";
    let Some(program) = sshd() else {
        eprintln!("no ssh server is installed here; RALPH_SSHD names one");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    if let Some(user) = User::or_run_as_one(test) {
        as_user(&user, &program, dir.path()).await;
    }
}

async fn as_user(user: &User, program: &Path, dir: &Path) {
    let server = Server::start(program, dir);
    let known = user.write("known_hosts", "");
    let config = user.write(
        "ssh_config",
        &format!(
            "Host *\n\tUserKnownHostsFile {}\n\tGlobalKnownHostsFile /dev/null\n\tStrictHostKeyChecking yes\n\
             \tIdentityFile none\n",
            known.display()
        ),
    );
    let gitconfig = format!("[core]\n\tsshCommand = ssh -F {}\n", config.display());
    user.write(".gitconfig", &gitconfig);
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let mut order = remote.order("t-1", "t-1");
    order.repository.address = format!("ssh://git@127.0.0.1:{}/repo.git", server.port);
    let order = WorkspaceOrder::Git(order);
    let refused = workspaces.prepare("t-1", &order).await.unwrap_err();
    let said = refused.to_string();
    assert!(said.contains("ssh host key could not be verified"), "{said}");
    assert!(
        said.contains("ssh-keyscan") && !refused.retry_can_help(),
        "{said}"
    );

    let key = fs::read_to_string(dir.join("host_key.pub")).unwrap();
    fs::write(&known, format!("[127.0.0.1]:{} {key}", server.port)).unwrap();
    let refused = workspaces.prepare("t-1", &order).await.unwrap_err();
    let said = refused.to_string();
    assert!(
        said.contains("authentication failed") && said.contains("an ssh key"),
        "{said}"
    );
    assert!(!refused.retry_can_help(), "{said}");
}
