//! The run of one worker process, from its hello to the end of its drain.

use crate::config::Config;
use crate::coordinator::BrokerConnection;
use crate::dispatch::retained_transcripts::Transcripts;
use crate::dispatch::session_output::SessionOutputs;
use crate::home::Home;
use crate::instance::allowances::Allowances;
use crate::instance::audience::Audience;
use crate::instance::{Instance, Times, drain, heartbeat, prune, slot, upkeep};
use crate::session::{AgentCommand, Redactor};
use crate::spool::Spool;
use crate::workspace::{Workspace, Workspaces};
use crate::{dispatch, session};
use parking_lot::Mutex;
use ralph_shared::ids::{DispatchId, Incarnation};
use ralph_shared::wire::Assignment;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, Semaphore};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

/// Runs a worker until `shutdown` and its drain. Returns whether a coordinator ordered the drain.
///
/// # Errors
/// Fails if it can't start (data folder in use, git missing, name refused), or, after its drain, if it was
/// refused later.
pub async fn run(config: Config, shutdown: CancellationToken) -> anyhow::Result<bool> {
    let instance = Arc::new(open(config, shutdown).await?);
    let left = instance.home.interrupted_assignments();
    for assignment in &left {
        let killed = session::kill_leftovers(&assignment.dispatch.0.to_string());
        if killed > 0 {
            tracing::warn!(dispatch = %assignment.dispatch, killed, "ended processes of an earlier instance");
        }
    }
    let left_ids: Vec<DispatchId> = left.iter().map(|assignment| assignment.dispatch).collect();
    instance.outputs.keep(&left_ids);
    instance.workspaces.confirm_dirs_ended();
    let held = dispatch::unpushed_workspaces(&instance, &left).await;
    let drained = instance.home.drained();
    dispatch::report_over(&instance, &left, &held, &drained);
    let held_ids: Vec<DispatchId> = held.iter().map(|(assignment, _)| assignment.dispatch).collect();
    instance.say_hello(&held_ids).await?;
    // Pushing may take longer than a lease, and must not keep slots from other work.
    let reported = instance.spool.dispatches();
    for dispatch in held_ids.iter().filter(|held| !reported.contains(held)) {
        instance.started(*dispatch);
    }
    let mut heart = tokio::spawn(heartbeat::run(instance.clone()));
    let earlier = tokio::spawn(report_earlier_instance(instance.clone(), left, held, drained));
    let mut slots = JoinSet::new();
    // Twice as many, because slow starts lend their permits.
    for _ in 0..instance.config.slots * 2 {
        slots.spawn(slot::run(instance.clone()));
    }
    let pushing = tokio::spawn(dispatch::keep_pushing(instance.clone()));
    let pruning = tokio::spawn(prune::run(instance.clone()));
    let packing = tokio::spawn(upkeep::run(instance.clone()));
    let stopped = heartbeats_until_drain(&instance, &mut heart).await;
    drain::run(&instance, slots, earlier, [pushing, pruning, packing]).await;
    heart.abort();
    instance.broker.flush().await;
    if let Some(reason) = instance.refused.get().or(stopped.as_ref()) {
        anyhow::bail!("{reason}");
    }
    Ok(instance.ordered.load(Ordering::Relaxed))
}

async fn open(config: Config, shutdown: CancellationToken) -> anyhow::Result<Instance> {
    let home = Home::open(&config.data)?;
    let spool = Spool::open(home.spool())?;
    let late = Spool::open(home.late())?;
    let outputs = SessionOutputs::open(home.dir().join("said"))?;
    let transcripts = Transcripts::open(home.transcripts())?;
    let machine = &config.machine;
    let agents = machine.agents.values().flat_map(AgentCommand::secrets);
    let secrets = session::own_secrets().into_iter().chain(agents);
    let redactor = Redactor::new(secrets.chain(machine.sandbox.network.secret()));
    let workspaces =
        Workspaces::open_with(&home.workspaces(), machine.workspace_settings(redactor.clone())).await?;
    let link = BrokerConnection::connect(&config.nats_url, config.subjects.clone(), &config.name).await?;
    Ok(Instance {
        redactor,
        incarnation: Incarnation::new(),
        draining: shutdown,
        ending: CancellationToken::new(),
        ordered: AtomicBool::new(false),
        refused: OnceLock::new(),
        heartbeat_now: Notify::new(),
        prune_now: Notify::new(),
        push_now: Notify::new(),
        unpushed: AtomicBool::new(false),
        running: Mutex::default(),
        allowances: Allowances::default(),
        audience: Audience::default(),
        busy_slots: AtomicU32::default(),
        places: Arc::new(Semaphore::new(config.slots as usize)),
        in_contact: AtomicBool::new(false),
        breakers: Mutex::default(),
        trials: Arc::new(Semaphore::new(1)),
        answered: Mutex::default(),
        times: Mutex::new(Times {
            heartbeat: Duration::from_secs(5),
            lease: Duration::from_secs(20),
            dark_limit: Duration::from_secs(600),
            heard: Instant::now(),
        }),
        config,
        home,
        broker: link,
        spool,
        late,
        outputs,
        transcripts,
        workspaces,
    })
}

/// Waits for the drain. If the heartbeats stop before, the drain begins, since the coordinator will take this
/// worker's sessions for lost. New heartbeats then run so that sessions may end in order. Returns why the
/// heartbeats stopped.
async fn heartbeats_until_drain(instance: &Arc<Instance>, heart: &mut JoinHandle<()>) -> Option<String> {
    let ended = tokio::select! {
        biased;
        () = instance.draining.cancelled() => return None,
        ended = &mut *heart => ended,
    };
    let cause = match ended {
        Ok(()) => "they ended".to_owned(),
        Err(error) => error.to_string(),
    };
    let reason = format!("the heartbeats of this worker stopped: {cause}");
    tracing::error!(error = reason, "draining");
    instance.draining.cancel();
    *heart = tokio::spawn(heartbeat::run(instance.clone()));
    Some(reason)
}

async fn report_earlier_instance(
    instance: Arc<Instance>,
    left: Vec<Assignment>,
    held: Vec<(Assignment, Workspace)>,
    drained: BTreeSet<DispatchId>,
) {
    dispatch::report_earlier_instance(&instance, &left, held, &drained).await;
}
