//! An order to end during a fetch ends the work at once, git included, and the next try succeeds.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use ralph_shared::wire::{Decided, EndReason, IntegrateOrder, IntegrationEnd, WorkspaceOrder};
use ralph_worker::workspace::{Decision, Workspaces};
use tokio::sync::watch;

use crate::remote::{FEATURE, Remote, integrate_order};
use crate::user::User;

/// Sends no object until the file `go` exists, and holds the pipe `alive` open while it runs.
const HOOK: &str = "#!/bin/sh\n[ -e \"$HOME/go\" ] && exec \"$@\"\nexec 3> \"$HOME/alive\"\necho begun > \"$HOME/begun\"\n\
                    exec sleep 600\n";

/// A user whose fetches on this machine hang.
struct Held {
    user: User,
}

impl Held {
    /// `None` in the parent process, which only runs `test` again as a user.
    fn up(test: &str) -> Option<Self> {
        let user = User::or_run_as_one(&format!("ended::{test}"))?;
        let hook = user.write("hook", HOOK);
        fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
        user.write(
            ".gitconfig",
            &format!("[uploadpack]\n\tpackObjectsHook = {}\n", hook.display()),
        );
        for pipe in ["alive", "begun"] {
            mkfifo(&user.home().join(pipe), Mode::S_IRWXU).unwrap();
        }
        Some(Self { user })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.user.home().join(name)
    }

    fn go_on(&self) {
        self.user.write("go", "");
    }

    fn hang(&self) {
        fs::remove_file(self.at("go")).unwrap();
    }

    /// Reads a pipe to its end.
    async fn read(&self, name: &str) {
        let pipe = self.at(name);
        tokio::task::spawn_blocking(move || fs::read(pipe))
            .await
            .unwrap()
            .unwrap();
    }
}

/// Number of unfinished packs in all mirrors of a data folder.
fn halves(data: &std::path::Path) -> usize {
    let mirrors = fs::read_dir(data.join("mirrors")).unwrap().flatten();
    let packs = mirrors.filter_map(|mirror| fs::read_dir(mirror.path().join("objects/pack")).ok());
    let is_half = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with("tmp_");
    packs.flatten().flatten().filter(is_half).count()
}

#[tokio::test]
async fn an_abandoned_preparation_kills_its_fetch() {
    let Some(held) = Held::up("an_abandoned_preparation_kills_its_fetch") else {
        return;
    };
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let order = WorkspaceOrder::Git(remote.order("t-1", "t-1"));
    let dispatch = remote.dispatch("t-1");
    let alive = held.at("alive");
    let over = tokio::task::spawn_blocking(move || fs::read(alive));
    tokio::select! {
        prepared = workspaces.prepare(&dispatch, &order) => panic!("{prepared:?}"),
        () = held.read("begun") => {}
    }
    // The pipe ends when no process of the fetch lives.
    over.await.unwrap().unwrap();
    // Leave files as a fetch does that is killed while it writes.
    let mirror = fs::read_dir(remote.data("data/mirrors")).unwrap().flatten();
    let mirror = mirror
        .map(|entry| entry.path())
        .find(|path| path.join("HEAD").exists());
    let mirror = mirror.unwrap();
    fs::write(mirror.join("objects/pack/tmp_pack_killed"), "half").unwrap();
    fs::write(mirror.join("shallow.lock"), "").unwrap();
    held.go_on();
    let workspace = remote.prepare(&workspaces, "t-2").await;
    assert_eq!(fs::read_to_string(workspace.path().join("a.txt")).unwrap(), "a\n");
    assert_eq!(halves(&remote.data("data")), 0);
}

#[tokio::test]
async fn a_decided_integration_can_end_while_it_is_fetched() {
    let Some(held) = Held::up("a_decided_integration_can_end_while_it_is_fetched") else {
        return;
    };
    held.go_on();
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let commit = remote.attempt(&workspaces, "t-1", "new.txt", "new\n").await;
    let order = integrate_order("t-1", &commit);
    let decided = std::sync::Mutex::new(None);
    let decide = |one: Decided| {
        *decided.lock().unwrap() = Some(one);
        async {
            Decision::Unanswered {
                reason: "cut off".to_owned(),
            }
        }
    };
    let (sender, end) = watch::channel(None);
    let git = remote.integration_order("t-1", "i-1");
    workspaces
        .integrate("i-1", &git, &order, decide, end.clone())
        .await;
    let resume = IntegrateOrder {
        resume: decided.lock().unwrap().take(),
        ..order
    };
    held.hang();
    let other = Workspaces::open(&remote.data("other")).await.unwrap();
    let never = |_: Decided| async { Decision::Push };
    let order_end = async {
        tokio::join!(held.read("alive"), async {
            held.read("begun").await;
            sender.send(Some(EndReason::Drain)).unwrap();
        })
    };
    let git = remote.integration_order("t-1", "i-2");
    let (ended, _) = tokio::join!(other.integrate("i-2", &git, &resume, never, end), order_end);
    let reason = EndReason::Drain;
    assert_eq!(ended.end, IntegrationEnd::Told { reason });
    assert_eq!(remote.head(FEATURE), None);
    held.go_on();
    let ended = remote.integrate(&other, "t-1", "i-3", &resume).await;
    assert!(matches!(ended, IntegrationEnd::Merged { .. }), "{ended:?}");
    assert_eq!(remote.landings("t-1"), 1);
}
