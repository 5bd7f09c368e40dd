//! Webhooks: create, list, remove; and the path that receives deliveries.
//!
//! A request needs a signature of its body, as GitHub sends it, or the secret as a bearer token. A request
//! without either gets the same answer as one to an unknown hook.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use hmac::{Hmac, KeyInit as _, Mac as _};
use ralph_shared::subjects::is_label;
use ralph_shared::wire::sha256_hex;
use sha2::Sha256;
use uuid::Uuid;

use super::body::{CreateHook, CreatedHook, Done, Hooked};
use super::logins::random;
use crate::api::http::access::bearer;
use crate::api::http::app::App;
use crate::api::http::locate;
use crate::api::http::problem::Problem;
use crate::api::http::request::{Body, PathParams, whole};
use crate::flow::submit::hook::{self, Fired};
use crate::store;
use crate::store::feature::hook::HookView;
use crate::store::view::Page;

/// Largest body of a delivery.
const MAX_HOOK_BYTES: usize = 1024 * 1024;
/// Longest id of a delivery. Characters.
const MAX_DELIVERY: usize = 200;
/// Headers with the id of a delivery.
const DELIVERY: [&str; 3] = ["x-github-delivery", "ralph-delivery", "idempotency-key"];

/// Every hook, without its secret.
#[utoipa::path(
    get,
    path = "/hooks",
    operation_id = "list_hooks",
    tag = "features",
    responses((status = 200, body = Page<HookView>))
)]
pub async fn list(State(app): State<App>) -> Result<Json<Page<HookView>>, Problem> {
    let hooks = store::feature::hook::list(&mut *app.db().await?).await?;
    Ok(Json(Page::whole(hooks)))
}

/// Creates a hook; each request to it copies a feature and runs the copy.
#[utoipa::path(
    post,
    path = "/hooks",
    operation_id = "create_hook",
    tag = "features",
    request_body = CreateHook,
    responses((status = 201, body = CreatedHook), (status = 404), (status = 409))
)]
pub async fn create(
    State(app): State<App>,
    Body(request): Body<CreateHook>,
) -> Result<(StatusCode, Json<CreatedHook>), Problem> {
    let name = request.name;
    if !is_label(&name) {
        return Err(Problem::invalid(format!(
            "`{name}` can't name a hook: use 1 to 40 of a-z, 0-9 and `-`"
        )));
    }
    let mut conn = app.db().await?;
    let feature = locate::feature(&mut conn, &request.feature).await?;
    let secret = random();
    if !store::feature::hook::create(&mut conn, &name, feature, &secret).await? {
        return Err(Problem::conflict(format!(
            "a hook `{name}` already exists; remove it first, or choose another name"
        )));
    }
    let path = format!("/hooks/{name}");
    Ok((StatusCode::CREATED, Json(CreatedHook { name, path, secret })))
}

/// Removes a hook; features that it created stay.
#[utoipa::path(
    delete,
    path = "/hooks/{name}",
    operation_id = "remove_hook",
    tag = "features",
    responses((status = 200, body = Done))
)]
pub async fn remove(
    State(app): State<App>,
    PathParams(name): PathParams<String>,
) -> Result<Json<Done>, Problem> {
    match store::feature::hook::remove(&mut *app.db().await?, &name).await? {
        true => Ok(Json(Done::of(1))),
        false => Err(Problem::not_found(
            "there is no such hook; `hook list` shows all hooks",
        )),
    }
}

/// Copies the hook's feature and runs the copy. The body of up to 1 MB is signed with the secret
/// (`X-Hub-Signature-256`), or the secret is the bearer token. A repeated delivery (`X-GitHub-Delivery`,
/// `Ralph-Delivery` or `Idempotency-Key`) has no further effect.
#[utoipa::path(
    post,
    path = "/hooks/{name}",
    operation_id = "fire_hook",
    tag = "features",
    request_body(content = String, content_type = "application/octet-stream"),
    responses((status = 200, body = Hooked), (status = 401), (status = 408), (status = 409), (status = 413))
)]
pub async fn fire(
    State(app): State<App>,
    PathParams(name): PathParams<String>,
    request: Request,
) -> Result<Json<Hooked>, Problem> {
    let (parts, body) = request.into_parts();
    let body = whole(&parts.extensions, body, MAX_HOOK_BYTES).await?;
    let secret = store::feature::hook::secret(&mut *app.db().await?, &name).await?;
    // A request to an unknown hook takes the same time.
    let key = secret.as_deref().unwrap_or("none");
    if !proves(&parts.headers, &body, key) || secret.is_none() {
        return Err(Problem::unproven());
    }
    let delivery = delivery_of(&parts.headers)?;
    let db = &app.deps.db;
    let (fired, signals) = store::retry_serialization(|| hook::fire(db, &name, &delivery)).await?;
    app.deps.bus.emit(signals).await;
    match fired {
        Fired::Made(made) => Ok(Json(Hooked {
            feature: Some(made.short()),
            again: false,
        })),
        Fired::Again(made) => Ok(Json(Hooked {
            feature: made.map(|made| made.short()),
            again: true,
        })),
        Fired::Refused(why) => Err(Problem::conflict(why)),
        Fired::NoHook => Err(Problem::unproven()),
    }
}

/// The identity of a delivery: its id, else its signature. A request with a bearer token but no id is always
/// new.
fn delivery_of(headers: &HeaderMap) -> Result<String, Problem> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    match DELIVERY.iter().find_map(|name| text(name)) {
        Some(id) if id.len() > MAX_DELIVERY => {
            Err(Problem::invalid("the delivery's id has at most 200 characters"))
        }
        Some(id) => Ok(id.to_owned()),
        None => Ok(text("x-hub-signature-256").map_or_else(|| Uuid::now_v7().to_string(), str::to_owned)),
    }
}

/// Whether the sender knows the secret. Compares hashes or HMACs, so that the time reveals nothing.
fn proves(headers: &HeaderMap, body: &[u8], secret: &str) -> bool {
    if let Some(token) = bearer(headers) {
        return sha256_hex(token.as_bytes()) == sha256_hex(secret.as_bytes());
    }
    let signature = headers
        .get("x-hub-signature-256")
        .and_then(|value| value.to_str().ok());
    let signature = signature
        .and_then(|text| text.strip_prefix("sha256="))
        .and_then(unhex);
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else {
        return false;
    };
    mac.update(body);
    signature.is_some_and(|signature| mac.verify_slice(&signature).is_ok())
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().unwrap());
        headers
    }

    #[test]
    fn a_request_needs_githubs_signature_or_the_secret() {
        // The example of GitHub's documentation.
        let (secret, body) = ("It's a Secret to Everybody", b"Hello, World!");
        let signed = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        let check = |value: &str| proves(&headers("x-hub-signature-256", value), body, secret);
        assert!(check(signed));
        assert!(
            !check(&signed.replace('7', "8"))
                && !check("sha256=")
                && !check("sha1=00")
                && !check("sha256=zz")
        );
        assert!(!proves(
            &headers("x-hub-signature-256", signed),
            b"Hello, World?",
            secret
        ));
        assert!(proves(
            &headers("authorization", &format!("Bearer {secret}")),
            b"",
            secret
        ));
        assert!(!proves(&headers("authorization", "Bearer other"), b"", secret));
        assert!(!proves(&HeaderMap::new(), body, secret));
    }
}
