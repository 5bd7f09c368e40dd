//! What the agent keeps of a session between its messages.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent_client_protocol::v1::schema::{
    McpServer, SessionConfigOption, SessionConfigOptionCategory, SessionConfigSelectOption, SessionId,
    SessionUpdate,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::watch;

/// The id of the option by which a client chooses the model.
pub(super) const MODEL_OPTION: &str = "model";
const MODELS: [&str; 3] = ["haiku", "sonnet", "opus"];
const FIRST_MODEL: &str = "sonnet";

/// One ACP session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: SessionId,
    pub(super) cwd: PathBuf,
    /// What the client offers.
    pub(super) mcp_servers: Vec<McpServer>,
    model: Mutex<String>,
    usage: Mutex<Usage>,
    cancelled: watch::Sender<bool>,
    ignores_cancel: AtomicBool,
    /// The first task that a prompt of this session assigned: its description.
    assigned: Mutex<Option<String>>,
    /// How many actions of a turn that didn't end were begun.
    begun: AtomicUsize,
    /// What was told of it, as far as it is kept.
    told: Mutex<Vec<SessionUpdate>>,
    /// Where it is kept, if it is.
    kept: Option<PathBuf>,
}

/// What outlives the process.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    description: String,
    begun: usize,
    told: Vec<SessionUpdate>,
}

/// What the session spent so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Usage {
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    pub(super) cost_usd: f64,
}

impl Session {
    fn new(id: SessionId, cwd: PathBuf, mcp_servers: Vec<McpServer>, kept: Option<PathBuf>) -> Self {
        Self {
            id,
            cwd,
            mcp_servers,
            model: Mutex::new(FIRST_MODEL.to_owned()),
            usage: Mutex::default(),
            cancelled: watch::Sender::new(false),
            ignores_cancel: AtomicBool::new(false),
            assigned: Mutex::default(),
            begun: AtomicUsize::new(0),
            told: Mutex::default(),
            kept,
        }
    }

    /// Takes up what an earlier process kept of it.
    fn restore(&self) -> io::Result<()> {
        let kept = self.kept.as_deref().ok_or(io::ErrorKind::NotFound)?;
        let kept: Kept = serde_json::from_slice(&std::fs::read(kept)?)?;
        *lock(&self.assigned) = Some(kept.description);
        self.begun.store(kept.begun, Ordering::Relaxed);
        *lock(&self.told) = kept.told;
        Ok(())
    }

    /// How many actions were begun in the turn that a prompt without an assignment goes on with.
    pub(super) fn begun(&self) -> usize {
        self.begun.load(Ordering::Relaxed)
    }

    /// Notes how many actions of the turn were begun; none once it ended.
    pub(super) fn begin(&self, actions: usize) -> io::Result<()> {
        self.begun.store(actions, Ordering::Relaxed);
        let Some(path) = &self.kept else {
            return Ok(());
        };
        let kept = Kept {
            description: lock(&self.assigned).clone().unwrap_or_default(),
            begun: actions,
            told: lock(&self.told).clone(),
        };
        std::fs::create_dir_all(path.parent().unwrap_or(path))?;
        std::fs::write(path, serde_json::to_vec(&kept)?)
    }

    /// Notes what is told, for who loads the session; without a place to keep it, nothing. What was used is no history.
    pub(super) fn note(&self, update: &SessionUpdate) {
        if self.kept.is_some() && !matches!(update, SessionUpdate::UsageUpdate(_)) {
            lock(&self.told).push(update.clone());
        }
    }

    /// What was told of the session, in its order.
    pub(super) fn told(&self) -> Vec<SessionUpdate> {
        lock(&self.told).clone()
    }

    /// Forgets the cancellation of an earlier turn. Called where messages arrive, so that no later one is forgotten.
    pub(super) fn begin_turn(&self) {
        self.cancelled.send_replace(false);
    }

    /// What a turn goes by: the description that its prompt assigns, else that of the session's first one.
    pub(super) fn assigned(&self, description: &str) -> String {
        let mut assigned = lock(&self.assigned);
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

    /// Returns when the turn is cancelled; never, from [`Session::ignore_cancel`] on.
    pub(super) async fn cancelled(&self) {
        let mut cancelled = self.cancelled.subscribe();
        let told = cancelled.wait_for(|cancelled| *cancelled).await.is_ok();
        if !told || self.ignores_cancel.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    }

    pub(super) fn model(&self) -> String {
        lock(&self.model).clone()
    }

    /// Chooses a model; false where there is none of that name.
    pub(super) fn set_model(&self, name: &str) -> bool {
        let known = MODELS.contains(&name);
        if known {
            name.clone_into(&mut lock(&self.model));
        }
        known
    }

    /// The models as agents offered them before there were options.
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

    /// Adds to what was spent and returns the sum.
    pub(super) fn spend(&self, more: Usage) -> Usage {
        let mut usage = lock(&self.usage);
        usage.input_tokens += more.input_tokens;
        usage.output_tokens += more.output_tokens;
        usage.cost_usd += more.cost_usd;
        *usage
    }

    /// What was spent; `None` if nothing was ever told.
    pub(super) fn spent(&self) -> Option<Usage> {
        Some(*lock(&self.usage)).filter(|usage| *usage != Usage::default())
    }
}

/// The sessions of this process.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    open: Mutex<HashMap<SessionId, Arc<Session>>>,
    /// Where they are kept, if they are.
    folder: Option<PathBuf>,
}

impl Sessions {
    /// Sessions that are kept in a folder, or not at all.
    pub(super) fn kept_in(folder: Option<PathBuf>) -> Self {
        Self {
            open: Mutex::default(),
            folder,
        }
    }

    pub(super) fn open(&self, cwd: PathBuf, servers: Vec<McpServer>) -> Arc<Session> {
        let id = SessionId::new(format!("scripted-{}", uuid::Uuid::now_v7()));
        self.insert(Session::new(id.clone(), cwd, servers, self.place(&id)))
    }

    /// Opens one that an earlier process kept.
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
        lock(&self.open).get(id).cloned()
    }

    fn insert(&self, session: Session) -> Arc<Session> {
        let session = Arc::new(session);
        lock(&self.open).insert(session.id.clone(), Arc::clone(&session));
        session
    }

    fn place(&self, id: &SessionId) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(&*id.0).with_extension("json"))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
