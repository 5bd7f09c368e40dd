//! Checks hosts and origins of requests, and adds security headers to answers.
//!
//! A page of another site may resolve its own name to this machine (DNS rebinding) and send requests under
//! that name. So on loopback only names of loopback and of `[api] hosts` get answers. A form must come from
//! this page: this module checks its origin, and [`crate::page::act`] the session's secret in it.

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

/// Allows only resources of this server, and no inline scripts or styles.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

const HEADERS: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    // Forms need the origin, and other sites must not see addresses.
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

/// Refuses foreign hosts and origins, and adds the headers to every answer.
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
    // No cache may store a session's pages; public files set their own header.
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Refuses a form that does not arrive within the time limit of bodies.
async fn in_time(request: Request, next: Next) -> Response {
    let within = request.extensions().get::<BodyWithin>();
    let within = within.map_or(Duration::MAX, |BodyWithin(within)| *within);
    match tokio::time::timeout(within, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Trouble::from(Problem::too_slow(within)).into_response(),
    }
}

/// The host that a request names.
pub fn host(headers: &HeaderMap) -> Option<Authority> {
    headers.get(header::HOST)?.to_str().ok()?.parse().ok()
}

/// Whether the host is a name of this coordinator.
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

/// Whether a form comes from this page. A client other than a browser sends no origin, and has no session
/// that another site could use.
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
    fn on_loopback_only_known_hosts_get_answers() {
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
    fn a_form_must_come_from_the_page_itself() {
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
