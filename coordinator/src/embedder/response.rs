//! Validates a model's answer: vectors of length 1, or an error.

use std::time::Duration;

use serde::Deserialize;

/// Numbers that a vector may have.
pub(super) const MOST_DIMENSIONS: usize = 8_192;
/// Longest quoted part of a response. Characters.
const QUOTED_CHARS: usize = 200;

/// Why there are no vectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// It refuses one of these texts; it may accept others.
    Refused(String),
    /// It does not work now, whatever the texts.
    Away {
        why: String,
        /// The pause that it asks for.
        pause: Option<Duration>,
    },
}

impl Failure {
    pub(super) fn away(why: impl Into<String>) -> Self {
        Self::Away {
            why: why.into(),
            pause: None,
        }
    }
}

#[derive(Deserialize)]
struct Response {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    index: usize,
    embedding: Vec<f32>,
}

/// The error of an unsuccessful answer. Quotes a short `body`, without the key, which some servers repeat.
pub(super) fn refusal(status: u16, retry_after: Option<&str>, body: &[u8], key: Option<&str>) -> Failure {
    let mut words: String = String::from_utf8_lossy(body).into_owned();
    if let Some(key) = key.filter(|key| !key.is_empty()) {
        words = words.replace(key, "(key)");
    }
    let words: String = words
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(QUOTED_CHARS)
        .collect();
    let why = match status {
        // Some servers also repeat parts of keys.
        401 | 403 => format!("it answered {status}: memory.embeddings.key is not accepted"),
        404 => format!("it answered {status}: there is nothing at memory.embeddings.url"),
        _ => format!("it answered {status}: {words}"),
    };
    match status {
        400 | 413 | 422 => Failure::Refused(why),
        _ => Failure::Away {
            why,
            pause: retry_after
                .and_then(|seconds| seconds.trim().parse().ok())
                .map(Duration::from_secs),
        },
    }
}

/// The vectors of `asked` texts in their order, each of length 1 and of `dimensions` numbers.
pub(super) fn vectors(
    body: &[u8],
    asked: usize,
    dimensions: Option<usize>,
) -> Result<(usize, Vec<Vec<f32>>), Failure> {
    let answer: Response = serde_json::from_slice(body)
        .map_err(|error| Failure::away(format!("its answer is not of the OpenAI form: {error}")))?;
    let mut items = answer.data;
    items.sort_by_key(|item| item.index);
    let in_order = items.iter().enumerate().all(|(at, item)| item.index == at);
    if !in_order || items.len() != asked {
        return Err(Failure::away(format!(
            "it answered {} vectors for {asked} texts",
            items.len()
        )));
    }
    let wanted = dimensions.unwrap_or_else(|| items.first().map_or(0, |item| item.embedding.len()));
    let mut vectors = Vec::with_capacity(asked);
    for item in items {
        let found = item.embedding.len();
        if found != wanted || !(1..=MOST_DIMENSIONS).contains(&found) {
            return Err(Failure::away(format!(
                "it answered a vector of {found} dimensions, expected {wanted}"
            )));
        }
        let vector =
            unit(item.embedding).ok_or_else(|| Failure::away("it answered a vector without a direction"))?;
        vectors.push(vector);
    }
    Ok((wanted, vectors))
}

/// The same direction with length 1.
fn unit(mut vector: Vec<f32>) -> Option<Vec<f32>> {
    let length = vector.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
    if !length.is_finite() || length == 0.0 {
        return None;
    }
    for x in &mut vector {
        *x = (f64::from(*x) / length) as f32;
    }
    Some(vector)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_come_in_the_order_of_the_texts_with_length_one() {
        let body =
            br#"{"object":"list","data":[{"index":1,"embedding":[0,2]},{"index":0,"embedding":[3,4]}]}"#;
        assert_eq!(
            vectors(body, 2, None),
            Ok((2, vec![vec![0.6, 0.8], vec![0.0, 1.0]]))
        );
    }

    #[test]
    fn the_error_of_an_invalid_answer_says_why() {
        let check = |body: &str, dimensions, words: &str| match vectors(body.as_bytes(), 1, dimensions) {
            Err(Failure::Away { why, .. }) => assert!(why.contains(words), "{why}"),
            other => panic!("{body}: {other:?}"),
        };
        check("", None, "OpenAI form");
        check(r#"{"vectors":[]}"#, None, "OpenAI form");
        check(r#"{"data":[]}"#, None, "0 vectors for 1 texts");
        check(
            r#"{"data":[{"index":7,"embedding":[1]}]}"#,
            None,
            "1 vectors for 1 texts",
        );
        check(
            r#"{"data":[{"index":0,"embedding":[1]}]}"#,
            Some(2),
            "1 dimensions, expected 2",
        );
        check(r#"{"data":[{"index":0,"embedding":[]}]}"#, None, "0 dimensions");
        check(r#"{"data":[{"index":0,"embedding":[0,0]}]}"#, None, "direction");
        // Whether such a number can be read depends on serde_json's features.
        check(r#"{"data":[{"index":0,"embedding":[1e300,0]}]}"#, None, "");
    }

    #[test]
    fn only_errors_about_texts_are_refusals_and_keys_are_hidden() {
        for (status, refused) in [
            (400, true),
            (413, true),
            (422, true),
            (401, false),
            (404, false),
            (429, false),
            (500, false),
            (503, false),
        ] {
            let failure = refusal(status, Some("7"), b"wrong key sesame\n", Some("sesame"));
            let why = match &failure {
                Failure::Refused(why) => why,
                Failure::Away { why, pause } => {
                    assert_eq!(*pause, Some(Duration::from_secs(7)));
                    why
                }
            };
            assert_eq!(matches!(failure, Failure::Refused(_)), refused, "{status}");
            assert!(
                why.contains(&status.to_string()) && !why.contains("sesame"),
                "{why}"
            );
        }
    }
}
