//! Errors as pages, with the API's texts.

use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Redirect, Response};
use maud::html;

use crate::api::body::ProblemBody;
use crate::api::http::problem::Problem;
use crate::page::sheet;

/// An error as an answer.
#[derive(Debug)]
pub enum Trouble {
    Problem(StatusCode, Box<ProblemBody>),
    /// The visitor is not logged in, and returns to this address after the login.
    LogIn(String),
    /// The visitor is not logged in; for requests of the script.
    LoggedOut,
}

impl Trouble {
    fn new(status: StatusCode, title: &str, detail: &str) -> Self {
        let body = ProblemBody {
            kind: String::new(),
            title: title.to_owned(),
            status: status.as_u16(),
            detail: detail.to_owned(),
            errors: Vec::new(),
        };
        Self::Problem(status, Box::new(body))
    }

    /// 403: the request names a host that isn't the coordinator's.
    pub fn foreign_host() -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            "Unknown host name",
            "on this machine the page answers under localhost, 127.0.0.1 and ::1; add other names as `[api] hosts` in .ralph.toml",
        )
    }

    /// 403: the form comes from another site.
    pub fn foreign_origin() -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            "This form comes from another site",
            "nothing was changed; open the page itself and act there",
        )
    }

    /// 403: the form belongs to another or an earlier session.
    pub fn stale_form() -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            "This form belongs to another session",
            "nothing was changed; go back, reload the page and act again",
        )
    }

    /// 403: the code is used up or expired.
    pub fn used_code() -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            "This login link is no longer valid",
            "a link works once, within five minutes; `ralph open` prints a new one",
        )
    }

    /// 422: the form lacks a field.
    pub fn incomplete(detail: &str) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Something is missing", detail)
    }

    /// 404.
    pub fn not_found(detail: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "Not found", detail)
    }

    /// 500: an answer that can't be read.
    pub fn failed() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "The coordinator failed",
            "its log has the cause; if the same fails again, report it as a bug",
        )
    }
}

impl From<Problem> for Trouble {
    fn from(problem: Problem) -> Self {
        let (status, body) = problem.into_parts();
        Self::Problem(status, Box::new(body))
    }
}

impl From<sqlx::Error> for Trouble {
    fn from(error: sqlx::Error) -> Self {
        Problem::from(error).into()
    }
}

impl From<anyhow::Error> for Trouble {
    fn from(error: anyhow::Error) -> Self {
        Problem::from(error).into()
    }
}

impl IntoResponse for Trouble {
    fn into_response(self) -> Response {
        let (status, body) = match self {
            Self::Problem(status, body) => (status, body),
            Self::LogIn(then) => {
                return Redirect::to(&format!("/login?then={}", sheet::encoded(&then))).into_response();
            }
            Self::LoggedOut => return (StatusCode::UNAUTHORIZED, "log in again\n").into_response(),
        };
        let page = sheet::bare(
            &body.title,
            &html! {
                h1 { (body.title) }
                p.lead { (body.detail) }
                @if !body.errors.is_empty() { ul { @for error in &body.errors { li { (error) } } } }
                p { a.button href="/" { "To the inbox" } }
            },
        );
        (status, Html(page.into_string())).into_response()
    }
}
