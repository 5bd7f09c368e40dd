//! A real ssh server, if one is installed: the user's keys and agent are used, each refusal has its own
//! message, and none of them loses work.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use ralph_shared::wire::{IntegrationEnd, WorkspaceOrder};
use ralph_worker::sandbox::support;
use ralph_worker::workspace::{CommitMessage, Settings, Workspaces};

use crate::remote::{FEATURE, Remote, finish, integrate_order};
use crate::remotes::sshd::{self, Server};
use crate::user::User;

/// The first Landlock ABI that restricts sockets with a path.
const SOCKET_ABI: u32 = 9;

/// A user with a key, and a server that accepts it.
struct Scene {
    user: User,
    key: PathBuf,
    server: Server,
    remote: Remote,
    _dir: tempfile::TempDir,
}

impl Scene {
    /// `None` in the parent process, which only runs `test` again as a user, and if no server is installed.
    fn of(test: &str) -> Option<Self> {
        let program = sshd::program()?;
        let files = [("SSH_AUTH_SOCK", "agent.socket")];
        let user = User::or_run_with(&format!("remotes::ssh::{test}"), &files)?;
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start(&program, dir.path());
        let key = user.home().join("key");
        sshd::make_key(&key);
        server.let_in(&sshd::public(&key));
        let config = user.write(
            "ssh_config",
            &format!(
                "Host *\n\tUserKnownHostsFile {0}/known_hosts\n\tGlobalKnownHostsFile /dev/null\n\
                 \tStrictHostKeyChecking yes\n\tIdentityFile {0}/key\n",
                user.home().display()
            ),
        );
        let command = format!("[core]\n\tsshCommand = ssh -F {}\n", config.display());
        user.write(".gitconfig", &command);
        user.write("known_hosts", &server.known());
        let mut remote = Remote::new();
        remote.address = Some(server.url(&remote.path()));
        Some(Self {
            user,
            key,
            server,
            remote,
            _dir: dir,
        })
    }
}

#[tokio::test]
async fn attempts_land_with_the_users_key() {
    let Some(scene) = Scene::of("attempts_land_with_the_users_key") else {
        return;
    };
    let remote = &scene.remote;
    let workspaces = remote.workspaces().await;
    let commit = remote.attempt(&workspaces, "t-1", "new.txt", "new\n").await;
    let order = integrate_order("t-1", &commit);
    let ended = remote.integrate(&workspaces, "t-1", "i-1", &order).await;
    assert!(matches!(ended, IntegrationEnd::Merged { .. }), "{ended:?}");
    assert_eq!(remote.git(&["show", &format!("{FEATURE}:new.txt")]), "new");
}

#[tokio::test]
async fn every_refusal_before_the_work_has_its_message() {
    let Some(scene) = Scene::of("every_refusal_before_the_work_has_its_message") else {
        return;
    };
    let Scene {
        user, server, remote, ..
    } = &scene;
    let workspaces = remote.workspaces().await;
    let order = WorkspaceOrder::Git(remote.order("t-1", "t-1"));
    user.write("known_hosts", "");
    let refused = workspaces.prepare("t-1", &order).await.unwrap_err();
    let message = refused.to_string();
    assert!(
        message.contains("the server's ssh host key is not known"),
        "{message}"
    );
    assert!(
        message.contains("ssh-keyscan") && !refused.retry_can_help(),
        "{message}"
    );

    user.write("known_hosts", &server.known());
    server.let_in("");
    let refused = workspaces.prepare("t-1", &order).await.unwrap_err();
    let message = refused.to_string();
    assert!(
        message.contains("authentication failed") && message.contains("an ssh key"),
        "{message}"
    );
    assert!(!refused.retry_can_help(), "{message}");
}

#[tokio::test]
async fn access_lost_before_the_push_loses_no_work() {
    let Some(mut scene) = Scene::of("access_lost_before_the_push_loses_no_work") else {
        return;
    };
    let workspaces = scene.remote.workspaces().await;
    let rows = [
        ("removed", "authentication failed", "an ssh key in its agent"),
        ("over", "authentication failed", "an ssh key in its agent"),
        ("unknown", "the server's ssh host key is not known", "ssh-keyscan"),
        (
            "changed",
            "the server's ssh host key is another one than before",
            "ssh-keygen -R",
        ),
        ("away", "the server could not be reached", "tries again by itself"),
    ];
    for (fault, reason, advice) in rows {
        let workspace = scene.remote.prepare(&workspaces, fault).await;
        fs::write(workspace.path().join("new.txt"), "new\n").unwrap();
        let key = sshd::public(&scene.key);
        match fault {
            "removed" => scene.server.let_in(""),
            "over" => scene.server.let_in(&format!("expiry-time=\"20010101\" {key}")),
            "unknown" => drop(scene.user.write("known_hosts", "")),
            "changed" => scene.server.renew_key(),
            _ => scene.server.go_away(),
        }
        let snapshot = workspace.finish(&CommitMessage::default()).await;
        let message = snapshot.push_error.unwrap_or_default();
        assert!(
            message.contains(reason) && message.contains(advice),
            "{fault}: {message}"
        );
        assert!(snapshot.commit.is_some() && snapshot.pushed_ref.is_none());
        drop(workspace);

        scene.server.let_in(&key);
        scene.server.come_back();
        scene.user.write("known_hosts", &scene.server.known());
        let rescued = workspaces.rescue_unpushed(&CommitMessage::default()).await;
        assert_eq!(rescued.len(), 1, "{fault}");
        let order = scene.remote.order(fault, fault);
        assert_eq!(
            scene.remote.head(&order.attempt_ref),
            snapshot.commit,
            "{fault}: {rescued:?}"
        );
    }
}

/// An ssh-agent process; it ends when this value is dropped.
struct KeyAgent(Child);

impl KeyAgent {
    fn start(user: &User) -> Self {
        let socket = user.home().join("agent.socket");
        let mut command = Command::new("ssh-agent");
        command.arg("-D").arg("-a").arg(&socket).stdout(Stdio::null());
        let agent = Self(command.spawn().unwrap());
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while std::os::unix::net::UnixStream::connect(&socket).is_err() {
            assert!(std::time::Instant::now() < deadline, "the key agent didn't start");
            std::thread::yield_now();
        }
        agent
    }
}

impl Drop for KeyAgent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Ways in which an agent's commands could get keys, from within the sandbox that they share with the agent.
#[tokio::test]
async fn keys_of_the_worker_are_out_of_an_agents_reach() {
    let Some(scene) = Scene::of("keys_of_the_worker_are_out_of_an_agents_reach") else {
        return;
    };
    let Scene {
        user, key, remote, ..
    } = &scene;
    let home = user.home().display();
    let add = |socket: &str| {
        let mut command = Command::new("ssh-add");
        command
            .arg("-q")
            .arg(key)
            .env("SSH_AUTH_SOCK", user.home().join(socket));
        assert!(command.status().unwrap().success());
    };
    let agent = KeyAgent::start(user);
    add("agent.socket");
    let private = fs::read_to_string(key).unwrap();
    let line = private.lines().nth(1).unwrap();
    let mut tries = vec![
        format!("! cat {home}/key"),
        format!("! cat {home}/ssh_config"),
        format!("! ls {home}"),
        "! env | grep SSH_AUTH_SOCK".to_owned(),
        "! ssh-add -l".to_owned(),
        format!("! grep -q {line} -r .git"),
        format!("! grep -q SSH_AUTH_SOCK /proc/{}/environ", std::process::id()),
        "! GIT_TERMINAL_PROMPT=0 GIT_SSH_COMMAND='ssh -o BatchMode=yes -o StrictHostKeyChecking=no' \
         git push origin HEAD:refs/heads/stolen"
            .to_owned(),
    ];
    if support().abi >= SOCKET_ABI {
        tries.push(format!("! SSH_AUTH_SOCK={home}/agent.socket ssh-add -l"));
    }
    // Now only the ssh-agent has the key.
    fs::rename(key, key.with_extension("away")).unwrap();
    let settings = Settings {
        setup: tries,
        ..Settings::default()
    };
    let workspaces = Workspaces::open_with(&remote.data("data"), settings.clone()).await;
    let workspaces = workspaces.unwrap();
    let order = WorkspaceOrder::Git(remote.order("t-1", "t-1"));
    let dispatch = remote.dispatch("t-1");
    let workspace = workspaces.prepare(&dispatch, &order).await.unwrap();
    fs::rename(key.with_extension("away"), key).unwrap();
    workspace.set_up(&settings).await.unwrap();
    fs::remove_file(key).unwrap();
    fs::write(workspace.path().join("new.txt"), "new\n").unwrap();
    finish(&workspace).await;
    assert_eq!(remote.head("refs/heads/stolen"), None);
    drop(agent);
}
