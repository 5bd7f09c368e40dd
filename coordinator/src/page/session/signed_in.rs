//! Somebody who is logged in.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use time::OffsetDateTime;

use crate::api::http::access::Holder;
use crate::page::session::trouble::Trouble;
use crate::store::access::Role;

/// Somebody who is logged in.
#[derive(Debug, Clone)]
pub struct Visitor {
    /// Whose token it is.
    pub holder: Holder,
    /// What each form of theirs says.
    pub csrf: String,
    /// When they were gone before they came back.
    pub left_at: Option<OffsetDateTime>,
}

impl Visitor {
    /// Whether they may submit and steer.
    pub fn may_act(&self) -> bool {
        self.holder.role >= Role::Submit
    }

    /// Whether they may do everything.
    pub fn is_admin(&self) -> bool {
        self.holder.role >= Role::Admin
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Visitor {
    type Rejection = Trouble;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Trouble> {
        let visitor = parts.extensions.get::<Self>().cloned();
        visitor.ok_or_else(|| Trouble::LogIn("/".to_owned()))
    }
}
