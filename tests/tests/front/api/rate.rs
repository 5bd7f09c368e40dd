use ralph_coordinator::flow::Settings;
use ralph_tests::harness::{World, binary};
use reqwest::Method;
use serde_json::Value;
use tokio::process::Command;

use crate::caller::{ADMIN, Api};

#[tokio::test]
async fn only_the_token_above_its_request_rate_is_refused() {
    let world = World::start_with(Settings {
        requests_per_second: 1,
        ..Settings::default()
    })
    .await
    .unwrap();
    let api = Api::start(&world).await;
    let get = async |token: Option<&'static str>| api.send(Method::GET, "/api/v1/tokens", token, None).await;
    let refused = loop {
        let response = get(Some(ADMIN)).await;
        if response.status().as_u16() != 200 {
            break response;
        }
    };
    assert_eq!(refused.status().as_u16(), 429);
    let wait: u64 = refused.headers()["retry-after"]
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!((1..=2).contains(&wait), "{wait}");
    let problem: Value = refused.json().await.unwrap();
    assert!(
        problem["detail"]
            .as_str()
            .unwrap()
            .contains("requests_per_second"),
        "{problem}"
    );

    assert_eq!(
        get(Some("submit-token-of-this-test")).await.status().as_u16(),
        403
    );
    assert_eq!(get(None).await.status().as_u16(), 401);
    // Commands wait as long as `retry-after` asks, and continue.
    for _ in 0..3 {
        let output = Command::new(binary("ralph-coordinator"))
            .args(["token", "list"])
            .current_dir(world.dir())
            .env("RALPH_URL", &api.url)
            .env("RALPH_TOKEN", ADMIN)
            .output()
            .await
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let health = api.send(Method::GET, "/readyz", None, None).await;
    assert_eq!(health.status().as_u16(), 200);
}
