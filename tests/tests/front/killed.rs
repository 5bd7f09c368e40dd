//! A coordinator is killed after it executed a command and before it answered: the command continues with the
//! next coordinator, and nothing happens twice.

use std::process::Command;

use ralph_coordinator::api;
use ralph_coordinator::store::access::Role;
use ralph_tests::harness::{Fault, World, binary};
use serde_json::{Value, json};

use crate::caller::ADMIN;
use crate::restart::{address, client};

async fn count(world: &World, what: &str) -> i64 {
    let query = sqlx::AssertSqlSafe(format!("select count(*) from {what}"));
    sqlx::query_scalar(query).fetch_one(&world.db).await.unwrap()
}

#[tokio::test]
async fn a_command_executed_before_a_crash_is_not_repeated() {
    let world = World::calm().await.unwrap();
    api::register_token(&world.db, "admin", ADMIN, Role::Admin)
        .await
        .unwrap();
    let [point] = ralph_coordinator::faults::REQUEST_POINTS else {
        panic!("another point has no test")
    };
    let fault = |name: &str| Fault::new(&format!("{point}:kill"), &world.dir().join(name));
    let mut coordinator = world.coordinator_process("c", None).unwrap();
    let at = address(&coordinator).await;
    let url = format!("http://{at}");
    let feature = json!({"name": "f", "draft": true,
        "tasks": {"source": "t", "text": "- {key: a, title: A}\n- {key: b, title: B}"}});
    let answer = client()
        .post(format!("{url}/api/v1/features"))
        .bearer_auth(ADMIN)
        .body(feature.to_string())
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status().as_u16(), 201, "{}", answer.text().await.unwrap());

    // Command, rows to count, and their number afterwards.
    let commands: [(&[&str], &str, i64); 2] = [
        (&["task", "create", "C", "--feature", "f"], "tasks", 3),
        (
            &["task", "skip", "f/a", "--reason", "enough"],
            "task_logs where what = 'skip'",
            1,
        ),
    ];
    for (n, (args, what, expected)) in commands.into_iter().enumerate() {
        coordinator.kill();
        let name = format!("dies {n}");
        coordinator = world.coordinator_at(&at, &name, Some(&fault(&name))).unwrap();
        address(&coordinator).await;
        let mut command = Command::new(binary("ralph-coordinator"));
        command
            .args(args)
            .args(["--output", "json"])
            .current_dir(world.dir())
            .env("RALPH_URL", &url)
            .env("RALPH_TOKEN", ADMIN);
        let asked = tokio::task::spawn_blocking(move || command.output().unwrap());
        coordinator.killed_by_fault().await.unwrap();
        assert_eq!(
            count(&world, what).await,
            expected,
            "{args:?} was done before its coordinator died"
        );
        coordinator = world.coordinator_at(&at, &format!("next {n}"), None).unwrap();
        let output = asked.await.unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.success(),
            "{args:?}: {stderr}\n{}",
            coordinator.output()
        );
        serde_json::from_slice::<Value>(&output.stdout).unwrap();
        assert_eq!(count(&world, what).await, expected, "{args:?} is done once");
    }
}
