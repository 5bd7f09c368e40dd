//! Hooks and schedules over HTTP.

use hmac::{Hmac, KeyInit as _, Mac as _};
use ralph_tests::harness::World;
use reqwest::{Client, Method};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::caller::{ADMIN, Api};

fn signed(secret: &str, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(body);
    let bytes = mac.finalize().into_bytes();
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={hex}")
}

#[tokio::test]
async fn a_hook_makes_one_copy_for_each_signed_delivery() {
    let world = World::calm().await.unwrap();
    let api = Api::start(&world).await;
    let tasks = json!({"source": "t", "text": "- {key: a, title: A}"});
    let draft = json!({"name": "smoke", "tasks": tasks, "draft": true});
    assert_eq!(api.post("/features", &draft).await.0.as_u16(), 201);
    let (status, made) = api
        .post("/hooks", &json!({"name": "deploy", "feature": "smoke"}))
        .await;
    assert_eq!(status.as_u16(), 201, "{made}");
    let secret = made["secret"].as_str().unwrap().to_owned();
    let http = Client::builder().no_proxy().build().unwrap();
    let fire = async |hook: &str, headers: &[(&str, &str)], body: Vec<u8>| {
        let mut request = http.post(format!("{}/hooks/{hook}", api.url)).body(body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.send().await.unwrap();
        (
            response.status().as_u16(),
            response.json::<Value>().await.unwrap(),
        )
    };
    let body = br#"{"ref": "refs/heads/main"}"#;
    let signature = signed(&secret, body);
    let good = [
        ("x-hub-signature-256", signature.as_str()),
        ("x-github-delivery", "one"),
    ];
    let (status, first) = fire("deploy", &good, body.to_vec()).await;
    assert_eq!((status, &first["again"]), (200, &json!(false)), "{first}");
    let (status, again) = fire("deploy", &good, body.to_vec()).await;
    assert_eq!((status, &again["again"]), (200, &json!(true)));
    assert_eq!(first["feature"], again["feature"]);
    // Without proof, the answer is the same whether the hook exists or not.
    let wrong = signed("other", body);
    let mut refusals = Vec::new();
    for (hook, headers) in [
        ("deploy", vec![("x-hub-signature-256", wrong.as_str())]),
        ("deploy", vec![]),
        ("deploy", vec![("authorization", "Bearer other")]),
        ("nobody", vec![("x-hub-signature-256", signature.as_str())]),
    ] {
        let (status, problem) = fire(hook, &headers, body.to_vec()).await;
        assert_eq!(status, 401, "{problem}");
        refusals.push(problem["detail"].clone());
    }
    refusals.dedup();
    assert_eq!(refusals.len(), 1, "{refusals:?}");
    let bearer = format!("Bearer {secret}");
    let bearer = [("authorization", bearer.as_str())];
    assert_eq!(fire("deploy", &bearer, Vec::new()).await.0, 200);
    assert_eq!(fire("deploy", &bearer, vec![b'x'; 1024 * 1024 + 1]).await.0, 413);
    let (_, listed) = api.get("/hooks").await;
    assert!(
        listed["items"][0]["made"].as_str().unwrap().starts_with("smoke-"),
        "{listed}"
    );
    assert!(!listed.to_string().contains(&secret));
    let copies: i64 =
        sqlx::query_scalar("select count(*) from features where name like 'smoke-%' and state = 'running'")
            .fetch_one(&world.db)
            .await
            .unwrap();
    assert_eq!(copies, 2);
    let gone = api
        .send(Method::DELETE, "/api/v1/hooks/deploy", Some(ADMIN), None)
        .await;
    assert_eq!(gone.status().as_u16(), 200);
    assert_eq!(fire("deploy", &good, body.to_vec()).await.0, 401);
}

#[tokio::test]
async fn a_schedule_is_set_shown_paused_and_removed() {
    let world = World::calm().await.unwrap();
    let api = Api::start(&world).await;
    let tasks = json!({"source": "t", "text": "- {key: a, title: A}"});
    let draft = json!({"name": "nightly", "tasks": tasks, "draft": true});
    assert_eq!(api.post("/features", &draft).await.0.as_u16(), 201);
    let path = "/api/v1/features/nightly/schedule";
    let ask = async |method: Method, body: Value| {
        let body = Some(body.to_string());
        let response = api.send(method, path, Some(ADMIN), body).await;
        (
            response.status().as_u16(),
            response.json::<Value>().await.unwrap(),
        )
    };
    for wrong in [
        json!({}),
        json!({"cron": "soon"}),
        json!({"cron": "0 3 * * *", "time_zone": "Nowhere"}),
        json!({"at": "tomorrow"}),
        json!({"at": "2999-01-01T00:00:00Z", "cron": "0 3 * * *"}),
    ] {
        let (status, problem) = ask(Method::PUT, wrong).await;
        assert_eq!(status, 422, "{problem}");
    }
    let nightly = json!({"cron": "30 2 * * *", "time_zone": "Europe/Berlin", "missed": "skip"});
    let (status, set) = ask(Method::PUT, nightly).await;
    assert_eq!((status, &set["feature"]), (200, &json!("nightly")), "{set}");
    assert_eq!(ask(Method::PATCH, json!({"paused": true})).await.0, 200);
    let (_, listed) = api.get("/schedules").await;
    assert_eq!(listed["items"][0]["paused"], true, "{listed}");
    assert_eq!(listed["items"][0]["missed"], "skip", "{listed}");
    assert_eq!(ask(Method::DELETE, json!({})).await.0, 200);
    assert_eq!(ask(Method::DELETE, json!({})).await.0, 404);
}
