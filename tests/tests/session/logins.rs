//! Logins are copied into the private home, and back.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use ralph_shared::wire::{Ended, TranscriptUpdate, Unavailable};
use ralph_worker::session::{LOGIN_BYTES, LoginFile};

use super::scene::{Played, Scene, scene, turn};

const PLACE: &str = ".agent/login.json";

/// A login, and the one that it is refreshed to.
const OLD: &str = "old-0123456789-token\n";
const NEW: &str = "new-9876543210-token\n";

/// A scene whose agent has a login, and the folder with the user's original.
fn with_login(script: &str, login: &str) -> (Scene, tempfile::TempDir) {
    let user = tempfile::tempdir().unwrap();
    std::fs::create_dir(user.path().join(".agent")).unwrap();
    std::fs::write(user.path().join(PLACE), login).unwrap();
    let mut stage = scene(script);
    stage.spec.agent.files = vec![LoginFile {
        original: user.path().join(PLACE),
        place: PLACE.into(),
        optional: false,
    }];
    (stage, user)
}

fn read(folder: &Path, place: &str) -> String {
    std::fs::read_to_string(folder.join(place)).unwrap()
}

fn noted(played: &Played, words: &str) {
    assert!(played.transcript().contains(words), "{}", played.transcript());
}

#[tokio::test]
async fn a_refreshed_login_comes_back_with_its_permissions() {
    let (stage, user) = with_login(
        "@run cat ~/.agent/login.json > seen\n@run echo new-9876543210-token > ~/.agent/login.json",
        OLD,
    );
    let original = user.path().join(PLACE);
    std::fs::set_permissions(&original, std::fs::Permissions::from_mode(0o640)).unwrap();
    let played = stage.play().await;
    assert_eq!(played.end.ended, turn("end_turn"));
    assert_eq!(read(&played.path("."), "seen"), OLD);
    assert_eq!(read(user.path(), PLACE), NEW);
    assert_eq!(original.metadata().unwrap().permissions().mode() & 0o777, 0o640);
    let files: Vec<_> = std::fs::read_dir(user.path().join(".agent")).unwrap().collect();
    assert_eq!(files.len(), 1, "{files:?}");
    noted(&played, "was refreshed");
}

#[tokio::test]
async fn an_unchanged_login_is_not_written() {
    use std::os::unix::fs::MetadataExt;
    let (stage, user) = with_login("@run touch ~/.agent/login.json", OLD);
    let inode = user.path().join(PLACE).metadata().unwrap().ino();
    stage.play().await;
    assert_eq!(user.path().join(PLACE).metadata().unwrap().ino(), inode);
}

#[tokio::test]
async fn a_linked_original_stays_a_link() {
    let (stage, user) = with_login("@run echo new-9876543210-token > ~/.agent/login.json", OLD);
    std::fs::rename(user.path().join(PLACE), user.path().join("kept.json")).unwrap();
    symlink("../kept.json", user.path().join(PLACE)).unwrap();
    stage.play().await;
    assert!(user.path().join(PLACE).is_symlink());
    assert_eq!(read(user.path(), "kept.json"), NEW);
}

#[tokio::test]
async fn an_invalid_login_is_not_copied_back() {
    let too_long = LOGIN_BYTES + 1;
    let rows = [
        "rm ~/.agent/login.json".to_owned(),
        ": > ~/.agent/login.json".to_owned(),
        format!("head -c {too_long} /dev/zero > ~/.agent/login.json"),
        "rm ~/.agent/login.json; mkdir ~/.agent/login.json".to_owned(),
        "rm ~/.agent/login.json; mkfifo ~/.agent/login.json".to_owned(),
        "rm ~/.agent/login.json; ln -s /etc/hostname ~/.agent/login.json".to_owned(),
        "echo x > ~/x; ln -f ~/x ~/.agent/login.json".to_owned(),
        "mv ~/.agent ~/away; ln -s /etc ~/.agent".to_owned(),
        "echo 'helper = \"sh x\"' >> ~/.agent/login.json".to_owned(),
    ];
    for row in rows {
        let (stage, user) = with_login(&format!("@run {row}"), OLD);
        let played = stage.play().await;
        assert_eq!(played.end.ended, turn("end_turn"), "{row}");
        assert_eq!(read(user.path(), PLACE), OLD, "{row}");
        noted(&played, "stays as it was");
    }
}

#[tokio::test]
async fn of_two_changed_logins_the_newer_wins() {
    let users = "users-0123456789-token\n";
    for (touch, expected) in [("1 hour ago", users), ("1 hour", NEW)] {
        let script = format!(
            "@run echo new-9876543210-token > ~/.agent/login.json; touch -d '{touch}' ~/.agent/login.json\n\
             @say written\n@wait-for go"
        );
        let (stage, user) = with_login(&script, OLD);
        let mut running = stage.start();
        running.until_said("written").await;
        std::fs::write(user.path().join(PLACE), users).unwrap();
        std::fs::write(running.work().join("go"), "").unwrap();
        running.finish().await;
        assert_eq!(read(user.path(), PLACE), expected);
    }
}

#[tokio::test]
async fn a_missing_login_is_noted_and_the_session_continues() {
    let (stage, user) = with_login("@say hi", "old\n");
    std::fs::remove_file(user.path().join(PLACE)).unwrap();
    let played = stage.play().await;
    assert_eq!(played.end.ended, turn("end_turn"));
    noted(&played, "is not there");
    assert!(!user.path().join(PLACE).exists());
}

#[tokio::test]
async fn a_login_that_cannot_be_copied_makes_the_agent_unavailable() {
    type Break = fn(PathBuf, &Scene);
    let rows: [(&str, Break); 3] = [
        ("no plain file", |original, _| {
            std::fs::remove_file(&original).unwrap();
            std::fs::create_dir(original).unwrap();
        }),
        ("larger than", |original, _| {
            std::fs::write(original, vec![b'x'; LOGIN_BYTES as usize + 1]).unwrap();
        }),
        // An earlier session in the same home left this link.
        ("failed to copy", |_, stage| {
            let outside = stage.work().parent().unwrap().join("outside");
            std::fs::create_dir(&outside).unwrap();
            symlink(outside, stage.spec.home.join(".agent")).unwrap();
        }),
    ];
    for (words, break_it) in rows {
        let (stage, user) = with_login("@say hi", "old\n");
        break_it(user.path().join(PLACE), &stage);
        let outside = stage.work().parent().unwrap().join("outside");
        let played = stage.play().await;
        match &played.end.ended {
            Ended::Unavailable { door, message } => {
                assert_eq!(*door, Unavailable::Authentication);
                assert!(message.contains(words), "{message}");
            }
            other => panic!("{words}: {other:?}"),
        }
        assert!(!outside.join("login.json").exists());
    }
}

#[tokio::test]
async fn an_interrupted_session_refreshes_its_login_too() {
    let (stage, user) = with_login(
        "@run echo new-9876543210-token > ~/.agent/login.json\n@say written\n@silent",
        OLD,
    );
    let mut running = stage.start();
    running
        .until(|update| matches!(update, TranscriptUpdate::Text { text } if text.contains("written")))
        .await;
    running.order_end(ralph_shared::wire::EndReason::Drain);
    running.finish().await;
    assert_eq!(read(user.path(), PLACE), NEW);
}
