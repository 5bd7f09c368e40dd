//! Reads a report's message: makes it readable, hands it back, or sets it aside.

use ralph_shared::ids::DispatchId;
use ralph_shared::wire::{Finished, READS, Report, Text, TextError};
use serde::Deserialize as _;
use sqlx::PgPool;

use crate::flow::apply::{Incoming, Sender};
use crate::store;

/// The content of a message on the reports' subject.
#[derive(Debug)]
pub enum IncomingMessage {
    /// A report that can be applied.
    Report(Box<Incoming>),
    /// A report for a later release, or one whose text is not there yet: handed back with a delay.
    Later {
        dispatch: Option<DispatchId>,
        reason: String,
    },
    /// No report, now or ever.
    Never {
        /// The dispatch that it names, if any.
        dispatch: Option<DispatchId>,
        /// The sender that it names, if any.
        sender: Option<Sender>,
        reason: String,
    },
}

/// Reads a message. Replaces NUL and invalid UTF-8; `last_try` stops waiting for a text in parts.
pub async fn read(db: &PgPool, payload: &[u8], last_try: bool) -> sqlx::Result<IncomingMessage> {
    if let Some(report) = as_written(payload) {
        return with_text(db, report, last_try).await;
    }
    let text = String::from_utf8_lossy(payload);
    let mut value: serde_json::Value = match serde_json::from_str(&text) {
        Ok(value) => value,
        Err(error) => return Ok(never(None, None, format!("it is not JSON: {error}"))),
    };
    let dispatch = value
        .get("dispatch")
        .and_then(|id| DispatchId::deserialize(id).ok());
    let sender = Sender::deserialize(&value).ok();
    let version = value.get("v").and_then(serde_json::Value::as_u64);
    match version {
        Some(v) if READS.iter().any(|&known| u64::from(known) == v) => {}
        Some(v) => {
            let reason = format!("its version {v} is not one of {READS:?}");
            return Ok(IncomingMessage::Later { dispatch, reason });
        }
        None => return Ok(never(dispatch, sender, "it has no version".to_owned())),
    }
    replace_nul(&mut value);
    let report: Report = match serde_json::from_value(value) {
        Ok(report) => report,
        Err(error) => return Ok(never(dispatch, sender, format!("it is not a report: {error}"))),
    };
    with_text(db, report, last_try).await
}

/// The usual case: a report of this release without NUL, parsed directly.
fn as_written(payload: &[u8]) -> Option<Report> {
    let text = std::str::from_utf8(payload).ok()?;
    if text.contains("\\u0000") {
        return None;
    }
    let report: Report = serde_json::from_str(text).ok()?;
    READS.contains(&report.v).then_some(report)
}

async fn with_text(db: &PgPool, report: Report, last_try: bool) -> sqlx::Result<IncomingMessage> {
    let text = match &report.finished {
        Finished::Session(session) => match &session.text {
            Text::Inline(text) => text.clone(),
            Text::Parts { sha256, .. } => {
                let mut conn = db.acquire().await?;
                match store::blob::text(&mut conn, sha256).await? {
                    Ok(text) if text.contains('\0') => text.replace('\0', "\u{fffd}"),
                    Ok(text) => text,
                    Err(error @ TextError::TooLong { .. }) => {
                        let sender = Sender::from(&report);
                        return Ok(never(Some(report.dispatch), Some(sender), error.to_string()));
                    }
                    Err(error) if last_try => {
                        tracing::warn!(%error, dispatch = %report.dispatch, "applied without its text");
                        String::new()
                    }
                    Err(error) => {
                        return Ok(IncomingMessage::Later {
                            dispatch: Some(report.dispatch),
                            reason: error.to_string(),
                        });
                    }
                }
            }
        },
        Finished::Integration(_) => String::new(),
    };
    Ok(IncomingMessage::Report(Box::new(Incoming::new(report, text))))
}

fn never(dispatch: Option<DispatchId>, sender: Option<Sender>, reason: String) -> IncomingMessage {
    IncomingMessage::Never {
        dispatch,
        sender,
        reason,
    }
}

/// Postgres accepts no NUL in a text.
fn replace_nul(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::String(text) if text.contains('\0') => *text = text.replace('\0', "\u{fffd}"),
        serde_json::Value::Array(items) => items.iter_mut().for_each(replace_nul),
        serde_json::Value::Object(fields) => fields.values_mut().for_each(replace_nul),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_report_that_needs_no_repair_is_taken_as_written() {
        let report = |v: u32, reason: &str| {
            format!(
                r#"{{"v":{v},"dispatch":"{id}","worker":"w","incarnation":"{id}","duration_ms":1,"finished":
                    {{"finished":"integration","end":{{"integration":"void","reason":"{reason}"}}}}}}"#,
                id = uuid::Uuid::nil()
            )
        };
        assert!(as_written(report(1, "a").as_bytes()).is_some());
        assert!(as_written(report(1, "a\\u0000b").as_bytes()).is_none());
        assert!(as_written(report(65_000, "a").as_bytes()).is_none());
        assert!(as_written(&[report(1, "a").as_bytes(), b"\xff"].concat()).is_none());
    }

    #[test]
    fn nul_is_replaced_everywhere() {
        let mut value = serde_json::json!({"a": ["x\u{0}y", {"b": "\u{0}"}], "c": 1});
        replace_nul(&mut value);
        assert_eq!(
            value,
            serde_json::json!({"a": ["x\u{fffd}y", {"b": "\u{fffd}"}], "c": 1})
        );
    }
}
