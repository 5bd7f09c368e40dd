//! Findings of `ralph-worker doctor` about the real agents.

use std::process::Command;

use ralph_tests::harness::binary;
use serde_json::Value;

use super::model::Model;
use super::real::{LOCKED, Real, found};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real agents: make test-agents"]
async fn the_doctor_finds_every_real_agent() {
    let folder = tempfile::tempdir().unwrap();
    let model = Model::start().await;
    let mut config = Real::Claude.table("agent", &model, folder.path());
    for real in Real::ALL {
        config += &real.table(&format!("agents.{}", named(real.folder())), &model, folder.path());
    }
    for (preset, installed, _) in LOCKED {
        let table = format!("agents.locked-{}", named(installed));
        config += &format!("[{table}]\npreset = \"{preset}\"\n{}", found(&table, installed));
    }
    std::fs::write(folder.path().join(".ralph.toml"), config).unwrap();
    let output = Command::new(binary("ralph-worker"))
        .args(["doctor", "--output", "json"])
        .current_dir(folder.path())
        .env("RALPH_CONFIG", folder.path().join(".ralph.toml"))
        // No login of this machine's user may count.
        .env("HOME", folder.path())
        .env_remove("NATS_URL")
        .output()
        .unwrap();
    let findings: Value = serde_json::from_slice(&output.stdout).unwrap();
    let agents = findings["agents"].as_array().unwrap();
    let agent = |name: &str| agents.iter().find(|agent| agent["name"] == name).unwrap();
    for real in Real::ALL {
        let agent = agent(&named(real.folder()));
        let introduction = &agent["introduction"];
        assert_eq!(
            (&agent["status"], &introduction["name"]),
            (&"ok".into(), &real.name().into()),
            "{agent:#}"
        );
        if matches!(real, Real::Claude | Real::OpenCode) {
            assert_eq!(introduction["capabilities"]["load"], true);
            let models = introduction["session"]["models"].to_string().to_lowercase();
            assert!(models.contains("opus"), "{models}");
        }
        assert!(!introduction["session"]["modes"].as_array().unwrap().is_empty());
    }
    for (_, installed, name) in LOCKED {
        let agent = agent(&format!("locked-{}", named(installed)));
        assert_eq!(agent["introduction"]["name"], name, "{agent:#}");
        let advice = agent["advice"].as_str().unwrap();
        assert!(advice.contains("log in: "), "{advice}");
    }
    assert!(model.asked().is_empty(), "the doctor asks no model");
}

/// An installation folder's name as the name of an agent.
fn named(folder: &str) -> String {
    folder.replace('.', "-")
}
