//! A signature that would ask a person ends soon with an error, and so does a stale lock of git.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, SystemTime};

use ralph_shared::wire::IntegrationEnd;
use ralph_worker::workspace::{Settings, Workspaces};

use crate::remote::{FEATURE, Remote, integrate_order};
use crate::user::User;

/// Configures `script` as the signing program.
fn signs_by(user: &User, script: &str) {
    let program = user.write("sign", &format!("#!/bin/sh\n{script}\n"));
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let config = format!(
        "[commit]\n\tgpgSign = true\n[gpg]\n\tprogram = {}\n",
        program.display()
    );
    user.write(".gitconfig", &config);
}

async fn workspaces(remote: &Remote) -> Workspaces {
    let settings = Settings {
        author: Some("Ann <ann@example.org>".to_owned()),
        signing_bound: Duration::from_secs(1),
        ..Settings::default()
    };
    Workspaces::open_with(&remote.data("data"), settings)
        .await
        .unwrap()
}

/// The message of a failure, and whether it is retried without a person.
fn failed(end: IntegrationEnd) -> (String, bool) {
    match end {
        IntegrationEnd::Failed { message, retry, away } => (message, retry || away),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_signature_that_asks_or_fails_needs_a_person_at_once() {
    let test = "landing::signing::a_signature_that_asks_or_fails_needs_a_person_at_once";
    let Some(user) = User::or_run_as_one(test) else {
        return;
    };
    for (n, (script, words)) in [
        ("sleep 600", "not signed within 1 s"),
        ("echo no secret key >&2; exit 2", "failed to sign"),
    ]
    .into_iter()
    .enumerate()
    {
        signs_by(&user, script);
        let remote = Remote::new();
        let workspaces = workspaces(&remote).await;
        // Attempts are not signed, so this one succeeds.
        let commit = remote.attempt(&workspaces, "t-1", "one.txt", "one\n").await;
        let order = integrate_order("t-1", &commit);
        let end = remote
            .integrate(&workspaces, "t-1", &format!("i-{n}"), &order)
            .await;
        let (message, again) = failed(end);
        assert!(
            message.contains(words) && message.contains("gpg-agent") && message.contains("doctor"),
            "{message}"
        );
        assert!(!again, "{message}");
        assert_eq!(remote.head(FEATURE), None);
        let error = workspaces.try_to_sign().await.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[tokio::test]
async fn a_stale_git_lock_is_named_with_its_age() {
    let remote = Remote::new();
    let workspaces = workspaces(&remote).await;
    let commit = remote.attempt(&workspaces, "t-1", "one.txt", "one\n").await;
    let lock = remote.path().join(format!("{FEATURE}.lock"));
    fs::create_dir_all(lock.parent().unwrap()).unwrap();
    let file = fs::File::create(&lock).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(3 * 60 * 60))
        .unwrap();
    let order = integrate_order("t-1", &commit);
    let (message, again) = failed(remote.integrate(&workspaces, "t-1", "i-1", &order).await);
    assert!(
        message.contains("demo.lock")
            && message.contains("180 min old")
            && message.contains("remove the file"),
        "{message}"
    );
    assert!(!again, "{message}");
    fs::remove_file(lock).unwrap();
    let end = remote.integrate(&workspaces, "t-1", "i-2", &order).await;
    assert!(matches!(end, IntegrationEnd::Merged { .. }), "{end:?}");
}
