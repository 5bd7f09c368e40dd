//! The client of the model.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use parking_lot::Mutex;
use reqwest::header::RETRY_AFTER;
use serde::Serialize;

use super::lane::Lane;
use super::response::{self, Failure};
use crate::http;

/// Time limit of a batch of entries.
const ENTRIES_WITHIN: Duration = Duration::from_secs(60);
/// Longest sent text. Characters; models of this kind read a few hundred words.
const TEXT_CHARS: usize = 2_000;
/// Longest answer: a batch of vectors of many dimensions, as text. Bytes.
const MOST_BYTES: usize = 16 * 1024 * 1024;

#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Address that takes `{"model": …, "input": […]}`.
    pub url: String,
    pub model: String,
    /// Sent as bearer.
    pub key: Option<String>,
    /// Numbers per vector, requested and expected; by default those of the first answer.
    pub dimensions: Option<usize>,
    /// How long a claim waits for its question's vector.
    pub timeout: Duration,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // An address may contain a token.
        f.debug_struct("Endpoint")
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

/// The model, shared by all parts of a coordinator.
#[derive(Debug, Clone)]
pub struct Embedder(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    endpoint: Endpoint,
    http: reqwest::Client,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    dimensions: Option<usize>,
    questions: Lane,
    entries: Lane,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Entries {
    /// A vector for each text in its order; none for a refused text.
    Vectors(Vec<Option<Vec<f32>>>),
    /// The model failed, or is paused after a failure.
    NotNow,
}

#[derive(Serialize)]
struct Request<'a> {
    model: &'a str,
    input: Vec<&'a str>,
    encoding_format: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<usize>,
}

type LaneOf = fn(&mut State) -> &mut Lane;
const QUESTIONS: LaneOf = |state| &mut state.questions;
const ENTRIES: LaneOf = |state| &mut state.entries;

impl Embedder {
    pub fn new(endpoint: Endpoint) -> anyhow::Result<Self> {
        let http = http::builder()?
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .context("failed to set up HTTP")?;
        let state = State {
            dimensions: endpoint.dimensions,
            ..State::default()
        };
        Ok(Self(Arc::new(Inner {
            endpoint,
            http,
            state: Mutex::new(state),
        })))
    }

    pub fn model(&self) -> &str {
        &self.0.endpoint.model
    }

    /// How long a claim waits for the model.
    pub fn timeout(&self) -> Duration {
        self.0.endpoint.timeout
    }

    /// Numbers per vector: the configured ones, or those of the first answer.
    pub fn dimensions(&self) -> Option<usize> {
        self.state(|state| state.dimensions)
    }

    /// The last error of questions or of entries; none once both succeed again.
    pub fn trouble(&self) -> Option<String> {
        self.state(|state| state.questions.trouble.clone().or(state.entries.trouble.clone()))
    }

    /// The vectors of questions in their order; `None` while the model is paused, fails or exceeds the time.
    pub async fn questions(&self, texts: &[String], within: Duration) -> Option<Vec<Vec<f32>>> {
        if texts.is_empty() || !self.is_open(QUESTIONS) {
            return None;
        }
        let answered = self.post_within(texts, within).await;
        self.note(QUESTIONS, &answered);
        answered.ok()
    }

    /// Whether entries may be sent now.
    pub fn takes_entries(&self) -> bool {
        self.is_open(ENTRIES)
    }

    /// The vectors of entries. After a refusal, sends them one by one, so that a refused one does not block
    /// the others.
    pub async fn entries(&self, texts: &[String]) -> Entries {
        if !self.is_open(ENTRIES) {
            return Entries::NotNow;
        }
        let answered = self.post_within(texts, ENTRIES_WITHIN).await;
        self.note(ENTRIES, &answered);
        match answered {
            Ok(vectors) => return Entries::Vectors(vectors.into_iter().map(Some).collect()),
            Err(Failure::Away { .. }) => return Entries::NotNow,
            Err(Failure::Refused(_)) => {}
        }
        let mut vectors = Vec::with_capacity(texts.len());
        for text in texts {
            let answered = self.post_within(std::slice::from_ref(text), ENTRIES_WITHIN).await;
            self.note(ENTRIES, &answered);
            match answered {
                Ok(one) => vectors.extend(one.into_iter().map(Some)),
                Err(Failure::Refused(why)) => {
                    tracing::warn!(
                        model = self.model(),
                        error = why,
                        "the embeddings' model refused an entry; it stays without a vector"
                    );
                    vectors.push(None);
                }
                Err(Failure::Away { .. }) => return Entries::NotNow,
            }
        }
        Entries::Vectors(vectors)
    }

    fn is_open(&self, lane: LaneOf) -> bool {
        self.state(|state| lane(state).is_open(Instant::now()))
    }

    /// Records the result, and logs a change.
    fn note(&self, lane: LaneOf, answered: &Result<Vec<Vec<f32>>, Failure>) {
        match answered {
            // The model is there, and refuses a text.
            Ok(_) | Err(Failure::Refused(_)) => {
                if self.state(|state| lane(state).answered()) {
                    tracing::info!(model = self.model(), "the embeddings' model answers again");
                }
            }
            Err(Failure::Away { why, pause }) => {
                if self.state(|state| lane(state).failed(Instant::now(), why.clone(), *pause)) {
                    tracing::warn!(
                        model = self.model(),
                        error = why,
                        "the embeddings' model failed; the memory goes on without it"
                    );
                }
            }
        }
    }

    async fn post_within(&self, texts: &[String], within: Duration) -> Result<Vec<Vec<f32>>, Failure> {
        let asked = tokio::time::timeout(within, self.post(texts)).await;
        asked.unwrap_or_else(|_| {
            Err(Failure::away(format!(
                "it gave no answer within {} ms",
                within.as_millis()
            )))
        })
    }

    async fn post(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, Failure> {
        let endpoint = &self.0.endpoint;
        let mut request = self.0.http.post(&endpoint.url).json(&Request {
            model: &endpoint.model,
            input: texts.iter().map(|text| shortened(text)).collect(),
            encoding_format: "float",
            dimensions: endpoint.dimensions,
        });
        if let Some(key) = &endpoint.key {
            request = request.bearer_auth(key);
        }
        // The address may hold a token.
        let broken = |error: reqwest::Error| {
            let error = anyhow::Error::new(error.without_url());
            Failure::away(format!("it can't be reached: {error:#}"))
        };
        let mut response = request.send().await.map_err(broken)?;
        let mut body = Vec::new();
        while let Some(part) = response.chunk().await.map_err(broken)? {
            body.extend_from_slice(&part);
            if body.len() > MOST_BYTES {
                return Err(Failure::away(format!(
                    "its answer is longer than {MOST_BYTES} bytes"
                )));
            }
        }
        if !response.status().is_success() {
            let pause = response.headers().get(RETRY_AFTER);
            return Err(response::refusal(
                response.status().as_u16(),
                pause.and_then(|seconds| seconds.to_str().ok()),
                &body,
                endpoint.key.as_deref(),
            ));
        }
        let (dimensions, vectors) = response::vectors(&body, texts.len(), self.dimensions())?;
        self.state(|state| state.dimensions = Some(dimensions));
        Ok(vectors)
    }

    fn state<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        with(&mut self.0.state.lock())
    }
}

/// The sent part of a text; some models refuse an empty one.
fn shortened(text: &str) -> &str {
    match text.char_indices().nth(TEXT_CHARS) {
        Some((end, _)) => &text[..end],
        None if text.trim().is_empty() => "-",
        None => text,
    }
}
