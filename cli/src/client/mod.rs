//! HTTP client of the commands.

pub mod endpoint;
pub mod http;
pub(crate) mod sse;

use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use ralph_api::body::ProblemBody;
use ralph_api::view::Page;
use ralph_shared::tls::plain_text_warning;
use reqwest::{Method, RequestBuilder, Response, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::OnceCell;

use super::submit;
use crate::args::globals::Globals;
use crate::client::endpoint::Endpoint;
use crate::client::sse::EventStream;

/// The coordinator stores a graph of 100,000 tasks within seconds; nothing else takes long.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// How long to resend a request whose response was cut off. A coordinator that died is restarted, and its
/// unfinished requests lapse after 15 seconds.
const RESEND_WITHIN: Duration = Duration::from_secs(45);
const RESEND_PAUSE: Duration = Duration::from_millis(300);
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// The problem type of a request whose first copy is still being served.
const IN_FLIGHT: &str = "urn:ralph:problem:in-flight";
/// The problem type of a name that features of several repositories have.
const AMBIGUOUS: &str = "urn:ralph:problem:ambiguous";
/// The problem type of an operation on unfinished work.
const UNFINISHED: &str = "urn:ralph:problem:unfinished";
/// The status of a request that the current state does not allow.
const CONFLICT: u16 = 409;
/// The status of a request over the rate limit; the coordinator did not serve it.
const TOO_MANY: u16 = 429;
/// Statuses of a coordinator that is unavailable, or of a proxy that does not reach it. The coordinator may
/// have served the request.
const UNAVAILABLE: [u16; 3] = [502, 503, 504];
/// How long to resend a request over the rate limit, each time after the pause that the response names.
const SLOW_WITHIN: Duration = Duration::from_secs(60);
/// How long to resend while the coordinator is unavailable; the user must learn of it after that.
const UNAVAILABLE_WITHIN: Duration = Duration::from_secs(30);
/// The pause where the response names none, and the longest pause.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));
/// Items per request.
const PAGE: usize = 1000;

/// Connection to one coordinator.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    endpoint: Endpoint,
    /// The current folder's repository, if any; looked up once, for requests whose names turn out to be
    /// ambiguous.
    here: Arc<OnceCell<Option<String>>>,
}

/// The coordinator refused.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}", self.message())]
pub struct ApiError(pub ProblemBody);

impl ApiError {
    fn message(&self) -> &str {
        if self.0.detail.is_empty() {
            &self.0.title
        } else {
            &self.0.detail
        }
    }

    /// Whether an error is a refusal, which a retry won't change.
    pub fn refuses(error: &anyhow::Error) -> bool {
        error
            .downcast_ref::<Self>()
            .is_some_and(|refused| refused.0.status < 500 && refused.0.status != TOO_MANY)
    }

    /// Whether an error is a conflict with the current state.
    pub fn is_conflict(error: &anyhow::Error) -> bool {
        let refused = error.downcast_ref::<Self>();
        refused.is_some_and(|refused| refused.0.status == CONFLICT)
    }

    /// Whether an error reports unfinished work, so that a person should confirm.
    pub fn is_unfinished(error: &anyhow::Error) -> bool {
        let refused = error.downcast_ref::<Self>();
        refused.is_some_and(|refused| refused.0.kind == UNFINISHED)
    }

    /// Whether the request itself was wrong.
    pub fn is_usage(&self) -> bool {
        matches!(self.0.status, 400 | 413 | 422)
    }
}

/// Why a request has no response, where a retry may help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestFailure {
    /// The response was lost: the coordinator may have served the request, or is serving it.
    Answer,
    /// Nothing listens.
    Coordinator,
}

impl RequestFailure {
    fn of(error: &anyhow::Error) -> Option<Self> {
        if let Some(ApiError(problem)) = error.downcast_ref::<ApiError>() {
            return (problem.kind == IN_FLIGHT).then_some(Self::Answer);
        }
        if error
            .downcast_ref::<serde_json::Error>()
            .is_some_and(serde_json::Error::is_eof)
        {
            return Some(Self::Answer);
        }
        let error = error.downcast_ref::<reqwest::Error>()?;
        if error.is_connect() {
            return Some(Self::Coordinator);
        }
        (!error.is_timeout() && !error.is_builder()).then_some(Self::Answer)
    }
}

/// Warns of unencrypted traffic once per process.
static WARNED: Once = Once::new();

impl Client {
    /// Finds the coordinator; sends nothing yet.
    pub fn find(globals: &Globals) -> anyhow::Result<Self> {
        Self::new(endpoint::find(globals)?)
    }

    /// Like [`Client::find`], but does not warn of unencrypted traffic.
    pub fn find_quietly(globals: &Globals) -> anyhow::Result<Self> {
        WARNED.call_once(|| {});
        Self::find(globals)
    }

    pub fn new(endpoint: Endpoint) -> anyhow::Result<Self> {
        let url = Url::parse(&endpoint.url)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .with_context(|| {
                format!(
                    "`{}` is not an address of a coordinator; expected http://HOST:PORT or https://HOST",
                    endpoint.url
                )
            })?;
        let host = url.host_str().unwrap_or_default();
        if url.scheme() == "http"
            && let Some(warning) = plain_text_warning("the coordinator", host)
        {
            WARNED.call_once(|| eprintln!("warning: {warning}"));
        }
        let mut http = http::builder()?.connect_timeout(CONNECT_WITHIN);
        if matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]")) {
            http = http.no_proxy();
        }
        let http = http.build().context("failed to set up HTTP")?;
        Ok(Self {
            http,
            endpoint,
            here: Arc::default(),
        })
    }

    /// The coordinator's address, without a trailing slash.
    pub fn url(&self) -> &str {
        &self.endpoint.url
    }

    /// Reads, with retries after a lost response.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        self.resent(self.request(Method::GET, path).timeout(REQUEST_TIMEOUT))
            .await
    }

    /// Reads once, without retries, within this time.
    pub async fn get_once<T: DeserializeOwned>(&self, path: &str, within: Duration) -> anyhow::Result<T> {
        self.send_json(self.request(Method::GET, path).timeout(within))
            .await
    }

    /// Reads a list to its end, or to `limit` items; `query` may be empty.
    pub async fn list<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &str,
        limit: usize,
    ) -> anyhow::Result<Page<T>> {
        let mut items = Vec::new();
        let mut next: Option<String> = None;
        loop {
            let size = (limit - items.len()).min(PAGE);
            let cursor = next
                .as_ref()
                .map(|next| format!("&cursor={next}"))
                .unwrap_or_default();
            let and = if query.is_empty() { "" } else { "&" };
            let page: Page<T> = self
                .get(&format!("{path}?{query}{and}limit={size}{cursor}"))
                .await?;
            items.extend(page.items);
            if page.next.is_none() || items.len() >= limit {
                return Ok(Page {
                    items,
                    next: page.next,
                });
            }
            next = page.next;
        }
    }

    /// Writes. Resends after a lost response; the coordinator executes the request once.
    pub async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> anyhow::Result<T> {
        // One key for all tries, so that the coordinator recognizes repeats.
        let key = uuid::Uuid::new_v4().to_string();
        let request = self
            .request(Method::POST, path)
            .timeout(REQUEST_TIMEOUT)
            .header(IDEMPOTENCY_KEY, key)
            .json(body);
        self.resent(request).await
    }

    /// Sends an idempotent request until its response arrives whole.
    async fn resent<T: DeserializeOwned>(&self, request: RequestBuilder) -> anyhow::Result<T> {
        let mut broken_since = None;
        loop {
            let again = request.try_clone().context("the request can't be sent")?;
            let error = match self.send_json(again).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let waited = match RequestFailure::of(&error) {
                Some(RequestFailure::Answer) => broken_since.get_or_insert_with(Instant::now).elapsed(),
                // Where nothing ever responded, nothing runs; where a response was cut off, the coordinator
                // may come back.
                Some(RequestFailure::Coordinator) => match broken_since {
                    Some(since) => since.elapsed(),
                    None => return Err(error),
                },
                None => return Err(error),
            };
            if waited > RESEND_WITHIN {
                return Err(error);
            }
            tokio::time::sleep(RESEND_PAUSE).await;
        }
    }

    pub async fn patch<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> anyhow::Result<T> {
        self.change(Method::PATCH, path, body).await
    }

    pub async fn put<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> anyhow::Result<T> {
        self.change(Method::PUT, path, body).await
    }

    async fn change<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> anyhow::Result<T> {
        let request = self.request(method, path).timeout(REQUEST_TIMEOUT).json(body);
        self.send_json(request).await
    }

    pub async fn delete<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        self.send_json(self.request(Method::DELETE, path).timeout(REQUEST_TIMEOUT))
            .await
    }

    /// Follows a stream of events, after `last_event_id` if given.
    pub async fn events(&self, path: &str, last_event_id: Option<&str>) -> anyhow::Result<EventStream> {
        let mut request = self
            .request(Method::GET, path)
            .header("accept", "text/event-stream");
        if let Some(id) = last_event_id {
            request = request.header("last-event-id", id);
        }
        // The follower of a stream reports an unavailable coordinator and reconnects.
        Ok(EventStream::new(self.send(request, &[]).await?))
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let url = format!("{}/api/v1{path}", self.endpoint.url);
        self.http.request(method, url).bearer_auth(&self.endpoint.token)
    }

    async fn send_json<T: DeserializeOwned>(&self, request: RequestBuilder) -> anyhow::Result<T> {
        let response = self.send(request, &UNAVAILABLE).await?;
        let bytes = response
            .bytes()
            .await
            .context("the coordinator's answer broke off")?;
        serde_json::from_slice(&bytes).with_context(|| {
            format!(
                "{} gave an answer that this release can't read; is it the same release?",
                self.endpoint.url
            )
        })
    }

    /// Sends a request, and repeats it while the response is 429 or one of `waited_out`. Adds the current
    /// folder's repository only where a name in the request is ambiguous: it would limit a list to that
    /// repository.
    async fn send(&self, request: RequestBuilder, waited_out: &[u16]) -> anyhow::Result<Response> {
        let mut waited = Duration::ZERO;
        let mut here: Option<&str> = None;
        loop {
            let again = request.try_clone().context("the request can't be sent")?;
            let mut again = again.build().context("the request can't be sent")?;
            let repeatable = *again.method() == Method::GET || again.headers().contains_key(IDEMPOTENCY_KEY);
            let says_where = again.url().query_pairs().any(|(name, _)| name == "repo");
            if let Some(repo) = here {
                again.url_mut().query_pairs_mut().append_pair("repo", repo);
            }
            let response = self.http.execute(again).await;
            let response = response.map_err(|error| self.unanswered(error))?;
            let status = response.status();
            if status.is_success() {
                return Ok(response);
            }
            let within = match status.as_u16() {
                TOO_MANY => SLOW_WITHIN,
                status if repeatable && waited_out.contains(&status) => UNAVAILABLE_WITHIN,
                _ => Duration::ZERO,
            };
            if waited >= within {
                let refused = self.refusal(response).await;
                if refused.0.kind == AMBIGUOUS && here.is_none() && !says_where {
                    here = self.here.get_or_init(submit::here).await.as_deref();
                    if here.is_some() {
                        continue;
                    }
                }
                return Err(refused.into());
            }
            let pause = pause_of(&response);
            tokio::time::sleep(pause).await;
            waited += pause;
        }
    }

    fn unanswered(&self, error: reqwest::Error) -> anyhow::Error {
        let what = if error.is_connect() {
            "no coordinator answers; is it running? (`ralph-coordinator up` starts one)"
        } else if error.is_timeout() {
            "the coordinator did not answer in time"
        } else {
            "the request to the coordinator failed"
        };
        anyhow::Error::new(error.without_url()).context(format!("{what}: {}", self.endpoint.url))
    }

    async fn refusal(&self, response: Response) -> ApiError {
        let status = response.status();
        let bytes = response.bytes().await.unwrap_or_default();
        ApiError(serde_json::from_slice(&bytes).unwrap_or_else(|_| ProblemBody {
            kind: String::new(),
            title: format!(
                "{} responded {status}, which is not a response of a coordinator",
                self.endpoint.url
            ),
            status: status.as_u16(),
            detail: String::new(),
            errors: Vec::new(),
        }))
    }
}

/// Whether a request may succeed later: the coordinator is unavailable, or failed at it.
pub fn is_passing(error: &anyhow::Error) -> bool {
    let failed = error
        .downcast_ref::<ApiError>()
        .is_some_and(|error| error.0.status >= 500);
    failed || RequestFailure::of(error).is_some()
}

/// How long to wait before the request is sent again.
fn pause_of(response: &Response) -> Duration {
    let (usual, longest) = PAUSES;
    let header = response.headers().get("retry-after");
    let seconds = header.and_then(|value| value.to_str().ok()?.parse().ok());
    seconds.map_or(usual, Duration::from_secs).min(longest)
}

/// Text as a part of a path or a query.
pub fn escape(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                char::from(byte).to_string()
            }
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use axum::http::{StatusCode, Uri};
    use axum::response::IntoResponse as _;
    use serde_json::{Value, json};
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn a_server_error_is_passing_and_a_refusal_is_not() {
        let answered = |status: u16| {
            let body = ProblemBody {
                kind: String::new(),
                title: String::new(),
                status,
                detail: String::new(),
                errors: Vec::new(),
            };
            anyhow::Error::from(ApiError(body)).context("failed to import")
        };
        for (status, expected) in [(500, true), (503, true), (422, false), (409, false)] {
            assert_eq!(is_passing(&answered(status)), expected, "{status}");
        }
    }

    #[tokio::test]
    async fn only_a_request_with_an_ambiguous_name_adds_the_repository() {
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let noted = Arc::clone(&asked);
        let answer = move |uri: Uri| {
            let path = uri.to_string();
            noted.lock().unwrap().push(path.clone());
            async move {
                if path.ends_with("/features/todo") {
                    let problem = json!({ "type": AMBIGUOUS, "title": "Ambiguous", "status": 409 });
                    (StatusCode::CONFLICT, axum::Json(problem)).into_response()
                } else {
                    axum::Json(json!({})).into_response()
                }
            }
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = axum::Router::new().fallback(answer);
        let serving = tokio::spawn(async move { axum::serve(listener, router).await });
        let client = Client {
            here: Arc::new(OnceCell::from(Some("r".to_owned()))),
            ..Client::new(Endpoint {
                url,
                token: "t".to_owned(),
            })
            .unwrap()
        };
        for path in [
            "/features/todo",
            "/memory?kind=knowledge",
            "/features/todo?repo=s",
        ] {
            client.get::<Value>(path).await.unwrap();
        }
        let asked = asked.lock().unwrap().clone();
        assert_eq!(
            asked,
            [
                "/api/v1/features/todo",
                "/api/v1/features/todo?repo=r",
                "/api/v1/memory?kind=knowledge",
                "/api/v1/features/todo?repo=s",
            ]
        );
        serving.abort();
    }
}
