//! The MCP tools of a dispatch's session.

use std::path::Path;
use std::sync::Arc;

use agent_client_protocol::v1::schema::{EnvVariable, McpServer, McpServerStdio};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use ralph_shared::ids::DispatchId;
use ralph_shared::sigil::SigilName;
use ralph_shared::wire::{Assignment, Call, CallAnswer, SessionCall};
use uuid::Uuid;

use crate::instance::Instance;
use crate::mcp::socket::Socket;
use crate::mcp::tools::{Remote, Toolbox};
use crate::mcp::{KEY, NAME, SOCKET};
use crate::session::{AgentCommand, People, TranscriptSender};

/// A session's tools. Dropping it closes them.
pub struct Offered {
    /// Serves the tools until it is dropped.
    _socket: Socket,
    pub tools: Arc<Toolbox>,
}

/// The key that a session's connections must present.
pub fn key(agent: &AgentCommand, assignment: &Assignment) -> Option<Uuid> {
    // Agents that judge work get no messages and leave nothing but their verdict.
    (agent.tools && SigilName::Question.is_allowed_for(assignment.kind)).then(Uuid::new_v4)
}

/// Opens the tools in a session's folder, and adds them to its agent's MCP servers. If that fails, the
/// session runs without them.
pub fn offer(
    instance: &Arc<Instance>,
    assignment: &Assignment,
    agent: &mut AgentCommand,
    (folder, key): (&Path, Uuid),
    prompt: &str,
    (people, transcript): (Option<People>, TranscriptSender),
) -> Option<Offered> {
    let remote = Box::new(Coordinator {
        instance: Arc::clone(instance),
        dispatch: assignment.dispatch,
    });
    let of = (assignment.kind, assignment.task.short());
    let tools = Arc::new(Toolbox::new(of, prompt.to_owned(), people, transcript, remote));
    let opened = std::env::current_exe()
        .and_then(|program| Ok((program, Socket::open(folder, key, Arc::clone(&tools))?)));
    let (program, socket) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            tools.note(&format!("the session has no tools of Ralph's: {error}"));
            return None;
        }
    };
    let path = socket.path().display().to_string();
    let server = McpServerStdio::new(NAME, program)
        .args(vec!["mcp".to_owned()])
        .env(vec![
            EnvVariable::new(SOCKET, path),
            EnvVariable::new(KEY, key.to_string()),
        ]);
    agent.mcp_servers.push(McpServer::Stdio(server));
    Some(Offered {
        _socket: socket,
        tools,
    })
}

struct Coordinator {
    instance: Arc<Instance>,
    dispatch: DispatchId,
}

impl Remote for Coordinator {
    fn search(&self, query: String) -> BoxFuture<'_, Result<String, String>> {
        let call = SessionCall {
            dispatch: self.dispatch,
            incarnation: self.instance.incarnation,
            call: Call::MemorySearch { query },
        };
        async move {
            match self.instance.broker.session(&call).await {
                Ok(CallAnswer::Found { text }) => Ok(text),
                Ok(CallAnswer::Refused { reason }) => Err(reason),
                Ok(_) => Err("the coordinator is of another release".to_owned()),
                Err(_) => Err("the memory can't be reached now; try again later".to_owned()),
            }
        }
        .boxed()
    }

    fn problem(&self, text: String) -> BoxFuture<'_, Option<String>> {
        async move {
            // Without an answer the graph is checked with the report.
            super::request_check(&self.instance, self.dispatch, text)
                .await
                .unwrap_or_default()
        }
        .boxed()
    }
}
