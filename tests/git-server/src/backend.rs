//! `git http-backend` as a CGI program.

use std::io;
use std::path::Path;
use std::process::Stdio;

use axum::body::Body;
use axum::http::{HeaderMap, Response, StatusCode, header};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// A request for the program.
pub(crate) struct Request<'a> {
    pub method: &'a str,
    pub path: &'a str,
    pub query: &'a str,
    pub headers: &'a HeaderMap,
    pub user: &'a str,
    pub body: &'a [u8],
}

/// Runs it on the repositories below `root`.
pub(crate) async fn run(root: &Path, request: Request<'_>) -> io::Result<Response<Body>> {
    let header = |name: header::HeaderName| {
        let value = request.headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let protocol = request.headers.get("git-protocol");
    let protocol = protocol.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut child = Command::new("git")
        .arg("http-backend")
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .envs([("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_NOSYSTEM", "1")])
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("REQUEST_METHOD", request.method)
        .env("PATH_INFO", request.path)
        .env("QUERY_STRING", request.query)
        .env("REMOTE_USER", request.user)
        .env("REMOTE_ADDR", "127.0.0.1")
        .env("CONTENT_TYPE", header(header::CONTENT_TYPE))
        .env("CONTENT_LENGTH", request.body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", header(header::CONTENT_ENCODING))
        .env("HTTP_GIT_PROTOCOL", protocol)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let mut stdin = child.stdin.take();
    let body = request.body;
    let write = async move {
        if let Some(stdin) = &mut stdin {
            // A program that doesn't read it all says why by its answer.
            let _ = stdin.write_all(body).await;
        }
    };
    let (output, ()) = tokio::join!(child.wait_with_output(), write);
    answer(&output?.stdout)
}

/// Reads what a CGI program says: headers, an empty line, the body.
fn answer(output: &[u8]) -> io::Result<Response<Body>> {
    let broken = || io::Error::other("git http-backend gave no answer");
    let end = output.windows(4).position(|part| part == b"\r\n\r\n");
    let end = end.ok_or_else(broken)?;
    let head = String::from_utf8_lossy(&output[..end]);
    let mut response = Response::builder().status(StatusCode::OK);
    for (name, value) in head.lines().filter_map(|line| line.split_once(": ")) {
        response = match name {
            "Status" => response.status(value.get(..3).unwrap_or("500")),
            _ => response.header(name, value),
        };
    }
    let body = Body::from(output[end + 4..].to_vec());
    response.body(body).map_err(io::Error::other)
}
