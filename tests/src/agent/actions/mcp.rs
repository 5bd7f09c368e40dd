//! Uses one MCP server of a session: the one that the client names `ralph`.

use std::io;
use std::process::Stdio;

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{McpServer, McpServerStdio};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::super::turn::Turn;

/// Default protocol version.
const VERSION: &str = "2025-06-18";

impl Turn {
    /// Calls a tool and sends its result as a message.
    pub(super) async fn mcp(&self, tool: &str, arguments: &Value) -> Result<(), Error> {
        let called = async {
            let mut server = self.mcp_server(VERSION).await?;
            server.call(tool, arguments).await
        };
        let answer = called.await.unwrap_or_else(|error: io::Error| error.to_string());
        self.say(format!("mcp {tool}: {answer}\n"))
    }

    /// Initializes with another version, and sends the server's version as a message.
    pub(super) async fn mcp_version(&self, version: &str) -> Result<(), Error> {
        let server = self.mcp_server(version).await;
        let answer = server.map_or_else(|error| error.to_string(), |server| server.version.to_string());
        self.say(format!("mcp version: {answer}\n"))
    }

    /// Sends one message of this size, then calls a tool on the same connection.
    pub(super) async fn mcp_flood(&self, size_bytes: usize) -> Result<(), Error> {
        let flooded = async {
            let mut server = self.mcp_server(VERSION).await?;
            let arguments = json!({ "query": "x".repeat(size_bytes) });
            let params = json!({ "name": "memory_search", "arguments": arguments });
            server
                .send(json!({ "id": 7, "method": "tools/call", "params": params }))
                .await?;
            server.call("task_context", &json!({})).await
        };
        let answer = flooded.await.unwrap_or_else(|error: io::Error| error.to_string());
        self.say(format!("mcp after a flood: {}\n", answer.len()))
    }

    async fn mcp_server(&self, version: &str) -> io::Result<Server> {
        let offered = self.session.mcp_servers.iter().find_map(|server| match server {
            McpServer::Stdio(server) if server.name == "ralph" => Some(server),
            _ => None,
        });
        let offered = offered.ok_or_else(|| io::Error::other("none is offered"))?;
        Server::start(offered, version).await
    }
}

struct Server {
    #[expect(dead_code, reason = "dropping it ends the server")]
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    /// The response to `initialize`: the version, or an error.
    version: Value,
}

impl Server {
    async fn start(offered: &McpServerStdio, version: &str) -> io::Result<Self> {
        let mut command = Command::new(&offered.command);
        command
            .args(&offered.args)
            .envs(offered.env.iter().map(|one| (&one.name, &one.value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("it has no pipes"));
        };
        let mut server = Self {
            child,
            input,
            output: BufReader::new(output).lines(),
            version: Value::Null,
        };
        let client = json!({ "name": "scripted", "version": "1" });
        let params = json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": client });
        server
            .send(json!({ "id": 1, "method": "initialize", "params": params }))
            .await?;
        let mut answer = server.answer(1).await?;
        server.version = match answer["error"].take() {
            Value::Null => answer["result"]["protocolVersion"].take(),
            error => error,
        };
        server
            .send(json!({ "method": "notifications/initialized" }))
            .await?;
        Ok(server)
    }

    async fn send(&mut self, mut message: Value) -> io::Result<()> {
        message["jsonrpc"] = "2.0".into();
        self.input.write_all(format!("{message}\n").as_bytes()).await
    }

    async fn answer(&mut self, id: u64) -> io::Result<Value> {
        while let Some(line) = self.output.next_line().await? {
            let message: Value = serde_json::from_str(&line)?;
            if message["id"] == id {
                return Ok(message);
            }
        }
        Err(io::Error::other("it ended"))
    }

    /// The text of a tool's result; an error is marked.
    async fn call(&mut self, tool: &str, arguments: &Value) -> io::Result<String> {
        let params = json!({ "name": tool, "arguments": arguments });
        self.send(json!({ "id": 2, "method": "tools/call", "params": params }))
            .await?;
        let answer = self.answer(2).await?;
        let text = answer["result"]["content"][0]["text"].as_str();
        Ok(match (text, &answer["result"]["isError"]) {
            (Some(text), Value::Bool(true)) => format!("error: {text}"),
            (Some(text), _) => text.to_owned(),
            (None, _) => answer.to_string(),
        })
    }
}
