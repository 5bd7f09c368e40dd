//! The effects log: a record of executed work, for tests that count it.

use std::fs::File;
use std::io::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use agent_client_protocol::Error;

use super::super::turn::Turn;

impl Turn {
    /// Appends one line in one write and syncs it, so that a kill can neither undo nor split it.
    pub(super) fn effect(&self, name: &str) -> Result<(), Error> {
        let environment = &self.agent.environment;
        let path = environment.effects_log.as_ref();
        let path =
            path.ok_or_else(|| Error::internal_error().data("RALPH_EFFECTS_LOG names no file for @effect"))?;
        let task = self.task_id().unwrap_or("-");
        let dispatch = environment.dispatch.as_deref().unwrap_or("-");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let line = format!(
            "{name} {task} {} {dispatch} {} {:.6}\n",
            environment.attempt,
            std::process::id(),
            now.as_secs_f64(),
        );
        let written = File::options()
            .create(true)
            .append(true)
            .open(path)
            .and_then(|mut log| {
                log.write_all(line.as_bytes())?;
                log.sync_all()
            });
        written.map_err(|error| {
            Error::internal_error().data(format!(
                "failed to write the effects log {}: {error}",
                path.display()
            ))
        })
    }
}
