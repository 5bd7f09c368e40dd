//! Tokens: create, list, revoke. Only the answer to the creation contains the token itself.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use ralph_shared::repositories;
use ralph_shared::subjects::is_label;

use super::body::{CreateToken, CreatedToken, Done};
use super::logins::random;
use crate::api::http::access::hash_token;
use crate::api::http::app::App;
use crate::api::http::idempotency::NewId;
use crate::api::http::locate::did_you_mean;
use crate::api::http::problem::Problem;
use crate::api::http::request::{Body, PathParams};
use crate::domain::graph::nearest;
use crate::store::access::{self, TokenView};
use crate::store::view::Page;

/// Longest lifetime of a token: 10 × 365 × 24 × 60 × 60 × 1000 ms.
const LONGEST_MS: i64 = 315_360_000_000;
const MOST_PATTERNS: usize = 100;

/// Lists every token, without its secret.
#[utoipa::path(
    get,
    path = "/tokens",
    operation_id = "list_tokens",
    tag = "tokens",
    responses((status = 200, body = Page<TokenView>))
)]
pub async fn list(State(app): State<App>) -> Result<Json<Page<TokenView>>, Problem> {
    Ok(Json(Page::whole(access::list(&mut *app.db().await?).await?)))
}

/// Creates a token.
#[utoipa::path(
    post,
    path = "/tokens",
    operation_id = "create_token",
    tag = "tokens",
    request_body = CreateToken,
    responses((status = 201, body = CreatedToken), (status = 409))
)]
pub async fn create(
    State(app): State<App>,
    new: NewId,
    Body(request): Body<CreateToken>,
) -> Result<(StatusCode, Json<CreatedToken>), Problem> {
    if !is_label(&request.name) {
        return Err(Problem::invalid(format!(
            "`{}` can't name a token: use 1 to 40 of a-z, 0-9 and `-`",
            request.name
        )));
    }
    if request
        .expires_in_ms
        .is_some_and(|ms| !(1..=LONGEST_MS).contains(&ms))
    {
        return Err(Problem::invalid(
            "`expires_in_ms` is 1 to 315360000000, which is ten years; omit it for a token that never expires",
        ));
    }
    check_patterns(&request.repositories)?;
    let token = random();
    let hash = hash_token(&token);
    let (name, role, expires) = (&request.name, request.role, request.expires_in_ms);
    let repositories = &request.repositories;
    let made = access::create(
        &mut *app.db().await?,
        new.id,
        name,
        &hash,
        role,
        expires,
        repositories,
    )
    .await?;
    let Some(made) = made else {
        return Err(Problem::conflict(format!(
            "a token `{name}` already exists; revoke it first, or choose another name"
        )));
    };
    let created = CreatedToken {
        name: request.name,
        role,
        expires_at: made.expires_at,
        token,
    };
    Ok((StatusCode::CREATED, Json(created)))
}

fn check_patterns(patterns: &[String]) -> Result<(), Problem> {
    if patterns.len() > MOST_PATTERNS {
        return Err(Problem::invalid(format!(
            "`repositories` holds at most {MOST_PATTERNS} patterns"
        )));
    }
    repositories::patterns(patterns)
        .map(drop)
        .map_err(|error| Problem::invalid(format!("`repositories`: {error}")))
}

/// Revokes a token; requests with it are refused from now on.
#[utoipa::path(
    delete,
    path = "/tokens/{name}",
    operation_id = "revoke_token",
    tag = "tokens",
    responses((status = 200, body = Done))
)]
pub async fn revoke(
    State(app): State<App>,
    PathParams(name): PathParams<String>,
) -> Result<Json<Done>, Problem> {
    let mut conn = app.db().await?;
    if access::revoke(&mut conn, &name).await? {
        return Ok(Json(Done::of(1)));
    }
    let tokens = access::list(&mut conn).await?;
    let valid = tokens.iter().filter(|token| token.revoked_at.is_none());
    let near = nearest(&name, valid.map(|token| token.name.as_str()));
    Err(Problem::not_found(format!(
        "there is no valid token `{name}`; {}`ralph token list` shows all tokens",
        did_you_mean(near)
    )))
}
