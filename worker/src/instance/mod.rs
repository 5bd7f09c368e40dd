//! One incarnation of a worker, from its hello to the end of its drain.
//!
//! ```text
//! lock the data folder → clean up after the previous instance → hello → slots claim, work and report ⇄ heartbeats
//!   SIGTERM → no more claims → running sessions may go on for the drain's time → they are ended in order, pushed and
//!   reported → the spool is settled, or stays for the next instance
//! ```

pub mod allowances;
pub mod audience;
pub mod availability;
pub mod drain;
pub mod heartbeat;
pub mod prune;
pub mod run;
pub(crate) mod session_permits;
pub mod slot;
pub mod upkeep;

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use ralph_shared::ids::{DispatchId, Incarnation};
use ralph_shared::wire::{
    Assignment, ClosedAgent, EndReason, Hello, HelloAnswer, READS, TranscriptOrigin, Work,
};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::config::{Config, DEFAULT_AGENT};
use crate::coordinator::BrokerConnection;
use crate::dispatch::retained_transcripts::Transcripts;
use crate::dispatch::session_output::SessionOutputs;
use crate::home::Home;
use crate::instance::allowances::Allowances;
use crate::instance::audience::Audience;
use crate::instance::availability::{AgentBreakers, StartResult};
use crate::reminder::Reminder;
use crate::session::Redactor;
use crate::spool::Spool;
use crate::workspace::Workspaces;

/// Pause between tries that need a coordinator.
const PAUSE: Duration = Duration::from_millis(500);

/// Shared state of one incarnation's loops.
#[derive(Debug)]
pub struct Instance {
    pub config: Config,
    pub home: Home,
    pub broker: BrokerConnection,
    /// Unsettled reports.
    pub spool: Spool,
    /// Reports of pushes after their session's report was settled.
    pub late: Spool,
    /// Transcripts that no coordinator stores yet.
    pub transcripts: Transcripts,
    /// The output of sessions whose reports aren't spooled yet.
    pub outputs: SessionOutputs,
    pub workspaces: Workspaces,
    /// Removes secrets from all outgoing data.
    pub redactor: Redactor,
    pub incarnation: Incarnation,
    /// Cancelled when the worker must take no more work.
    pub draining: CancellationToken,
    /// Cancelled when the drain's time is over and all sessions must end.
    pub ending: CancellationToken,
    /// Whether a coordinator ordered the drain.
    ordered: AtomicBool,
    /// Why a coordinator refused this worker for good, once one did.
    pub refused: OnceLock<String>,
    pub heartbeat_now: Notify,
    /// Triggers a prune request.
    pub prune_now: Notify,
    /// Triggers a push of unpushed work.
    pub push_now: Notify,
    /// Whether a session's work could not be pushed when it ended.
    pub unpushed: AtomicBool,
    pub allowances: Allowances,
    /// Sessions that people can send messages to.
    pub audience: Audience,
    running: Mutex<HashMap<DispatchId, watch::Sender<Option<EndReason>>>>,
    busy_slots: AtomicU32,
    /// One permit for each session that may run at once.
    pub places: Arc<Semaphore>,
    in_contact: AtomicBool,
    times: Mutex<Times>,
    breakers: Mutex<AgentBreakers>,
    /// One permit, for [`Trial`].
    trials: Arc<Semaphore>,
    /// Sessions whose models answered, until a coordinator acknowledges that.
    answered: Mutex<BTreeSet<DispatchId>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HelloResult {
    /// This incarnation now has its name.
    Welcome,
    Later {
        /// How long to wait before another try.
        pause: Duration,
        reason: String,
    },
}

/// Times set by the coordinator, and the last contact.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    pub heartbeat: Duration,
    pub lease: Duration,
    /// Longest time that sessions may go on without contact.
    pub dark_limit: Duration,
    /// Time of the last answered heartbeat.
    pub heard: Instant,
}

/// Permission to try agents whose last start failed. One session of a worker has it at a time, so that trials
/// take at most one slot.
#[derive(Debug)]
pub struct Trial(#[expect(dead_code, reason = "held until it is dropped")] OwnedSemaphorePermit);

impl Instance {
    /// The sender of this instance's transcripts.
    pub fn origin(&self) -> TranscriptOrigin {
        TranscriptOrigin {
            worker: self.config.name.clone(),
            incarnation: self.incarnation,
        }
    }

    /// Registers a running dispatch. Returns its end requests.
    pub fn started(&self, dispatch: DispatchId) -> watch::Receiver<Option<EndReason>> {
        let (sender, receiver) = watch::channel(None);
        self.running.lock().insert(dispatch, sender);
        receiver
    }

    /// Records on disk that a dispatch runs, and whether it does so during a drain.
    ///
    /// # Errors
    /// Fails if the record can't be written; the dispatch must not run then.
    pub fn note_live(&self, assignment: &Assignment) -> anyhow::Result<()> {
        self.home.note_live(assignment)?;
        if self.draining.is_cancelled() {
            self.home.note_drain();
        }
        Ok(())
    }

    /// End requests of a running dispatch.
    pub fn end_requests(&self, dispatch: DispatchId) -> Option<watch::Receiver<Option<EndReason>>> {
        self.running.lock().get(&dispatch).map(watch::Sender::subscribe)
    }

    /// Deletes a dispatch's records on disk: its report is spooled, or nothing is left to report.
    pub fn forget(&self, dispatch: DispatchId) {
        self.home.forget_live(dispatch);
        self.outputs.forget(dispatch);
    }

    /// Removes a dispatch whose report is spooled.
    pub fn ended(&self, dispatch: DispatchId) {
        self.running.lock().remove(&dispatch);
        self.answered.lock().remove(&dispatch);
        self.allowances.end(dispatch);
        self.audience.end(dispatch);
    }

    /// Records that a session's model answered. The next heartbeat reports it.
    pub fn note_answer(&self, dispatch: DispatchId) {
        self.answered.lock().insert(dispatch);
    }

    /// Sessions whose models answered, until a coordinator acknowledges that.
    pub fn answered(&self) -> Vec<DispatchId> {
        self.answered.lock().iter().copied().collect()
    }

    /// Removes answers that a coordinator acknowledged.
    pub fn forget_answers(&self, dispatches: &[DispatchId]) {
        let mut answered = self.answered.lock();
        dispatches.iter().for_each(|dispatch| {
            answered.remove(dispatch);
        });
    }

    pub fn is_running(&self, dispatch: DispatchId) -> bool {
        self.running.lock().contains_key(&dispatch)
    }

    pub fn running(&self) -> Vec<DispatchId> {
        self.running.lock().keys().copied().collect()
    }

    /// Ends a running dispatch in order. The first reason stays.
    pub fn end(&self, dispatch: DispatchId, reason: EndReason) {
        if let Some(sender) = self.running.lock().get(&dispatch) {
            sender.send_if_modified(|now| {
                let first = now.is_none();
                if first {
                    tracing::info!(%dispatch, ?reason, "ending a session");
                    *now = Some(reason);
                }
                first
            });
        }
    }

    pub fn end_all(&self, reason: EndReason) {
        for dispatch in self.running() {
            self.end(dispatch, reason);
        }
    }

    /// Begins a drain ordered by a coordinator.
    pub fn drain(&self) {
        self.ordered.store(true, Ordering::Relaxed);
        self.draining.cancel();
    }

    pub fn free_slots(&self) -> u32 {
        // Slots that lent their permit still count as busy.
        self.config
            .slots
            .saturating_sub(self.busy_slots.load(Ordering::Relaxed))
    }

    /// Counts a slot as free or busy.
    pub fn set_slot_free(&self, free: bool) {
        if free {
            self.busy_slots.fetch_sub(1, Ordering::Relaxed);
        } else {
            self.busy_slots.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether the last heartbeat was answered. Without contact nothing is claimed or integrated.
    pub fn in_contact(&self) -> bool {
        self.in_contact.load(Ordering::Relaxed)
    }

    /// Records whether a heartbeat was answered.
    pub fn note_heartbeat(&self, answered: bool) {
        self.in_contact.store(answered, Ordering::Relaxed);
        if answered {
            self.times.lock().heard = Instant::now();
        }
    }

    /// Records the result of a session's start. A failed start makes its agent or account unavailable for a
    /// while.
    pub fn note_start(&self, start: &StartResult) {
        if let Some(pause) = self.breakers.lock().note(start, Instant::now()) {
            let door = start.failed.as_ref().map(|(door, _)| door.into_str());
            tracing::warn!(
                agent = start.agent,
                account = start.account,
                door,
                seconds = pause.as_secs(),
                "failed to start; paused for a while"
            );
            // The heartbeat updates people's screens.
            self.heartbeat_now.notify_one();
        }
    }

    /// Permission to try agents whose last start failed, if there are any and no other slot tries one.
    pub fn trial(&self) -> Option<Trial> {
        self.has_trials(false)
            .then(|| Arc::clone(&self.trials).try_acquire_owned().ok())
            .flatten()
            .map(Trial)
    }

    /// Whether an agent whose last start failed may be tried again. With `overdue`: whether one has let
    /// others go first for long enough.
    pub fn has_trials(&self, overdue: bool) -> bool {
        self.breakers.lock().has_trials(Instant::now(), overdue)
    }

    /// Whether the last start of an assignment's agent failed.
    pub fn is_on_trial(&self, assignment: &Assignment) -> bool {
        match &assignment.work {
            Work::Session(order) => {
                let agent = order.agent.as_deref().unwrap_or(DEFAULT_AGENT);
                self.breakers.lock().is_on_trial(agent)
            }
            Work::Integrate(_) | Work::Git(_) => false,
        }
    }

    /// The agents that may be started now. With `trial`, includes those whose last start failed.
    pub fn open_agents(&self, trial: bool) -> Vec<String> {
        let (breakers, now) = (self.breakers.lock(), Instant::now());
        let agents = self.config.machine.agents.iter();
        agents
            .filter(|(name, agent)| {
                breakers.is_open(name, &agent.account, now) && (trial || !breakers.is_on_trial(name))
            })
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Time until the first unavailable agent or account may be tried again, if there is one.
    pub fn next_retry_in(&self) -> Option<Duration> {
        self.breakers.lock().next_retry_in(Instant::now())
    }

    /// The agents that are not started now, and why.
    pub fn unavailable_agents(&self) -> Vec<ClosedAgent> {
        self.breakers.lock().closed(Instant::now())
    }

    pub fn times(&self) -> Times {
        *self.times.lock()
    }

    /// Says hello until a coordinator welcomes this incarnation or the drain begins.
    ///
    /// # Errors
    /// Fails if a coordinator refuses it for good.
    pub async fn say_hello(&self, held: &[DispatchId]) -> anyhow::Result<()> {
        let mut reminder = Reminder::default();
        while let HelloResult::Later { pause, reason } = self.hello_once(held).await? {
            if reminder.is_due(&reason, Instant::now()) {
                let cause = self.broker.refusal(&self.config.nats_url).await;
                let cause = cause.map(|refusal| refusal.to_string());
                tracing::warn!(reason, cause, "not welcomed yet");
            }
            self.rest(pause).await;
            if self.draining.is_cancelled() {
                break;
            }
        }
        self.broker.warn_of_plain_text(&self.config.nats_url);
        Ok(())
    }

    /// Says hello once.
    ///
    /// # Errors
    /// Fails if a coordinator refuses it for good.
    pub async fn hello_once(&self, held: &[DispatchId]) -> anyhow::Result<HelloResult> {
        let mut spooled = self.spool.dispatches();
        spooled.extend(held.iter().filter(|d| !self.spool.dispatches().contains(d)));
        spooled.extend(self.running());
        let hello = Hello {
            reads: READS.to_vec(),
            worker: self.config.name.clone(),
            incarnation: self.incarnation,
            data_id: self.home.data_id().to_owned(),
            pools: self.config.pools.clone(),
            slots: self.config.slots,
            agents: self.config.machine.agents.keys().cloned().collect(),
            accounts: self
                .config
                .machine
                .agents
                .values()
                .map(|agent| agent.account.clone())
                .collect(),
            rules: self.config.machine.rules.clone(),
            spooled,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            host: host(),
            pid: std::process::id(),
        };
        match self.broker.hello(&hello).await {
            Ok(HelloAnswer::Welcome {
                heartbeat_ms,
                lease_ms,
                dark_limit_ms,
                ..
            }) => {
                let mut times = self.times.lock();
                times.heartbeat = Duration::from_millis(heartbeat_ms.max(10));
                times.lease = Duration::from_millis(lease_ms);
                times.dark_limit = Duration::from_millis(dark_limit_ms);
                self.broker.lease_is(times.lease);
                drop(times);
                self.note_heartbeat(true);
                tracing::info!(worker = self.config.name, slots = self.config.slots, "welcomed");
                Ok(HelloResult::Welcome)
            }
            Ok(HelloAnswer::Refused {
                reason,
                retry_after_ms,
            }) => {
                let after_ms = retry_after_ms.ok_or_else(|| anyhow::anyhow!("{reason}"))?;
                let pause = Duration::from_millis(after_ms.min(5_000));
                Ok(HelloResult::Later { pause, reason })
            }
            Ok(HelloAnswer::Unknown) => {
                anyhow::bail!("the coordinator is of a later release; update this worker")
            }
            Err(error) => Ok(HelloResult::Later {
                pause: PAUSE,
                reason: format!("{error:#}"),
            }),
        }
    }

    async fn rest(&self, pause: Duration) {
        tokio::select! {
            () = self.draining.cancelled() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map(|name| name.trim().to_owned())
        .unwrap_or_default()
}
