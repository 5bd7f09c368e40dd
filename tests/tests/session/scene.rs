//! A scene for one session: its agent, its workspace and its limits.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ralph_shared::ids::DispatchId;
use ralph_shared::wire::{
    Access, EndReason, Ended, ModelChoice, SessionLimits, TranscriptEntry, TranscriptUpdate,
};
use ralph_worker::sandbox::{REQUIRED_ABI, Sandbox, SandboxMode, support};
use ralph_worker::session::{
    AgentCommand, Check, Redactor, SessionEnd, SessionSpec, TranscriptReceiver, channel, kill_leftovers,
    run_checked, secret_values,
};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinHandle;

const AGENT: &str = env!("CARGO_BIN_EXE_ralph-scripted-agent");

/// Describes the session to run.
pub struct Scene {
    folder: TempDir,
    pub spec: SessionSpec,
    /// Check of the agent's text at the end of a turn.
    pub check: Option<Check>,
}

/// A running session.
pub struct Running {
    folder: TempDir,
    dispatch: String,
    end: watch::Sender<Option<EndReason>>,
    session: JoinHandle<SessionEnd>,
    receiver: TranscriptReceiver,
    entries: Vec<TranscriptEntry>,
}

/// An ended session.
pub struct Played {
    pub folder: TempDir,
    pub end: SessionEnd,
    pub entries: Vec<TranscriptEntry>,
}

/// A scene with the scripted agent and this task. Its limits end it within a minute, whatever goes wrong.
pub fn scene(description: &str) -> Scene {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| {
        let place = folder.path().join(name);
        std::fs::create_dir(&place).unwrap();
        place
    };
    let spec = SessionSpec {
        dispatch: DispatchId::new().0.to_string(),
        agent: AgentCommand {
            name: "scripted".to_owned(),
            argv: vec![AGENT.to_owned()],
            ..AgentCommand::default()
        },
        cwd: place("work"),
        home: place("home"),
        tmp: place("tmp"),
        session_folder: None,
        resume: None,
        after_exit: None,
        prompt: format!(
            "You work on one task.\n\n## Assigned Task\nID: t-0123456789ab\nTitle: A title\nDescription:\n\
             {description}\n\n## How to report\n"
        ),
        model: None,
        access: Access::Workspace,
        sandbox: Sandbox {
            mode: usual_mode(),
            ..Sandbox::default()
        },
        read: Vec::new(),
        limits: SessionLimits {
            session_ms: 50_000,
            idle_ms: 50_000,
            grace_ms: 10_000,
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
    Scene {
        folder,
        spec,
        check: None,
    }
}

/// Landlock where it suffices: bubblewrap changes process ids, which tests need, and starts slower.
fn usual_mode() -> SandboxMode {
    if support().abi >= REQUIRED_ABI {
        SandboxMode::Landlock
    } else {
        SandboxMode::Auto
    }
}

/// A scene with an agent that is a shell script.
pub fn shell(script: &str) -> Scene {
    let mut scene = scene("");
    scene.spec.agent.argv = ["sh", "-c", script].map(str::to_owned).to_vec();
    scene
}

impl Scene {
    pub fn arguments(mut self, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|argument| (*argument).to_owned());
        self.spec.agent.argv.extend(arguments);
        self
    }

    pub fn limits(mut self, change: impl FnOnce(&mut SessionLimits)) -> Self {
        change(&mut self.spec.limits);
        self
    }

    pub fn access(mut self, access: Access) -> Self {
        self.spec.access = access;
        self
    }

    pub fn model(mut self, tier: &str) -> Self {
        self.spec.model = Some(ModelChoice {
            tier: tier.to_owned(),
            names: vec![format!("not-offered-{tier}")],
            by_default: false,
        });
        self
    }

    pub fn secret(mut self, name: &str, value: &str) -> Self {
        self.spec.agent.env.insert(name.to_owned(), value.to_owned());
        self
    }

    pub fn work(&self) -> &Path {
        &self.spec.cwd
    }

    pub fn start(self) -> Running {
        let Self { folder, spec, check } = self;
        let dispatch = spec.dispatch.clone();
        let secrets = secret_values(spec.agent.env.clone());
        let (transcript, receiver) = channel(Redactor::new(secrets));
        let (end, orders) = watch::channel(None);
        Running {
            folder,
            dispatch,
            end,
            session: tokio::spawn(run_checked(spec, transcript, orders, check)),
            receiver,
            entries: Vec::new(),
        }
    }

    pub async fn play(self) -> Played {
        self.start().finish().await
    }
}

impl Running {
    /// Waits until the transcript contains a wanted update.
    pub async fn until(&mut self, wanted: impl Fn(&TranscriptUpdate) -> bool) {
        while !self.entries.iter().any(|entry| wanted(&entry.update)) {
            let batch = self.receiver.next_batch().await;
            self.entries.extend(batch.expect("the session ended too early"));
        }
    }

    /// Waits until the agent has said these words.
    pub async fn until_said(&mut self, words: &str) {
        self.until(|update| matches!(update, TranscriptUpdate::Text { text } if text.contains(words)))
            .await;
    }

    /// Returns, once the session has ended, the largest number of transcript entries that arrived between two
    /// turns of other tasks on the session's thread.
    pub async fn most_at_once(&mut self) -> usize {
        let mut most = 0;
        while !self.session.is_finished() {
            let came = self.receiver.take();
            most = most.max(came.len());
            self.entries.extend(came);
            tokio::task::yield_now().await;
        }
        most
    }

    /// The agent's text so far, up to the last wait.
    pub fn text(&self) -> String {
        let texts = self.entries.iter().filter_map(|entry| match &entry.update {
            TranscriptUpdate::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    pub fn work(&self) -> std::path::PathBuf {
        self.folder.path().join("work")
    }

    pub fn order_end(&self, reason: EndReason) {
        self.end.send_replace(Some(reason));
    }

    /// Ends the session without an order, as a dropped slot does. Returns the mark of its processes, and its
    /// folder.
    pub async fn abort(self) -> (String, TempDir) {
        self.session.abort();
        let _ = self.session.await;
        (self.dispatch, self.folder)
    }

    pub async fn finish(mut self) -> Played {
        let end = self.session.await.unwrap();
        while let Some(batch) = self.receiver.next_batch().await {
            self.entries.extend(batch);
        }
        assert_eq!(kill_leftovers(&self.dispatch), 0, "a process remains");
        assert!(matches!(
            self.entries.last().map(|entry| &entry.update),
            Some(TranscriptUpdate::Ended { .. })
        ));
        Played {
            folder: self.folder,
            end,
            entries: self.entries,
        }
    }
}

impl Played {
    /// The transcript as JSON lines.
    pub fn transcript(&self) -> String {
        let lines: Vec<String> = self
            .entries
            .iter()
            .map(|entry| serde_json::to_string(entry).unwrap())
            .collect();
        lines.join("\n")
    }

    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join("work").join(name)
    }
}

/// Whether a process lives; a zombie does not.
pub fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')')
        .next()
        .is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

/// The process that `@orphan` left, according to the agent's text.
pub fn orphan(text: &str) -> &str {
    text.lines()
        .find_map(|line| line.strip_prefix("orphan "))
        .unwrap()
}

/// A turn that ended for this reason.
pub fn turn(stop_reason: &str) -> Ended {
    Ended::Turn {
        stop_reason: stop_reason.to_owned(),
    }
}
