//! All keys, in listing order.

use std::sync::LazyLock;

use ralph_shared::agents::prices::Price;
use ralph_shared::config::Reader::{Command, Coordinator, Program, Run};
use ralph_shared::config::{
    AgentTable, GitTable, Key, RuleTable, Unset, Workspace, WorkspaceTable, toml, words,
};

use super::budgets;
use super::file::{Api, CeilingsTable, Execution, Limits, Models, NotifyTable, Verify};
use super::memory::{EmbeddingsTable, Memory};
use super::questions::Questions;
use super::repositories::RepositoriesTable;
use super::retention::Retention;
use super::sections::SectionsTable;
use super::shares::Shares;
use super::telemetry::Telemetry;

/// Tables that nothing reads, each with its replacement.
pub(super) const WITHOUT_EFFECT: [(&str, &str); 1] = [(
    "sandbox",
    "`[workspace] sandbox` and its neighbours, on the worker's machine, set what confines agents",
)];

pub static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| {
    let run = [
        Execution::KEYS,
        OF_A_RUN,
        Verify::KEYS,
        Limits::KEYS,
        Workspace::KEYS,
    ];
    let memory = [Memory::KEYS, SectionsTable::KEYS, EmbeddingsTable::KEYS];
    let coordinator = [
        Questions::KEYS,
        Api::KEYS,
        CeilingsTable::KEYS,
        Shares::KEYS,
        RepositoriesTable::KEYS,
        Price::KEYS,
        NotifyTable::KEYS,
        Retention::KEYS,
        Telemetry::KEYS,
    ];
    let worker = [RuleTable::KEYS, GitTable::KEYS, WorkspaceTable::KEYS];
    let of = |tables: &[&'static [Key]]| tables.concat();
    [
        of(&run),
        Models::KEYS.to_vec(),
        of(&memory),
        of(&coordinator),
        budgets::keys(),
        AgentTable::KEYS.to_vec(),
        agents(),
        of(&worker),
        OF_A_PROGRAM.to_vec(),
    ]
    .concat()
});

/// `[agents.NAME]` has the keys of `[agent]`.
fn agents() -> Vec<Key> {
    let of_agent = |key: &Key| {
        let name = key.name.replacen("agent.", "agents.NAME.", 1);
        Key {
            name: String::leak(name),
            default: match key.name {
                "agent.preset" => Unset::Words("the preset called NAME, if there is one"),
                _ => key.default,
            },
            variable: None,
            about: match key.name {
                "agent.command" => {
                    "As of [agent], for an agent that tasks or runs name, or that is taken by its kinds, pools and tiers"
                }
                _ => "As of [agent]",
            },
            ..*key
        }
    };
    AgentTable::KEYS.iter().map(of_agent).collect()
}

/// Run keys outside of any table.
const OF_A_RUN: &[Key] = &[
    words("ignored").key(
        "execution.learn",
        Run,
        "Ignored; accepted so that older files still work",
    ),
    words("as the strategy chooses")
        .var("RALPH_MODEL")
        .flag("model")
        .key("model", Run, "Model or tier; alone it means the strategy `fixed`"),
    toml("'cost-optimized'")
        .var("RALPH_MODEL_STRATEGY")
        .flag("model-strategy")
        .key("model_strategy", Run, "How models are chosen"),
];

/// Flags and variables of the programs, which are not keys of the file.
const OF_A_PROGRAM: &[Key] = &[
    words("that of the running `up`")
        .var("RALPH_URL")
        .flag("url")
        .key("url", Command, "Address of the coordinator's API"),
    words("that of the running `up`")
        .var("RALPH_TOKEN")
        .flag("token")
        .secret()
        .key("token", Command, "Token for the API"),
    toml("'.ralph'")
        .var("RALPH_DATA")
        .flag("data")
        .key("data", Command, "Data folder of `up`"),
    toml("'127.0.0.1:7226'").var("RALPH_LISTEN").flag("listen").key(
        "listen",
        Coordinator,
        "Where the HTTP API listens; `up` takes a free port",
    ),
    words("none").var("RALPH_TOKEN_FILE").flag("token-file").key(
        "token_file",
        Coordinator,
        "File with a token for all operations",
    ),
    toml("20").var("RALPH_DB_CONNECTIONS").flag("db-connections").key(
        "db_connections",
        Coordinator,
        "Connections to Postgres, at most; some are kept for heartbeats, claims and reports",
    ),
    words("none")
        .var("RALPH_READ_TOKEN_FILE")
        .flag("read-token-file")
        .key("read_token_file", Coordinator, "File with a read-only token"),
    words("nowhere")
        .var("RALPH_HEALTH_LISTEN")
        .flag("health-listen")
        .key(
            "health_listen",
            Coordinator,
            "Another address that serves /healthz and /readyz",
        ),
    words("none").var("RALPH_CA_FILE").key(
        "ca_file",
        Program,
        "File with certificates of private authorities, for every connection",
    ),
    toml("'ralph'")
        .var("RALPH_SUBJECT_PREFIX")
        .flag("subject-prefix")
        .key("subject_prefix", Coordinator, "Prefix of all NATS names"),
    words("must be given to `serve`")
        .var("DATABASE_URL")
        .secret()
        .key("database_url", Coordinator, "Address of Postgres"),
    toml("'nats://127.0.0.1:4222'")
        .var("NATS_URL")
        .secret()
        .key("nats_url", Program, "Address of NATS"),
    words("that of the address")
        .var("NATS_USER")
        .key("nats_user", Program, "User of NATS"),
    words("that of the address").var("NATS_PASSWORD").secret().key(
        "nats_password",
        Program,
        "Password of NATS",
    ),
    words("none")
        .var("NATS_TOKEN")
        .secret()
        .key("nats_token", Program, "Token of NATS"),
    words("none")
        .var("NATS_CREDS")
        .key("nats_creds", Program, "File with credentials for NATS"),
    words("none")
        .var("NATS_NKEY")
        .key("nats_nkey", Program, "File with the seed of a user of NATS"),
    words("ca_file, else the system's").var("NATS_CA").key(
        "nats_ca",
        Program,
        "File with the certificates that NATS is verified by",
    ),
    words("none")
        .var("NATS_CERT")
        .key("nats_cert", Program, "File with the client certificate for NATS"),
    words("none")
        .var("NATS_KEY")
        .key("nats_key", Program, "File with its key"),
    toml("5000").var("RALPH_HEARTBEAT_MS").key(
        "heartbeat_ms",
        Coordinator,
        "Milliseconds between heartbeats of a worker",
    ),
    toml("20000").var("RALPH_LEASE_MS").key(
        "lease_ms",
        Coordinator,
        "Milliseconds that a lease lasts without a heartbeat",
    ),
    toml("600000").var("RALPH_DARK_LIMIT_MS").key(
        "dark_limit_ms",
        Coordinator,
        "Milliseconds that sessions go on while their worker is out of contact",
    ),
    toml("5000").var("RALPH_GRACE_MS").key(
        "grace_ms",
        Coordinator,
        "Milliseconds from a session's cancel to the signal, and from the signal to the kill",
    ),
    words("by command")
        .var("RALPH_LOG")
        .key("log", Program, "Log filter, in the syntax of `tracing`"),
    toml("'text'")
        .var("RALPH_LOG_FORMAT")
        .key("log_format", Program, "Log format: text or json"),
];
