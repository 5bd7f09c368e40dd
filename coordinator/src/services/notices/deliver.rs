//! One delivery: a signed request, a command.

use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use hmac::{Hmac, KeyInit as _, Mac as _};
use ralph_shared::environment;
use serde_json::{Value, json};
use sha2::Sha256;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::flow::Notify;
use crate::http;
use crate::store::notice::Notice;

/// Time limit of the address.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// Time limit of a command.
const RUN_WITHIN: Duration = Duration::from_secs(30);

/// The message for a receiver.
pub(super) fn message(notice: &Notice) -> Value {
    let mut message = json!({
        "id": notice.id,
        "event": notice.event.into_str(),
        "at": notice.at.format(&Rfc3339).unwrap_or_default(),
        "feature": notice.feature.map(|id| json!({"id": id.short(), "name": notice.feature_name})),
        "run": notice.run.map(|run| json!({
            "id": run.short(),
            "outcome": notice.outcome.map(|outcome| outcome.into_str()),
        })),
        "reason": notice.reason,
    });
    if let Some(pool) = &notice.pool {
        message["pool"] = json!(pool);
    }
    if let Some(task) = notice.task {
        message["task"] = json!({
            "id": task.short(),
            "key": notice.task_key,
            "title": notice.task_title,
        });
    }
    message
}

pub(super) struct Deliverer {
    notify: Notify,
    http: reqwest::Client,
}

impl Deliverer {
    pub(super) fn new(notify: Notify) -> anyhow::Result<Self> {
        let http = http::builder()?
            .timeout(TIME_LIMIT)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .context("failed to set up HTTP")?;
        Ok(Self { notify, http })
    }

    pub(super) fn has_command(&self) -> bool {
        !self.notify.command.is_empty()
    }

    /// Posts to the address, if there is one.
    pub(super) async fn post(&self, notice: &Notice, body: &[u8]) -> anyhow::Result<()> {
        let Some(url) = &self.notify.url else {
            return Ok(());
        };
        let mut request = self
            .http
            .post(url)
            .header("content-type", "application/json")
            .header("ralph-event", notice.event.into_str())
            .header("ralph-delivery", notice.id.to_string());
        if let Some(secret) = &self.notify.secret {
            let at = OffsetDateTime::now_utc().unix_timestamp();
            request = request.header(
                "ralph-signature",
                format!("t={at},v1={}", signature(secret, at, body)),
            );
        }
        // The address may contain a token, so errors do not name it.
        let answer = request
            .body(body.to_vec())
            .send()
            .await
            .map_err(|error| anyhow::Error::from(error.without_url()))
            .context("the address of [notify] url could not be reached")?;
        let status = answer.status();
        anyhow::ensure!(
            status.is_success(),
            "the address of [notify] url answered {status}"
        );
        Ok(())
    }

    /// Runs the command, if there is one, with the message on its standard input.
    pub(super) async fn command(&self, notice: &Notice, body: &[u8]) -> anyhow::Result<()> {
        let Some((program, arguments)) = self.notify.command.split_first() else {
            return Ok(());
        };
        let mut command = Command::new(program);
        for name in environment::secrets() {
            command.env_remove(name);
        }
        let mut child = command
            .args(arguments)
            .env("RALPH_EVENT", notice.event.into_str())
            .env(
                "RALPH_FEATURE",
                notice.feature_name.as_deref().unwrap_or_default(),
            )
            .env("RALPH_POOL", notice.pool.as_deref().unwrap_or_default())
            .env("RALPH_REASON", &notice.reason)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("failed to start `{program}` of [notify] command"))?;
        let stdin = child.stdin.take();
        let run = async {
            if let Some(mut stdin) = stdin {
                // The command need not read it.
                let _ = stdin.write_all(body).await;
            }
            child.wait().await
        };
        let status = tokio::time::timeout(RUN_WITHIN, run)
            .await
            .with_context(|| {
                format!(
                    "`{program}` of [notify] command took longer than {} s",
                    RUN_WITHIN.as_secs()
                )
            })?
            .with_context(|| format!("failed to wait for `{program}` of [notify] command"))?;
        anyhow::ensure!(
            status.success(),
            "`{program}` of [notify] command ended with {status}"
        );
        Ok(())
    }
}

/// Hex of HMAC-SHA256 over `TIME.BODY`, so that an old message cannot be replayed as a new one.
fn signature(secret: &str, at: i64, body: &[u8]) -> String {
    // HMAC takes keys of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else {
        return String::new();
    };
    mac.update(format!("{at}.").as_bytes());
    mac.update(body);
    let bytes = mac.finalize().into_bytes();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_equals_the_one_of_openssl() {
        // printf '1700000000.{}' | openssl dgst -sha256 -hmac secret
        assert_eq!(signature("secret", 1_700_000_000, b"{}"), SIGNED);
    }

    const SIGNED: &str = "b8569b78799ff9e3cbff0fc2d63a33a2b57f3282abd07c37ae5e8e7d79a5f163";
}
