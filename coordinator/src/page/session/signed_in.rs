//! A logged-in visitor.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use time::OffsetDateTime;

use crate::api::http::access::Holder;
use crate::page::session::trouble::Trouble;
use crate::store::access::Role;

/// A logged-in visitor.
#[derive(Debug, Clone)]
pub struct Visitor {
    /// The token of the session.
    pub holder: Holder,
    /// The secret in each form of the session.
    pub csrf: String,
    /// End of the previous visit.
    pub left_at: Option<OffsetDateTime>,
}

impl Visitor {
    /// Whether the visitor may submit and control work.
    pub fn may_act(&self) -> bool {
        self.holder.role >= Role::Submit
    }

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
