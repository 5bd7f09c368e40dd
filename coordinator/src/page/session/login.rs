//! Logging in with a link or a token, and logging out.

use axum::Form;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;

use super::trouble::Trouble;
use super::visitor::{cookie_name, secret, visitor};
use crate::api::http::access::{self, hash_token};
use crate::api::logins::random;
use crate::page::session::signed_in::Visitor;
use crate::page::sheet;
use crate::page::site::Site;
use crate::store::login;

/// Lifetime of a session: seven days. Seconds.
const LASTS_S: u32 = 7 * 24 * 60 * 60;

/// Query of the login form.
#[derive(Debug, Deserialize)]
pub struct Opened {
    code: Option<String>,
    then: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct LoginForm {
    #[serde(default)]
    code: String,
    #[serde(default)]
    token: String,
    #[serde(default)]
    then: String,
}

/// The login form. It holds the code of a link, and the script submits it: so a program that only previews
/// links, such as a chat, does not use the code up.
pub async fn form(Query(opened): Query<Opened>) -> Markup {
    let then = sheet::own_path(opened.then.as_deref().unwrap_or("/"));
    sheet::bare(
        "Log in",
        &html! {
            h1 { "Log in to Ralph" }
            @if let Some(code) = &opened.code {
                form method="post" action="/login" data-send {
                    input type="hidden" name="code" value=(code);
                    input type="hidden" name="then" value=(then);
                    button.primary type="submit" autofocus { "Log in" }
                }
                p.dim { "The link works once." }
            } @else {
                p.lead { "Run " code { "ralph open" } ": it prints a link that logs you in." }
                form method="post" action="/login" {
                    input type="hidden" name="then" value=(then);
                    label for="token" { "Or paste a token" }
                    input #token type="password" name="token" autocomplete="off" spellcheck="false" required;
                    button.primary type="submit" { "Log in" }
                }
                p.dim { "You get the rights of the token. " code { "ralph token create NAME --role read" } " creates one." }
            }
        },
    )
}

/// Whether a browser has a valid session: 204 if it does. A browser that comes from another site sends its
/// session cookie only with this request.
pub async fn is_logged_in(State(site): State<Site>, headers: HeaderMap) -> Result<StatusCode, Trouble> {
    Ok(match visitor(&site, &headers, false).await? {
        Some(_) => StatusCode::NO_CONTENT,
        None => StatusCode::OK,
    })
}

/// Starts a session.
pub async fn log_in(
    State(site): State<Site>,
    headers: HeaderMap,
    Form(sent): Form<LoginForm>,
) -> Result<Response, Trouble> {
    let mut conn = site.app.db().await?;
    let token_hash = match sent.code.as_str() {
        "" => hash_token(sent.token.trim()),
        code => {
            let taken = login::take_code(&mut conn, &hash_token(code)).await?;
            taken.ok_or_else(Trouble::used_code)?
        }
    };
    drop(conn);
    let holder = access::holder(&site.app, token_hash).await?;
    let new = random();
    let mut conn = site.app.db().await?;
    // Ends the browser's earlier session.
    if let Some(old) = secret(&headers) {
        login::end(&mut conn, &hash_token(&old)).await?;
    }
    login::begin(&mut conn, &hash_token(&new), &holder.hash, LASTS_S.into()).await?;
    tracing::info!(token = holder.name, "somebody logged in to the page");
    Ok(with_cookie(&headers, &new, LASTS_S, &sheet::own_path(&sent.then)))
}

/// Ends a session.
pub async fn log_out(
    State(site): State<Site>,
    visitor: Visitor,
    headers: HeaderMap,
    Form(form): Form<crate::page::act::FormFields>,
) -> Result<Response, Trouble> {
    form.check(&visitor)?;
    if let Some(secret) = secret(&headers) {
        login::end(&mut *site.app.db().await?, &hash_token(&secret)).await?;
    }
    Ok(with_cookie(&headers, "", 0, "/login"))
}

fn with_cookie(headers: &HeaderMap, secret: &str, lasts_s: u32, to: &str) -> Response {
    let forwarded = headers.get(HeaderName::from_static("x-forwarded-proto"));
    let secure = if forwarded.is_some_and(|proto| proto == "https") {
        "; Secure"
    } else {
        ""
    };
    let name = cookie_name(headers);
    let cookie = format!("{name}={secret}; Path=/; Max-Age={lasts_s}; HttpOnly; SameSite=Strict{secure}");
    let mut response = Redirect::to(to).into_response();
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}
