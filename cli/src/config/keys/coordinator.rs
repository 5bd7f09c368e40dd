//! Keys of the coordinator's file.

use crate::config::key::Reader::Coordinator;
use crate::config::key::Unset::{Toml, Words};
use crate::config::key::{Key, key};

pub(super) const KEYS: &[Key] = &[
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
        "memory.sections.previous_attempts",
        Toml("3000"),
        Coordinator,
        "Characters of what earlier attempts and failed neighbours left",
    ),
    key(
        "memory.sections.session_memory",
        Toml("3000"),
        Coordinator,
        "Characters of what the feature's sessions noted",
    ),
    key(
        "memory.sections.learnings",
        Toml("1500"),
        Coordinator,
        "Characters of what helps to do such tasks",
    ),
    key(
        "memory.sections.knowledge",
        Toml("8000"),
        Coordinator,
        "Characters of facts about the project",
    ),
    key(
        "memory.sections.journal",
        Toml("12000"),
        Coordinator,
        "Characters of what happened lately and in similar work",
    ),
    key(
        "memory.sections.loop_status",
        Toml("500"),
        Coordinator,
        "Characters of how the run goes",
    ),
    key(
        "memory.reference_chars",
        Toml("30000"),
        Coordinator,
        "Characters of a specification, a plan or a description that a prompt shows",
    ),
    key(
        "memory.max_entries",
        Toml("50"),
        Coordinator,
        "Decisions and unresolved errors of a feature that its sessions are told of",
    ),
    key(
        "memory.kept_entries",
        Toml("5"),
        Coordinator,
        "Learnings and knowledge entries that an attempt may leave, together",
    ),
    key(
        "memory.agent_files",
        Toml("false"),
        Coordinator,
        "Whether sessions are asked to keep CLAUDE.md, AGENTS.md and skills up to date",
    ),
    key(
        "memory.hold_out",
        Toml("0.05"),
        Coordinator,
        "Share of first attempts without other tasks' memory in the long run; a quarter until 50 were held out",
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
        "questions.wait",
        Toml("'10m'"),
        Coordinator,
        "How long a session waits for a person's answer; 0 is not at all",
    ),
    key(
        "api.requests_per_second",
        Toml("500"),
        Coordinator,
        "How often each token may ask; 0 is no limit",
    ),
    key(
        "api.max_connections",
        Toml("800"),
        Coordinator,
        "Connections to the API at once, further ones wait; 0 is no limit",
    ),
    key(
        "api.hosts",
        Words("localhost and addresses"),
        Coordinator,
        "Names under which browsers ask for the page, behind a proxy say",
    ),
    key(
        "ceilings.iterations",
        Words("no bound"),
        Coordinator,
        "Iterations that a run may have at most",
    ),
    key(
        "ceilings.max_time_hours",
        Words("no bound"),
        Coordinator,
        "Wall time that a run may have at most, in hours",
    ),
    key(
        "ceilings.max_cost",
        Words("no bound"),
        Coordinator,
        "Cost that a run may have at most, in USD",
    ),
    key(
        "ceilings.max_tokens",
        Words("no bound"),
        Coordinator,
        "Tokens that a run may have at most, in and out",
    ),
    key(
        "shares.first_cost",
        Toml("1.0"),
        Coordinator,
        "What a session may cost at first where nothing is known of its like, in USD",
    ),
    key(
        "shares.first_tokens",
        Toml("1000000"),
        Coordinator,
        "Tokens that a session may use at first where nothing is known of its like",
    ),
    key(
        "budgets.session_cost",
        Words("no limit"),
        Coordinator,
        "What a session may cost at most, in USD",
    ),
    key(
        "budgets.session_tokens",
        Words("no limit"),
        Coordinator,
        "What a session may use at most, in tokens in and out",
    ),
    key(
        "budgets.task_cost",
        Words("no limit"),
        Coordinator,
        "What all sessions of a task may cost at most, in USD",
    ),
    key(
        "budgets.task_tokens",
        Words("no limit"),
        Coordinator,
        "What all sessions of a task may use at most, in tokens in and out",
    ),
    key(
        "budgets.feature_cost",
        Words("no limit"),
        Coordinator,
        "What all runs of a feature may cost at most, in USD",
    ),
    key(
        "budgets.feature_tokens",
        Words("no limit"),
        Coordinator,
        "What all runs of a feature may use at most, in tokens in and out",
    ),
    key(
        "budgets.account_cost",
        Words("no limit"),
        Coordinator,
        "What each account of a provider may cost at most, in USD",
    ),
    key(
        "budgets.account_tokens",
        Words("no limit"),
        Coordinator,
        "What each account of a provider may use at most, in tokens in and out",
    ),
    key(
        "budgets.day_cost",
        Words("no limit"),
        Coordinator,
        "What all sessions of a day, by UTC, may cost at most, in USD",
    ),
    key(
        "budgets.day_tokens",
        Words("no limit"),
        Coordinator,
        "What all sessions of a day, by UTC, may use at most, in tokens in and out",
    ),
    key(
        "budgets.installation_cost",
        Words("no limit"),
        Coordinator,
        "What all sessions ever may cost at most, in USD",
    ),
    key(
        "budgets.installation_tokens",
        Words("no limit"),
        Coordinator,
        "What all sessions ever may use at most, in tokens in and out",
    ),
    key(
        "repositories.schemes",
        Toml("['https', 'http', 'ssh', 'git']"),
        Coordinator,
        "Schemes that repositories' addresses may have, and helpers of git's with :: at their end",
    ),
    key(
        "repositories.local",
        Words("whether the API listens on loopback alone"),
        Coordinator,
        "Whether paths and addresses of the workers' own machines may be named as repositories",
    ),
    key(
        "prices.NAME.input",
        Words("a built-in price, if there is one"),
        Coordinator,
        "USD for a million tokens that model NAME reads, or any whose name begins so; * is for all others",
    ),
    key(
        "prices.NAME.output",
        Words("a built-in price, if there is one"),
        Coordinator,
        "The same for tokens that it writes",
    ),
    key(
        "prices.NAME.cache_read",
        Words("as much as other tokens that are read"),
        Coordinator,
        "The same for tokens that it reads from a cache",
    ),
    key(
        "prices.NAME.cache_write",
        Words("as much as other tokens that are read"),
        Coordinator,
        "The same for tokens that are written into a cache",
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
        Toml(
            "['run_ended', 'person_needed', 'pool_paused', 'deadline_passed', 'budget_used', 'worker_drained']",
        ),
        Coordinator,
        "What is told",
    ),
    key(
        "retention.transcripts_days",
        Toml("90"),
        Coordinator,
        "How long it is kept what sessions showed; 0 is for ever",
    ),
    key(
        "retention.prompts_days",
        Toml("90"),
        Coordinator,
        "How long it is kept what sessions were told; 0 is for ever",
    ),
    key(
        "retention.uses_days",
        Toml("365"),
        Coordinator,
        "How long it is kept which entries of the memory attempts were shown, at least as long as prompts; 0 is for ever",
    ),
    key(
        "retention.bad_reports_days",
        Toml("30"),
        Coordinator,
        "How long reports are kept that nobody could read; 0 is for ever",
    ),
    key(
        "telemetry.endpoint",
        Words("no traces are sent"),
        Coordinator,
        "Collector that takes traces: address of its OTLP receiver, over HTTP",
    )
    .var("OTEL_EXPORTER_OTLP_ENDPOINT")
    .secret(),
];
