//! The context of the page's handlers, and their requests to the API.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{Method, header};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tower::ServiceExt as _;

use crate::api::body::ProblemBody;
use crate::api::http::app::App;
use crate::page::session::signed_in::Visitor;
use crate::page::session::trouble::Trouble;

/// Largest response of the API. Bytes.
const MAX_RESPONSE_BYTES: usize = 64 * 1024 * 1024;

#[derive(Debug, Clone)]
pub struct Site {
    /// The context of the API's handlers.
    pub app: App,
    pub(super) api: Router,
}

impl Site {
    /// Sends a request to the API with the rights of the visitor.
    ///
    /// # Errors
    /// When the API refuses the request; the error has the API's text.
    pub async fn request(
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
            .map_err(|_| Trouble::not_found("there is no such object"))?;
        let Ok(response) = self.api.clone().oneshot(request).await;
        let status = response.status();
        let bytes = to_bytes(response.into_body(), MAX_RESPONSE_BYTES)
            .await
            .unwrap_or_default();
        if status.is_success() {
            return Ok(serde_json::from_slice(&bytes).unwrap_or_default());
        }
        match serde_json::from_slice::<ProblemBody>(&bytes) {
            Ok(problem) => Err(Trouble::Problem(status, Box::new(problem))),
            Err(_) => Err(Trouble::failed()),
        }
    }

    /// Reads a view of the API with the rights of the visitor.
    ///
    /// # Errors
    /// When the API refuses the request; the error has the API's text.
    pub async fn read<T: DeserializeOwned>(&self, visitor: &Visitor, path: &str) -> Result<T, Trouble> {
        let answer = self.request(visitor, Method::GET, path, &Value::Null).await?;
        serde_json::from_value(answer).map_err(|_| Trouble::failed())
    }
}
