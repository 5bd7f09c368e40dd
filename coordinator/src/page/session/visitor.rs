//! Who looks: the session of a browser, which stands for a token and may what that may.

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

/// What the script asks with when it looks for itself: nobody visits by that.
pub const BY_ITSELF: &str = "x-ralph-live";

/// Lets those in who are logged in; others are led to the login, and back.
pub async fn let_in(State(site): State<Site>, mut request: Request, next: Next) -> Result<Response, Trouble> {
    let by_itself = request.headers().contains_key(BY_ITSELF);
    let then = match request.method() {
        &Method::GET => request
            .uri()
            .path_and_query()
            .map_or("/", |path| path.as_str())
            .to_owned(),
        _ => "/".to_owned(),
    };
    match visitor(&site, request.headers(), !by_itself).await? {
        Some(visitor) => {
            request.extensions_mut().insert(visitor);
            Ok(next.run(request).await)
        }
        None if by_itself => Err(Trouble::LoggedOut),
        None => Err(Trouble::LogIn(then)),
    }
}

/// Whose session a request comes with, if it lasts and its token holds.
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

/// What a session's forms say: it follows from the session's secret, and tells nothing of it.
fn csrf(secret: &str) -> String {
    sha256_hex(format!("ralph form {secret}").as_bytes())
}

/// The secret of the session that a browser sends.
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

/// Browsers don't tell ports apart, so that two coordinators of one machine would log each other out.
pub fn cookie_name(headers: &HeaderMap) -> String {
    match host(headers).and_then(|host| host.port_u16()) {
        Some(port) => format!("ralph-{port}"),
        None => "ralph".to_owned(),
    }
}
