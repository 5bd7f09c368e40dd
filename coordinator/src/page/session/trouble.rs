//! What went wrong, as a page: in the words in which the API tells it.

use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Redirect, Response};
use maud::html;

use crate::api::body::ProblemBody;
use crate::api::http::problem::Problem;
use crate::page::sheet;

/// An answer that is an error.
#[derive(Debug)]
pub enum Trouble {
    Problem(StatusCode, Box<ProblemBody>),
    /// Nobody is logged in; afterwards they come back to this address.
    LogIn(String),
    /// The same, to a script.
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

    /// 403: asked under a name that isn't the coordinator's.
    pub fn foreign_host() -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            "Not under this name",
            "on this machine the page answers to localhost, 127.0.0.1 and ::1; name others as `[api] hosts` in .ralph.toml",
        )
    }

    /// 403: a form of another page.
    pub fn foreign_origin() -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            "This form is of another page",
            "nothing was changed; open the page itself and act there",
        )
    }

    /// 403: a form of another session, or of an earlier one.
    pub fn stale_form() -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            "This form is of another session",
            "nothing was changed; go back, reload the page and act again",
        )
    }

    /// 403: a code that logs nobody in.
    pub fn used_code() -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            "This link doesn't log in any more",
            "each works once, for five minutes; `ralph open` prints a new one",
        )
    }

    /// 422: a form without what it needs.
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

    /// What the API refused.
    pub fn of_api(status: StatusCode, body: ProblemBody) -> Self {
        Self::Problem(status, Box::new(body))
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
