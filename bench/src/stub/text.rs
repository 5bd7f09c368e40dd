//! Text of a simulated session: 2 KB with a journal entry and a learning.

use std::sync::LazyLock;

use ralph_shared::ids::{DispatchId, Incarnation, TaskId};
use ralph_shared::wire::{Ended, Finished, Report, SessionReport, Text, Usage, WRITES};

/// Length of the whole text. Bytes.
const TEXT_BYTES: usize = 2048;

/// Meaningless words, enough for any text.
static FILLER: LazyLock<String> =
    LazyLock::new(|| "I read the module, changed the function and ran its tests again.\n".repeat(40));

/// The text of a session that did its task.
pub fn text(task: TaskId) -> String {
    let sigils = format!(
        "<journal>Kept the parser as it was and moved the limit into the reader, since both callers need it.</journal>\n\
         <learning category=\"pitfall\" tags=\"parser, limits\">The reader counts bytes and the parser characters; \
         compare them only after decoding. Seen at {task}.</learning>\n\
         <task-done>{task}</task-done>\n"
    );
    let room = TEXT_BYTES.saturating_sub(sigils.len());
    format!("{}{sigils}", &FILLER[..room])
}

/// The report of a session that did its task.
pub fn report(
    worker: &str,
    incarnation: Incarnation,
    dispatch: DispatchId,
    task: TaskId,
    duration_ms: u64,
) -> Report {
    Report {
        v: WRITES,
        dispatch,
        worker: worker.to_owned(),
        incarnation,
        duration_ms,
        finished: Finished::Session(Box::new(SessionReport {
            text: Text::Inline(text(task)),
            usage: Usage {
                input_tokens: Some(12_000),
                output_tokens: Some(700),
                cost_usd: Some(0.01),
                ..Usage::default()
            },
            tool_calls: 7,
            ..SessionReport::new(Ended::Turn {
                stop_reason: "end_turn".to_owned(),
            })
        })),
    }
}

#[cfg(test)]
mod tests {
    use ralph_shared::kind::SessionKind;
    use ralph_shared::sigil::{self, Context};

    use super::*;

    #[test]
    fn the_text_parses_without_malformed_sigils() {
        let task = TaskId::new();
        let text = text(task);
        let short = task.short();
        let context = Context {
            kind: SessionKind::Work,
            task_id: &short,
            model_tiers: &[],
        };
        let sigils = sigil::parse(&text, &context);
        assert_eq!(text.len(), TEXT_BYTES);
        assert!(sigils.journal.is_some());
        assert_eq!(sigils.learnings.len(), 1);
        assert_eq!(sigils.malformed, 0);
    }
}
