use std::time::Duration;

use ralph_tests::harness::World;
use reqwest::Method;
use serde_json::{Value, json};

use crate::caller::{ADMIN, Api};

/// Status, problem type and detail that a request with this token gets.
async fn status_with(api: &Api, token: Option<&str>) -> (u16, String, String) {
    let response = api.send(Method::GET, "/api/v1/status", token, None).await;
    let status = response.status().as_u16();
    let challenge = response.headers().contains_key("www-authenticate");
    assert_eq!(challenge, status == 401);
    let body: Value = response.json().await.unwrap();
    let text = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
    (
        status,
        text("type").replace("urn:ralph:problem:", ""),
        text("detail"),
    )
}

#[tokio::test]
async fn a_stream_ends_with_its_token() {
    let world = World::calm().await.unwrap();
    let api = Api::start(&world).await;
    api.submit("f", "- {key: a, title: A}").await;
    let open = async |name: &str| {
        let body = json!({"name": name, "role": "read"});
        let (_, made) = api.post("/tokens", &body).await;
        let token = made["token"].as_str().unwrap().to_owned();
        let path = "/api/v1/features/f/events";
        let mut stream = api.send(Method::GET, path, Some(&token), None).await;
        assert!(stream.chunk().await.unwrap().is_some());
        stream
    };
    let (revoked, expired, lasting) = (
        open("revoked").await,
        open("expired").await,
        open("lasting").await,
    );
    let response = api
        .send(Method::DELETE, "/api/v1/tokens/revoked", Some(ADMIN), None)
        .await;
    assert_eq!(response.status().as_u16(), 200);
    sqlx::query("update api_tokens set expires_at = now() where name = 'expired'")
        .execute(&world.db)
        .await
        .unwrap();
    for stream in [revoked, expired] {
        let rest = tokio::time::timeout(Duration::from_secs(60), stream.text()).await;
        assert!(rest.is_ok(), "the stream should have ended");
    }
    // The stream of the lasting token continues and reports changes.
    let rest_of_stream = tokio::spawn(lasting.text());
    let (status, _) = api.post("/features/f/cancel", &json!({})).await;
    assert_eq!(status.as_u16(), 200);
    assert!(rest_of_stream.await.unwrap().unwrap().contains("cancelled"));
}

#[tokio::test]
async fn token_lists_show_the_last_use() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let (_, made) = api.post("/tokens", &json!({"name": "ci", "role": "read"})).await;
    let token = made["token"].as_str().unwrap();
    let used = async || {
        let (_, page) = api.get("/tokens").await;
        let mut items = page["items"].as_array().unwrap().iter();
        items.find(|item| item["name"] == "ci").unwrap()["last_used_at"].clone()
    };
    assert_eq!(used().await, Value::Null);
    assert_eq!(status_with(&api, Some(token)).await.0, 200);
    let first = used().await;
    assert!(first.is_string(), "{first}");
    assert_eq!(status_with(&api, Some(token)).await.0, 200);
    assert_eq!(used().await, first, "the second request should write nothing");
    sqlx::query("update api_tokens set last_used_at = now() - interval '2 hours' where name = 'ci'")
        .execute(&world.db)
        .await
        .unwrap();
    let before = used().await;
    assert_eq!(status_with(&api, Some(token)).await.0, 200);
    assert_ne!(used().await, before);
}

#[tokio::test]
async fn missing_wrong_and_expired_tokens_get_different_errors() {
    let world = World::start().await.unwrap();
    let api = Api::start(&world).await;
    let make = async |name: &str, ms: Option<i64>| {
        let body = json!({"name": name, "role": "read", "expires_in_ms": ms});
        let (status, answer) = api.post("/tokens", &body).await;
        assert_eq!(status.as_u16(), 201, "{answer}");
        answer
    };
    let lasting = make("lasting", None).await;
    assert_eq!(lasting["expires_at"], Value::Null);
    let month = make("month", Some(30 * 24 * 60 * 60 * 1000)).await;
    assert!(month["expires_at"].is_string());
    let brief = make("brief", Some(60 * 60 * 1000)).await;
    let token = |made: &Value| made["token"].as_str().unwrap().to_owned();
    for made in [&lasting, &month, &brief] {
        assert_eq!(status_with(&api, Some(&token(made))).await.0, 200);
    }
    // One hour later.
    sqlx::query("update api_tokens set expires_at = now() where name = 'brief'")
        .execute(&world.db)
        .await
        .unwrap();

    let (status, kind, _) = status_with(&api, None).await;
    assert_eq!((status, kind.as_str()), (401, "no-token"));
    let (status, kind, next) = status_with(&api, Some("no such token")).await;
    assert_eq!((status, kind.as_str()), (401, "wrong-token"));
    assert!(next.contains("token create"), "{next}");
    let (status, kind, next) = status_with(&api, Some(&token(&brief))).await;
    assert_eq!((status, kind.as_str()), (401, "token-expired"));
    assert!(
        next.contains("`brief` expired at 20") && next.contains("token create brief"),
        "{next}"
    );

    let (_, page) = api.get("/tokens").await;
    let items = page["items"].as_array().unwrap();
    let expired: Vec<&str> = items
        .iter()
        .filter(|item| item["expired"] == true)
        .map(|item| item["name"].as_str().unwrap())
        .collect();
    assert_eq!(expired, ["brief"]);

    // An expired token's name is free, and the old one is unknown from then on.
    let again = make("brief", Some(60 * 60 * 1000)).await;
    assert_eq!(status_with(&api, Some(&token(&again))).await.0, 200);
    assert_eq!(status_with(&api, Some(&token(&brief))).await.1, "wrong-token");
    let taken = json!({"name": "brief", "role": "read"});
    assert_eq!(api.post("/tokens", &taken).await.0.as_u16(), 409);

    let path = "/api/v1/tokens/month";
    let revoked = api.send(Method::DELETE, path, Some(ADMIN), None).await;
    assert_eq!(revoked.status().as_u16(), 200);
    assert_eq!(status_with(&api, Some(&token(&month))).await.1, "wrong-token");
    for ms in [0, -1, 315_360_000_001_i64] {
        let body = json!({"name": "x", "role": "read", "expires_in_ms": ms});
        assert_eq!(api.post("/tokens", &body).await.0.as_u16(), 400, "{ms}");
    }
}

#[tokio::test]
async fn a_token_limited_to_repositories_submits_work_for_no_other() {
    let world = World::calm().await.unwrap();
    let api = Api::start(&world).await;
    let limited = json!({"name": "acme", "role": "submit", "repositories": ["github.com/acme/*"]});
    let (status, made) = api.post("/tokens", &limited).await;
    assert_eq!(status.as_u16(), 201, "{made}");
    let token = made["token"].as_str().unwrap();
    let post = async |token: &str, path: &str, body: Value| {
        let response = api
            .send(
                Method::POST,
                &format!("/api/v1{path}"),
                Some(token),
                Some(body.to_string()),
            )
            .await;
        let status = response.status().as_u16();
        (
            status,
            response.json::<Value>().await.unwrap()["detail"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        )
    };
    let at = |address: &str| json!({"address": address, "base_ref": "main", "base_commit": "a".repeat(40)});
    let feature = |name: &str, address: &str| json!({"name": name, "repo": at(address), "draft": true, "description": "x"});

    for (name, address) in [
        ("one", "https://github.com/acme/todo.git"),
        ("two", "git@github.com:acme/other"),
    ] {
        assert_eq!(
            post(token, "/features", feature(name, address)).await,
            (201, String::new())
        );
    }
    assert_eq!(
        post(
            token,
            "/features",
            json!({"name": "none", "description": "x", "draft": true})
        )
        .await
        .0,
        201
    );
    for address in [
        "https://github.com/acme-evil/todo",
        "ssh://git@other.org/github.com/acme/todo",
    ] {
        let (status, detail) = post(token, "/features", feature("other", address)).await;
        assert_eq!(status, 403, "{detail}");
        assert!(
            detail.contains("`acme` is limited to github.com/acme/*"),
            "{detail}"
        );
        let task = json!({"title": "T", "repo": at(address)});
        assert_eq!(post(token, "/tasks", task).await.0, 403);
    }
    let folder = json!({"name": "folder", "description": "x", "dir": {"path": "/srv/x", "pool": "dir-0123456789ab", "id": "x"}});
    assert_eq!(post(token, "/features", folder).await.0, 403);

    // Nor under another repository's identity, nor into its memory.
    let mut spoofed = feature("spoofed", "https://github.com/acme/todo");
    spoofed["repo"]["id"] = json!("other.org/x");
    assert_eq!(post(token, "/features", spoofed).await.0, 403);
    let entry = json!({"repo": "other.org/x", "kind": "learning", "title": "T", "body": "B", "tags": ["t"]});
    assert_eq!(post(token, "/memory", entry).await.0, 403);
    let import = json!({"repo": "other.org/x", "items": []});
    assert_eq!(post(token, "/memory/import", import).await.0, 403);

    // Nor into a feature that another token submitted.
    let (status, _) = post(ADMIN, "/features", feature("foreign", "https://other.org/x")).await;
    assert_eq!(status, 201);
    let into = |feature: &str| json!({"title": "T", "feature": feature});
    assert_eq!(post(token, "/tasks", into("foreign")).await.0, 403);
    assert_eq!(post(token, "/tasks", into("one")).await, (201, String::new()));

    let (status, answer) = api
        .post(
            "/tokens",
            &json!({"name": "bad", "role": "read", "repositories": ["a["]}),
        )
        .await;
    assert_eq!(status.as_u16(), 400, "{answer}");
    let (_, page) = api.get("/tokens").await;
    assert!(
        page["items"]
            .as_array()
            .unwrap()
            .iter()
            .any(|item| item["repositories"] == json!(["github.com/acme/*"]))
    );
}
