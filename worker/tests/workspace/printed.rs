//! Output of setup and gate in the worker's reports.

use ralph_shared::wire::IntegrationEnd;
use ralph_worker::session::Redactor;
use ralph_worker::workspace::{Settings, Workspaces};

use crate::remote::{Remote, finish, integrate_order};

/// A report contains the last 16 KiB of the output: the cut is in the middle of the secret.
const PRINTS: &str = "printf correct-horse-battery; head -c 16377 /dev/zero | tr '\\0' e; exit 3";

#[tokio::test]
async fn cut_output_contains_no_part_of_a_secret() {
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
    let error = workspace.set_up(&failing).await.unwrap_err().to_string();
    let output = error.split_once("failed:\n").unwrap().1;
    assert!(output.starts_with("dacted]ee"), "{}", &output[..40]);

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
