//! The token's name behind a request.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::problem::Problem;
use crate::api::http::idempotency::NewId;
use crate::flow::control::By;

/// The name of the request's token.
#[derive(Debug, Clone)]
pub struct Caller(Arc<str>);

impl Caller {
    /// The caller of this name.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// As it stands in logs.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// The actor of a command, with its request.
    pub fn by(&self, new: NewId) -> By<'_> {
        By {
            actor: &self.0,
            request: Some(new.id),
            resumes: true,
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let caller = parts.extensions.get::<Self>().cloned();
        caller.ok_or_else(Problem::no_token)
    }
}
