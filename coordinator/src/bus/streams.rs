//! Configurations of the streams, and their updates (DESIGN 3).

use std::collections::HashMap;
use std::time::Duration;

use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};
use ralph_shared::subjects::Subjects;

use super::TICKET_WINDOW;

/// Bounds of the streams; their sum stays below the limit of the shipped server configuration. Bytes.
const TICKETS_BYTES: i64 = 64 * 1024 * 1024;
const REPORTS_BYTES: i64 = 512 * 1024 * 1024;
const TRANSCRIPTS_BYTES: i64 = 1024 * 1024 * 1024;
/// Retention of transcripts in the stream; once a dispatch is settled, Postgres has a copy
/// (`services/archive.rs`).
const TRANSCRIPTS_AGE: Duration = Duration::from_secs(3 * 24 * 3600);
/// Version of this configuration; it grows with each change.
const VERSION: u32 = 1;
/// The stream's metadata key of that version.
const VERSION_KEY: &str = "ralph-configuration";

/// The streams of this release.
pub(super) fn configurations(subjects: &Subjects) -> [Config; 3] {
    [
        Config {
            name: subjects.tickets_stream(),
            subjects: vec![subjects.tickets_all()],
            retention: RetentionPolicy::WorkQueue,
            discard: DiscardPolicy::New,
            discard_new_per_subject: true,
            max_messages_per_subject: 2 * TICKET_WINDOW,
            max_bytes: TICKETS_BYTES,
            storage: StorageType::File,
            metadata: metadata(),
            ..Config::default()
        },
        Config {
            name: subjects.reports_stream(),
            subjects: vec![subjects.reports()],
            retention: RetentionPolicy::WorkQueue,
            discard: DiscardPolicy::New,
            max_bytes: REPORTS_BYTES,
            storage: StorageType::File,
            duplicate_window: Duration::from_secs(1),
            metadata: metadata(),
            ..Config::default()
        },
        Config {
            name: subjects.transcripts_stream(),
            subjects: vec![subjects.transcripts_all()],
            retention: RetentionPolicy::Limits,
            discard: DiscardPolicy::Old,
            max_bytes: TRANSCRIPTS_BYTES,
            max_age: TRANSCRIPTS_AGE,
            storage: StorageType::File,
            metadata: metadata(),
            ..Config::default()
        },
    ]
}

fn metadata() -> HashMap<String, String> {
    HashMap::from([(VERSION_KEY.to_owned(), VERSION.to_string())])
}

/// The new configuration of an existing stream; `None` when it is no older than `wanted`. Keeps storage and
/// placement, which an operator may have chosen.
pub(super) fn updated(existing: &Config, wanted: Config) -> Option<Config> {
    if version(existing) >= version(&wanted) {
        return None;
    }
    let mut newer = Config {
        storage: existing.storage,
        num_replicas: existing.num_replicas,
        placement: existing.placement.clone(),
        compression: existing.compression.clone(),
        ..wanted
    };
    for (key, value) in &existing.metadata {
        newer.metadata.entry(key.clone()).or_insert_with(|| value.clone());
    }
    Some(newer)
}

/// The first releases stored no version.
fn version(config: &Config) -> u32 {
    let text = config.metadata.get(VERSION_KEY);
    text.and_then(|text| text.parse().ok()).unwrap_or(1)
}
