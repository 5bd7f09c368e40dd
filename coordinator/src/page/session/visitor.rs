//! Visitors: the session of a browser stands for a token, and has its rights.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::Response;
use ralph_shared::wire::sha256_hex;

use super::guard::host;
use super::trouble::Trouble;
use crate::api::http::access::{self, hash_token};
use crate::page::session::signed_in::Visitor;
use crate::page::site::Site;
use crate::store::login;

/// Header of the script's background requests, which do not count as visits.
pub const BACKGROUND: &str = "x-ralph-live";

/// Serves logged-in visitors; leads others to the login and back.
pub async fn require_login(
    State(site): State<Site>,
    mut request: Request,
    next: Next,
) -> Result<Response, Trouble> {
    let is_background = request.headers().contains_key(BACKGROUND);
    let then = match request.method() {
        &Method::GET => request
            .uri()
            .path_and_query()
            .map_or("/", |path| path.as_str())
            .to_owned(),
        _ => "/".to_owned(),
    };
    match visitor(&site, request.headers(), !is_background).await? {
        Some(visitor) => {
            request.extensions_mut().insert(visitor);
            Ok(next.run(request).await)
        }
        None if is_background => Err(Trouble::LoggedOut),
        None => Err(Trouble::LogIn(then)),
    }
}

/// The visitor of a request, if its session and the session's token are valid.
pub async fn visitor(site: &Site, headers: &HeaderMap, visits: bool) -> Result<Option<Visitor>, Trouble> {
    let Some(secret) = secret(headers) else {
        return Ok(None);
    };
    let hash = hash_token(&secret);
    let mut conn = site.app.db().await?;
    let Some(session) = login::session(&mut conn, &hash).await? else {
        return Ok(None);
    };
    if visits {
        login::note_visit(&mut conn, &hash).await?;
    }
    drop(conn);
    let holder = match access::holder(&site.app, session.token_sha256).await {
        Ok(holder) => holder,
        Err(problem) if problem.is_of_token() => return Ok(None),
        Err(problem) => return Err(problem.into()),
    };
    Ok(Some(Visitor {
        holder,
        csrf: csrf(&secret),
        left_at: session.left_at,
    }))
}

/// The secret in a session's forms. It derives from the session's secret, but does not reveal it.
fn csrf(secret: &str) -> String {
    sha256_hex(format!("ralph form {secret}").as_bytes())
}

/// The session's secret in a request's cookie.
pub fn secret(headers: &HeaderMap) -> Option<String> {
    let name = cookie_name(headers);
    let cookies = headers.get_all(header::COOKIE).iter();
    let mut pairs = cookies
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    pairs
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value.to_owned())
}

/// The name of the cookie. It contains the port, since cookies ignore ports and two coordinators on one
/// machine would log each other out.
pub fn cookie_name(headers: &HeaderMap) -> String {
    match host(headers).and_then(|host| host.port_u16()) {
        Some(port) => format!("ralph-{port}"),
        None => "ralph".to_owned(),
    }
}
