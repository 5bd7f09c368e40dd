//! The description of the API: an OpenAPI document for programs, a page for people. Neither needs a token.

use std::sync::LazyLock;

use axum::http::{HeaderName, header};
use bytes::Bytes;

use crate::api::{
    openapi::{self, page},
    routes,
};

/// The page may load no resources and run no scripts.
const NOTHING_FOREIGN: &str = "default-src 'none'; style-src 'unsafe-inline'";

struct Described {
    document: Bytes,
    page: Bytes,
}

static DESCRIBED: LazyLock<Described> = LazyLock::new(|| {
    let document = openapi::complete(&routes::description());
    Described {
        page: page::render(&document).into(),
        document: document.to_string().into(),
    }
});

type StaticDocument = ([(HeaderName, &'static str); 2], Bytes);

/// This document.
#[utoipa::path(
    get,
    path = "/api/openapi.json",
    operation_id = "describe",
    tag = "health",
    responses((status = 200, body = Object, description = "OpenAPI 3.1"))
)]
pub async fn document() -> StaticDocument {
    let headers = [
        (header::CONTENT_TYPE, "application/json"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, DESCRIBED.document.clone())
}

/// This document as a page.
#[utoipa::path(
    get,
    path = "/api/docs",
    operation_id = "describe_to_people",
    tag = "health",
    responses((status = 200, body = String, content_type = "text/html", description = "A page without scripts"))
)]
pub async fn page() -> StaticDocument {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, NOTHING_FOREIGN),
    ];
    (headers, DESCRIBED.page.clone())
}
