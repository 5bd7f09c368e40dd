//! Authentication: a bearer token, found by its hash, with a role (DESIGN 7).
//!
//! The database compares tokens through an index on their SHA-256, so the time of a comparison reveals
//! nothing about a token.

use std::time::Instant;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::Response;
use futures::StreamExt as _;
use ralph_shared::wire::sha256_hex;
use sqlx::PgPool;

use super::app::App;
use super::problem::Problem;
use crate::api::http::caller::Caller;
use crate::api::http::connections::StreamSlot;
use crate::api::http::token_cache::{RECHECK, look_up};
use crate::store;
use crate::store::access::{Role, TokenStatus};

/// Longest token. Bytes.
const MAX_TOKEN: usize = 512;

/// The hash under which the database stores a token.
pub fn hash_token(token: &str) -> String {
    sha256_hex(token.as_bytes())
}

/// The name of a coordinator's first token. Each coordinator has its own name: several may use the same
/// servers, and none must remove another's token.
pub fn operator_name(token: &str) -> String {
    let hash = hash_token(token);
    format!("operator-{}", &hash[..12])
}

/// Makes sure that `token` exists with this role, under `name` if it is new.
pub async fn register_token(db: &PgPool, name: &str, token: &str, role: Role) -> sqlx::Result<()> {
    let mut conn = db.acquire().await?;
    store::access::ensure(&mut conn, name, &hash_token(token), role).await
}

/// The token of a request, or of a browser's session.
#[derive(Debug, Clone)]
pub struct Holder {
    pub hash: String,
    pub name: String,
    pub role: Role,
    /// Patterns of the repositories that it may name; none for any.
    pub repositories: Vec<String>,
}

/// Admits requests with a token that may read.
pub async fn may_read(State(app): State<App>, mut request: Request, next: Next) -> Result<Response, Problem> {
    let holder = check(&app, hash_in_request(&request), Role::Read).await?;
    let hash = holder.hash.clone();
    request.extensions_mut().insert(holder);
    bounded(app, hash, next.run(request).await)
}

/// Takes a slot for a stream, and ends the stream soon after its token becomes invalid. Other responses pass
/// unchanged.
///
/// # Errors
/// When no slot for a stream is free.
pub fn bounded(app: App, hash: String, response: Response) -> Result<Response, Problem> {
    let kind = response.headers().get(header::CONTENT_TYPE);
    if kind.is_none_or(|kind| kind != "text/event-stream") {
        return Ok(response);
    }
    let slot = app.slots.stream(&hash)?;
    let (parts, body) = response.into_parts();
    let stream = body
        .into_data_stream()
        .take_until(Box::pin(token_ends(app, hash, slot)));
    Ok(Response::from_parts(parts, Body::from_stream(stream)))
}

/// Admits requests with a token that may submit and control work.
pub async fn may_submit(State(app): State<App>, request: Request, next: Next) -> Result<Response, Problem> {
    with_caller(&app, Role::Submit, request, next).await
}

/// Admits requests with a token that may do everything.
pub async fn may_administer(
    State(app): State<App>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    with_caller(&app, Role::Admin, request, next).await
}

/// Serves a request of a role and attaches the caller.
async fn with_caller(app: &App, role: Role, mut request: Request, next: Next) -> Result<Response, Problem> {
    let holder = check(app, hash_in_request(&request), role).await?;
    request
        .extensions_mut()
        .insert(Caller::new(holder.name, holder.repositories));
    Ok(next.run(request).await)
}

/// The hash of a request's token. A request from the page has the token of its session.
fn hash_in_request(request: &Request) -> Option<String> {
    match request.extensions().get::<Holder>() {
        Some(holder) => Some(holder.hash.clone()),
        None => bearer(request.headers()).map(hash_token),
    }
}

/// Looks up the token, and checks its role.
async fn check(app: &App, hash: Option<String>, needed: Role) -> Result<Holder, Problem> {
    let holder = holder(app, hash.ok_or_else(Problem::no_token)?).await?;
    match holder.role {
        role if role < needed => Err(Problem::not_allowed(needed.into_str())),
        _ => Ok(holder),
    }
}

/// Looks up the token with that hash, and counts the request against its rate.
///
/// # Errors
/// When the token is unknown or expired, or exceeds its rate.
pub async fn holder(app: &App, hash: String) -> Result<Holder, Problem> {
    let status = look_up(&mut *app.db().await?, &hash).await?;
    let (name, role, repositories) = match status {
        None => return Err(Problem::wrong_token()),
        Some(TokenStatus::Expired { name, at }) => return Err(Problem::expired_token(&name, at)),
        Some(TokenStatus::Holds {
            name,
            role,
            repositories,
            ..
        }) => (name, role, repositories),
    };
    app.rates.take(&hash, Instant::now()).map_err(Problem::too_fast)?;
    Ok(Holder {
        hash,
        name,
        role,
        repositories,
    })
}

/// Waits until a token is revoked or expires, and holds the stream's slot until then. A token that can't be
/// looked up counts as valid.
async fn token_ends(app: App, hash: String, _slot: StreamSlot) {
    loop {
        tokio::time::sleep(RECHECK).await;
        if !app.token_cache.is_valid(&app.deps.db, &hash).await {
            return;
        }
    }
}

/// The bearer token of a request.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    let fits = scheme.eq_ignore_ascii_case("bearer") && (1..=MAX_TOKEN).contains(&token.len());
    fits.then_some(token)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn check(value: &str, expected: Option<&str>) {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, value.parse().unwrap());
        assert_eq!(bearer(&headers), expected, "{value}");
    }

    #[test]
    fn only_bearer_tokens_of_a_bounded_length_are_accepted() {
        check("Bearer abc", Some("abc"));
        check("bearer  abc ", Some("abc"));
        check("Basic abc", None);
        check("Bearer", None);
        check("Bearer ", None);
        check(&format!("Bearer {}", "x".repeat(MAX_TOKEN + 1)), None);
    }
}
