//! The configuration of a private nats-server: who may say what (DESIGN 7), where the store is, how large it may grow.

use std::path::Path;

use ralph_shared::subjects::{Subjects, worker_inbox};
use serde_json::{Value, json};

use super::Tuning;

/// More than all streams' limits together (DESIGN 3).
const STORE_BYTES: u64 = 8 * 1024 * 1024 * 1024;
/// Twice what a message may have, so that headers never decide.
const MAX_PAYLOAD_BYTES: usize = 2 * ralph_shared::subjects::MAX_MESSAGE_BYTES;

/// What a configuration is made of.
pub(super) struct Config<'a> {
    pub(super) store: &'a Path,
    /// The server writes the port that it got into a file here.
    pub(super) ports: &'a Path,
    /// None lets the server choose a free one.
    pub(super) port: Option<u16>,
    pub(super) coordinator_password: &'a str,
    pub(super) worker_password: &'a str,
    pub(super) subjects: &'a Subjects,
    pub(super) tuning: Tuning,
}

/// The configuration as JSON, which nats-server reads as its own format.
pub(super) fn render(config: &Config) -> String {
    let sync_interval = match config.tuning {
        Tuning::Durable => "1s",
        Tuning::Tests => "2m",
    };
    let text = json!({
        "server_name": "ralph",
        "host": "127.0.0.1",
        "port": config.port.map_or(-1, i32::from),
        "ports_file_dir": config.ports,
        "max_payload": MAX_PAYLOAD_BYTES,
        "jetstream": {
            "store_dir": config.store,
            "max_memory_store": 64 * 1024 * 1024,
            "max_file_store": STORE_BYTES,
            "sync_interval": sync_interval,
        },
        "authorization": {
            "users": [
                { "user": "coordinator", "password": config.coordinator_password },
                {
                    "user": "worker",
                    "password": config.worker_password,
                    "permissions": worker_permissions(config.subjects, None),
                },
            ],
        },
    });
    format!("{text:#}\n")
}

/// The entry of `authorization.users` of one worker alone: it hears what it is answered and ordered, and nothing of the others.
pub fn user_of_worker(subjects: &Subjects, worker: &str, password: &str) -> Value {
    json!({ "user": worker, "password": password, "permissions": worker_permissions(subjects, Some(worker)) })
}

/// A worker asks, reports and acknowledges tickets; it may not speak as a coordinator, make streams, or read what other workers
/// ask and report. What they are answered it can hear where all of them have one user: no `name` then.
fn worker_permissions(subjects: &Subjects, name: Option<&str>) -> Value {
    let tickets = subjects.tickets_stream();
    let hears = match name {
        Some(name) => [format!("{}.>", worker_inbox(name)), subjects.control(name)],
        None => ["_INBOX.>".to_owned(), subjects.control("*")],
    };
    json!({
        "publish": {
            "allow": [
                subjects.claim(),
                subjects.heartbeat(),
                subjects.hello(),
                subjects.blob(),
                subjects.decide(),
                subjects.check(),
                subjects.prune(),
                subjects.session(),
                subjects.reports(),
                subjects.transcripts_all(),
                format!("$JS.API.STREAM.INFO.{tickets}"),
                format!("$JS.API.CONSUMER.INFO.{tickets}.*"),
                format!("$JS.API.CONSUMER.MSG.NEXT.{tickets}.*"),
                format!("$JS.ACK.{tickets}.>"),
                // The newer form, with domain and account before the stream.
                format!("$JS.ACK.*.*.{tickets}.>"),
            ],
        },
        "subscribe": { "allow": hears },
        // Answers to orders.
        "allow_responses": { "max": 1, "expires": "1m" },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_with_a_user_of_its_own_hears_only_what_is_its_own() {
        let user = user_of_worker(&Subjects::default(), "gpu-1", "p");
        let hears = &user["permissions"]["subscribe"]["allow"];
        assert_eq!(*hears, json!(["_INBOX.gpu-1.>", "ralph.control.gpu-1"]));
        let shared = worker_permissions(&Subjects::default(), None);
        assert_eq!(user["permissions"]["publish"], shared["publish"]);
    }
}
