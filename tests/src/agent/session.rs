//! State of a session between messages.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use agent_client_protocol::v1::schema::{
    McpServer, SessionConfigOption, SessionConfigOptionCategory, SessionConfigSelectOption, SessionId,
    SessionUpdate,
};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::watch;

/// The id of the option for the model.
pub(super) const MODEL_OPTION: &str = "model";
const MODELS: [&str; 3] = ["haiku", "sonnet", "opus"];
const FIRST_MODEL: &str = "sonnet";

#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: SessionId,
    pub(super) cwd: PathBuf,
    /// The servers that the client offers.
    pub(super) mcp_servers: Vec<McpServer>,
    model: Mutex<String>,
    usage: Mutex<Usage>,
    cancelled: watch::Sender<bool>,
    ignores_cancel: AtomicBool,
    /// Description of the first task that a prompt of this session assigned.
    assigned: Mutex<Option<String>>,
    /// Number of started actions of a turn that didn't end.
    started: AtomicUsize,
    /// Past updates, if the session is saved.
    history: Mutex<Vec<SessionUpdate>>,
    /// File of a saved session.
    file: Option<PathBuf>,
}

/// The part of a session that outlives the process.
#[derive(Debug, Serialize, Deserialize)]
struct SavedSession {
    description: String,
    started: usize,
    history: Vec<SessionUpdate>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Usage {
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    pub(super) cost_usd: f64,
}

impl Session {
    fn new(id: SessionId, cwd: PathBuf, mcp_servers: Vec<McpServer>, file: Option<PathBuf>) -> Self {
        Self {
            id,
            cwd,
            mcp_servers,
            model: Mutex::new(FIRST_MODEL.to_owned()),
            usage: Mutex::default(),
            cancelled: watch::Sender::new(false),
            ignores_cancel: AtomicBool::new(false),
            assigned: Mutex::default(),
            started: AtomicUsize::new(0),
            history: Mutex::default(),
            file,
        }
    }

    /// Restores the state that an earlier process saved.
    fn restore(&self) -> io::Result<()> {
        let file = self.file.as_deref().ok_or(io::ErrorKind::NotFound)?;
        let saved: SavedSession = serde_json::from_slice(&std::fs::read(file)?)?;
        *self.assigned.lock() = Some(saved.description);
        self.started.store(saved.started, Ordering::Relaxed);
        *self.history.lock() = saved.history;
        Ok(())
    }

    /// Number of started actions of the unfinished turn, which a prompt without an assignment continues.
    pub(super) fn started(&self) -> usize {
        self.started.load(Ordering::Relaxed)
    }

    /// Records the number of started actions of the turn; 0 once it has ended.
    pub(super) fn record_started(&self, actions: usize) -> io::Result<()> {
        self.started.store(actions, Ordering::Relaxed);
        let Some(path) = &self.file else {
            return Ok(());
        };
        let saved = SavedSession {
            description: self.assigned.lock().clone().unwrap_or_default(),
            started: actions,
            history: self.history.lock().clone(),
        };
        std::fs::create_dir_all(path.parent().unwrap_or(path))?;
        std::fs::write(path, serde_json::to_vec(&saved)?)
    }

    /// Records an update for later loads, if the session is saved. Usage is not part of the history.
    pub(super) fn note(&self, update: &SessionUpdate) {
        if self.file.is_some() && !matches!(update, SessionUpdate::UsageUpdate(_)) {
            self.history.lock().push(update.clone());
        }
    }

    /// The recorded updates, in order.
    pub(super) fn history(&self) -> Vec<SessionUpdate> {
        self.history.lock().clone()
    }

    /// Clears the cancellation of an earlier turn. Called on arrival of the prompt, so that no later
    /// cancellation is lost.
    pub(super) fn begin_turn(&self) {
        self.cancelled.send_replace(false);
    }

    /// The description for a turn: the one in its prompt, else the first one of the session.
    pub(super) fn assigned(&self, description: &str) -> String {
        let mut assigned = self.assigned.lock();
        if description.trim().is_empty() {
            return assigned.clone().unwrap_or_default();
        }
        assigned.get_or_insert_with(|| description.to_owned());
        description.to_owned()
    }

    pub(super) fn cancel(&self) {
        self.cancelled.send_replace(true);
    }

    pub(super) fn ignore_cancel(&self) {
        self.ignores_cancel.store(true, Ordering::Relaxed);
    }

    /// Returns when the turn is cancelled; never after [`Session::ignore_cancel`].
    pub(super) async fn cancelled(&self) {
        let mut cancelled = self.cancelled.subscribe();
        let received = cancelled.wait_for(|cancelled| *cancelled).await.is_ok();
        if !received || self.ignores_cancel.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    }

    pub(super) fn model(&self) -> String {
        self.model.lock().clone()
    }

    /// Chooses a model; false if the name is unknown.
    pub(super) fn set_model(&self, name: &str) -> bool {
        let known = MODELS.contains(&name);
        if known {
            name.clone_into(&mut self.model.lock());
        }
        known
    }

    /// The models, in the format from before session options.
    pub(super) fn models(&self) -> Value {
        let available: Vec<Value> = MODELS
            .iter()
            .map(|model| json!({ "modelId": model, "name": model }))
            .collect();
        json!({ "availableModels": available, "currentModelId": self.model() })
    }

    /// The options that a client may set, with their current values.
    pub(super) fn options(&self) -> Vec<SessionConfigOption> {
        let models: Vec<_> = MODELS
            .iter()
            .map(|model| SessionConfigSelectOption::new(*model, *model))
            .collect();
        vec![
            SessionConfigOption::select(MODEL_OPTION, "Model", self.model(), models)
                .category(SessionConfigOptionCategory::Model),
        ]
    }

    /// Adds to the usage and returns the total.
    pub(super) fn spend(&self, more: Usage) -> Usage {
        let mut usage = self.usage.lock();
        usage.input_tokens += more.input_tokens;
        usage.output_tokens += more.output_tokens;
        usage.cost_usd += more.cost_usd;
        *usage
    }

    /// The total usage; `None` if none was reported.
    pub(super) fn spent(&self) -> Option<Usage> {
        Some(*self.usage.lock()).filter(|usage| *usage != Usage::default())
    }
}

/// The sessions of this process.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    open: Mutex<HashMap<SessionId, Arc<Session>>>,
    /// Folder for saved sessions, if they are saved.
    folder: Option<PathBuf>,
}

impl Sessions {
    pub(super) fn saved_in(folder: Option<PathBuf>) -> Self {
        Self {
            open: Mutex::default(),
            folder,
        }
    }

    pub(super) fn open(&self, cwd: PathBuf, servers: Vec<McpServer>) -> Arc<Session> {
        let id = SessionId::new(format!("scripted-{}", uuid::Uuid::now_v7()));
        self.insert(Session::new(id.clone(), cwd, servers, self.place(&id)))
    }

    /// Opens a session that an earlier process saved.
    pub(super) fn load(
        &self,
        id: &SessionId,
        cwd: PathBuf,
        servers: Vec<McpServer>,
    ) -> io::Result<Arc<Session>> {
        let session = Session::new(id.clone(), cwd, servers, self.place(id));
        session.restore()?;
        Ok(self.insert(session))
    }

    pub(super) fn get(&self, id: &SessionId) -> Option<Arc<Session>> {
        self.open.lock().get(id).cloned()
    }

    fn insert(&self, session: Session) -> Arc<Session> {
        let session = Arc::new(session);
        self.open.lock().insert(session.id.clone(), Arc::clone(&session));
        session
    }

    fn place(&self, id: &SessionId) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(&*id.0).with_extension("json"))
    }
}
