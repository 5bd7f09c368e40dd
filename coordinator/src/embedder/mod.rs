//! A client of an embedding model, over HTTP in the OpenAI form (`[memory.embeddings]`, SPEC 6.5).
//!
//! Nothing depends on it: a caller gets nothing while the model is away, slow or wrong, and continues
//! without. After a failure the model is paused, so that no claim waits for it twice. Questions and entries
//! have separate lanes: a model that is too slow for a claim may be fast enough for the background, and vice
//! versa.
//!
//! [`Embedder`] asks, `response` validates. `crate::domain::recall` uses the vectors.

mod client;
mod lane;
mod response;

pub use client::{Embedder, Endpoint, Entries};
