//! Errors as problem documents (RFC 9457): what is wrong, and what to do next.

use std::time::Duration;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::api::body::ProblemBody;

/// Delay before a client should retry when too many streams are open.
const STREAM_ENDS: Duration = Duration::from_secs(4);

/// An error as an answer.
#[derive(Debug)]
pub struct Problem {
    status: StatusCode,
    kind: &'static str,
    title: &'static str,
    detail: String,
    errors: Vec<String>,
    retry_after: Option<Duration>,
}

impl Problem {
    fn new(status: StatusCode, kind: &'static str, title: &'static str, detail: impl Into<String>) -> Self {
        Self {
            status,
            kind,
            title,
            detail: detail.into(),
            errors: Vec::new(),
            retry_after: None,
        }
    }

    /// Whether the token is missing or not valid.
    pub fn is_of_token(&self) -> bool {
        self.status == StatusCode::UNAUTHORIZED
    }

    /// Status and document, for a page.
    pub fn into_parts(self) -> (StatusCode, ProblemBody) {
        (self.status, self.body())
    }

    fn body(self) -> ProblemBody {
        ProblemBody {
            kind: format!("urn:ralph:problem:{}", self.kind),
            title: self.title.to_owned(),
            status: self.status.as_u16(),
            detail: self.detail,
            errors: self.errors,
        }
    }

    /// 400: the request violates the API's description.
    pub fn invalid(detail: impl Into<String>) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "invalid",
            "The request is not valid",
            detail,
        )
    }

    /// 401: no token.
    pub fn no_token() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "no-token",
            "A token is needed",
            "send `Authorization: Bearer TOKEN`; commands take the token from --token, RALPH_TOKEN or the data folder of \
             a running `up`",
        )
    }

    /// 401: an unknown or revoked token.
    pub fn wrong_token() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "wrong-token",
            "The token is wrong",
            "the coordinator doesn't know this token, or it was revoked; check that --token, RALPH_TOKEN or the data folder \
             belongs to this coordinator, or ask an administrator for a token: `ralph token create NAME`",
        )
    }

    /// 401: a request to a hook without a valid signature or secret, or to an unknown hook.
    pub fn unproven() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "unproven",
            "The request has no valid signature",
            "sign the body with the hook's secret (`X-Hub-Signature-256`), or send the secret as a bearer token",
        )
    }

    /// 401: an expired token.
    pub fn expired_token(name: &str, at: OffsetDateTime) -> Self {
        let at = at.format(&Rfc3339).unwrap_or_default();
        Self::new(
            StatusCode::UNAUTHORIZED,
            "token-expired",
            "The token has expired",
            format!(
                "the token `{name}` expired at {at}; ask an administrator for a new one under the same name: \
                 `ralph token create {name} --expires 30d`"
            ),
        )
    }

    /// 403: the token's role is not sufficient.
    pub fn not_allowed(needed: &str) -> Self {
        Self::forbidden(format!("this needs a token with the role `{needed}`"))
    }

    /// 403: the token may not do this, regardless of its role.
    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            "not-allowed",
            "The token may not do this",
            detail,
        )
    }

    /// 404: nothing has that id.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", "Not found", detail)
    }

    /// 404: the object was deleted after the request had found it.
    pub fn deleted(what: &str) -> Self {
        Self::not_found(format!("the {what} was deleted meanwhile"))
    }

    /// 405.
    pub fn no_such_method() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "no-such-method",
            "This address doesn't accept that method",
            "the `Allow` header lists the accepted methods",
        )
    }

    /// 409: features of several repositories have this name, and the request names no repository.
    pub fn ambiguous(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "ambiguous", "The name is ambiguous", detail)
    }

    /// 409: not all tasks are done, which the caller may confirm.
    pub fn unfinished(detail: impl Into<String>) -> Self {
        Self::new(
            StatusCode::CONFLICT,
            "unfinished",
            "Not all tasks are done",
            detail,
        )
    }

    /// 409: several things have this id, a name is taken, or the state does not allow the request.
    pub fn conflict(detail: impl Into<String>) -> Self {
        Self::new(
            StatusCode::CONFLICT,
            "conflict",
            "Not possible in the current state",
            detail,
        )
    }

    /// 408: the body did not arrive in time.
    pub fn too_slow(within: Duration) -> Self {
        let seconds = within.as_secs_f64();
        Self::new(
            StatusCode::REQUEST_TIMEOUT,
            "too-slow",
            "The request arrived too slowly",
            format!("send the whole body within {seconds} s, or a smaller one"),
        )
    }

    /// 413.
    pub fn too_large(limit_bytes: usize) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too-large",
            "The request is too large",
            format!("send at most {} MB", limit_bytes / (1024 * 1024)),
        )
    }

    /// 422: each value is valid, but their combination or meaning is not.
    pub fn refused(detail: impl Into<String>) -> Self {
        Self::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "refused",
            "The request is refused",
            detail,
        )
    }

    /// 422: a refused task graph, with all of its problems.
    pub fn graph(errors: &crate::domain::graph::GraphErrors) -> Self {
        let mut problem = Self::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "graph-refused",
            "The task graph is refused",
            errors.to_string(),
        );
        problem.errors = errors
            .problems
            .iter()
            .map(|p| p.describe(&errors.source_name))
            .collect();
        problem
    }

    /// 409: the first request with this key is still being served.
    pub fn in_flight(key: &str) -> Self {
        let mut problem = Self::new(
            StatusCode::CONFLICT,
            "in-flight",
            "The first request with this key is not answered yet",
            format!(
                "a request with `Idempotency-Key: {key}` is being served; send it again in a moment for its answer"
            ),
        );
        problem.retry_after = Some(Duration::ZERO);
        problem
    }

    /// 422: the key was used before with another request.
    pub fn key_reused(key: &str) -> Self {
        Self::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "key-reused",
            "The key belongs to another request",
            format!(
                "`Idempotency-Key: {key}` was used before with another method, address or body; use a separate key for each request"
            ),
        )
    }

    /// 500. Logs the reason.
    pub fn failed(reason: &'static str) -> Self {
        tracing::error!(reason, "a request failed");
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "The coordinator failed",
            "the coordinator's log has the cause; if the same request fails again, report it as a bug",
        )
    }

    /// 429: the token exceeds its rate.
    pub fn too_fast(wait: Duration) -> Self {
        let mut problem = Self::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too-fast",
            "Too many requests",
            "this token sends more requests than `[api] requests_per_second` of the coordinator allows; wait as `Retry-After` says",
        );
        problem.retry_after = Some(wait);
        problem
    }

    /// 503: the limit of streams is reached.
    pub fn too_many_streams() -> Self {
        let mut problem = Self::unavailable(
            "streams use three quarters of `[api] max_connections` of the coordinator, or this token's streams use three quarters \
             of those; end one, or wait as `Retry-After` says",
        );
        problem.retry_after = Some(STREAM_ENDS);
        problem
    }

    /// 503: a server that the coordinator needs does not answer.
    pub fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "unavailable",
            "Not available at the moment",
            detail,
        )
    }
}

impl From<sqlx::Error> for Problem {
    fn from(error: sqlx::Error) -> Self {
        let away = matches!(
            error,
            sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::Io(_) | sqlx::Error::Tls(_)
        );
        // 57P01 and similar codes: the server ends the connection, or is starting.
        let restarting = error
            .as_database_error()
            .and_then(|e| e.code())
            .is_some_and(|code| code.starts_with("57P"));
        if away || restarting {
            tracing::warn!(%error, "the database did not answer a request");
            return Self::unavailable("the database does not answer; try again in a moment");
        }
        // 22021 and 22P05: Postgres stores every character except NUL.
        let holds_nul = error
            .as_database_error()
            .and_then(|e| e.code())
            .is_some_and(|code| code == "22021" || code == "22P05");
        if holds_nul {
            return Self::refused("a text of the request contains the character NUL; remove it");
        }
        tracing::error!(%error, "the database refused a request's query");
        Self::failed("the database refused a query")
    }
}

impl From<anyhow::Error> for Problem {
    fn from(error: anyhow::Error) -> Self {
        tracing::warn!(
            error = format!("{error:#}"),
            "the broker did not answer a request"
        );
        Self::unavailable("the broker does not answer; try again in a moment")
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, retry_after) = (self.status, self.retry_after);
        let mut response = (status, Json(self.body())).into_response();
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        if let Some(wait) = retry_after {
            // Whole seconds, at least one.
            let seconds = wait.as_secs() + 1;
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
