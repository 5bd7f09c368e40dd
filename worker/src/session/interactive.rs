//! An interactive session: turns until the person leaves.

use std::time::Duration;

use agent_client_protocol::v1::schema::{ContentBlock, PromptRequest, TextContent};
use ralph_shared::wire::Ended;
use serde_json::Value;

use super::conversation::{Bounds, Conversation, RpcResult};
use super::people::now;
use super::run::words;
use super::spec::SessionSpec;
use crate::session::operator::{Operator, OperatorInput, Turn};
use crate::session::protocol::handshake::{self, Break, refused};
use crate::session::script::record_start;

/// Longest stop reason in a message. Bytes.
const REASON_BYTES: usize = 100;

/// Runs turns until the person leaves or the conversation ends.
pub(super) async fn run(
    spec: &SessionSpec,
    person: &mut Operator,
    conversation: &mut Conversation<'_>,
) -> Result<Ended, Break> {
    let opened = handshake::perform(spec, conversation).await?;
    record_start(spec, conversation, opened.model.clone());
    let session = opened.session;
    let capabilities = conversation.record().introduction.capabilities;
    let mut trouble = None;
    loop {
        let turn = Turn {
            session: session.clone(),
            can_resume: capabilities.resume || capabilities.load,
            trouble,
        };
        // The receiver may be gone. Then no more input comes either.
        let _ = person.turns.send(turn);
        let input = loop {
            match conversation.meanwhile(person.input.recv()).await? {
                // Nothing runs between turns, so there is nothing to cancel.
                Some(OperatorInput::Cancel) => {}
                input => break input,
            }
        };
        trouble = match input {
            None | Some(OperatorInput::Leave | OperatorInput::Cancel) => break,
            Some(OperatorInput::Prompt(text)) => {
                let (answer, leaves) = prompt(spec, person, conversation, &session, text).await?;
                let trouble = ended(conversation, answer);
                if leaves {
                    break;
                }
                trouble
            }
        };
    }
    Ok(Ended::Turn {
        stop_reason: "end_turn".to_owned(),
    })
}

/// Runs one turn. Returns its answer, and whether the person left meanwhile.
async fn prompt(
    spec: &SessionSpec,
    person: &mut Operator,
    conversation: &mut Conversation<'_>,
    session: &str,
    text: String,
) -> Result<(RpcResult, bool), Break> {
    conversation.record().prompted(&text);
    let content = vec![ContentBlock::Text(TextContent::new(text))];
    let request = PromptRequest::new(session.to_owned(), content);
    conversation.begin_turn();
    let id = conversation.request("session/prompt", &request);
    let mut bounds = Bounds::Session(None);
    let mut leaves = false;
    loop {
        let input = tokio::select! {
            biased;
            input = person.input.recv(), if !leaves => input,
            answer = conversation.response(id, bounds) => return Ok((answer?, leaves)),
        };
        match input {
            Some(OperatorInput::Prompt(_)) => continue,
            Some(OperatorInput::Cancel) => {}
            None | Some(OperatorInput::Leave) => leaves = true,
        }
        conversation.cancel_turn(session);
        let grace = Duration::from_millis(spec.limits.grace_ms);
        bounds = Bounds::Session(Some(now() + grace));
    }
}

/// Records the answer to a prompt. Returns a message for the person if something went wrong.
fn ended(conversation: &mut Conversation<'_>, answer: RpcResult) -> Option<String> {
    let record = conversation.record();
    let trouble = match answer {
        Ok(answer) => {
            record.answered(&answer);
            match answer.get("stopReason").and_then(Value::as_str) {
                Some("end_turn") => None,
                Some(reason) => Some(format!(
                    "the turn ended: {}",
                    record.transcript.redacted(reason, REASON_BYTES)
                )),
                None => Some("the turn ended without a reason".to_owned()),
            }
        }
        Err(error) => Some(words(&refused("the prompt", &error))),
    };
    record.transcript.flush();
    trouble.map(|trouble| record.transcript.redactor().text(&trouble))
}
