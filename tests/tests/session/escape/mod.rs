//! Escapes from the workspace, each tried by the agent, by its child, by a process that sheds its
//! environment, and in a terminal of the worker's. The sandbox must refuse all of them and leave their
//! targets unchanged. Without a sandbox each of them succeeds, which proves that the attempts are real.

mod victim;

use std::collections::BTreeSet;
use std::path::Path;

use ralph_shared::wire::{Access, Ended, Unavailable};
use ralph_worker::sandbox::{REQUIRED_ABI, Sandbox, SandboxMode, bubblewrap, own_root, support};

use self::victim::Victim;
use super::scene::{Played, Scene, scene, turn};

/// Who tries: an agent that is a shell, or a process that a directive of the scripted agent starts.
const WHO: [&str; 4] = ["agent", "@run", "@run setsid -w env -i PATH=$PATH", "@term"];

/// Name and shell command, which succeeds when the escape does. `$OUT` is a folder beside the workspace with
/// a file `secret` and a link `link` to it. `$PID` is the worker's process, and `$VICTIM` another process of
/// its user; `$TERMINAL` and `$SHM` belong to a person.
const ATTEMPTS: &[(&str, &str)] = &[
    ("read", "cat $OUT/secret"),
    ("read-relative", "cat ../out/secret"),
    ("read-by-symlink", "ln -sf $OUT/secret s1; cat s1"),
    ("read-by-folder-symlink", "ln -sfn $OUT s2; cat s2/secret"),
    ("read-by-its-own-symlink", "cat $OUT/link"),
    ("read-by-proc-root", "cat /proc/self/root$OUT/secret"),
    ("read-by-proc-cwd", "cat /proc/self/cwd/../out/secret"),
    ("read-by-descriptor", "exec 9<$OUT/secret; cat <&9"),
    ("list", "ls $OUT"),
    ("list-parent", "ls .."),
    ("copy-in", "cp $OUT/secret stolen"),
    ("archive", "tar cf stolen.tar -C $OUT secret"),
    ("hard-link-in", "ln $OUT/secret hard1"),
    ("move-in", "mv $OUT/movable moved"),
    ("execute", "$OUT/program"),
    ("write", "echo x > $OUT/new1"),
    ("append", "echo x >> $OUT/secret"),
    ("write-by-symlink", "ln -sf $OUT/new2 s3; echo x > s3"),
    ("write-by-folder-symlink", "ln -sfn $OUT s4; echo x > s4/new3"),
    ("truncate", "truncate -s 1 $OUT/cut"),
    ("delete", "test -e $OUT/deletable && rm $OUT/deletable"),
    ("rename", "mv $OUT/renamable $OUT/renamed"),
    ("move-out", "echo x > mine; mv mine $OUT/mine"),
    ("hard-link-out", "echo x > mine2; ln mine2 $OUT/mine2"),
    ("make-folder", "mkdir $OUT/folder1"),
    ("remove-folder", "rmdir $OUT/empty"),
    ("make-symlink", "ln -s /etc $OUT/symlink1"),
    ("make-fifo", "mkfifo $OUT/fifo1"),
    ("touch-in-parent", "touch ../touched"),
    (
        "worker-environment",
        "cat /proc/$PID/environ | tr '\\0' '\\n' | grep -q .",
    ),
    ("worker-descriptors", "ls /proc/$PID/fd/0"),
    ("worker-signal", "kill -0 $PID"),
    (
        "shared-tmp",
        "echo x > /tmp/ralph-escape-$PID && rm /tmp/ralph-escape-$PID",
    ),
    ("list-users-home", "ls $USERS_HOME"),
    (
        "worker-memory",
        "head -c 1 /proc/$PID/mem >/dev/null || head -c 1 /proc/$PID/maps | grep -q .",
    ),
    ("worker-folder", "ls /proc/$PID/cwd/"),
    ("worker-root", "cat /proc/$PID/root$OUT/secret"),
    ("setuid-copy", "cp /bin/true $OUT/suid1"),
    ("read-other-terminal", ": < $TERMINAL"),
    ("write-other-terminal", "echo x > $TERMINAL"),
    ("read-shared-memory", "cat $SHM"),
    (
        "victim-environment",
        "cat /proc/$VICTIM/environ | tr '\\0' '\\n' | grep -q .",
    ),
    ("victim-root", "cat /proc/$VICTIM/root$OUT/secret"),
    ("enter-mounts", "nsenter -t $PID -m cat $OUT/secret"),
    (
        "write-kernel-setting",
        "cat /proc/sys/kernel/core_pattern > kept && cat kept > /proc/sys/kernel/core_pattern",
    ),
    ("kernel-log", ": < /dev/kmsg"),
];

/// Escapes by system calls: a function of `calls.py`, and its target.
const CALLS: &[(&str, &str)] = &[
    ("victim-limits", "prlimit(2) of another process"),
    ("worker-limits", "prlimit(2) of the worker"),
    ("victim-affinity", "the processors of another process"),
    ("victim-scheduler", "its scheduling policy"),
    ("victim-scheduling-parameters", "its scheduling parameters"),
    ("victim-scheduling-attributes", "its scheduling attributes"),
    ("victim-priority", "its priority"),
    ("victim-io-priority", "its I/O priority"),
    ("victim-memory-reclaim", "its memory, reclaimed"),
    ("victim-memory-read", "its memory, read by address"),
    ("victim-memory-write", "its memory, written by address"),
    ("victim-memory-file", "its memory, by /proc"),
    ("victim-pages-moved", "the NUMA node of its pages"),
    ("victim-pages-migrated", "the NUMA node of all its pages"),
    ("victim-robust-list", "an address in it"),
    ("victim-compared", "kcmp(2) of it"),
    ("victim-traced", "ptrace(2) of it"),
    ("victim-descriptor", "its open file"),
    ("victim-descriptor-file", "its open file, by /proc"),
    ("victim-signal", "kill(2)"),
    ("victim-thread-signal", "tgkill(2)"),
    ("victim-queued-signal", "rt_sigqueueinfo(2)"),
    ("victim-descriptor-signal", "pidfd_send_signal(2)"),
    ("victim-signal-by-pipe", "a signal that a pipe sends (F_SETOWN)"),
    ("victim-namespaces", "setns(2)"),
    ("victim-namespace-file", "its mount namespace, by /proc"),
    ("victim-out-of-memory", "its out-of-memory score"),
    ("victim-watched", "perf_event_open(2) of it"),
    ("ring", "io_uring, whose calls bypass the filter"),
    ("keyring", "the kernel's keys of the user"),
    ("kernel-program", "bpf(2)"),
    ("page-faults", "userfaultfd(2)"),
    ("file-by-handle", "a file outside, by its handle"),
    ("file-by-handle-inside", "any file by a handle"),
    ("shared-segment", "System V shared memory"),
    ("semaphore", "a System V semaphore"),
    ("messages", "a System V message queue"),
    ("message-queue", "a POSIX message queue"),
    ("message-queue-removed", "a POSIX message queue, removed"),
    ("path-socket", "a socket with a path, as docker's"),
    ("abstract-socket", "a socket with an abstract name"),
    ("mode", "permission bits of a file outside"),
    ("folder-mode", "permission bits of a folder outside"),
    ("owner", "the owner of a file"),
    ("times", "the times of a file"),
    ("attribute", "an extended attribute"),
    ("attribute-read", "the names of extended attributes"),
    ("name-known", "whether a file exists"),
    ("link-read", "the target of a link"),
    ("folder-entered", "chdir(2) to a folder outside"),
    ("folder-watched", "inotify on a folder outside"),
    ("mode-of-a-tool", "permission bits of a program"),
    ("terminal-typed-into", "TIOCSTI on another terminal"),
    ("typed-into-its-own", "TIOCSTI at all"),
    ("console", "TIOCLINUX at all"),
    ("terminal-owned", "permission bits of another terminal"),
    ("mounted", "mount(2) of a folder outside"),
    ("mounted-as-another", "mount(2) in a user namespace"),
];

/// Attempts that a machine, or a user other than root, may refuse without a sandbox, and some that only the
/// victim can detect.
const BY_THE_MACHINE: &[&str] = &[
    "enter-mounts",
    "write-kernel-setting",
    "kernel-log",
    "victim-memory-reclaim",
    "victim-memory-read",
    "victim-memory-write",
    "victim-memory-file",
    "victim-pages-moved",
    "victim-pages-migrated",
    "victim-compared",
    "victim-traced",
    "victim-descriptor",
    "victim-signal-by-pipe",
    "victim-namespaces",
    "victim-watched",
    "ring",
    "kernel-program",
    "page-faults",
    "file-by-handle",
    "file-by-handle-inside",
    "attribute",
    "mode-of-a-tool",
    "terminal-typed-into",
    "typed-into-its-own",
    "mounted",
    "mounted-as-another",
];

/// Attempts that succeed if the worker can't give a session its own root; `doctor` says so.
const WITHOUT_A_ROOT: &[&str] = &[
    "path-socket",
    "mode",
    "folder-mode",
    "owner",
    "times",
    "attribute",
    "attribute-read",
    "name-known",
    "link-read",
    "folder-entered",
    "folder-watched",
    "mode-of-a-tool",
    "terminal-owned",
];

/// Things of a person's session: a terminal, and memory that its programs share.
struct Persons {
    terminal: nix::pty::OpenptyResult,
    memory: tempfile::NamedTempFile,
}

impl Persons {
    fn make() -> Self {
        Self {
            terminal: nix::pty::openpty(None, None).unwrap(),
            memory: tempfile::NamedTempFile::new_in("/dev/shm").unwrap(),
        }
    }

    /// Whether anybody wrote to the terminal or typed into it: both arrive at its other end.
    fn written(&self) -> bool {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        use std::os::fd::AsFd as _;
        let mut other_end = [PollFd::new(self.terminal.master.as_fd(), PollFlags::POLLIN)];
        poll(&mut other_end, PollTimeout::ZERO).unwrap() > 0
    }

    fn terminal(&self) -> String {
        nix::unistd::ttyname(&self.terminal.slave)
            .unwrap()
            .display()
            .to_string()
    }
}

fn stage(mode: SandboxMode) -> (Scene, Persons, Victim) {
    let mut lines = Vec::new();
    for (name, command) in ATTEMPTS {
        lines.push(format!(
            "(({command}) >/dev/null 2>&1 && echo escaped {name}) || echo held {name}"
        ));
    }
    let names: Vec<&str> = CALLS.iter().map(|(name, _)| *name).collect();
    // In a home directory, a shim would itself be out of reach.
    lines.push(format!(
        "PATH=/usr/bin:$PATH python3 calls.py {}",
        names.join(" ")
    ));
    let mut stage = scene("");
    stage.spec.sandbox.mode = mode;
    let out = stage.work().parent().unwrap().join("out");
    restock(&out);
    let persons = Persons::make();
    let victim = Victim::start(&out);
    let script = format!(
        "export OUT={} TERMINAL={} SHM={} PID={} USERS_HOME={} {}\n{}\n",
        out.display(),
        persons.terminal(),
        persons.memory.path().display(),
        std::process::id(),
        std::env::home_dir()
            .filter(|home| home.is_dir())
            .unwrap_or_else(|| out.clone())
            .display(),
        victim.variables(),
        lines.join("\n")
    );
    std::fs::write(stage.work().join("try.sh"), script).unwrap();
    std::fs::write(stage.work().join("calls.py"), include_str!("calls.py")).unwrap();
    (stage, persons, victim)
}

fn restock(out: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::create_dir_all(out.join("empty")).unwrap();
    for name in ["secret", "movable", "cut", "deletable", "renamable"] {
        std::fs::write(out.join(name), "a secret\n").unwrap();
    }
    std::os::unix::fs::symlink("secret", out.join("link")).unwrap();
    std::fs::write(out.join("program"), "#!/bin/sh\nexit 0\n").unwrap();
    std::fs::set_permissions(out.join("program"), std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn with(mut scene: Scene, description: &str) -> Scene {
    scene.spec.prompt = scene
        .spec
        .prompt
        .replace("Description:\n", &format!("Description:\n{description}\n"));
    scene
}

fn escaped(played: &Played) -> BTreeSet<String> {
    assert_eq!(played.end.ended, turn("end_turn"));
    let results = std::fs::read_to_string(played.path("results")).unwrap();
    assert_eq!(results.lines().count(), ATTEMPTS.len() + CALLS.len(), "{results}");
    results
        .lines()
        .filter_map(|line| line.strip_prefix("escaped "))
        .map(str::to_owned)
        .collect()
}

/// The attempts that succeeded, and whether all their targets are unchanged.
async fn escapes(mode: SandboxMode, who: &str) -> (BTreeSet<String>, bool) {
    let (mut stage, persons, mut victim) = stage(mode);
    let before = (victim.state(), persons.written());
    let stage = if who == "agent" {
        let answer = |id: u8, result: &str| format!("read -r l; echo '{{\"id\":{id},\"result\":{result}}}'");
        let script = [
            answer(0, r#"{"protocolVersion":1}"#),
            answer(1, r#"{"sessionId":"s"}"#),
            "read -r l; . ./try.sh > results 2>&1".to_owned(),
            r#"echo '{"id":2,"result":{"stopReason":"end_turn"}}'"#.to_owned(),
        ];
        stage.spec.agent.argv = ["sh", "-c", &script.join("; ")].map(str::to_owned).to_vec();
        stage
    } else {
        with(stage, &format!("{who} sh try.sh > results 2>&1"))
    };
    let played = stage.play().await;
    let escaped = escaped(&played);
    let after = (victim.state(), persons.written());
    let untouched = before == after;
    if !untouched && mode != SandboxMode::None {
        eprintln!("{mode:?}, {who}: {before:#?}\nbecame {after:#?}");
    }
    (escaped, untouched)
}

fn names(table: &[&str]) -> BTreeSet<String> {
    table.iter().map(|name| (*name).to_owned()).collect()
}

#[tokio::test]
async fn the_sandbox_refuses_every_attempt() {
    assert!(
        support().abi >= REQUIRED_ABI,
        "this test needs Landlock ABI {REQUIRED_ABI}"
    );
    for who in WHO {
        let (out, untouched) = escapes(SandboxMode::Landlock, who).await;
        let mut known = BTreeSet::new();
        if !own_root() {
            eprintln!("the worker can't make mount namespaces here: attempts that need them may succeed");
            known.extend(names(WITHOUT_A_ROOT));
        }
        assert!(out.is_subset(&known), "{who}: {out:?}");
        assert!(untouched || !known.is_empty(), "{who} left a trace");
    }
}

#[tokio::test]
async fn bubblewrap_refuses_every_attempt() {
    if bubblewrap().is_none() {
        eprintln!("bubblewrap is not installed here, or can't make namespaces: nothing to try");
        return;
    }
    for who in WHO {
        let (out, untouched) = escapes(SandboxMode::Bubblewrap, who).await;
        assert_eq!(out, BTreeSet::new(), "{who}");
        assert!(untouched, "{who} left a trace");
    }
}

#[tokio::test]
async fn a_missing_agent_is_reported_in_bubblewrap_too() {
    let mut stage = scene("");
    stage.spec.agent.argv = vec!["no-such-agent".to_owned()];
    stage.spec.sandbox.mode = SandboxMode::Bubblewrap;
    match (stage.play().await.end.ended, bubblewrap()) {
        (Ended::Unavailable { door, .. }, Some(_)) => assert_eq!(door, Unavailable::NotFound),
        (Ended::Workspace { message, .. }, None) => assert!(message.contains("bwrap"), "{message}"),
        (other, _) => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn every_attempt_succeeds_without_a_sandbox() {
    for who in WHO {
        let (out, untouched) = escapes(SandboxMode::None, who).await;
        let all = ATTEMPTS.iter().chain(CALLS).map(|(name, _)| (*name).to_owned());
        let mut held: BTreeSet<String> = all.collect();
        held.retain(|name| !out.contains(name));
        assert!(held.is_subset(&names(BY_THE_MACHINE)), "{who}: {held:?}");
        assert!(!untouched, "{who}");
    }
}

#[tokio::test]
async fn usual_work_succeeds_in_the_sandbox() {
    usual_work_succeeds(SandboxMode::Landlock).await;
    if bubblewrap().is_some() {
        usual_work_succeeds(SandboxMode::Bubblewrap).await;
    }
}

async fn usual_work_succeeds(mode: SandboxMode) {
    let mut stage = scene(
        "@write a.txt one\n@run git init -q . && git add a.txt && git -c user.name=a -c user.email=b commit -qm x && echo committed\n\
         @run echo x > $TMPDIR/a && mv $TMPDIR/a b && mkdir -p $HOME/c && echo y > $HOME/c/d && cat /etc/passwd >/dev/null && echo kept\n\
         @run sleep 600 & kill $! && echo killed\n@fs-write c/d.txt two\n@term cat c/d.txt",
    );
    stage.spec.sandbox.mode = mode;
    let played = stage.play().await;
    assert_eq!(played.end.ended, turn("end_turn"));
    assert!(
        played.end.text.contains("terminal exit 0: two"),
        "{}",
        played.end.text
    );
    let transcript = played.transcript();
    for done in ["committed", "kept", "killed"] {
        assert!(
            transcript.contains(&format!("{done}\\n")),
            "{done} in {transcript}"
        );
    }
}

#[tokio::test]
async fn read_only_is_enforced_by_the_sandbox() {
    let mut stage =
        scene("@run echo x > new && echo escaped\n@run cat old && echo x > $TMPDIR/new && echo fine")
            .access(Access::ReadOnly);
    stage.spec.sandbox.mode = SandboxMode::Landlock;
    std::fs::write(stage.work().join("old"), "old").unwrap();
    let played = stage.play().await;
    let transcript = played.transcript();
    assert!(
        !transcript.contains("escaped\\n") && transcript.contains("fine\\n"),
        "{transcript}"
    );
    assert!(!played.path("new").exists());
}

#[tokio::test]
async fn configured_folders_are_reachable() {
    let mut stage =
        scene("@run cat $SHARED/a && echo x > $CACHE/b && echo fine; echo x > $SHARED/c || echo held");
    let parent = stage.work().parent().unwrap().to_owned();
    for name in ["shared", "cache"] {
        std::fs::create_dir(parent.join(name)).unwrap();
    }
    std::fs::write(parent.join("shared/a"), "").unwrap();
    for (name, folder) in [("SHARED", "shared"), ("CACHE", "cache")] {
        let value = parent.join(folder).display().to_string();
        stage.spec.env.insert(name.to_owned(), value);
    }
    stage.spec.sandbox = Sandbox {
        mode: SandboxMode::Landlock,
        read: vec![parent.join("shared")],
        write: vec![parent.join("cache")],
        ..Sandbox::default()
    };
    let transcript = stage.play().await.transcript();
    assert!(
        transcript.contains("fine\\n") && transcript.contains("held\\n"),
        "{transcript}"
    );
}

#[tokio::test]
async fn an_agent_in_an_unreadable_folder_does_not_start() {
    let mut stage = scene("");
    let hidden = stage.work().parent().unwrap().join("hidden");
    std::fs::create_dir(&hidden).unwrap();
    let script = hidden.join("agent");
    std::fs::write(&script, "#!/bin/sh\n. ./lib.sh\n").unwrap();
    stage.spec.agent.argv = vec![
        "sh".to_owned(),
        "-c".to_owned(),
        format!(". {}", script.display()),
    ];
    stage.spec.sandbox.mode = SandboxMode::Landlock;
    assert!(matches!(stage.play().await.end.ended, Ended::Unavailable { .. }));
}

/// Opens a terminal, runs a shell in it, and reads its output; opens it by path as well, as musl and Go do.
const USE_A_TERMINAL: &str = "import os, pty
pid, master = pty.fork()
if pid == 0:
    os.execvp('sh', ['sh', '-c', 'test -t 0 && : < /dev/tty && stty size >/dev/null && echo in a terminal'])
printed = b''
while b'terminal' not in printed:
    printed += os.read(master, 100)
master, slave = os.openpty()
other = os.open(os.ttyname(slave), os.O_RDWR | os.O_NOCTTY)
os.write(other, b'by path')
assert b'by path' in os.read(master, 100)
print('terminals', 'work')
";

#[tokio::test]
async fn every_session_has_its_own_terminals() {
    let mut modes = vec![SandboxMode::Landlock];
    modes.extend(bubblewrap().map(|_| SandboxMode::Bubblewrap));
    for mode in modes {
        let mut stage = scene(
            "@run PATH=/usr/bin:$PATH python3 use.py\n@term sh -c 'PATH=/usr/bin:$PATH python3 use.py'",
        );
        std::fs::write(stage.work().join("use.py"), USE_A_TERMINAL).unwrap();
        stage.spec.sandbox.mode = mode;
        let transcript = stage.play().await.transcript();
        let count = transcript.matches("terminals work\\n").count();
        assert!(!own_root() || count >= 2, "{mode:?}: {transcript}");
    }
}
