//! Keys that lie on a worker's machine, never in a clone that an agent can edit.

use crate::config::key::Reader::{Coordinator, Worker};
use crate::config::key::Unset::{Toml, Words};
use crate::config::key::{Key, key};

pub(super) const KEYS: &[Key] = &[
    key(
        "agent.preset",
        Toml("'claude'"),
        Worker,
        "The preset that says what the keys below don't: claude, codex, gemini, opencode, …",
    ),
    key(
        "agent.command",
        Words("the preset's"),
        Worker,
        "Program and arguments of the agent, split as a shell would; or a preset's name",
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
        Words("the preset's"),
        Worker,
        "Names of the worker's variables that it gets",
    )
    .var("RALPH_PASS_ENV"),
    key(
        "agent.files",
        Words("the preset's"),
        Worker,
        "Logins of the user's home that are copied in and, refreshed, back",
    ),
    key(
        "agent.mode",
        Words("the preset's, else the agent's own"),
        Worker,
        "The mode that the agent works in",
    ),
    key(
        "agent.models",
        Toml("{}"),
        Worker,
        "Names of the agent's models by tier, best first: opus = ['gpt-5']; else what the coordinator sends, and the preset knows",
    ),
    key(
        "agent.client_files",
        Words("the preset's, else true"),
        Worker,
        "Whether the agent is offered to read and write files through the protocol",
    ),
    key(
        "agent.client_terminals",
        Words("the preset's, else true"),
        Worker,
        "Whether the agent is offered to run commands through the protocol",
    ),
    key(
        "agent.start_seconds",
        Toml("120"),
        Worker,
        "How long the agent may take until a session is ready; three times that for its first start",
    ),
    key(
        "agent.protocol_log",
        Toml("false"),
        Worker,
        "Whether the protocol's lines of its sessions are kept on the worker",
    )
    .var("RALPH_PROTOCOL_LOG"),
    key(
        "agent.tools",
        Toml("true"),
        Worker,
        "Whether the agent is offered the tools of its session over MCP",
    ),
    key(
        "agent.account",
        Words("the agent's name"),
        Worker,
        "The account at a provider that the agent uses: who uses the same waits when it is over its rate",
    ),
    key(
        "agent.cost",
        Toml("'usage'"),
        Worker,
        "How it is paid: usage, or none for a subscription or a model of one's own, of which limits of cost hold nothing",
    ),
    key(
        "agent.permissions",
        Toml("[]"),
        Worker,
        "Rules of what the agent may do, by kind of tool and path",
    ),
    key("agent.mcp", Toml("{}"), Worker, "MCP servers that the agent gets").secret(),
    key(
        "agents.NAME.preset",
        Words("the preset called NAME, if there is one"),
        Worker,
        "As of [agent]",
    ),
    key(
        "agents.NAME.command",
        Words("the preset's"),
        Worker,
        "As of [agent], for an agent that tasks or runs name, or that is taken by its kinds, pools and tiers",
    ),
    key(
        "agents.NAME.kinds",
        Toml("[]"),
        Worker,
        "Kinds of session that the agent is taken for where nobody names one: spec, plan, build, work, verify, review, distill",
    ),
    key(
        "agents.NAME.pools",
        Toml("[]"),
        Worker,
        "Pools whose tasks it is taken for then",
    ),
    key(
        "agents.NAME.tiers",
        Toml("[]"),
        Worker,
        "Tiers of models that it is taken for then; kinds go before pools, these before tiers",
    ),
    key("agents.NAME.env", Toml("{}"), Worker, "As of [agent]").secret(),
    key(
        "agents.NAME.pass_env",
        Words("the preset's"),
        Worker,
        "As of [agent]",
    ),
    key(
        "agents.NAME.files",
        Words("the preset's"),
        Worker,
        "As of [agent]",
    ),
    key(
        "agents.NAME.mode",
        Words("the preset's, else the agent's own"),
        Worker,
        "As of [agent]",
    ),
    key("agents.NAME.models", Toml("{}"), Worker, "As of [agent]"),
    key(
        "agents.NAME.client_files",
        Words("the preset's, else true"),
        Worker,
        "As of [agent]",
    ),
    key(
        "agents.NAME.client_terminals",
        Words("the preset's, else true"),
        Worker,
        "As of [agent]",
    ),
    key("agents.NAME.start_seconds", Toml("120"), Worker, "As of [agent]"),
    key("agents.NAME.protocol_log", Toml("false"), Worker, "As of [agent]"),
    key("agents.NAME.tools", Toml("true"), Worker, "As of [agent]"),
    key(
        "agents.NAME.account",
        Words("the agent's name"),
        Worker,
        "As of [agent]",
    ),
    key("agents.NAME.cost", Toml("'usage'"), Worker, "As of [agent]"),
    key("agents.NAME.permissions", Toml("[]"), Worker, "As of [agent]"),
    key("agents.NAME.mcp", Toml("{}"), Worker, "As of [agent]").secret(),
    key(
        "git.filters",
        Toml("{}"),
        Worker,
        "Filters that attributes may ask for: filters.NAME = { clean = 'CMD', smudge = 'CMD' } or { process = 'CMD' }, run with the worker's rights",
    ),
    key(
        "workspace.setup",
        Toml("[]"),
        Worker,
        "Commands that prepare a checkout before an agent or a gate works in it",
    ),
    key(
        "workspace.on_complete",
        Words("nothing"),
        Worker,
        "The command that `--merge command` runs on the finished feature, with the worker's rights",
    ),
    key(
        "workspace.author",
        Words("whom git knows as the worker's user"),
        Worker,
        "Who commits, as `Name <address>`",
    ),
    key(
        "workspace.sign_off",
        Toml("false"),
        Worker,
        "Whether what lands is signed off by its author",
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
        "workspace.new_file_mb",
        Toml("20"),
        Worker,
        "Size from which on a new file sends an attempt back once, in MB; 0 is never",
    ),
    key(
        "workspace.new_files",
        Toml("2000"),
        Worker,
        "Number of new files from which on an attempt is sent back once; 0 is never",
    ),
    key(
        "workspace.build_folders",
        Toml(
            "['target', 'node_modules', '.venv', 'venv', '__pycache__', '.gradle', '.tox', '.mypy_cache', '.pytest_cache', '.ruff_cache', '.next', '.terraform']",
        ),
        Worker,
        "Names of folders that send an attempt back once when they are new and not ignored",
    ),
    key(
        "workspace.keep_attempts_days",
        Toml("30"),
        Coordinator,
        "How long branches of attempts of features that ended stay at the remote; 0 is for ever",
    ),
    key(
        "workspace.attempts",
        Toml("'refs'"),
        Coordinator,
        "Where attempts stand at the remote: in refs of their own (refs), or in branches where a server takes nothing else (branches)",
    ),
    key(
        "workspace.disk_budget_mb",
        Words("no bound"),
        Worker,
        "What a worker's data folder may take before caches and unused mirrors go; unpushed work stays",
    ),
    key(
        "workspace.warm",
        Toml("['target', 'node_modules']"),
        Worker,
        "Names of ignored folders whose content, from the last gate that passed and landed, later checkouts start with; [] is none",
    ),
    key(
        "workspace.warm_mb",
        Toml("2048"),
        Worker,
        "Size of these folders, together, up to which a worker keeps them",
    ),
    key(
        "workspace.keep_files_days",
        Toml("7"),
        Worker,
        "How long a worker keeps what a session without a repository leaves, or what a server's rule refuses; 0 is not at all",
    ),
    key(
        "workspace.pass_env",
        Words("none"),
        Worker,
        "Names of the worker's variables that sessions, setup and gates get",
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
];
