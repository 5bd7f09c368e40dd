//! A listening API and its client.

use std::sync::Arc;

use ralph_coordinator::api;
use ralph_coordinator::services::{Deps, Reserved};
use ralph_coordinator::store::access::{self, Role};
use ralph_tests::harness::World;
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub const ADMIN: &str = "admin-token-of-this-test";

pub struct Api {
    http: reqwest::Client,
    pub url: String,
}

impl Api {
    pub async fn start(world: &World) -> Self {
        let mut conn = world.db.acquire().await.unwrap();
        for (name, role) in [("read", Role::Read), ("submit", Role::Submit)] {
            let hash = api::hash_token(&format!("{name}-token-of-this-test"));
            access::ensure(&mut conn, name, &hash, role).await.unwrap();
        }
        drop(conn);
        api::register_token(&world.db, "admin", ADMIN, Role::Admin)
            .await
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let deps = Deps {
            db: world.db.clone(),
            reserved: Reserved::shared(&world.db),
            bus: world.bus.clone(),
            settings: world.settings.clone(),
            pulse: Arc::default(),
        };
        tokio::spawn(api::serve(deps, listener, CancellationToken::new()));
        ralph_shared::tls::install();
        Self {
            http: reqwest::Client::builder().no_proxy().build().unwrap(),
            url,
        }
    }

    pub async fn send(
        &self,
        method: Method,
        path: &str,
        token: Option<&str>,
        body: Option<String>,
    ) -> Response {
        let mut request = self.http.request(method, format!("{}{path}", self.url));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.body(body);
        }
        request.send().await.unwrap()
    }

    pub async fn get(&self, path: &str) -> (StatusCode, Value) {
        let response = self
            .send(Method::GET, &format!("/api/v1{path}"), Some(ADMIN), None)
            .await;
        (response.status(), response.json().await.unwrap())
    }

    pub async fn post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        let path = format!("/api/v1{path}");
        let response = self
            .send(Method::POST, &path, Some(ADMIN), Some(body.to_string()))
            .await;
        (response.status(), response.json().await.unwrap())
    }

    /// Submits a feature without a repository; its tasks are a YAML list.
    pub async fn submit(&self, name: &str, tasks: &str) -> Value {
        let body = json!({"name": name, "tasks": {"source": "tasks.yaml", "text": tasks}});
        let (status, answer) = self.post("/features", &body).await;
        assert_eq!(status, StatusCode::CREATED, "{answer}");
        answer
    }
}

/// Waits for the run's end: the event stream ends with it.
pub async fn ended(api: &Api, feature: &str) -> Value {
    let path = format!("/api/v1/features/{feature}/events");
    let stream = api.send(reqwest::Method::GET, &path, Some(ADMIN), None).await;
    stream.text().await.unwrap();
    api.get(&format!("/features/{feature}/progress")).await.1
}
