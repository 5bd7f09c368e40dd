//! Extractors of bodies, queries and paths, whose errors are problem documents.

use std::sync::LazyLock;
use std::time::Duration;

use axum::body::to_bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::Extensions;
use axum::http::request::Parts;
use bytes::Bytes;
use ralph_shared::at_length::by_length;
use regex::Regex;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::problem::Problem;
use crate::store::view::{Cursor, MAX_PAGE};

/// Largest body: a graph of 100,000 tasks with descriptions (SPEC 2.6).
pub const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;
/// Largest body of a memory search: a thousand queries with their context.
pub const MAX_QUESTION_BYTES: usize = 8 * 1024 * 1024;
/// Most whitespace before the JSON of a body. Bytes.
const MAX_BLANKS: usize = 64 * 1024;
/// Largest body in which `5.0` counts as a whole number. Bytes.
const MAX_READ_AGAIN: usize = 1024 * 1024;
/// 2^53: below it, a floating-point number represents every whole number exactly.
const EXACT: f64 = 9_007_199_254_740_992.0;
/// Default number of items per page.
const DEFAULT_PAGE: i64 = 100;

/// A JSON body. An empty one reads as `{}`.
#[derive(Debug)]
pub struct Body<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        read(&whole(&parts.extensions, body, MAX_BODY_BYTES).await?).map(Self)
    }
}

/// The JSON body of a query, which every token may send.
#[derive(Debug)]
pub struct Question<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Question<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        read(&whole(&parts.extensions, body, MAX_QUESTION_BYTES).await?).map(Self)
    }
}

/// Time limit of a request's body.
#[derive(Debug, Clone, Copy)]
pub struct BodyWithin(pub Duration);

/// Reads a request's body to its end.
///
/// # Errors
/// When it exceeds `most` bytes, breaks off, or takes too long.
pub async fn whole(extensions: &Extensions, body: axum::body::Body, most: usize) -> Result<Bytes, Problem> {
    let within = extensions.get::<BodyWithin>();
    let within = within.map_or(Duration::MAX, |BodyWithin(within)| *within);
    match tokio::time::timeout(within, to_bytes(body, most)).await {
        Ok(read) => read.map_err(|_| Problem::too_large(most)),
        Err(_) => Err(Problem::too_slow(within)),
    }
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    by_length(bytes.len(), || read_whole(bytes))
}

fn read_whole<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let begin = bytes
        .iter()
        .take(MAX_BLANKS + 1)
        .position(|byte| !byte.is_ascii_whitespace());
    let text: &[u8] = match begin {
        Some(begin) => &bytes[begin..],
        None if bytes.len() <= MAX_BLANKS => b"{}",
        None => {
            return Err(Problem::invalid(format!(
                "the body begins with more than {MAX_BLANKS} bytes of whitespace; remove them"
            )));
        }
    };
    serde_json::from_slice(text).or_else(|error: serde_json::Error| {
        // Parsed JSON values take up to thirty times the memory of the text.
        let again = error.is_data() && text.len() <= MAX_READ_AGAIN;
        let again = again.then(|| read_whole_numbers(text)).flatten();
        again.ok_or_else(|| Problem::invalid(wrong::<T>(text)))
    })
}

/// The error of a body: the field, and the values that the field accepts.
fn wrong<T: DeserializeOwned>(text: &[u8]) -> String {
    let mut reader = serde_json::Deserializer::from_slice(text);
    let read: Result<T, _> = serde_path_to_error::deserialize(&mut reader);
    let (field, error) = match read {
        Ok(_) => match reader.end() {
            Ok(()) => return "the body can't be read".to_owned(),
            Err(error) => (String::new(), error),
        },
        Err(error) => (error.path().to_string(), error.into_inner()),
    };
    let words = in_json_words(&error.to_string());
    match field.as_str() {
        "" | "." => format!("the body is not the JSON that this address accepts: {words}"),
        field => format!("the body is not the JSON that this address accepts: at `{field}`: {words}"),
    }
}

/// The parser's message, with JSON's terms instead of Rust's.
fn in_json_words(error: &str) -> String {
    static NAMES: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
        let names = [
            (
                r"internally tagged enum \w+|adjacently tagged enum \w+|(tuple |unit |newtype )?struct \w+|a map\b",
                "an object",
            ),
            (r"any variant of untagged enum \w+", "any accepted form"),
            (
                r"(a |string or )?(enum \w+|variant identifier|unit variant \S+)",
                "one of the accepted words",
            ),
            (r"(a )?(sequence|tuple variant \S+|tuple of size \d+)", "a list"),
            (r"\b(a )?u(8|16|32|64|size)\b", "a whole number from 0"),
            (r"\b(an? )?i(8|16|32|64|size)\b|\binteger\b", "a whole number"),
            (r"\b(a )?(f32|f64|floating point)\b", "a number"),
            (r"unknown variant", "unknown word"),
            (r"unit value", "null"),
        ];
        let compiled = names
            .into_iter()
            .map(|(pattern, word)| Some((Regex::new(pattern).ok()?, word)));
        compiled.flatten().collect()
    });
    // Text between quotes comes from the request and stays unchanged.
    let parts = error.split_inclusive(['"', '`']).enumerate();
    let parts = parts.map(|(n, part)| match n % 2 {
        0 => NAMES.iter().fold(part.to_owned(), |text, (pattern, word)| {
            pattern.replace_all(&text, *word).into_owned()
        }),
        _ => part.to_owned(),
    });
    parts.collect()
}

/// Parses numbers such as `5.0` as integers, if there are any: JSON Schema counts them as integers, but serde
/// does not.
fn read_whole_numbers<T: DeserializeOwned>(text: &[u8]) -> Option<T> {
    let mut body = serde_json::from_slice(text).ok()?;
    if !make_whole(&mut body) {
        return None;
    }
    serde_json::from_value(body).ok()
}

fn make_whole(value: &mut Value) -> bool {
    match value {
        Value::Object(fields) => fields
            .values_mut()
            .fold(false, |changed, field| make_whole(field) | changed),
        Value::Array(items) => items
            .iter_mut()
            .fold(false, |changed, item| make_whole(item) | changed),
        Value::Number(number) if number.is_f64() => {
            let whole = number.as_f64().filter(|n| n.fract() == 0.0 && n.abs() < EXACT);
            whole.is_some_and(|n| {
                // The conversion is exact within these bounds.
                *value = Value::from(n as i64);
                true
            })
        }
        _ => false,
    }
}

/// The query parameters.
#[derive(Debug)]
pub struct QueryParams<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for QueryParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        Query::<T>::from_request_parts(parts, state)
            .await
            .map(|Query(value)| Self(value))
            .map_err(|error| Problem::invalid(format!("the query can't be read: {}", error.body_text())))
    }
}

/// The named parameters of a path.
#[derive(Debug)]
pub struct PathParams<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for PathParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        Path::<T>::from_request_parts(parts, state)
            .await
            .map(|Path(value)| Self(value))
            .map_err(|error| Problem::invalid(format!("the address can't be read: {}", error.body_text())))
    }
}

/// The requested page of a list.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PageQuery {
    /// Most items of the page; 100 when omitted.
    #[serde(default)]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<i64>,
    /// `next` of the previous page.
    #[serde(default)]
    #[param(pattern = "^[0-9a-f]{32}$")]
    pub cursor: Option<String>,
}

impl PageQuery {
    /// The start and the length of a page.
    ///
    /// # Errors
    /// When the cursor is unreadable or the limit is out of bounds.
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

/// Parses words separated by commas.
///
/// # Errors
/// When a word is not one of `T`'s; the message lists the `known` words.
pub fn words<T: DeserializeOwned>(what: &str, text: Option<&str>, known: &[&str]) -> Result<Vec<T>, Problem> {
    text.unwrap_or_default()
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
        .map(|word| {
            serde_json::from_value(serde_json::Value::String(word.to_owned())).map_err(|_| {
                Problem::invalid(format!(
                    "`{word}` is not a {what}; expected one of: {}",
                    known.join(", ")
                ))
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Sample {
        n: i32,
        items: Vec<u8>,
    }

    fn check(body: &Value, expected: Option<(i32, &[u8])>) {
        let expected = expected.map(|(n, items)| Sample {
            n,
            items: items.to_vec(),
        });
        assert_eq!(
            read_whole_numbers(body.to_string().as_bytes()),
            expected,
            "{body}"
        );
    }

    #[test]
    fn an_error_names_fields_but_no_rust_types() {
        let check = |error: &str, expected: &str| assert_eq!(in_json_words(error), expected);
        check(
            "invalid type: string \"struct X\", expected struct RepoRef at line 1 column 9",
            "invalid type: string \"struct X\", expected an object at line 1 column 9",
        );
        check(
            "invalid type: map, expected a sequence",
            "invalid type: map, expected a list",
        );
        check(
            "invalid type: string \"x\", expected i32",
            "invalid type: string \"x\", expected a whole number",
        );
        check(
            "invalid type: integer `5`, expected string or map",
            "invalid type: a whole number `5`, expected string or map",
        );
        check(
            "invalid value: integer `-1`, expected u64",
            "invalid value: a whole number `-1`, expected a whole number from 0",
        );
        check(
            "data did not match any variant of untagged enum Shape",
            "data did not match any accepted form",
        );
        let error = wrong::<Sample>(br#"{"n": 1, "items": [1, "x"]}"#);
        assert!(
            error.contains("at `items[1]`: invalid type: string \"x\", expected a whole number"),
            "{error}"
        );
    }

    #[test]
    fn a_whole_number_in_floating_point_form_is_an_integer() {
        check(&json!({"n": -5.0, "items": [1, 2.0]}), Some((-5, &[1, 2])));
        check(&json!({"n": 5.5, "items": []}), None);
        check(&json!({"n": 1e300, "items": []}), None);
        check(&json!({"n": 5, "items": []}), None);
    }
}
