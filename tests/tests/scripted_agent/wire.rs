//! The agent's raw lines.

use std::path::Path;
use std::process::{ExitStatus, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::{AGENT, DEADLINE, prompt};

/// Id of the prompt's request.
pub const PROMPT: u64 = 3;

/// A running agent and its pipes.
pub struct Wire {
    pub child: Child,
    pub input: Option<ChildStdin>,
    pub output: Option<BufReader<ChildStdout>>,
    pub session: String,
}

impl Wire {
    pub fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(AGENT)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let output = child.stdout.take().map(BufReader::new);
        Self {
            child,
            input,
            output,
            session: String::new(),
        }
    }

    /// Starts an agent and sends it a prompt with this description.
    pub async fn prompt(arguments: &[&str], description: &str) -> Self {
        let mut wire = Self::start(arguments);
        wire.initialize().await;
        let folder = Path::new("/");
        wire.request(2, "session/new", json!({ "cwd": folder, "mcpServers": [] }))
            .await;
        let opened = wire.message().await;
        opened["result"]["sessionId"]
            .as_str()
            .unwrap()
            .clone_into(&mut wire.session);
        let text = prompt(description);
        let content = json!([{ "type": "text", "text": text }]);
        wire.request(
            PROMPT,
            "session/prompt",
            json!({ "sessionId": wire.session, "prompt": content }),
        )
        .await;
        wire
    }

    /// Sends `initialize` and returns the answer.
    pub async fn initialize(&mut self) -> Value {
        self.request(
            1,
            "initialize",
            json!({ "protocolVersion": 1, "clientCapabilities": {} }),
        )
        .await;
        self.message().await
    }

    pub async fn request(&mut self, id: u64, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
            .await
            .unwrap();
    }

    pub async fn cancel(&mut self) {
        let params = json!({ "sessionId": self.session });
        self.send(&json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": params }))
            .await
            .unwrap();
    }

    pub async fn send(&mut self, message: &Value) -> std::io::Result<()> {
        let input = self.input.as_mut().unwrap();
        input.write_all(format!("{message}\n").as_bytes()).await?;
        input.flush().await
    }

    /// The next line without its end; `None` at the output's end.
    pub async fn line(&mut self) -> Option<Vec<u8>> {
        let mut line = Vec::new();
        let read = self.output.as_mut().unwrap().read_until(b'\n', &mut line);
        tokio::time::timeout(DEADLINE, read)
            .await
            .expect("a line in time")
            .unwrap();
        line.pop().map(|_end| line)
    }

    /// The next line, which must be a message.
    pub async fn message(&mut self) -> Value {
        let line = self.line().await.expect("the agent says something");
        serde_json::from_slice(&line).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&line)))
    }

    /// The text of the next line, which must be a message chunk.
    pub async fn text(&mut self) -> String {
        let message = self.message().await;
        let text = message["params"]["update"]["content"]["text"].as_str();
        text.unwrap_or_else(|| panic!("{message}")).to_owned()
    }

    pub fn signal(&self, signal: Signal) {
        kill(
            Pid::from_raw(self.child.id().unwrap().try_into().unwrap()),
            signal,
        )
        .unwrap();
    }

    /// Closes the input and waits for the exit.
    pub async fn close(mut self) -> ExitStatus {
        drop(self.input.take());
        self.exit().await
    }

    pub async fn exit(&mut self) -> ExitStatus {
        tokio::time::timeout(DEADLINE, self.child.wait())
            .await
            .expect("the agent exits")
            .unwrap()
    }
}
