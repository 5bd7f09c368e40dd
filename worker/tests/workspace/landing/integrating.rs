//! Integrations up to the decision: rebase, conflicts, setup and gate.

use std::sync::{Arc, Mutex};

use ralph_shared::wire::{Decided, EndReason, IntegrateOrder, IntegrationEnd};
use ralph_worker::sandbox::Sandbox;
use ralph_worker::workspace::{Decision, Settings, Workspaces};
use tokio::sync::watch;

use crate::remote::{BRANCH, FEATURE, Remote, finish, integrate_order};

#[tokio::test]
async fn the_first_landing_creates_the_branch() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let commit = remote.attempt(&workspaces, "t-1", "new.txt", "new\n").await;
    let asked = Arc::new(Mutex::new(None));
    let decide = |decided: Decided| {
        *asked.lock().unwrap() = Some(decided);
        async { Decision::Push }
    };
    let (_sender, end) = watch::channel(None);
    let git = remote.integration_order("t-1", "i-1");
    let ended = workspaces
        .integrate("i-1", &git, &integrate_order("t-1", &commit), decide, end)
        .await
        .end;
    let decided = asked.lock().unwrap().clone().unwrap();
    assert_eq!(
        ended,
        IntegrationEnd::Merged {
            commit: decided.new.clone(),
            empty: false
        }
    );
    assert_eq!(decided.old, "0".repeat(40));
    assert_eq!(remote.head(FEATURE), Some(decided.new.clone()));
    assert_eq!(remote.head(&decided.new_ref), Some(decided.new.clone()));
    let shown = remote.git(&["show", "-s", "--format=%P|%an|%B", FEATURE]);
    let message = "|Ann|Do t-1\n\nBecause.\n\nRalph-Attempt: 1\nRalph-Task: t-1";
    assert_eq!(shown, format!("{}{message}", remote.base));
}

#[tokio::test]
async fn commits_have_the_configured_author_and_sign_off() {
    let remote = Remote::new();
    let settings = Settings {
        author: Some("Team Bot <bot@example.org>".to_owned()),
        sign_off: true,
        ..Settings::default()
    };
    let workspaces = Workspaces::open_with(&remote.data("data"), settings)
        .await
        .unwrap();
    let work = ralph_shared::wire::WorkspaceOrder::Git(remote.order("t-1", "t-1"));
    let workspace = workspaces.prepare("t-1", &work).await.unwrap();
    std::fs::write(workspace.path().join("new.txt"), "new\n").unwrap();
    let commit = finish(&workspace).await.commit.unwrap();
    let shown = remote.git(&[
        "show",
        "-s",
        "--format=%an <%ae>|%(trailers:key=Signed-off-by)",
        &commit,
    ]);
    assert_eq!(shown, "Team Bot <bot@example.org>|");
    let git = remote.integration_order("t-1", "i-1");
    let order = integrate_order("t-1", &commit);
    let ended = remote.integrate_as(&workspaces, "i-1", &git, &order).await;
    assert!(matches!(ended, IntegrationEnd::Merged { .. }), "{ended:?}");
    let format =
        "--format=%an <%ae>|%(trailers:key=Signed-off-by,valueonly)%(trailers:key=Ralph-Task,valueonly)";
    let shown = remote.git(&["show", "-s", format, FEATURE]);
    assert_eq!(
        shown,
        "Team Bot <bot@example.org>|Team Bot <bot@example.org>\nt-1"
    );
}

#[tokio::test]
async fn a_task_lands_once_however_often_it_is_integrated() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let commit = remote.attempt(&workspaces, "t-1", "new.txt", "new\n").await;
    let order = integrate_order("t-1", &commit);
    let first = remote.integrate(&workspaces, "t-1", "i-1", &order).await;
    let again = remote.integrate(&workspaces, "t-1", "i-2", &order).await;
    assert!(matches!(first, IntegrationEnd::Merged { .. }), "{first:?}");
    assert_eq!(again, first);
    assert_eq!(remote.landings("t-1"), 1);
}

#[tokio::test]
async fn changes_of_one_file_in_different_places_both_land() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let line = |number: usize| -> String {
        (0..10)
            .map(|n| {
                if n == number {
                    "changed\n".to_owned()
                } else {
                    format!("line {n}\n")
                }
            })
            .collect()
    };
    let top = remote.attempt(&workspaces, "t-1", "shared.txt", &line(0)).await;
    let bottom = remote.attempt(&workspaces, "t-2", "shared.txt", &line(9)).await;
    remote
        .integrate(&workspaces, "t-1", "i-1", &integrate_order("t-1", &top))
        .await;
    remote
        .integrate(&workspaces, "t-2", "i-2", &integrate_order("t-2", &bottom))
        .await;
    let shown = remote.git(&["show", &format!("{FEATURE}:shared.txt")]);
    assert_eq!(shown.matches("changed").count(), 2);
    assert_eq!(remote.git(&["rev-list", "--count", "--merges", FEATURE]), "0");
}

#[tokio::test]
async fn a_conflict_names_paths_and_hunks_and_moves_nothing() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let mine = remote.attempt(&workspaces, "t-1", "a.txt", "mine\n").await;
    let theirs = remote.attempt(&workspaces, "t-2", "a.txt", "theirs\n").await;
    remote
        .integrate(&workspaces, "t-1", "i-1", &integrate_order("t-1", &mine))
        .await;
    let before = remote.head(FEATURE).unwrap();
    let ended = remote
        .integrate(&workspaces, "t-2", "i-2", &integrate_order("t-2", &theirs))
        .await;
    let IntegrationEnd::Conflict {
        paths,
        hunks,
        head,
        others,
        ..
    } = ended
    else {
        panic!("{ended:?}")
    };
    assert_eq!(
        (paths, others),
        (vec!["a.txt".to_owned()], vec!["t-1".to_owned()])
    );
    assert!(hunks.contains("+<<<<<<<") && hunks.contains("+theirs"), "{hunks}");
    assert_eq!(head, before);
    assert_eq!(remote.head(FEATURE), Some(before));
    assert_eq!(remote.head(&remote.order("t-2", "i-2").attempt_ref), None);
}

/// The repository's attributes choose how a file is merged.
#[tokio::test]
async fn merge_attributes_of_the_repository_apply() {
    let version = std::process::Command::new("git").arg("version").output().unwrap();
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    let mut parts = version
        .split([' ', '.'])
        .filter_map(|part| part.parse::<u32>().ok());
    if (parts.next(), parts.next()) < (Some(2), Some(41)) {
        println!("skipped: {version} can't read attributes from a tree");
        return;
    }
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let rules = remote.commit(
        BRANCH,
        &remote.base,
        ".gitattributes",
        "log merge=union\nlock -merge\n",
    );
    let log = remote.commit(BRANCH, &rules, "log", "begin\n");
    let lines: String = (0..20).map(|n| format!("line {n}\n")).collect();
    remote.commit(BRANCH, &log, "lock", &lines);
    let change = |n: usize| lines.replace(&format!("line {n}\n"), "changed\n");
    let mut attempts = Vec::new();
    for (task, file, text) in [
        ("t-1", "log", "begin\none\n".to_owned()),
        ("t-2", "log", "begin\ntwo\n".to_owned()),
        ("t-3", "lock", change(0)),
        ("t-4", "lock", change(19)),
    ] {
        attempts.push((task, remote.attempt(&workspaces, task, file, &text).await));
    }
    let mut ended = Vec::new();
    for (at, (task, commit)) in attempts.iter().enumerate() {
        let dispatch = format!("i-{at}");
        let order = integrate_order(task, commit);
        ended.push(remote.integrate(&workspaces, task, &dispatch, &order).await);
    }
    let merged: Vec<bool> = ended
        .iter()
        .map(|end| matches!(end, IntegrationEnd::Merged { .. }))
        .collect();
    assert_eq!(merged, [true, true, true, false], "{ended:?}");
    let log = remote.git(&["show", &format!("{FEATURE}:log")]);
    assert!(log.contains("one") && log.contains("two"), "{log}");
}

#[tokio::test]
async fn an_empty_change_lands_as_an_empty_commit() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    remote.commit(BRANCH, &remote.base, "b.txt", "b\n");
    let base = remote.base.clone();
    let ended = remote
        .integrate(&workspaces, "t-1", "i-1", &integrate_order("t-1", &base))
        .await;
    let IntegrationEnd::Merged { commit, empty: true } = ended.clone() else {
        panic!("{ended:?}")
    };
    assert_eq!(remote.head(FEATURE), Some(commit));
    assert_eq!(remote.landings("t-1"), 1);
    assert_eq!(
        remote.git(&["diff", "--stat", &format!("{FEATURE}^"), FEATURE]),
        ""
    );
}

#[tokio::test]
async fn an_attempt_that_continued_another_lands_as_one_commit() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let first = remote.attempt(&workspaces, "t-1", "one.txt", "1\n").await;
    let order = ralph_shared::wire::GitOrder {
        start: Some(first),
        ..remote.order("t-1", "second")
    };
    let workspace = workspaces
        .prepare("second", &ralph_shared::wire::WorkspaceOrder::Git(order))
        .await
        .unwrap();
    std::fs::write(workspace.path().join("two.txt"), "2\n").unwrap();
    let commit = crate::remote::finish(&workspace).await.commit.unwrap();
    remote.commit(BRANCH, &remote.base, "b.txt", "b\n");
    let ended = remote
        .integrate(&workspaces, "t-1", "i-1", &integrate_order("t-1", &commit))
        .await;
    assert!(
        matches!(ended, IntegrationEnd::Merged { empty: false, .. }),
        "{ended:?}"
    );
    let files = remote.git(&["diff", "--name-only", &format!("{FEATURE}^"), FEATURE]);
    assert_eq!(files, "one.txt\ntwo.txt");
}

#[tokio::test]
async fn the_gate_sees_exactly_the_commit_that_would_land() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    remote.commit(BRANCH, &remote.base, "b.txt", "b\n");
    let commit = remote.attempt(&workspaces, "t-1", "new.txt", "new\n").await;
    let gate = |commands: &[&str]| IntegrateOrder {
        gate: commands.iter().map(|command| (*command).to_owned()).collect(),
        ..integrate_order("t-1", &commit)
    };
    let failing = gate(&[
        "test -f b.txt && test -f new.txt",
        "echo out; echo err >&2; sleep 600 & exit 7",
        "touch never",
    ]);
    let ended = remote.integrate(&workspaces, "t-1", "gate-1", &failing).await;
    let IntegrationEnd::GateFailed { command, output } = ended else {
        panic!("{ended:?}")
    };
    assert!(command.ends_with("exit 7"), "{command}");
    assert_eq!(output, "out\nerr\n\n[exit status: 7]\n");
    assert_eq!(remote.landings("t-1"), 0);
    let passing = gate(&[
        "test \"$(git status --porcelain)\" = ''",
        "test \"$(git log -1 --format=%s)\" = 'Do t-1'",
    ]);
    let ended = remote.integrate(&workspaces, "t-1", "gate-2", &passing).await;
    assert!(matches!(ended, IntegrationEnd::Merged { .. }), "{ended:?}");
}

/// Setup and gate run code that agents wrote.
#[tokio::test]
async fn setup_and_gate_are_confined_and_leave_nothing_running() {
    let remote = Remote::new();
    let secret = remote.data("secret");
    std::fs::write(&secret, "s3cret").unwrap();
    let settings = Settings {
        setup: vec!["echo ready > prepared; echo prepared >> .gitignore".to_owned()],
        ..Settings::default()
    };
    let workspaces = Workspaces::open_with(&remote.data("data"), settings.clone())
        .await
        .unwrap();
    let workspace = remote.prepare(&workspaces, "t-1").await;
    workspace.set_up(&settings).await.unwrap();
    let path = workspace.path().join("prepared");
    assert_eq!(std::fs::read_to_string(path).unwrap(), "ready\n");
    let commit = finish(&workspace).await.commit.unwrap();
    workspace.remove().await.unwrap();

    let pid = "setsid sh -c 'echo $$ > pid; exec sleep 600' & until test -s pid; do :; done";
    let order = IntegrateOrder {
        gate: vec![
            "test -f prepared".to_owned(),
            format!("! cat {}", secret.display()),
            format!("{pid}; cat pid; exit 1"),
        ],
        ..integrate_order("t-1", &commit)
    };
    let ended = remote.integrate(&workspaces, "t-1", "gate-3", &order).await;
    let IntegrationEnd::GateFailed { output, .. } = ended else {
        panic!("{ended:?}")
    };
    let pid = output.lines().next().unwrap();
    assert!(pid.parse::<u32>().is_ok(), "{output}");
    // The process may be a zombie that nobody has reaped yet; a zombie has no command line.
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    assert!(line.is_empty(), "{output}");

    let failing = Settings {
        setup: vec!["echo no network >&2; exit 3".to_owned()],
        ..Settings::default()
    };
    let workspace = remote.prepare(&workspaces, "t-2").await;
    let error = workspace.set_up(&failing).await.unwrap_err().to_string();
    assert!(
        error.contains("no network") && error.contains("exit status: 3"),
        "{error}"
    );
}

#[tokio::test]
async fn setup_and_gate_have_the_network_of_a_session() {
    let remote = Remote::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connects =
        format!("python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 5)'");
    let forbidden = format!("! {connects} 2> /dev/null");
    let rows = [
        ("open", &connects),
        ("none", &forbidden),
        ("http://127.0.0.1:1", &forbidden),
    ];
    for (number, (network, command)) in rows.into_iter().enumerate() {
        let sandbox = Sandbox {
            network: network.parse().unwrap(),
            ..Sandbox::default()
        };
        let proxy = match network.strip_prefix("http") {
            Some(_) => format!("test \"$HTTPS_PROXY\" = {network}"),
            None => "test -z \"$HTTPS_PROXY\"".to_owned(),
        };
        let commands = vec![proxy, command.clone()];
        let settings = Settings {
            sandbox,
            setup: commands.clone(),
            ..Settings::default()
        };
        let data = remote.data(&format!("data-{number}"));
        let workspaces = Workspaces::open_with(&data, settings.clone()).await.unwrap();
        let task = format!("t-{number}");
        let commit = remote.attempt(&workspaces, &task, "new.txt", &task).await;
        let workspace = remote.prepare(&workspaces, &format!("setup-{number}")).await;
        workspace.set_up(&settings).await.unwrap();
        let order = IntegrateOrder {
            gate: commands,
            ..integrate_order(&task, &commit)
        };
        let ended = remote
            .integrate(&workspaces, &task, &format!("gate-{number}"), &order)
            .await;
        assert!(
            !matches!(
                ended,
                IntegrationEnd::GateFailed { .. } | IntegrationEnd::Failed { .. }
            ),
            "{network}: {ended:?}"
        );
    }
}

#[tokio::test]
async fn an_order_to_end_stops_the_gate() {
    let remote = Remote::new();
    let started = remote.data("started");
    nix::unistd::mkfifo(&started, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let sandbox = Sandbox {
        write: vec![started.clone()],
        ..Sandbox::default()
    };
    let settings = Settings {
        sandbox,
        ..Settings::default()
    };
    let workspaces = Workspaces::open_with(&remote.data("data"), settings)
        .await
        .unwrap();
    let commit = remote.attempt(&workspaces, "t-1", "new.txt", "new\n").await;
    let gate = vec![format!("echo go > {}; sleep 600", started.display())];
    let order = IntegrateOrder {
        gate,
        ..integrate_order("t-1", &commit)
    };
    let (sender, end) = watch::channel(None);
    let git = remote.integration_order("t-1", "gate-4");
    let dispatch = remote.dispatch("gate-4");
    let waiting = tokio::spawn(async move {
        workspaces
            .integrate(&dispatch, &git, &order, |_| async { Decision::Push }, end)
            .await
    });
    tokio::task::spawn_blocking(move || std::fs::read(started))
        .await
        .unwrap()
        .unwrap();
    sender.send(Some(EndReason::Drain)).unwrap();
    assert_eq!(
        waiting.await.unwrap().end,
        IntegrationEnd::Told {
            reason: EndReason::Drain
        }
    );
    assert_eq!(remote.head(FEATURE), None);
}

#[tokio::test]
async fn a_refused_decision_pushes_nothing() {
    let remote = Remote::new();
    let workspaces = remote.workspaces().await;
    let commit = remote.attempt(&workspaces, "t-1", "new.txt", "new\n").await;
    let refuse = |_| async {
        Decision::Refused {
            reason: "older".to_owned(),
        }
    };
    let (_sender, end) = watch::channel(None);
    let git = remote.integration_order("t-1", "i-1");
    let ended = workspaces
        .integrate("i-1", &git, &integrate_order("t-1", &commit), refuse, end)
        .await
        .end;
    assert_eq!(
        ended,
        IntegrationEnd::Told {
            reason: EndReason::Fenced
        }
    );
    assert_eq!(remote.head(FEATURE), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_concurrent_integrations_of_four_workers_land_once() {
    let remote = Arc::new(Remote::new());
    // The branch must exist: an earlier order says that nothing has landed, and no coordinator gives out
    // turns here.
    let workspaces = remote.workspaces().await;
    let first = remote.attempt(&workspaces, "t-first", "first.txt", "x\n").await;
    remote
        .integrate(
            &workspaces,
            "t-first",
            "first",
            &integrate_order("t-first", &first),
        )
        .await;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..8 {
        let remote = remote.clone();
        tasks.spawn(async move {
            // Two attempts in each of four data folders.
            let workspaces = Workspaces::open(&remote.data(&format!("data-{}", number / 2)))
                .await
                .unwrap();
            let task = format!("t-{number}");
            let commit = remote
                .attempt(&workspaces, &task, &format!("{task}.txt"), "x\n")
                .await;
            let order = integrate_order(&task, &commit);
            for turn in 0..40 {
                match remote
                    .integrate(&workspaces, &task, &format!("{task}-i{turn}"), &order)
                    .await
                {
                    IntegrationEnd::Merged { .. } => return,
                    IntegrationEnd::Void { .. } => {}
                    ended => panic!("{ended:?}"),
                }
            }
            panic!("{task} never landed");
        });
    }
    tasks.join_all().await;
    assert_eq!(
        remote.git(&["rev-list", "--count", &format!("{}..{FEATURE}", remote.base)]),
        "9"
    );
    assert!((0..8).all(|number| remote.landings(&format!("t-{number}")) == 1));
    remote.git(&["fsck", "--strict"]);
}
