//! The person of an interactive session: what they say, and what they get to hear besides the transcript.

use agent_client_protocol::v1::schema::PermissionOption;
use tokio::sync::{mpsc, oneshot};

/// What a person says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperatorInput {
    Prompt(String),
    /// The turn is to be cancelled; the session goes on.
    Cancel,
    /// The session is to end.
    Leave,
}

/// The end of a turn, or of the handshake: the person may say something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// The agent's id of the session.
    pub session: String,
    /// Whether the agent can go on with it later.
    pub can_resume: bool,
    /// How the turn ended, in words, when it did not end as turns do.
    pub trouble: Option<String>,
}

/// A permission that an agent asks for.
#[derive(Debug)]
pub struct Question {
    /// What it is about.
    pub title: String,
    /// What can be answered.
    pub options: Vec<PermissionOption>,
    /// Where the number of the chosen option goes; dropped, the request is answered as cancelled.
    pub answer: oneshot::Sender<usize>,
}

/// The session's channels to its operator.
#[derive(Debug)]
pub struct Operator {
    /// The operator's input; the session ends with the last sender.
    pub input: mpsc::Receiver<OperatorInput>,
    /// Who hears that a turn is over.
    pub turns: mpsc::UnboundedSender<Turn>,
    /// Who answers permission requests; by policy alone when `None`.
    pub questions: Option<mpsc::UnboundedSender<Question>>,
}
