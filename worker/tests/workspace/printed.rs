//! What setup and gate print, in what the worker tells of it.

use ralph_shared::wire::IntegrationEnd;
use ralph_worker::session::Redactor;
use ralph_worker::workspace::{Settings, Workspaces};

use crate::remote::{Remote, finish, integrate_order};

/// Of its output the last 16 KiB are told: the cut is in the middle of the secret.
const PRINTS: &str = "printf correct-horse-battery; head -c 16377 /dev/zero | tr '\\0' e; exit 3";

#[tokio::test]
async fn no_half_of_a_secret_stays_at_the_cut() {
    let remote = Remote::new();
    let settings = Settings {
        redactor: Redactor::new(["correct-horse-battery".to_owned()]),
        ..Settings::default()
    };
    let workspaces = Workspaces::open_with(&remote.data("data"), settings.clone()).await;
    let workspaces = workspaces.unwrap();
    let workspace = remote.prepare(&workspaces, "t-1").await;
    let failing = Settings {
        setup: vec![PRINTS.to_owned()],
        ..settings
    };
    let told = workspace.set_up(&failing).await.unwrap_err().to_string();
    let told = told.split_once("failed:\n").unwrap().1;
    assert!(told.starts_with("dacted]ee"), "{}", &told[..40]);

    std::fs::write(workspace.path().join("new.txt"), "new\n").unwrap();
    let commit = finish(&workspace).await.commit.unwrap();
    let mut order = integrate_order("t-1", &commit);
    order.gate = vec![PRINTS.to_owned()];
    let ended = remote.integrate(&workspaces, "t-1", "i-1", &order).await;
    let IntegrationEnd::GateFailed { output, .. } = ended else {
        panic!("{ended:?}");
    };
    assert!(output.starts_with("dacted]ee"), "{}", &output[..40]);
}
