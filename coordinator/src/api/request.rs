//! Bodies, queries and paths whose refusal is a problem document like every other error.

use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::problem::Problem;
use crate::store::view::{Cursor, MAX_PAGE};

/// The largest body: a graph of 100,000 tasks with their descriptions (SPEC 2.6).
pub const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;
/// Items of a page when the request doesn't say.
const DEFAULT_PAGE: i64 = 100;

/// A JSON body. An empty one reads as `{}`.
#[derive(Debug)]
pub struct Body<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let bytes = Bytes::from_request(request, state)
            .await
            .map_err(|_| Problem::too_large(MAX_BODY_BYTES))?;
        let text: &[u8] = if bytes.iter().all(u8::is_ascii_whitespace) {
            b"{}"
        } else {
            &bytes
        };
        serde_json::from_slice(text).map(Self).map_err(|error| {
            Problem::invalid(format!(
                "the body is not the JSON that this address takes: {error}"
            ))
        })
    }
}

/// What stands behind the `?`.
#[derive(Debug)]
pub struct Asked<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        Query::<T>::from_request_parts(parts, state)
            .await
            .map(|Query(value)| Self(value))
            .map_err(|error| Problem::invalid(format!("the query can't be read: {}", error.body_text())))
    }
}

/// The parts of the path that stand for something.
#[derive(Debug)]
pub struct At<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for At<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        Path::<T>::from_request_parts(parts, state)
            .await
            .map(|Path(value)| Self(value))
            .map_err(|error| Problem::invalid(format!("the address can't be read: {}", error.body_text())))
    }
}

/// The part of a list that is asked for.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PageQuery {
    /// Items, at most; 100 when it isn't given.
    #[serde(default)]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<i64>,
    /// `next` of the page before.
    #[serde(default)]
    pub cursor: Option<String>,
}

impl PageQuery {
    /// Where the page begins and how long it is.
    ///
    /// # Errors
    /// When the cursor is none of ours or the limit is out of bounds.
    pub fn bounds(&self) -> Result<(Cursor, i64), Problem> {
        let limit = self.limit.unwrap_or(DEFAULT_PAGE);
        if !(1..=MAX_PAGE).contains(&limit) {
            return Err(Problem::invalid(format!("`limit` is 1 to {MAX_PAGE}")));
        }
        let cursor = Cursor::parse(self.cursor.as_deref())
            .ok_or_else(|| Problem::invalid("`cursor` must be the `next` of an earlier page"))?;
        Ok((cursor, limit))
    }
}

/// Reads words with commas between them.
///
/// # Errors
/// When a word is none of `T`'s; the message names the words that are.
pub fn words<T: DeserializeOwned>(what: &str, text: Option<&str>, known: &[&str]) -> Result<Vec<T>, Problem> {
    text.unwrap_or_default()
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
        .map(|word| {
            serde_json::from_value(serde_json::Value::String(word.to_owned())).map_err(|_| {
                Problem::invalid(format!(
                    "`{word}` is no {what}; expected one of: {}",
                    known.join(", ")
                ))
            })
        })
        .collect()
}
