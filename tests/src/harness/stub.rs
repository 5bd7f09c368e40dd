//! The worker's end of the protocol without a real worker, so that a test can send unusual messages.

use std::time::Duration;

use anyhow::bail;
use ralph_coordinator::embedded::Role;
use ralph_shared::ids::{DispatchId, Incarnation};
use ralph_shared::subjects::Subjects;
use ralph_shared::wire::{
    Assignment, ClaimAnswer, ClaimRequest, Ended, Finished, Heartbeat, HeartbeatAnswer, Hello, HelloAnswer,
    READS, Report, SessionReport, Settlement, Text, Usage, WRITES,
};
use ralph_worker::coordinator::BrokerConnection;

use super::world::World;

/// Time limit for work to arrive.
const NO_WORK: Duration = Duration::from_secs(30);
/// How long a claim waits that should get work.
const PATIENCE: Duration = Duration::from_secs(5);

/// A worker's connection without a worker.
#[derive(Debug)]
pub struct Stub {
    pub link: BrokerConnection,
    name: String,
    incarnation: Incarnation,
}

impl Stub {
    /// Sends hello as worker `name` of the pool `name`.
    pub async fn hello(world: &World, name: &str) -> anyhow::Result<Self> {
        let url = world.nats_url(Role::Worker)?;
        let link = BrokerConnection::connect(&url, Subjects::default(), name).await?;
        let incarnation = Incarnation::new();
        let hello = Hello {
            reads: READS.to_vec(),
            worker: name.to_owned(),
            incarnation,
            data_id: name.to_owned(),
            pools: vec![name.to_owned()],
            slots: 8,
            agents: vec!["default".to_owned()],
            accounts: Vec::new(),
            rules: Vec::new(),
            spooled: Vec::new(),
            version: "test".to_owned(),
            host: "test".to_owned(),
            pid: std::process::id(),
        };
        let until = tokio::time::Instant::now() + NO_WORK;
        loop {
            match link.hello(&hello).await {
                Ok(HelloAnswer::Welcome { .. }) => break,
                Ok(other) => bail!("not welcome: {other:?}"),
                // The coordinator may still be starting.
                Err(error) if tokio::time::Instant::now() > until => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
        let name = name.to_owned();
        Ok(Self {
            link,
            name,
            incarnation,
        })
    }

    /// A claim for its own pool, which has the worker's name.
    pub fn request(&self) -> ClaimRequest {
        ClaimRequest {
            reads: READS.to_vec(),
            worker: self.name.clone(),
            incarnation: self.incarnation,
            claim: DispatchId::new(),
            pools: vec![self.name.clone()],
            agents: vec!["default".to_owned()],
            wait_ms: 0,
            checks: true,
        }
    }

    /// Claims once, and waits for work for [`PATIENCE`].
    pub async fn claim_patiently(&self) -> anyhow::Result<ClaimAnswer> {
        // So that a late response still arrives.
        self.link.lease_is(8 * PATIENCE);
        let request = ClaimRequest {
            wait_ms: u64::try_from(PATIENCE.as_millis())?,
            checks: true,
            ..self.request()
        };
        self.link.claim(&request).await
    }

    /// Claims one task, and waits for it.
    pub async fn claim(&self) -> anyhow::Result<Assignment> {
        let until = tokio::time::Instant::now() + NO_WORK;
        let mut last = None;
        while tokio::time::Instant::now() < until {
            match self.link.claim(&self.request()).await? {
                ClaimAnswer::Assigned { assignment } => return Ok(*assignment),
                other => last = Some(other),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        bail!("no work for {}: {last:?}", self.name)
    }

    /// Renews leases; returns the settlement of `spooled`, if any.
    pub async fn settled(
        &self,
        running: &[DispatchId],
        spooled: DispatchId,
    ) -> anyhow::Result<Option<Settlement>> {
        let beat = Heartbeat {
            reads: READS.to_vec(),
            worker: self.name.clone(),
            incarnation: self.incarnation,
            running: running.to_vec(),
            spooled: vec![spooled],
            free_slots: 1,
            draining: false,
            doors: Vec::new(),
            answered: Vec::new(),
            used: Vec::new(),
            transcripts: Vec::new(),
            heard: Vec::new(),
            warm_bytes: None,
        };
        match self.link.heartbeat(&beat).await? {
            HeartbeatAnswer::Renewed { settled, .. } => Ok(settled.first().map(|one| one.settlement)),
            other => bail!("not renewed: {other:?}"),
        }
    }

    /// Heartbeats until a report is settled.
    pub async fn settlement(
        &self,
        running: &[DispatchId],
        dispatch: DispatchId,
    ) -> anyhow::Result<Settlement> {
        let until = tokio::time::Instant::now() + NO_WORK;
        loop {
            match self.settled(running, dispatch).await {
                Ok(Some(settlement)) => return Ok(settlement),
                answer if tokio::time::Instant::now() > until => {
                    bail!("{dispatch} is not settled: {answer:?}")
                }
                // Like a worker, repeats a heartbeat without a response.
                _ => {}
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Sends empty heartbeats for ever.
    pub async fn beats(&self) -> ! {
        loop {
            let _ = self.settled(&[], DispatchId::new()).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// The report of a session with 10 tokens whose agent said `text`; `{id}` becomes the task's id.
    pub fn report(&self, assignment: &Assignment, text: &str) -> Report {
        Report {
            v: WRITES,
            dispatch: assignment.dispatch,
            worker: self.name.clone(),
            incarnation: self.incarnation,
            duration_ms: 1,
            finished: Finished::Session(Box::new(SessionReport {
                text: Text::Inline(text.replace("{id}", &assignment.task.to_string())),
                usage: Usage {
                    input_tokens: Some(10),
                    ..Usage::default()
                },
                ..SessionReport::new(Ended::Turn {
                    stop_reason: "end_turn".to_owned(),
                })
            })),
        }
    }

    /// The report of a session that did its task.
    pub fn done(&self, assignment: &Assignment) -> Report {
        self.report(assignment, "<task-done>{id}</task-done>")
    }

    pub async fn publish(&self, report: &Report) -> anyhow::Result<()> {
        self.publish_raw(serde_json::to_vec(report)?).await
    }

    /// Publishes raw bytes as a report.
    pub async fn publish_raw(&self, bytes: Vec<u8>) -> anyhow::Result<()> {
        self.link.report(bytes.into()).await
    }
}
