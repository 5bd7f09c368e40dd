//! Idempotent requests: a repeated `Idempotency-Key` gets the first answer for a day.
//!
//! A coordinator claims the key before it serves the request, and renews the claim meanwhile. It serves the
//! request to its end even if the client is gone. The claim of a dead coordinator lapses. The coordinator
//! that takes it over creates objects under the same id ([`NewId`]), so that it finds existing ones instead
//! of creating them twice; the same holds after an internal error. Only successes are stored; a client may
//! repeat a refused request.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequestParts, OriginalUri, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use ralph_shared::wire::sha256_hex;
use tracing::Instrument as _;
use uuid::Uuid;

use super::access::{bearer, hash_token};
use super::app::App;
use super::encrypt;
use super::problem::Problem;
use super::request::{MAX_BODY_BYTES, whole};
use crate::faults;
use crate::store::idempotency::{self, Claim, Keyed};

/// The header with the key: any 1 to 255 visible characters.
pub const KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The header of a replayed answer.
pub const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
const MAX_KEY: usize = 255;
/// Duration of a claim without a renewal; after that its holder counts as dead.
const HOLD: Duration = Duration::from_secs(15);
/// A third of that, so that one renewal may fail.
const RENEW: Duration = Duration::from_secs(5);
/// Largest stored answer; answers of requests that create something are smaller. Bytes.
const MAX_RESPONSE_BYTES: usize = 16 * 1024 * 1024;

/// The id of the object that a request creates.
#[derive(Debug, Clone, Copy)]
pub struct NewId {
    pub id: Uuid,
    /// Whether an earlier try may have created it already.
    pub again: bool,
}

impl NewId {
    /// A new id, without an earlier try.
    pub fn fresh() -> Self {
        Self {
            id: Uuid::now_v7(),
            again: false,
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for NewId {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts
            .extensions
            .get::<Self>()
            .copied()
            .unwrap_or_else(Self::fresh))
    }
}

/// Serves a request with a key once; passes other requests on.
pub async fn idempotent(
    State(app): State<App>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let (Some(key), true) = (key(request.headers())?, request.method() == Method::POST) else {
        return Ok(next.run(request).await);
    };
    let Some(token) = bearer(request.headers()).map(str::to_owned) else {
        return Err(Problem::no_token());
    };
    let sent = std::mem::take(request.body_mut());
    let body = whole(request.extensions(), sent, MAX_BODY_BYTES).await?;
    let held = HeldKey {
        token_sha256: hash_token(&token),
        request_sha256: fingerprint(&request, &body),
        token,
        key,
        holder: Uuid::now_v7(),
    };
    let claim = idempotency::claim(
        &mut *app.db().await?,
        held.keyed(),
        held.holder,
        HOLD.as_secs_f64(),
    )
    .await?;
    let new = match claim {
        Claim::Ours { made_id, again } => NewId { id: made_id, again },
        Claim::InFlight => return Err(Problem::in_flight(&held.key)),
        Claim::Other => return Err(Problem::key_reused(&held.key)),
        Claim::Answered {
            holder,
            status,
            sealed_body,
        } => return Ok(replay(&held.token, holder, status, sealed_body)),
    };
    request.extensions_mut().insert(new);
    *request.body_mut() = Body::from(body);
    // The request must end even if the client does not wait.
    let serving = async move { held.serve(&app, request, next).await }.in_current_span();
    match tokio::spawn(serving).await {
        Ok(response) => Ok(response),
        Err(_) => Err(Problem::failed("a request with a key panicked")),
    }
}

fn key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get(KEY) else {
        return Ok(None);
    };
    let key = value.as_bytes();
    if !(1..=MAX_KEY).contains(&key.len()) || !key.iter().all(u8::is_ascii_graphic) {
        return Err(Problem::invalid(format!(
            "`Idempotency-Key` is 1 to {MAX_KEY} visible ASCII characters without spaces; a random UUID works well"
        )));
    }
    Ok(Some(String::from_utf8_lossy(key).into_owned()))
}

/// The fingerprint that decides whether two requests are the same.
fn fingerprint(request: &Request, body: &Bytes) -> String {
    let nested = request.extensions().get::<OriginalUri>();
    let uri = nested.map_or(request.uri(), |OriginalUri(uri)| uri);
    let mut text = format!("{} {uri}\n", request.method()).into_bytes();
    text.extend_from_slice(body);
    sha256_hex(&text)
}

fn replay(token: &str, holder: Uuid, status: i32, sealed_body: Vec<u8>) -> Response {
    let status = u16::try_from(status)
        .ok()
        .and_then(|code| StatusCode::from_u16(code).ok());
    let (Some(status), Some(body)) = (status, encrypt::decrypt(token, holder, sealed_body)) else {
        return Problem::failed("a stored answer can't be read").into_response();
    };
    let json = HeaderValue::from_static("application/json");
    let yes = HeaderValue::from_static("true");
    (status, [(header::CONTENT_TYPE, json), (REPLAYED, yes)], body).into_response()
}

/// A request whose key this coordinator holds.
struct HeldKey {
    token: String,
    token_sha256: String,
    key: String,
    request_sha256: String,
    holder: Uuid,
}

impl HeldKey {
    fn keyed(&self) -> Keyed<'_> {
        Keyed {
            token_sha256: &self.token_sha256,
            key: &self.key,
            request_sha256: &self.request_sha256,
        }
    }

    async fn serve(self, app: &App, request: Request, next: Next) -> Response {
        let mut served = std::pin::pin!(next.run(request));
        let response = loop {
            match tokio::time::timeout(RENEW, &mut served).await {
                Ok(response) => break response,
                Err(_) => self.hold(app, HOLD).await,
            }
        };
        if response.status().is_server_error() {
            // The request may have taken effect before it failed: the next holder of the key finds created
            // objects.
            self.hold(app, Duration::ZERO).await;
            return response;
        }
        if !response.status().is_success() {
            self.log_failure(self.free(app).await);
            return response;
        }
        let (parts, body) = response.into_parts();
        let Ok(body) = axum::body::to_bytes(body, MAX_RESPONSE_BYTES).await else {
            return Problem::failed("an answer is too large to store").into_response();
        };
        faults::point("answer.before_keep");
        self.log_failure(self.keep(app, parts.status, &body).await);
        Response::from_parts(parts, Body::from(body))
    }

    async fn hold(&self, app: &App, time: Duration) {
        let renewed = async {
            let mut conn = app.deps.db.acquire().await?;
            idempotency::renew(&mut conn, self.holder, self.keyed(), time.as_secs_f64()).await
        };
        self.log_failure(renewed.await);
    }

    async fn free(&self, app: &App) -> sqlx::Result<()> {
        idempotency::free(&mut *app.deps.db.acquire().await?, self.holder, self.keyed()).await
    }

    async fn keep(&self, app: &App, status: StatusCode, body: &[u8]) -> sqlx::Result<()> {
        let Some(sealed) = encrypt::encrypt(&self.token, self.holder, body) else {
            return Ok(());
        };
        let mut conn = app.deps.db.acquire().await?;
        idempotency::store_response(
            &mut conn,
            self.holder,
            self.keyed(),
            status.as_u16().into(),
            &sealed,
        )
        .await
    }

    /// A claim that cannot be released lapses by itself.
    fn log_failure(&self, written: sqlx::Result<()>) {
        if let Err(error) = written {
            tracing::warn!(%error, "the claim of an idempotency key could not be written");
        }
    }
}
