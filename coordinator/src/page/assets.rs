//! The style sheet and the script. Their paths contain a hash of their content, so that browsers can cache
//! them forever.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use ralph_shared::wire::sha256_hex;

/// Cached for a year.
const CACHE_FOREVER: &str = "public, max-age=31536000, immutable";

/// A file that the page loads.
pub struct Asset {
    pub path: String,
    kind: &'static str,
    text: &'static str,
}

impl Asset {
    fn new(name: &str, ending: &str, kind: &'static str, text: &'static str) -> Self {
        let hash = sha256_hex(text.as_bytes());
        Self {
            path: format!("/assets/{name}-{}.{ending}", &hash[..16]),
            kind,
            text,
        }
    }
}

pub static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new(
        "page",
        "css",
        "text/css; charset=utf-8",
        include_str!("assets/page.css"),
    )
});
pub static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new(
        "page",
        "js",
        "text/javascript; charset=utf-8",
        include_str!("assets/page.js"),
    )
});

pub async fn file(Path(name): Path<String>) -> Response {
    let path = format!("/assets/{name}");
    let found = [&*STYLE, &*SCRIPT].into_iter().find(|asset| asset.path == path);
    match found {
        Some(asset) => {
            let headers = [
                (header::CONTENT_TYPE, asset.kind),
                (header::CACHE_CONTROL, CACHE_FOREVER),
            ];
            (headers, asset.text).into_response()
        }
        None => (StatusCode::NOT_FOUND, "no such file\n").into_response(),
    }
}
