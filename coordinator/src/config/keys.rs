//! Every key, with what it is when nobody sets it and who reads it.

/// Something that can be set.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// `table.key` of `.ralph.toml`, with `NAME` for a name that the user chooses; without a dot it is no key of the file.
    pub name: &'static str,
    /// What holds when nobody sets it.
    pub default: Unset,
    /// The variable that wins over the file.
    pub variable: Option<&'static str>,
    /// The flag that wins over the variable, without its dashes.
    pub flag: Option<&'static str>,
    /// Who reads it.
    pub reader: Reader,
    /// Whether its value is shown to nobody.
    pub secret: bool,
    /// What it sets.
    pub about: &'static str,
}

/// What holds when nobody sets a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unset {
    /// A value, as `.ralph.toml` would have it.
    Toml(&'static str),
    /// Nothing, or something that depends on more: in words.
    Words(&'static str),
}

/// Who reads a key, where its file lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// Commands that submit or start a run, which keeps it.
    Run,
    /// Every command.
    Command,
    /// The coordinator.
    Coordinator,
    /// A worker: its own host's file, never one in a clone.
    Worker,
    /// Commands and workers, each for itself.
    Program,
}

impl Reader {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Command => "command",
            Self::Coordinator => "coordinator",
            Self::Worker => "worker",
            Self::Program => "program",
        }
    }
}

const fn key(name: &'static str, default: Unset, reader: Reader, about: &'static str) -> Key {
    Key {
        name,
        default,
        variable: None,
        flag: None,
        reader,
        secret: false,
        about,
    }
}

impl Key {
    const fn var(mut self, variable: &'static str) -> Self {
        self.variable = Some(variable);
        self
    }

    const fn flag(mut self, flag: &'static str) -> Self {
        self.flag = Some(flag);
        self
    }

    const fn secret(mut self) -> Self {
        self.secret = true;
        self
    }
}

use Reader::{Command, Coordinator, Program, Run, Worker};
use Unset::{Toml, Words};

/// Tables whose keys nobody here knows: other programs' or later releases'.
pub(super) const OPAQUE: [&str; 2] = ["telemetry", "sandbox"];

/// All of them, by table.
pub const KEYS: &[Key] = &[
    key(
        "execution.max_retries",
        Toml("3"),
        Run,
        "Retries of a task, then a person is asked",
    )
    .var("RALPH_MAX_RETRIES")
    .flag("max-retries"),
    key(
        "execution.verify",
        Toml("true"),
        Run,
        "Whether another session judges each attempt",
    )
    .flag("no-verify"),
    key(
        "execution.avoid_conflicts",
        Toml("false"),
        Run,
        "Whether tasks that change the same paths run one after the other",
    )
    .flag("avoid-conflicts"),
    key(
        "execution.learn",
        Words("ignored"),
        Run,
        "Accepted for files of older systems, and ignored",
    ),
    key(
        "execution.stuck_threshold",
        Toml("3"),
        Coordinator,
        "Failures in a row after which an agent is told that the task is stuck",
    ),
    key(
        "verify.commands",
        Toml("[]"),
        Run,
        "Commands that must succeed on exactly the commit that lands",
    )
    .flag("gate"),
    key(
        "limits.iterations",
        Words("20, and 5 for each task"),
        Run,
        "Iterations of a run",
    )
    .var("RALPH_LIMIT")
    .flag("limit"),
    key("limits.max_time", Toml("'24h'"), Run, "Wall time of a run")
        .var("RALPH_MAX_TIME")
        .flag("max-time"),
    key("limits.max_cost", Toml("20.0"), Run, "Cost of a run in USD")
        .var("RALPH_MAX_COST")
        .flag("max-cost"),
    key(
        "limits.max_tokens",
        Words("no limit"),
        Run,
        "Tokens of a run, in and out",
    )
    .var("RALPH_MAX_TOKENS")
    .flag("max-tokens"),
    key(
        "limits.session_time",
        Toml("'60m'"),
        Run,
        "Wall time of a session",
    )
    .var("RALPH_SESSION_TIME")
    .flag("session-time"),
    key(
        "limits.idle_time",
        Toml("'10m'"),
        Run,
        "Longest silence of an agent",
    )
    .var("RALPH_IDLE_TIME")
    .flag("idle-time"),
    key(
        "limits.session_output_mb",
        Toml("50"),
        Run,
        "Output of a session in MB",
    ),
    key(
        "limits.backoff",
        Toml("'10s'"),
        Run,
        "Pause after a task's first failure, doubled by each up to 10 minutes",
    )
    .var("RALPH_BACKOFF")
    .flag("backoff"),
    key(
        "limits.max_parallel",
        Toml("4"),
        Run,
        "Sessions of a feature at once",
    )
    .var("RALPH_MAX_PARALLEL")
    .flag("max-parallel"),
    key(
        "model",
        Words("as the strategy chooses"),
        Run,
        "Model or tier; alone it means the strategy `fixed`",
    )
    .var("RALPH_RUN_MODEL")
    .flag("model"),
    key(
        "model_strategy",
        Toml("'cost-optimized'"),
        Run,
        "How models are chosen",
    )
    .var("RALPH_MODEL_STRATEGY")
    .flag("model-strategy"),
    key(
        "workspace.merge",
        Words("left on its own branch"),
        Run,
        "How a finished feature comes into its base: ff, merge, squash, command",
    )
    .flag("merge"),
    key(
        "workspace.on_complete",
        Words("nothing"),
        Worker,
        "The command that `--merge command` runs on the finished feature, with the worker's rights",
    ),
    key(
        "workspace.repo_id",
        Words("the origin's address, normalised"),
        Run,
        "Whose memory and names a repository shares",
    ),
    key(
        "models.tiers",
        Toml("[{ name = 'haiku' }, { name = 'sonnet' }, { name = 'opus' }]"),
        Coordinator,
        "Tiers of models, weakest first, with the names that agents know each by",
    ),
    key(
        "memory.enabled",
        Toml("true"),
        Coordinator,
        "Whether prompts hold what earlier iterations left",
    ),
    key(
        "memory.budget",
        Words("the sum of its sections' budgets"),
        Coordinator,
        "Characters of a prompt that memory may take",
    ),
    key(
        "memory.reference_chars",
        Toml("30000"),
        Coordinator,
        "Characters of a specification, a plan or a description that a prompt shows",
    ),
    key(
        "memory.hold_out",
        Toml("0.05"),
        Coordinator,
        "Share of first attempts without other tasks' memory",
    ),
    key(
        "memory.max_learnings",
        Toml("100000"),
        Coordinator,
        "Learnings of a repository that are live at once",
    ),
    key(
        "memory.max_knowledge",
        Toml("20000"),
        Coordinator,
        "Knowledge entries of a repository that are live at once",
    ),
    key(
        "memory.unused_days",
        Toml("365"),
        Coordinator,
        "Days after which what no attempt was shown is hidden; 0 is never",
    ),
    key(
        "memory.distill",
        Toml("false"),
        Coordinator,
        "Whether sessions merge learnings that say nearly the same",
    ),
    key(
        "memory.distill_above",
        Toml("20"),
        Coordinator,
        "More learnings than this that share a rare tag are merged",
    ),
    key(
        "memory.distill_usd_a_day",
        Toml("1"),
        Coordinator,
        "What these sessions may cost in 24 hours, in USD",
    ),
    key(
        "memory.embeddings.url",
        Words("no model is asked"),
        Coordinator,
        "Model that makes vectors of texts, in the OpenAI form",
    )
    .secret(),
    key(
        "memory.embeddings.model",
        Words("none"),
        Coordinator,
        "That model's name",
    ),
    key(
        "memory.embeddings.key",
        Words("none"),
        Coordinator,
        "Key that it is sent, or file:PATH",
    )
    .var("RALPH_EMBEDDINGS_KEY")
    .secret(),
    key(
        "memory.embeddings.dimensions",
        Words("as many as it answers"),
        Coordinator,
        "Numbers of each vector",
    ),
    key(
        "memory.embeddings.timeout_ms",
        Toml("300"),
        Coordinator,
        "How long a claim waits for a vector",
    ),
    key(
        "memory.templates",
        Words("the built-in wording"),
        Coordinator,
        "Folder whose files replace the prompts' wording",
    ),
    key(
        "api.requests_per_second",
        Toml("500"),
        Coordinator,
        "How often each token may ask; 0 is no limit",
    ),
    key(
        "notify.url",
        Words("nobody is told"),
        Coordinator,
        "Where a run's end and a person's being needed are posted",
    )
    .secret(),
    key(
        "notify.secret",
        Words("not signed"),
        Coordinator,
        "Key of the signature, or file:PATH",
    )
    .var("RALPH_NOTIFY_SECRET")
    .secret(),
    key(
        "notify.command",
        Words("none"),
        Coordinator,
        "What is run with the message on its standard input",
    ),
    key(
        "notify.events",
        Toml("['run_ended', 'person_needed', 'pool_paused']"),
        Coordinator,
        "What is told",
    ),
    key(
        "agent.command",
        Toml("'claude-agent-acp'"),
        Worker,
        "Program and arguments of the agent, split as a shell would",
    )
    .var("RALPH_AGENT"),
    key(
        "agent.env",
        Toml("{}"),
        Worker,
        "Variables that the agent gets; file:PATH for a value that stands in a file",
    )
    .secret(),
    key(
        "agent.pass_env",
        Toml("[]"),
        Worker,
        "Names of the worker's variables that it gets",
    )
    .var("RALPH_PASS_ENV"),
    key(
        "agent.files",
        Toml("[]"),
        Worker,
        "Logins of the user's home that are copied in and, refreshed, back",
    ),
    key(
        "agent.mode",
        Words("the agent's own"),
        Worker,
        "The mode that the agent works in",
    ),
    key(
        "agent.account",
        Words("the agent's name"),
        Worker,
        "The account at a provider that the agent uses: who uses the same waits when it is over its rate",
    ),
    key(
        "agent.permissions",
        Toml("[]"),
        Worker,
        "Rules of what the agent may do, by kind of tool and path",
    ),
    key("agent.mcp", Toml("{}"), Worker, "MCP servers that the agent gets").secret(),
    key(
        "agents.NAME.command",
        Words("must be given"),
        Worker,
        "As of [agent], for an agent that tasks name",
    ),
    key("agents.NAME.env", Toml("{}"), Worker, "As of [agent]").secret(),
    key("agents.NAME.pass_env", Toml("[]"), Worker, "As of [agent]"),
    key("agents.NAME.files", Toml("[]"), Worker, "As of [agent]"),
    key(
        "agents.NAME.mode",
        Words("the agent's own"),
        Worker,
        "As of [agent]",
    ),
    key(
        "agents.NAME.account",
        Words("the agent's name"),
        Worker,
        "As of [agent]",
    ),
    key("agents.NAME.permissions", Toml("[]"), Worker, "As of [agent]"),
    key("agents.NAME.mcp", Toml("{}"), Worker, "As of [agent]").secret(),
    key(
        "workspace.setup",
        Toml("[]"),
        Worker,
        "Commands that prepare a checkout before an agent or a gate works in it",
    ),
    key(
        "workspace.depth",
        Words("all"),
        Worker,
        "How many commits of each branch a new mirror begins with; more are fetched when a merge needs them",
    ),
    key(
        "workspace.filter",
        Words("all are fetched"),
        Worker,
        "Which objects stay at the remote until they are needed: blob:none, blob:limit=SIZE",
    ),
    key(
        "workspace.caches",
        Toml("{}"),
        Worker,
        "Folders that setup fills once for each state of the files in `key`",
    ),
    key(
        "workspace.keep_attempts_days",
        Toml("30"),
        Coordinator,
        "How long branches of attempts of features that ended stay at the remote; 0 is for ever",
    ),
    key(
        "workspace.disk_budget_mb",
        Words("no bound"),
        Worker,
        "What a worker's data folder may take before caches and unused mirrors go; unpushed work stays",
    ),
    key(
        "workspace.pass_env",
        Words("none"),
        Worker,
        "Names of the worker's variables that these commands and a gate's get",
    ),
    key(
        "workspace.dirs",
        Toml("[]"),
        Worker,
        "Folders that agents may work in themselves (--workspace dir)",
    )
    .var("RALPH_DIRS"),
    key(
        "workspace.sandbox",
        Toml("'auto'"),
        Worker,
        "What confines agents: auto, landlock, bubblewrap or none",
    )
    .var("RALPH_SANDBOX"),
    key(
        "workspace.sandbox_read",
        Toml("[]"),
        Worker,
        "What agents may read besides",
    )
    .var("RALPH_SANDBOX_READ"),
    key(
        "workspace.sandbox_write",
        Toml("[]"),
        Worker,
        "What agents may write besides",
    )
    .var("RALPH_SANDBOX_WRITE"),
    key(
        "workspace.sandbox_network",
        Toml("'open'"),
        Worker,
        "What agents reach of the network: open, none, or a proxy alone",
    )
    .var("RALPH_SANDBOX_NETWORK")
    .secret(),
    key(
        "workspace.session_memory_mb",
        Words("three quarters of the machine's"),
        Worker,
        "Memory of a session's processes together in MiB",
    ),
    key(
        "workspace.session_processes",
        Toml("4096"),
        Worker,
        "Processes and threads of a session",
    ),
    key(
        "workspace.session_cpu_seconds",
        Words("no limit"),
        Worker,
        "CPU time of each of its processes",
    ),
    key(
        "workspace.session_file_mb",
        Toml("16384"),
        Worker,
        "Size of each file that it writes in MiB",
    ),
    key(
        "workspace.session_disk_reserve_mb",
        Toml("256"),
        Worker,
        "What has to stay free of a session's disk in MiB: one that holds as much is ended when less is left",
    ),
    key(
        "url",
        Words("that of the running `up`"),
        Command,
        "Address of the coordinator's API",
    )
    .var("RALPH_URL")
    .flag("url"),
    key(
        "token",
        Words("that of the running `up`"),
        Command,
        "Token for the API",
    )
    .var("RALPH_TOKEN")
    .flag("token")
    .secret(),
    key("data", Toml("'.ralph'"), Command, "Data folder of `up`")
        .var("RALPH_DATA")
        .flag("data"),
    key(
        "listen",
        Toml("'127.0.0.1:7226'"),
        Coordinator,
        "Where the HTTP API listens; `up` takes a free port",
    )
    .var("RALPH_LISTEN")
    .flag("listen"),
    key(
        "token_file",
        Words("none"),
        Coordinator,
        "File with a token that may do everything",
    )
    .var("RALPH_TOKEN_FILE")
    .flag("token-file"),
    key(
        "db_connections",
        Toml("16"),
        Coordinator,
        "Connections to Postgres, at most",
    )
    .var("RALPH_DB_CONNECTIONS")
    .flag("db-connections"),
    key(
        "subject_prefix",
        Toml("'ralph'"),
        Coordinator,
        "Prefix of all NATS names",
    )
    .var("RALPH_SUBJECT_PREFIX")
    .flag("subject-prefix"),
    key(
        "database_url",
        Words("must be given to `serve`"),
        Coordinator,
        "Address of Postgres",
    )
    .var("DATABASE_URL")
    .secret(),
    key(
        "nats_url",
        Toml("'nats://127.0.0.1:4222'"),
        Program,
        "Address of NATS",
    )
    .var("NATS_URL")
    .secret(),
    key(
        "heartbeat_ms",
        Toml("5000"),
        Coordinator,
        "How often workers send heartbeats",
    )
    .var("RALPH_HEARTBEAT_MS"),
    key(
        "lease_ms",
        Toml("20000"),
        Coordinator,
        "How long a lease lasts without one",
    )
    .var("RALPH_LEASE_MS"),
    key(
        "dark_limit_ms",
        Toml("600000"),
        Coordinator,
        "How long a worker out of contact lets its sessions go on",
    )
    .var("RALPH_DARK_LIMIT_MS"),
    key(
        "grace_ms",
        Toml("5000"),
        Coordinator,
        "From a session's cancel to the signal, and from there to the kill",
    )
    .var("RALPH_GRACE_MS"),
    key(
        "log",
        Words("by command"),
        Program,
        "What is logged, as a filter of `tracing`",
    )
    .var("RALPH_LOG"),
    key(
        "log_format",
        Toml("'text'"),
        Program,
        "How it is logged: text or json",
    )
    .var("RALPH_LOG_FORMAT"),
];
