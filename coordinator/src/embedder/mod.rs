//! An outside model that turns texts into vectors, asked over HTTP in the OpenAI form (`[memory.embeddings]`, SPEC 6.5).
//!
//! Nothing depends on it: whoever asks gets nothing while it is away, slow, or answers what makes no sense, and goes on without.
//! After a failure it is left alone for a while, so that no claim waits for it twice. Questions and entries are asked in lanes
//! of their own: a model that is too slow for a claim may still be quick enough for the background, and the other way round.
//!
//! [`Embedder`] asks, `answer` says what an answer is worth. What becomes of vectors is decided in `crate::domain::recall`.

mod answer;
mod client;
mod lane;

pub use client::{Embedder, Endpoint, Entries};
