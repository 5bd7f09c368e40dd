//! What `ralph-worker doctor` says of the real agents.

use std::process::Command;

use ralph_tests::harness::binary;
use serde_json::Value;

use super::model::Model;
use super::real::Real;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real agents: make test-agents"]
async fn the_doctor_knows_both() {
    let folder = tempfile::tempdir().unwrap();
    let model = Model::start().await;
    let claude = Real::Claude.table("agent", &model, folder.path());
    let open_code = Real::OpenCode.table("agents.opencode", &model, folder.path());
    std::fs::write(folder.path().join(".ralph.toml"), claude + &open_code).unwrap();
    let output = Command::new(binary("ralph-worker"))
        .args(["doctor", "--output", "json"])
        .current_dir(folder.path())
        .env("RALPH_CONFIG", folder.path().join(".ralph.toml"))
        .env_remove("NATS_URL")
        .output()
        .unwrap();
    let findings: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{findings:#}");
    for (at, real) in [Real::Claude, Real::OpenCode].into_iter().enumerate() {
        let said = &findings["agents"][at]["introduction"];
        assert_eq!(said["name"], real.name(), "{findings:#}");
        assert_eq!(said["capabilities"]["load"], true);
        let models = said["session"]["models"].to_string().to_lowercase();
        assert!(models.contains("opus"), "{models}");
        assert!(!said["session"]["modes"].as_array().unwrap().is_empty());
    }
    assert!(model.asked().is_empty(), "a greeting costs nothing");
}
