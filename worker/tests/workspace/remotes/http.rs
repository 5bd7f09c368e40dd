//! A real git server with a login: the user's own credential helper answers, each fault has its own message,
//! and none of them loses work.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use ralph_git_server::{Fault, GitServer, Login, Service};
use ralph_shared::wire::{Decided, IntegrateOrder, IntegrationEnd, WorkspaceOrder};
use ralph_worker::workspace::{CommitMessage, Decision, Settings, Workspaces};
use tokio::sync::watch;

use crate::remote::{FEATURE, Remote, finish, git, integrate_order};
use crate::user::User;

const PASSWORD: &str = "s3cret-of-ann";

/// A repository on a server that accepts Ann, whose credential helper knows her password.
struct Scene {
    user: User,
    server: GitServer,
    remote: Remote,
}

impl Scene {
    /// `None` in the parent process, which only runs `test` again as a user.
    async fn of(test: &str) -> Option<Self> {
        let user = User::or_run_as_one(&format!("remotes::http::{test}"))?;
        let helper = user.write("helper", "#!/bin/sh\n[ \"$1\" = get ] && cat \"$HOME/login\"\n");
        fs::set_permissions(&helper, fs::Permissions::from_mode(0o755)).unwrap();
        user.write(
            ".gitconfig",
            &format!("[credential]\n\thelper = {}\n", helper.display()),
        );
        user.write("login", &format!("username=ann\npassword={PASSWORD}\n"));
        let mut remote = Remote::new();
        let server = GitServer::start(remote.dir.path(), Login::new("ann", PASSWORD)).await;
        let server = server.unwrap();
        remote.address = Some(server.url("repo.git"));
        Some(Self { user, server, remote })
    }
}

#[tokio::test]
async fn the_users_credential_helper_is_used() {
    let Some(scene) = Scene::of("the_users_credential_helper_is_used").await else {
        return;
    };
    let remote = &scene.remote;
    let workspaces = remote.workspaces().await;
    let login = fs::read(scene.user.home().join("login")).unwrap();
    fs::remove_file(scene.user.home().join("login")).unwrap();
    let order = WorkspaceOrder::Git(remote.order("t-1", "t-1"));
    let refused = workspaces.prepare("t-1", &order).await.unwrap_err();
    let message = refused.to_string();
    assert!(message.contains("authentication failed") && message.contains("to do: give the worker's user"));
    assert!(!refused.retry_can_help(), "{message}");

    fs::write(scene.user.home().join("login"), login).unwrap();
    let commit = remote.attempt(&workspaces, "t-1", "new.txt", "new\n").await;
    let order = integrate_order("t-1", &commit);
    let ended = remote.integrate(&workspaces, "t-1", "i-1", &order).await;
    assert!(matches!(ended, IntegrationEnd::Merged { .. }), "{ended:?}");
    assert_eq!(remote.git(&["show", &format!("{FEATURE}:new.txt")]), "new");
}

#[tokio::test]
async fn every_fault_of_a_push_has_its_message_and_loses_no_work() {
    let Some(mut scene) = Scene::of("every_fault_of_a_push_has_its_message_and_loses_no_work").await else {
        return;
    };
    let workspaces = scene.remote.workspaces().await;
    let rows = [
        ("protected", "the server declined it", "branch protection"),
        ("quota", "no space or quota left", "raise the quota"),
        ("password", "authentication failed", "give the worker's user"),
        ("read-only", "authentication failed", "the right to write"),
        (
            "unavailable",
            "the server could not be reached",
            "tries again by itself",
        ),
        (
            "hangs-up",
            "the server could not be reached",
            "tries again by itself",
        ),
        ("away", "the server could not be reached", "tries again by itself"),
    ];
    for (fault, reason, advice) in rows {
        let workspace = scene.remote.prepare(&workspaces, fault).await;
        fs::write(workspace.path().join("new.txt"), "new\n").unwrap();
        break_server(&mut scene, fault).await;
        let snapshot = workspace.finish(&CommitMessage::default()).await;
        let message = snapshot.push_error.unwrap_or_default();
        assert!(
            message.contains(reason) && message.contains(advice),
            "{fault}: {message}"
        );
        assert!(!message.contains(PASSWORD), "{fault}: {message}");
        assert!(snapshot.commit.is_some() && snapshot.pushed_ref.is_none());
        drop(workspace);

        mend_server(&mut scene).await;
        let rescued = workspaces.rescue_unpushed(&CommitMessage::default()).await;
        assert_eq!(rescued.len(), 1, "{fault}");
        assert_eq!(rescued[0].1.commit, snapshot.commit, "{fault}: {rescued:?}");
        let order = scene.remote.order(fault, fault);
        assert_eq!(scene.remote.head(&order.attempt_ref), snapshot.commit, "{fault}");
        assert_eq!(
            fs::read_dir(scene.remote.data("data/records")).unwrap().count(),
            0
        );
    }
}

async fn break_server(scene: &mut Scene, fault: &str) {
    let Scene { server, remote, .. } = scene;
    match fault {
        "protected" => remote.hook(
            "pre-receive",
            "echo 'GH006: Protected branch update failed' >&2; exit 1",
        ),
        "quota" => remote.hook("pre-receive", "echo 'disk quota exceeded' >&2; exit 1"),
        "password" => server.let_in(Login::new("ann", "another one")),
        "read-only" => server.fault(Fault::Status(403), Service::Push, "", u32::MAX),
        "unavailable" => server.fault(Fault::Status(503), Service::Push, "", u32::MAX),
        "hangs-up" => server.fault(Fault::HangUpBefore, Service::Push, "", u32::MAX),
        "away" => server.go_away().await,
        other => panic!("no fault is called {other}"),
    }
}

async fn mend_server(scene: &mut Scene) {
    scene.remote.hook("pre-receive", "exit 0");
    scene.server.heal();
    scene.server.let_in(Login::new("ann", PASSWORD));
    scene.server.come_back().await.unwrap();
}

#[tokio::test]
async fn a_push_counts_even_if_its_server_dies_before_it_answers() {
    let Some(scene) = Scene::of("a_push_counts_even_if_its_server_dies_before_it_answers").await else {
        return;
    };
    let Scene { server, remote, .. } = &scene;
    let workspaces = remote.workspaces().await;
    server.fault(Fault::HangUpAfter, Service::Push, "ralph/attempts/", 1);
    let commit = remote.attempt(&workspaces, "t-1", "new.txt", "new\n").await;
    server.fault(Fault::HangUpAfter, Service::Push, FEATURE, 1);
    let order = integrate_order("t-1", &commit);
    let ended = remote.integrate(&workspaces, "t-1", "i-1", &order).await;
    assert!(matches!(ended, IntegrationEnd::Merged { .. }), "{ended:?}");
    assert_eq!(remote.landings("t-1"), 1);
}

#[tokio::test]
async fn a_push_is_retried_after_the_server_hangs_up() {
    let Some(scene) = Scene::of("a_push_is_retried_after_the_server_hangs_up").await else {
        return;
    };
    let Scene { server, remote, .. } = &scene;
    let workspaces = remote.workspaces().await;
    server.fault(Fault::HangUpBefore, Service::Push, "ralph/attempts/", 1);
    let commit = remote.attempt(&workspaces, "t-1", "new.txt", "new\n").await;
    server.fault(Fault::Status(502), Service::Push, FEATURE, 1);
    let order = integrate_order("t-1", &commit);
    let ended = remote.integrate(&workspaces, "t-1", "i-1", &order).await;
    assert!(matches!(ended, IntegrationEnd::Merged { .. }), "{ended:?}");
    assert_eq!(remote.landings("t-1"), 1);
}

#[tokio::test]
async fn a_login_lost_before_the_push_to_the_branch_is_reported() {
    let Some(scene) = Scene::of("a_login_lost_before_the_push_to_the_branch_is_reported").await else {
        return;
    };
    let Scene { server, remote, .. } = &scene;
    let workspaces = remote.workspaces().await;
    let commit = remote.attempt(&workspaces, "t-1", "new.txt", "new\n").await;
    server.fault(Fault::Status(403), Service::Push, FEATURE, u32::MAX);
    let order = integrate_order("t-1", &commit);
    let ended = remote.integrate(&workspaces, "t-1", "i-1", &order).await;
    let IntegrationEnd::Failed { message, retry, away } = ended else {
        panic!("{ended:?}")
    };
    assert!(
        !retry && !away && message.contains("authentication failed"),
        "{message}"
    );
    server.heal();
    let ended = remote.integrate(&workspaces, "t-1", "i-2", &order).await;
    assert!(matches!(ended, IntegrationEnd::Merged { .. }), "{ended:?}");
}

#[tokio::test]
async fn an_integration_is_retried_later_if_its_server_is_away() {
    let Some(scene) = Scene::of("an_integration_is_retried_later_if_its_server_is_away").await else {
        return;
    };
    let Scene { server, remote, .. } = &scene;
    let workspaces = remote.workspaces().await;
    let commit = remote.attempt(&workspaces, "t-1", "new.txt", "new\n").await;
    let order = integrate_order("t-1", &commit);
    server.fault(Fault::Status(503), Service::Fetch, "", u32::MAX);
    let ended = remote.integrate(&workspaces, "t-1", "i-1", &order).await;
    let IntegrationEnd::Failed {
        message,
        retry: true,
        away: true,
    } = ended
    else {
        panic!("{ended:?}")
    };
    assert!(message.contains("could not be reached"), "{message}");
    assert_eq!(remote.head(FEATURE), None);
    server.heal();
    let ended = remote.integrate(&workspaces, "t-1", "i-2", &order).await;
    assert!(matches!(ended, IntegrationEnd::Merged { .. }), "{ended:?}");
    assert_eq!(remote.landings("t-1"), 1);
}

#[tokio::test]
async fn an_integration_without_access_does_not_fail_the_attempt() {
    let Some(scene) = Scene::of("an_integration_without_access_does_not_fail_the_attempt").await else {
        return;
    };
    let Scene { server, remote, .. } = &scene;
    let workspaces = remote.workspaces().await;
    let commit = remote.attempt(&workspaces, "t-1", "new.txt", "new\n").await;
    let order = integrate_order("t-1", &commit);
    server.let_in(Login::new("ann", "another one"));
    let ended = remote.integrate(&workspaces, "t-1", "i-1", &order).await;
    let IntegrationEnd::Failed {
        message,
        retry: false,
        away: true,
    } = ended
    else {
        panic!("{ended:?}")
    };
    assert!(message.contains("authentication failed"), "{message}");
    server.let_in(Login::new("ann", PASSWORD));
    let ended = remote.integrate(&workspaces, "t-1", "i-2", &order).await;
    assert!(matches!(ended, IntegrationEnd::Merged { .. }), "{ended:?}");
}

/// Any worker may push a decided commit, so two may do so at once; neither gets the server's answer.
#[tokio::test]
async fn two_workers_that_push_at_once_without_an_answer_land_once() {
    let Some(scene) = Scene::of("two_workers_that_push_at_once_without_an_answer_land_once").await else {
        return;
    };
    let Scene { server, remote, .. } = &scene;
    let workers = [
        Workspaces::open(&remote.data("one")).await.unwrap(),
        Workspaces::open(&remote.data("two")).await.unwrap(),
    ];
    let commit = remote.attempt(&workers[0], "t-1", "new.txt", "new\n").await;
    let order = integrate_order("t-1", &commit);
    let decided = std::sync::Mutex::new(None);
    let note = |one: Decided| {
        *decided.lock().unwrap() = Some(one);
        async {
            Decision::Unanswered {
                reason: "away".to_owned(),
            }
        }
    };
    let (_sender, end) = watch::channel(None);
    let git = remote.integration_order("t-1", "i-1");
    workers[0].integrate("i-1", &git, &order, note, end).await;
    let resume = IntegrateOrder {
        resume: decided.lock().unwrap().take(),
        ..order
    };
    let new = resume.resume.as_ref().unwrap().new.clone();
    server.fault(Fault::HangUpAfter, Service::Push, FEATURE, 2);
    let ended = tokio::join!(
        remote.integrate(&workers[0], "t-1", "i-2", &resume),
        remote.integrate(&workers[1], "t-1", "i-3", &resume),
    );
    for ended in [ended.0, ended.1] {
        let IntegrationEnd::Merged { commit, .. } = ended else {
            panic!("{ended:?}")
        };
        assert_eq!(commit, new);
    }
    assert_eq!(remote.head(FEATURE), Some(new));
    assert_eq!(remote.landings("t-1"), 1);

    // Of two other changes of one branch, only one is built on the head that both saw; the other starts over.
    server.heal();
    let second = remote.attempt(&workers[0], "t-2", "two.txt", "two\n").await;
    let third = remote.attempt(&workers[1], "t-3", "three.txt", "three\n").await;
    server.fault(Fault::HangUpAfter, Service::Push, FEATURE, 2);
    let (second, third) = (integrate_order("t-2", &second), integrate_order("t-3", &third));
    let ended = tokio::join!(
        remote.integrate(&workers[0], "t-2", "i-4", &second),
        remote.integrate(&workers[1], "t-3", "i-5", &third),
    );
    server.heal();
    for (ended, task, worker, order) in [
        (ended.0, "t-2", &workers[0], &second),
        (ended.1, "t-3", &workers[1], &third),
    ] {
        let ended = match ended {
            IntegrationEnd::Void { .. } => {
                remote
                    .integrate(worker, task, &format!("again-{task}"), order)
                    .await
            }
            ended => ended,
        };
        assert!(
            matches!(ended, IntegrationEnd::Merged { .. }),
            "{task}: {ended:?}"
        );
        assert_eq!(remote.landings(task), 1);
    }
    remote.git(&["fsck", "--strict"]);
}

/// Ways in which an agent's commands could get credentials, from within the sandbox that they share with the
/// agent.
#[tokio::test]
async fn credentials_of_the_worker_are_out_of_an_agents_reach() {
    let Some(scene) = Scene::of("credentials_of_the_worker_are_out_of_an_agents_reach").await else {
        return;
    };
    let Scene { user, remote, .. } = &scene;
    let home = user.home().display();
    let tries = [
        format!("! cat {home}/login"),
        format!("! cat {home}/.gitconfig"),
        format!("! {home}/helper get"),
        format!("! grep -q {PASSWORD} -r .git"),
        format!("! env | grep {PASSWORD}"),
        format!("! grep -q HOME /proc/{}/environ", std::process::id()),
        "! GIT_TERMINAL_PROMPT=0 git push origin HEAD:refs/heads/stolen".to_owned(),
    ];
    let settings = Settings {
        setup: tries.to_vec(),
        ..Settings::default()
    };
    let workspaces = Workspaces::open_with(&remote.data("data"), settings.clone()).await;
    let workspaces = workspaces.unwrap();
    // Here the address itself contains the login.
    let mut order = remote.order("t-1", "t-1");
    let login = format!("http://ann:{PASSWORD}@");
    order.repository.address = order.repository.address.replace("http://", &login);
    let order = WorkspaceOrder::Git(order);
    let dispatch = remote.dispatch("t-1");
    let workspace = workspaces.prepare(&dispatch, &order).await.unwrap();
    workspace.set_up(&settings).await.unwrap();
    // Nor do a program's arguments, which everybody can read during a push, contain it.
    let (looked, seen) = (remote.dir.path().join("looked"), remote.dir.path().join("seen"));
    let pattern = PASSWORD.replacen('s', "[s]", 1);
    remote.hook(
        "pre-receive",
        &format!(
            "touch '{}'; if cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -q '{pattern}'; then touch '{}'; fi; true",
            looked.display(),
            seen.display()
        ),
    );
    assert!(finish(&workspace).await.is_pushed());
    assert!(looked.exists() && !seen.exists());
    remote.hook("pre-receive", "exit 0");
    assert_eq!(remote.head("refs/heads/stolen"), None);
    // Without a sandbox the same push succeeds, so the sandbox prevented it.
    let (home, from) = (user.home().to_owned(), remote.path());
    let to = remote.address.clone().unwrap();
    let push = move || {
        let helper = format!("credential.helper={}", home.join("helper").display());
        let push = ["-c", &helper, "push", "-q", &to, "main:refs/heads/stolen"];
        git(&from, &push)
    };
    tokio::task::spawn_blocking(push).await.unwrap();
    assert!(remote.head("refs/heads/stolen").is_some());
}
