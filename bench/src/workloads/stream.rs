//! A session of very many updates: the worker's memory during it, and whether its transcript is complete.

use std::collections::HashSet;
use std::time::Duration;

use futures::StreamExt as _;
use ralph_shared::wire::{TranscriptBatch, TranscriptUpdate};

use crate::figures::{Figures, Target};
use crate::load;
use crate::process::resident_bytes;
use crate::servers::Servers;
use crate::stub::now;
use crate::system::System;

/// Interval of memory measurements.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
const MIB: f64 = 1024.0 * 1024.0;
/// Allowed difference of constant memory: pages that the allocator has not returned yet.
const FLAT_MIB: f64 = 4.0;

pub async fn stream(servers: &Servers, count: usize, figures: &mut Figures) -> anyhow::Result<()> {
    let mut system = System::fresh(servers, "stream").await?;
    system.start_coordinator()?;
    let worker = system.start_worker("stream", 1)?;
    let bus = system.bus().await?;
    let db = system.pool(1).await?;
    system.until_waiting(&bus, 1).await?;
    let mut transcripts = bus.client.subscribe(bus.subjects.transcripts_all()).await?;
    let pid = worker.pid();
    let began = now();
    let script = format!("@stream {count}\n@done");
    load::submit(&db, &bus, "stream", &load::scripted([script.as_str()])).await?;

    let mut held = Vec::new();
    let mut stored = StoredTranscript::default();
    let mut look = tokio::time::interval(POLL_INTERVAL);
    while !stored.ended {
        tokio::select! {
            message = transcripts.next() => {
                let message = message.ok_or_else(|| anyhow::anyhow!("the broker went away"))?;
                stored.take(serde_json::from_slice(&message.payload)?);
            }
            _ = look.tick() => held.push(resident_bytes(pid)? as f64 / MIB),
        }
    }
    let seconds = now() - began;
    system.until_done().await?;
    worker.stop().await;
    db.close().await;
    system.stop_coordinator().await;

    figures.add("stream, updates", "1/s", count as f64 / seconds);
    let lost = "stream, updates lost from the transcript";
    figures.at_most(lost, "", (count - stored.numbers.len()) as f64, 0.0);
    let most = |part: &[f64]| part.iter().copied().fold(0.0, f64::max);
    let fifth = held.len() / 5;
    figures.add("stream, most that the worker held", "MiB", most(&held));
    let grown = "stream, growth of the worker from its second fifth to its last";
    figures.add(
        grown,
        "MiB",
        most(&held[held.len() - fifth..]) - most(&held[fifth..2 * fifth]),
    );
    figures.target(grown, Target::AtMost(FLAT_MIB));
    Ok(())
}

/// The received transcript.
#[derive(Debug, Default)]
struct StoredTranscript {
    numbers: HashSet<usize>,
    ended: bool,
}

impl StoredTranscript {
    fn take(&mut self, batch: TranscriptBatch) {
        for entry in batch.entries {
            match entry.update {
                TranscriptUpdate::Text { text } | TranscriptUpdate::Thought { text } => self.lines(&text),
                TranscriptUpdate::Tool {
                    output: Some(output), ..
                } => self.lines(&output),
                TranscriptUpdate::Plan { entries } => {
                    for entry in entries {
                        self.lines(entry.trim_start_matches("pending: "));
                    }
                }
                TranscriptUpdate::Ended { .. } => self.ended = true,
                _ => {}
            }
        }
    }

    fn lines(&mut self, text: &str) {
        self.numbers
            .extend(text.lines().filter_map(|line| line.parse::<usize>().ok()));
    }
}
