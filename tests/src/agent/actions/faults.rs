//! Misbehaviour of an agent.

use agent_client_protocol::{Error, UntypedMessage};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use super::super::turn::Turn;
use super::dispatch::describe;

impl Turn {
    /// Exits without a response, after writing all earlier output.
    pub(super) async fn exit(&self, status: i32) -> Result<(), Error> {
        self.agent.stdout.written(&self.cx).await?;
        std::process::exit(status)
    }

    /// Kills the process like `kill -9`, after writing all earlier output.
    pub(super) async fn kill(&self) -> Result<(), Error> {
        self.agent.stdout.written(&self.cx).await?;
        kill(Pid::this(), Signal::SIGKILL).map_err(Error::into_internal_error)?;
        std::future::pending().await
    }

    /// After the first listener, the signal's default action is disabled for good.
    pub(super) fn ignore_term(&self) -> Result<(), Error> {
        signal(SignalKind::terminate())
            .map(drop)
            .map_err(Error::into_internal_error)
    }

    pub(super) fn bad_json(&self) -> Result<(), Error> {
        let half = format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{}","#,
            self.session.id
        );
        self.agent.stdout.bytes(&self.cx, format!("{half}\n"))
    }

    pub(super) fn bad_utf8(&self) -> Result<(), Error> {
        let before = format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{}","update":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"before "#,
            self.session.id
        );
        let line = [before.as_bytes(), b"\xff\xfe\xc3", br#" after\n"}}}}"#, b"\n"].concat();
        self.agent.stdout.bytes(&self.cx, line)
    }

    pub(super) fn unknown_update(&self) -> Result<(), Error> {
        self.send_unknown("session/update", json!({
            "sessionId": self.session.id,
            "update": { "sessionUpdate": "weather_forecast", "content": { "type": "text", "text": "rain" } },
        }))
    }

    pub(super) async fn unknown_request(&self) -> Result<(), Error> {
        let request = UntypedMessage::new("weather/forecast", json!({ "sessionId": self.session.id }))?;
        let answer = match self.cx.send_request(request).block_task().await {
            Ok(answer) => answer.to_string(),
            Err(error) => describe(&error),
        };
        self.say(format!("unknown request: {answer}\n"))
    }

    pub(super) fn stray_response(&self) -> Result<(), Error> {
        let response = json!({ "jsonrpc": "2.0", "id": 987_654_321, "result": {} });
        self.agent.stdout.bytes(&self.cx, format!("{response}\n"))
    }

    fn send_unknown(&self, method: &str, params: Value) -> Result<(), Error> {
        self.cx.send_notification(UntypedMessage::new(method, params)?)
    }
}
