//! Content of updates as text for the transcript.

use std::time::Duration;

use agent_client_protocol::v1::schema::{ContentBlock, Diff, ToolCallContent};
use ralph_shared::wire::TranscriptUpdate;
use serde::Serialize;
use serde_json::Value;
use similar::TextDiff;

use crate::session::transcript::TranscriptSender;

/// Longest stored title, plan entry or id. Bytes.
pub const TITLE_BYTES: usize = 300;

/// Longest stored input or output of a tool. Bytes.
pub const TOOL_BYTES: usize = 8 * 1024;

/// Time limit for a minimal diff. After that a longer one will do.
const DIFF_TIME: Duration = Duration::from_millis(20);

const DIFF_CONTEXT_LINES: usize = 2;

/// Records an update verbatim: its kind and the rest.
pub(in crate::session) fn raw_update(transcript: &TranscriptSender, params: &str) -> TranscriptUpdate {
    let mut params: Value = serde_json::from_str(params).unwrap_or_default();
    let update = params.get_mut("update").and_then(Value::as_object_mut);
    let mut update = update.map(std::mem::take).unwrap_or_default();
    let kind = update.remove("sessionUpdate").unwrap_or_default();
    TranscriptUpdate::Session {
        kind: transcript.redacted(&json_words(&kind), TITLE_BYTES),
        text: transcript.redacted(&Value::Object(update).to_string(), TOOL_BYTES),
    }
}

pub(in crate::session) fn words(content: &ContentBlock) -> String {
    match content {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::ResourceLink(link) => format!("[{}]({})", link.name, link.uri),
        ContentBlock::Image(_) => "[image]".to_owned(),
        ContentBlock::Audio(_) => "[audio]".to_owned(),
        _ => "[resource]".to_owned(),
    }
}

/// Content of a tool call as text.
pub(in crate::session) fn tool_words(content: &ToolCallContent) -> String {
    match content {
        ToolCallContent::Content(content) => words(&content.content),
        ToolCallContent::Diff(diff) => changes(diff),
        ToolCallContent::Terminal(terminal) => format!("[terminal {}]", terminal.terminal_id.0),
        _ => "[content]".to_owned(),
    }
}

/// Removed and added lines of a diff, with some context.
fn changes(diff: &Diff) -> String {
    let path = diff.path.display();
    let Some(old) = &diff.old_text else {
        return format!("wrote {path}\n{}", diff.new_text);
    };
    let diff = TextDiff::configure()
        .timeout(DIFF_TIME)
        .diff_lines(old.as_str(), diff.new_text.as_str());
    let hunks = diff.unified_diff().context_radius(DIFF_CONTEXT_LINES).to_string();
    format!("changed {path}\n{hunks}")
}

/// JSON as text. A string stands for itself.
pub(in crate::session) fn json_words(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The protocol's name of a unit variant.
pub(in crate::session) fn name(variant: &impl Serialize) -> String {
    serde_json::to_value(variant).map_or_else(|_| String::new(), |value| json_words(&value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_diff_shows_changed_lines_with_context() {
        let shown = |old: Option<&str>| {
            let diff =
                json!({ "type": "diff", "path": "/w/a", "oldText": old, "newText": "1\n2\n3\nfour\n5\n" });
            tool_words(&serde_json::from_value(diff).unwrap())
        };
        assert_eq!(shown(None), "wrote /w/a\n1\n2\n3\nfour\n5\n");
        assert_eq!(
            shown(Some("1\n2\n3\n4\n5\n")),
            "changed /w/a\n@@ -2,4 +2,4 @@\n 2\n 3\n-4\n+four\n 5\n"
        );
    }
}
