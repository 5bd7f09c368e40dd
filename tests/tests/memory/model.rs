//! A small embedding model, served over HTTP in the OpenAI form. A text's vector counts its runs of four
//! characters, hashed.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use ralph_coordinator::embedder::{Embedder, Endpoint};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// The key that it expects in `Authorization`.
pub const KEY: &str = "sesame-0451";
/// Length of each vector.
pub const DIMENSIONS: usize = 256;
/// The server refuses a text with this word.
pub const REFUSED: &str = "unspeakable";

/// Ways in which the server answers.
pub mod mode {
    pub const GOOD: u8 = 0;
    /// 500.
    pub const BROKEN: u8 = 1;
    /// No answer.
    pub const SILENT: u8 = 2;
    /// Vectors of half the size.
    pub const NARROW: u8 = 3;
    /// JSON of another form.
    pub const STRANGE: u8 = 4;
    /// 429.
    pub const BUSY: u8 = 5;
    /// 401, with the key in the body.
    pub const CLOSED: u8 = 6;
    /// Holds each request until the test releases it.
    pub const HELD: u8 = 7;
}

#[derive(Clone)]
pub struct Model {
    inner: Arc<Inner>,
    pub url: String,
}

struct Inner {
    mode: AtomicU8,
    requests: AtomicUsize,
    /// First lines of the texts that got vectors, in order of the requests.
    answered: Mutex<Vec<String>>,
    gate: Semaphore,
    /// One for each request that waits at the gate.
    waiting: Semaphore,
}

impl Model {
    pub async fn serve() -> Self {
        let inner = Arc::new(Inner {
            mode: AtomicU8::new(mode::GOOD),
            requests: AtomicUsize::new(0),
            answered: Mutex::default(),
            gate: Semaphore::new(0),
            waiting: Semaphore::new(0),
        });
        let app = Router::new()
            .route("/v1/embeddings", post(answer))
            .with_state(inner.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1/embeddings", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { inner, url }
    }

    pub fn set(&self, mode: u8) {
        self.inner.mode.store(mode, Ordering::SeqCst);
    }

    pub fn requests(&self) -> usize {
        self.inner.requests.load(Ordering::SeqCst)
    }

    /// First lines of the texts that got vectors since the last call.
    pub fn answered(&self) -> Vec<String> {
        std::mem::take(&mut *self.inner.answered.lock().unwrap())
    }

    /// Waits until a request is held.
    pub async fn holds_one(&self) {
        self.inner.waiting.acquire().await.unwrap().forget();
    }

    /// Releases one held request.
    pub fn let_one_go(&self) {
        self.inner.gate.add_permits(1);
    }

    /// One coordinator's client of the server.
    pub fn embedder(&self, model: &str) -> Embedder {
        self.embedder_of(model, None)
    }

    pub fn embedder_of(&self, model: &str, dimensions: Option<usize>) -> Embedder {
        Embedder::new(Endpoint {
            url: self.url.clone(),
            model: model.to_owned(),
            key: Some(KEY.to_owned()),
            dimensions,
            timeout: Duration::from_millis(500),
        })
        .unwrap()
    }
}

fn vector(text: &str, dimensions: usize) -> Vec<f32> {
    let mut vector = vec![0.0; dimensions];
    let chars: Vec<char> = text.to_lowercase().chars().collect();
    for run in chars.windows(4) {
        let hash = run.iter().fold(17_u64, |hash, c| {
            hash.wrapping_mul(31).wrapping_add(u64::from(u32::from(*c)))
        });
        vector[usize::try_from(hash % dimensions as u64).unwrap()] += 1.0;
    }
    vector[0] += 0.1;
    vector
}

async fn answer(State(model): State<Arc<Inner>>, headers: HeaderMap, Json(asked): Json<Value>) -> Response {
    model.requests.fetch_add(1, Ordering::SeqCst);
    let allowed = headers
        .get("authorization")
        .is_some_and(|key| *key == *format!("Bearer {KEY}"));
    let mode = model.mode.load(Ordering::SeqCst);
    if !allowed || mode == mode::CLOSED {
        return (StatusCode::UNAUTHORIZED, format!("{KEY} is no key of ours")).into_response();
    }
    let dimensions = match mode {
        mode::BROKEN => return StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        mode::BUSY => return (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "60")]).into_response(),
        mode::STRANGE => return Json(json!({"vectors": []})).into_response(),
        mode::SILENT => std::future::pending().await,
        mode::HELD => {
            model.waiting.add_permits(1);
            model.gate.acquire().await.unwrap().forget();
            DIMENSIONS
        }
        mode::NARROW => DIMENSIONS / 2,
        _ => DIMENSIONS,
    };
    let dimensions = asked["dimensions"]
        .as_u64()
        .map_or(dimensions, |n| usize::try_from(n).unwrap().min(dimensions));
    let texts: Vec<&str> = asked["input"]
        .as_array()
        .unwrap()
        .iter()
        .map(|text| text.as_str().unwrap())
        .collect();
    if texts.iter().any(|text| text.contains(REFUSED)) {
        return (StatusCode::BAD_REQUEST, "a text can't be taken").into_response();
    }
    model.answered.lock().unwrap().extend(
        texts
            .iter()
            .map(|text| text.lines().next().unwrap_or_default().to_owned()),
    );
    let data: Vec<Value> = texts
        .iter()
        .enumerate()
        .rev()
        .map(|(index, text)| json!({"index": index, "embedding": vector(text, dimensions)}))
        .collect();
    Json(json!({"object": "list", "data": data, "model": asked["model"]})).into_response()
}
