//! The configuration of a private nats-server: permissions (DESIGN 7), the store's folder and size.

use std::path::Path;

use ralph_shared::rights::worker_permissions;
use ralph_shared::subjects::Subjects;
use serde_json::json;

use super::Tuning;

/// More than all streams' limits together (DESIGN 3).
const STORE_BYTES: u64 = 8 * 1024 * 1024 * 1024;
/// Twice the longest message, so that headers never matter.
const MAX_PAYLOAD_BYTES: usize = 2 * ralph_shared::subjects::MAX_MESSAGE_BYTES;

pub(super) struct Config<'a> {
    pub(super) store: &'a Path,
    /// The server writes the port that it got into a file here.
    pub(super) ports: &'a Path,
    /// `None` lets the server choose a free port.
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
