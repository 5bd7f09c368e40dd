//! Who may ask for a page at all, and what browsers are told with each answer.
//!
//! A page of another site may resolve its own name to this machine (DNS rebinding) and then asks under that name: on loopback only names
//! of loopback are answered, and those that `[api] hosts` has. A form is taken only from this page: by its origin here, and by the
//! session's secret in it ([`crate::page::act`]).

use std::net::IpAddr;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::trouble::Trouble;
use crate::api::http::accept::Local;
use crate::api::http::problem::Problem;
use crate::api::http::request::BodyWithin;
use crate::page::site::Site;

/// Only what comes from here, and no script or style within a page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

const HEADERS: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    // The origin has to come with forms, and no address is to go elsewhere.
    (header::REFERRER_POLICY, "same-origin"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("permissions-policy"),
        "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    ),
];

/// Refuses foreign names and origins, and gives every answer its headers.
pub async fn guarded(State(site): State<Site>, request: Request, next: Next) -> Response {
    let local = request
        .extensions()
        .get::<Local>()
        .map(|Local(address)| address.ip());
    let hosts = &site.app.deps.settings.page_hosts;
    let headers = request.headers();
    let mut response = if !is_own(host(headers).as_ref(), local, hosts) {
        Trouble::foreign_host().into_response()
    } else if request.method() == Method::GET {
        next.run(request).await
    } else if is_from_here(headers) {
        in_time(request, next).await
    } else {
        Trouble::foreign_origin().into_response()
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // What a session shows stays in no cache; files that anybody may have say so themselves.
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}

/// A form has to come within the time that bodies may take.
async fn in_time(request: Request, next: Next) -> Response {
    let within = request.extensions().get::<BodyWithin>();
    let within = within.map_or(Duration::MAX, |BodyWithin(within)| *within);
    match tokio::time::timeout(within, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Trouble::from(Problem::too_slow(within)).into_response(),
    }
}

/// The name under which it is asked.
pub fn host(headers: &HeaderMap) -> Option<Authority> {
    headers.get(header::HOST)?.to_str().ok()?.parse().ok()
}

/// Whether a name is one of this coordinator's.
fn is_own(host: Option<&Authority>, local: Option<IpAddr>, named: &[String]) -> bool {
    let Some(host) = host.map(|host| host.host().trim_matches(['[', ']']).to_ascii_lowercase()) else {
        return false;
    };
    if named.contains(&host) {
        return true;
    }
    let is_loopback = host == "localhost"
        || host.ends_with(".localhost")
        || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
    match local {
        Some(local) if local.is_loopback() => is_loopback,
        _ => named.is_empty() || host.parse::<IpAddr>().is_ok(),
    }
}

/// Whether a form comes from a page of ours. What is no browser tells no origin, and has no session that others could use.
fn is_from_here(headers: &HeaderMap) -> bool {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    match text(header::ORIGIN) {
        Some(origin) => {
            let authority = origin
                .split_once("://")
                .and_then(|(_, rest)| rest.parse::<Authority>().ok());
            authority.is_some() && authority == host(headers)
        }
        None => text(HeaderName::from_static("sec-fetch-site")).is_none_or(|site| site == "same-origin"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn on_loopback_only_its_names_are_answered() {
        let check = |host: &str, local: &str, named: &[&str], expected: bool| {
            let named: Vec<String> = named.iter().map(|name| (*name).to_owned()).collect();
            let authority: Authority = host.parse().unwrap();
            let local = Some(local.parse().unwrap());
            assert_eq!(is_own(Some(&authority), local, &named), expected, "{host}");
        };
        for own in [
            "127.0.0.1:7226",
            "localhost:7226",
            "LOCALHOST",
            "[::1]:7226",
            "ralph.localhost:1",
        ] {
            check(own, "127.0.0.1", &[], true);
        }
        for foreign in [
            "evil.example:7226",
            "127.0.0.1.evil.example",
            "192.168.0.3",
            "localhost.evil.example",
        ] {
            check(foreign, "127.0.0.1", &[], false);
        }
        check("ralph.example", "127.0.0.1", &["ralph.example"], true);
        check("ralph.example", "10.0.0.1", &[], true);
        check("evil.example", "10.0.0.1", &["ralph.example"], false);
        check("10.0.0.1:7226", "10.0.0.1", &["ralph.example"], true);
        assert!(!is_own(None, None, &[]));
    }

    #[test]
    fn a_form_comes_from_the_page_itself() {
        let check = |pairs: &[(&str, &str)], expected: bool| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.insert(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
            }
            assert_eq!(is_from_here(&headers), expected, "{pairs:?}");
        };
        let host = ("host", "127.0.0.1:7226");
        check(&[host], true);
        check(&[host, ("origin", "http://127.0.0.1:7226")], true);
        check(&[host, ("origin", "http://127.0.0.1:7227")], false);
        check(&[host, ("origin", "http://evil.example")], false);
        check(&[host, ("origin", "null")], false);
        check(&[host, ("sec-fetch-site", "same-origin")], true);
        check(&[host, ("sec-fetch-site", "cross-site")], false);
        check(&[host, ("sec-fetch-site", "same-site")], false);
    }
}
