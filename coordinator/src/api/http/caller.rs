//! The caller of a request: the token's name, and the repositories that it may name.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use ralph_shared::repositories::patterns;

use super::problem::Problem;
use crate::api::http::idempotency::NewId;
use crate::flow::control::By;

#[derive(Debug, Clone)]
pub struct Caller {
    name: Arc<str>,
    repositories: Arc<[String]>,
}

impl Caller {
    pub fn new(name: impl Into<Arc<str>>, repositories: impl Into<Arc<[String]>>) -> Self {
        Self {
            name: name.into(),
            repositories: repositories.into(),
        }
    }

    /// The token's name, as logs show it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Checks that the token may submit work or memory entries for the repository `host/path`, or for a
    /// folder.
    ///
    /// # Errors
    /// When the token is limited to repositories, and this is not one of them.
    pub fn may_name(&self, repository: Option<&str>) -> Result<(), Problem> {
        if self.repositories.is_empty() {
            return Ok(());
        }
        let patterns = patterns(&self.repositories).map_err(|error| Problem::refused(error.to_string()))?;
        match repository {
            Some(id) if patterns.is_match(id) => Ok(()),
            other => Err(Problem::forbidden(format!(
                "the token `{}` is limited to {}, so it may submit nothing for {}; ask for a token without that limit",
                self.name,
                self.repositories.join(", "),
                other.unwrap_or("a folder of a machine"),
            ))),
        }
    }

    /// The actor of a command, with the request's id.
    pub fn by(&self, new: NewId) -> By<'_> {
        By {
            actor: &self.name,
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
