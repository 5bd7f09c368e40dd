//! The routes of the page, and what each of its handlers works with.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{Method, header};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tower::ServiceExt as _;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{DefaultPredicate, NotForContentType, Predicate as _};

use super::trouble::Trouble;
use super::visitor::{Visitor, let_in};
use super::{
    act, assets, feature, features, guard, inbox, live, log, login, memory, prompt, settings, task, workers,
};
use crate::api::body::ProblemBody;
use crate::api::http::app::App;
use crate::api::http::locate;

/// Larger answers of the API are none to a page. Bytes.
const MAX_ANSWER: usize = 64 * 1024 * 1024;

/// What handlers work with.
#[derive(Debug, Clone)]
pub struct Site {
    /// What the API's handlers work with.
    pub app: App,
    api: Router,
}

impl Site {
    /// Asks the API for something with the rights of who is logged in.
    ///
    /// # Errors
    /// What the API refuses, in its words.
    pub async fn ask(
        &self,
        visitor: &Visitor,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Result<Value, Trouble> {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let request = Request::builder()
            .method(method)
            .uri(format!("/api/v1{path}"))
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::CONTENT_LENGTH, body.len())
            .extension(visitor.holder.clone())
            .body(Body::from(body))
            .map_err(|_| Trouble::not_found("no such thing"))?;
        let Ok(response) = self.api.clone().oneshot(request).await;
        let status = response.status();
        let bytes = to_bytes(response.into_body(), MAX_ANSWER)
            .await
            .unwrap_or_default();
        if status.is_success() {
            return Ok(serde_json::from_slice(&bytes).unwrap_or_default());
        }
        match serde_json::from_slice::<ProblemBody>(&bytes) {
            Ok(problem) => Err(Trouble::of_api(status, problem)),
            Err(_) => Err(Trouble::failed()),
        }
    }

    /// What the API tells somebody who is logged in.
    ///
    /// # Errors
    /// What the API refuses, in its words.
    pub async fn read<T: DeserializeOwned>(&self, visitor: &Visitor, path: &str) -> Result<T, Trouble> {
        let answer = self.ask(visitor, Method::GET, path, &Value::Null).await?;
        serde_json::from_value(answer).map_err(|_| Trouble::failed())
    }
}

/// The page, which acts through `api`.
pub fn routes(app: App, api: Router) -> Router {
    let site = Site { app, api };
    // An event has to go out when it comes.
    let large = DefaultPredicate::new().and(NotForContentType::SSE);
    let pages = Router::new()
        .route("/", get(inbox::page))
        .route("/log", get(log::page))
        .route("/features", get(features::page))
        .route("/features/{id}", get(feature::page))
        .route("/features/{id}/{part}", get(feature::part))
        .route("/tasks/{id}", get(task::page))
        .route("/tasks/{id}/prompt", get(prompt::page))
        .route("/tasks/{id}/diff", get(task::diff))
        .route("/tasks/{id}/log", get(task::log))
        .route("/tasks/{id}/live", get(live::transcript))
        .route("/workers", get(workers::page))
        .route("/memory", get(memory::page))
        .route("/memory/{id}", get(memory::entry))
        .route("/settings", get(settings::page))
        .route("/live", get(live::changes))
        .route("/do/{kind}/{verb}", post(act::act))
        .route("/logout", post(login::log_out))
        .route_layer(from_fn(locate::within))
        .route_layer(from_fn_with_state(site.clone(), let_in));
    pages
        .route("/login", get(login::form).post(login::log_in))
        .route("/me", get(login::is_logged_in))
        .route("/assets/{name}", get(assets::file))
        .layer(CompressionLayer::new().compress_when(large))
        .layer(from_fn_with_state(site.clone(), guard::guarded))
        .with_state(site)
}
