//! The person of an interactive session: their input, and the events that they see besides the transcript.

use agent_client_protocol::v1::schema::PermissionOption;
use tokio::sync::{mpsc, oneshot};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperatorInput {
    Prompt(String),
    /// Cancels the turn; the session goes on.
    Cancel,
    Leave,
}

/// The end of a turn or of the handshake: the person may now enter a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    pub session: String,
    /// Whether the agent can resume the session later.
    pub can_resume: bool,
    /// Message about the turn if it ended abnormally.
    pub trouble: Option<String>,
}

/// A permission request of an agent.
#[derive(Debug)]
pub struct Question {
    pub title: String,
    pub options: Vec<PermissionOption>,
    /// Sends the index of the chosen option. Dropping it cancels the request.
    pub answer: oneshot::Sender<usize>,
}

/// The session's channels to its operator.
#[derive(Debug)]
pub struct Operator {
    /// The operator's input. The session ends when the last sender is dropped.
    pub input: mpsc::Receiver<OperatorInput>,
    /// Receives the end of each turn.
    pub turns: mpsc::UnboundedSender<Turn>,
    /// Receives permission requests. `None`: the policy alone answers them.
    pub questions: Option<mpsc::UnboundedSender<Question>>,
}
