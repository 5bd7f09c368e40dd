//! Keys of a run: read where it is submitted or started, and kept with it.

use crate::config::key::Reader::{Coordinator, Run};
use crate::config::key::Unset::{Toml, Words};
use crate::config::key::{Key, key};

pub(super) const KEYS: &[Key] = &[
    key(
        "execution.max_retries",
        Toml("3"),
        Run,
        "Retries of a task, then a person is asked (execution.review)",
    )
    .var("RALPH_MAX_RETRIES")
    .flag("max-retries"),
    key(
        "execution.verify",
        Toml("true"),
        Run,
        "Whether another session judges each attempt",
    )
    .var("RALPH_NO_VERIFY")
    .flag("no-verify"),
    key(
        "execution.review",
        Toml("true"),
        Run,
        "Whether a task that only a person can move on waits for one, or fails for good",
    )
    .var("RALPH_NO_REVIEW")
    .flag("no-review"),
    key(
        "execution.avoid_conflicts",
        Toml("false"),
        Run,
        "Whether tasks that change the same paths run one after the other",
    )
    .var("RALPH_AVOID_CONFLICTS")
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
    .var("RALPH_GATE_COMMAND")
    .flag("gate"),
    key(
        "verify.steps",
        Toml("[]"),
        Run,
        "Further commands of the gate: name, command, timeout, parallel",
    ),
    key(
        "verify.protect",
        Words("CI workflows and git hooks"),
        Run,
        "Paths whose change a person approves before it lands; [] is none",
    )
    .var("RALPH_PROTECT")
    .flag("protect"),
    key(
        "verify.landing",
        Toml("'each'"),
        Run,
        "How attempts land that passed: each, batch, serial",
    )
    .var("RALPH_LANDING")
    .flag("landing"),
    key(
        "verify.max_speculation",
        Toml("8"),
        Run,
        "Checks of the gate ahead of their turn at once; 0 is none",
    ),
    key(
        "verify.retries",
        Toml("0"),
        Run,
        "Further tries of a gate that failed, on the same commit",
    ),
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
    .var("RALPH_MODEL")
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
    .var("RALPH_MERGE")
    .flag("merge"),
    key(
        "workspace.repo_id",
        Words("the origin's address, normalised"),
        Run,
        "Whose memory and names a repository shares",
    ),
];
