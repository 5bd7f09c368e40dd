//! What is no key of the file: flags and variables of the programs themselves.

use crate::config::key::Reader::{Command, Coordinator, Program};
use crate::config::key::Unset::{Toml, Words};
use crate::config::key::{Key, key};

pub(super) const KEYS: &[Key] = &[
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
        Toml("20"),
        Coordinator,
        "Connections to Postgres, at most; some are kept for heartbeats, claims and reports",
    )
    .var("RALPH_DB_CONNECTIONS")
    .flag("db-connections"),
    key(
        "read_token_file",
        Words("none"),
        Coordinator,
        "File with a token that may only look",
    )
    .var("RALPH_READ_TOKEN_FILE")
    .flag("read-token-file"),
    key(
        "health_listen",
        Words("nowhere"),
        Coordinator,
        "Where /healthz and /readyz are answered as well, apart from the API",
    )
    .var("RALPH_HEALTH_LISTEN")
    .flag("health-listen"),
    key(
        "ca_file",
        Words("none"),
        Program,
        "File with certificates of private authorities, for every connection",
    )
    .var("RALPH_CA_FILE"),
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
    key("nats_user", Words("that of the address"), Program, "User of NATS").var("NATS_USER"),
    key(
        "nats_password",
        Words("that of the address"),
        Program,
        "Password of NATS",
    )
    .var("NATS_PASSWORD")
    .secret(),
    key("nats_token", Words("none"), Program, "Token of NATS")
        .var("NATS_TOKEN")
        .secret(),
    key(
        "nats_creds",
        Words("none"),
        Program,
        "File with credentials for NATS",
    )
    .var("NATS_CREDS"),
    key(
        "nats_nkey",
        Words("none"),
        Program,
        "File with the seed of a user of NATS",
    )
    .var("NATS_NKEY"),
    key(
        "nats_ca",
        Words("ca_file, else the system's"),
        Program,
        "File with the certificates that NATS is verified by",
    )
    .var("NATS_CA"),
    key(
        "nats_cert",
        Words("none"),
        Program,
        "File with the client certificate for NATS",
    )
    .var("NATS_CERT"),
    key("nats_key", Words("none"), Program, "File with its key").var("NATS_KEY"),
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
