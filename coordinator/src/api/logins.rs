//! Links that log a browser in to the page: the holder of a token requests a code, which is valid for minutes
//! and for one login.

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};

use super::body::CreatedLogin;
use crate::api::http::access::{Holder, hash_token};
use crate::api::http::app::App;
use crate::api::http::problem::Problem;
use crate::store::login;

/// Lifetime of a code. Seconds.
const LASTS_S: f64 = 300.0;

/// Creates a link that logs a browser in to the page, once and within five minutes. The browser gets the
/// rights of the token that requests the link.
#[utoipa::path(
    post,
    path = "/logins",
    operation_id = "create_login",
    tag = "tokens",
    responses((status = 201, body = CreatedLogin))
)]
pub async fn create(
    State(app): State<App>,
    Extension(holder): Extension<Holder>,
) -> Result<(StatusCode, Json<CreatedLogin>), Problem> {
    let code = random();
    let hash = hash_token(&code);
    let expires_at = login::keep_code(&mut *app.db().await?, &hash, &holder.hash, LASTS_S).await?;
    let path = format!("/login?code={code}");
    Ok((StatusCode::CREATED, Json(CreatedLogin { path, expires_at })))
}

/// 256 random bits, as hex digits.
pub fn random() -> String {
    let random: [u8; 32] = rand::random();
    random.iter().map(|byte| format!("{byte:02x}")).collect()
}
