//! A test of one agent: its handshake.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use ralph_shared::ids::DispatchId;
use ralph_shared::wire::{Access, EndReason, Ended, SessionLimits};
use tokio::sync::watch;

use super::advice::advice;
use super::findings::{AgentFinding, Status};
use crate::sandbox::{Effective, Sandbox, bubblewrap, effective, means};
use crate::session::{
    AgentCommand, Greeting, Redactor, SessionSpec, greet, login_secrets, own_secrets, words,
};

/// Time from the end of an agent's input to its kill. Milliseconds.
const GRACE_MS: u64 = 2_000;

/// Starts an agent in an empty folder, inside the sandbox, and opens a session with it.
pub async fn examine(
    agent: &AgentCommand,
    taken_for: Option<String>,
    sandbox: &Sandbox,
    end: watch::Receiver<Option<EndReason>>,
) -> AgentFinding {
    let began = Instant::now();
    let Greeting {
        introduction,
        trouble,
        notes,
    } = greet_agent(agent, sandbox, end).await;
    let effective = effective(sandbox.mode, &sandbox.network, means(), bubblewrap().is_some());
    let confined = effective.is_ok_and(|effective| effective != Effective::Open);
    let advice = match &trouble {
        Some(trouble) => Some(advice(agent, &introduction, trouble, confined)),
        // Some agents open a session without a login, and fail at the first prompt.
        None => agent.log_in().map(|how| format!("no login was found: {how}")),
    };
    AgentFinding {
        name: agent.name.clone(),
        command: shell_words::join(&agent.argv),
        taken_for,
        status: match (&trouble, &advice) {
            (Some(_), _) => Status::Missing,
            (None, Some(_)) => Status::Warning,
            (None, None) => Status::Ok,
        },
        preset: agent.preset.map(|preset| preset.name),
        seconds: began.elapsed().as_secs_f64(),
        problem: trouble.as_ref().map(words),
        advice,
        introduction,
        notes: preset_note(agent).into_iter().chain(notes).collect(),
    }
}

/// A note for users of the preset.
fn preset_note(agent: &AgentCommand) -> Option<String> {
    agent.preset?.note.map(str::to_owned)
}

async fn greet_agent(
    agent: &AgentCommand,
    sandbox: &Sandbox,
    end: watch::Receiver<Option<EndReason>>,
) -> Greeting {
    let failed = |error: std::io::Error| Greeting {
        trouble: Some(Ended::Workspace {
            message: format!("failed to make a folder for it: {error}"),
            away: false,
        }),
        ..Greeting::default()
    };
    let folder = match tempfile::tempdir() {
        Ok(folder) => folder,
        Err(error) => return failed(error),
    };
    let place = |name: &str| folder.path().join(name);
    for name in ["work", "home", "tmp"] {
        if let Err(error) = std::fs::create_dir(place(name)) {
            return failed(error);
        }
    }
    let spec = SessionSpec {
        dispatch: DispatchId::new().0.to_string(),
        agent: agent.clone(),
        cwd: place("work"),
        home: place("home"),
        tmp: place("tmp"),
        session_folder: None,
        resume: None,
        after_exit: None,
        prompt: String::new(),
        model: None,
        access: Access::Workspace,
        sandbox: sandbox.clone(),
        read: Vec::new(),
        limits: SessionLimits {
            grace_ms: GRACE_MS,
            ..SessionLimits::default()
        },
        tariff: Default::default(),
        allowance: Arc::default(),
        people: None,
        tool_sigils: None,
        place: None,
        protocol_log: None,
        env: BTreeMap::new(),
    };
    let secrets = own_secrets()
        .into_iter()
        .chain(agent.secrets())
        .chain(login_secrets(&agent.files))
        .chain(sandbox.network.secret());
    greet(spec, Redactor::new(secrets), end).await
}
