//! Flags of a run. Missing values come from `.ralph.toml`, then from the coordinator (SPEC 3.4, 8).

use std::fmt::Display;

use clap::Args;
use clap::builder::{BoolishValueParser, PossibleValuesParser};
use ralph_api::body::{BudgetOptions, LimitOptions, RunOptions};
use ralph_domain::routing::strategy::Strategy;
use ralph_domain::train::Landing;
use ralph_shared::wire::GateStep;

use crate::args::usage::Usage;
use crate::config::{Config, Limits, Verify};
use crate::terminal::duration::Span;

/// Limits and choices of a run
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Limits and choices of the run; 0 is no limit")]
pub struct RunFlags {
    /// Iterations [default: $RALPH_TOTAL, else 20, and 5 for each task]
    #[arg(long, env = "RALPH_LIMIT", value_name = "N")]
    pub limit: Option<i64>,
    /// Number of the first iteration, for a script that continues counting; `--limit` is the number of the
    /// last [default: 1]
    #[arg(long, env = "RALPH_ITERATION", value_name = "N")]
    pub iteration: Option<i32>,
    /// Total iterations of the calling script
    #[arg(long, env = "RALPH_TOTAL", hide = true)]
    pub total: Option<i64>,
    /// Stop after one iteration
    #[arg(long, conflicts_with = "limit")]
    pub once: bool,
    /// Cost in USD [default: 20]
    #[arg(long, env = "RALPH_MAX_COST", value_name = "USD")]
    pub max_cost: Option<f64>,
    /// Wall time [default: 24h]
    #[arg(long, env = "RALPH_MAX_TIME", value_name = "TIME")]
    pub max_time: Option<Span>,
    /// Tokens in and out [default: no limit]
    #[arg(long, env = "RALPH_MAX_TOKENS", value_name = "N")]
    pub max_tokens: Option<i64>,
    /// Wall time of one session [default: 60m]
    #[arg(long, env = "RALPH_SESSION_TIME", value_name = "TIME")]
    pub session_time: Option<Span>,
    /// Longest silence of an agent [default: 10m]
    #[arg(long, env = "RALPH_IDLE_TIME", value_name = "TIME")]
    pub idle_time: Option<Span>,
    /// Pause after a task's first failure, doubled by each up to 10 minutes [default: 10s]
    #[arg(long, env = "RALPH_BACKOFF", value_name = "TIME")]
    pub backoff: Option<Span>,
    /// Model or tier; alone it means the strategy `fixed`
    #[arg(long, env = "RALPH_MODEL", value_name = "NAME")]
    pub model: Option<String>,
    /// How models are chosen [default: cost-optimized]
    #[arg(long, env = "RALPH_MODEL_STRATEGY", value_name = "STRATEGY",
          value_parser = PossibleValuesParser::new(Strategy::ALL.map(|one| one.into_str())))]
    pub model_strategy: Option<String>,
    /// A configured agent of the workers
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// A command that must succeed on exactly the commit that lands; may be repeated [default: `[verify] commands`]
    #[arg(long, env = "RALPH_GATE_COMMAND", value_name = "COMMAND")]
    pub gate: Vec<String>,
    /// Let work that passes the gate land without trying the gate on the base commit, which may fail it
    #[arg(long, value_name = "YES|NO", num_args = 0..=1, require_equals = true, default_missing_value = "yes",
          value_parser = BoolishValueParser::new())]
    pub gate_may_fail_on_base: Option<bool>,
    /// Paths whose change a person approves before it lands, such as `migrations/**`; may be repeated, and '' is none [default:
    /// `[verify] protect`, else CI workflows and git hooks]
    #[arg(long, env = "RALPH_PROTECT", value_name = "PATTERN")]
    pub protect: Vec<String>,
    /// How attempts that passed land: each, batch, serial [default: `[verify] landing`, else each with its
    /// own run of the gate]
    #[arg(long, env = "RALPH_LANDING", value_name = "HOW")]
    pub landing: Option<Landing>,
    /// Let no task wait for a person when its retries are used up, or a further one would not help: it fails
    /// for good, and `--on-failure` decides what follows. Results named by `--approve` still wait
    #[arg(long, env = "RALPH_NO_REVIEW", value_name = "YES|NO", num_args = 0..=1, require_equals = true,
          default_missing_value = "yes", value_parser = BoolishValueParser::new())]
    pub no_review: Option<bool>,
    /// Start checkouts without the build output that workers keep (`[workspace] warm`)
    #[arg(long)]
    pub cold: bool,
}

/// Limits beside those of the run
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Limits beside the run's, like `budget set`; 0 is no limit")]
pub struct BudgetFlags {
    /// Cost of each session in USD
    #[arg(long, value_name = "USD")]
    session_max_cost: Option<f64>,
    /// Tokens of each session, in and out
    #[arg(long, value_name = "N")]
    session_max_tokens: Option<i64>,
    /// Cost of each task in USD, over all its sessions
    #[arg(long, value_name = "USD")]
    task_max_cost: Option<f64>,
    /// Tokens of each task, in and out
    #[arg(long, value_name = "N")]
    task_max_tokens: Option<i64>,
    /// Cost of the feature in USD, over all its runs
    #[arg(long, value_name = "USD")]
    feature_max_cost: Option<f64>,
    /// Tokens of the feature, in and out
    #[arg(long, value_name = "N")]
    feature_max_tokens: Option<i64>,
}

impl From<&BudgetFlags> for BudgetOptions {
    fn from(flags: &BudgetFlags) -> Self {
        let options = |cost_usd, tokens| LimitOptions { cost_usd, tokens };
        Self {
            session: options(flags.session_max_cost, flags.session_max_tokens),
            task: options(flags.task_max_cost, flags.task_max_tokens),
            feature: options(flags.feature_max_cost, flags.feature_max_tokens),
        }
    }
}

impl RunFlags {
    /// The requested limits: flags first, then the configuration file.
    ///
    /// # Errors
    /// A [`Usage`] when a limit of the file is invalid; it names file and key.
    pub fn request(&self, file: &Config) -> anyhow::Result<RunOptions> {
        let mut options = self.request_with(&file.limits)?;
        options.review = options.review.or(file.execution.review);
        if options.gate.is_empty() {
            (options.gate, options.gate_steps) = gate(&file.verify)?;
        }
        options.protect = options.protect.or_else(|| file.verify.protect.clone());
        options.landing = options.landing.or(file.verify.landing);
        options.max_speculation = file.verify.max_speculation;
        options.gate_retries = file.verify.retries;
        Ok(options)
    }

    /// The options of the flags alone. Never fails, since it reads no file.
    pub fn flags(&self) -> anyhow::Result<RunOptions> {
        self.request_with(&Limits::default())
    }

    fn request_with(&self, file: &Limits) -> anyhow::Result<RunOptions> {
        let span = |flag: Option<Span>, file: &Option<String>, key: &str| match (flag, file) {
            (Some(span), _) => Ok(Some(span.ms())),
            (None, Some(text)) => match text.parse::<Span>() {
                Ok(span) => Ok(Some(span.ms())),
                Err(error) => Err(invalid_limit(key, &error)),
            },
            (None, None) => Ok(None),
        };
        let count = |flag: Option<i64>, file: Option<i64>, key: &str| match (flag, file) {
            (None, Some(n)) if n < 0 => Err(invalid_limit(key, &below_zero(n))),
            (flag, file) => Ok(flag.or(file)),
        };
        let cost_usd = match (self.max_cost, file.max_cost) {
            (None, Some(usd)) if usd.is_nan() || usd < 0.0 => {
                return Err(invalid_limit("max_cost", &below_zero(usd)));
            }
            (flag, file) => flag.or(file),
        };
        let once = self.once.then(|| self.iteration.map_or(1, i64::from));
        let output_mb = count(None, file.session_output_mb, "session_output_mb")?;
        Ok(RunOptions {
            iterations: count(once.or(self.limit).or(self.total), file.iterations, "iterations")?,
            first_iteration: self.iteration,
            time_ms: span(self.max_time, &file.max_time, "max_time")?,
            cost_usd,
            tokens: count(self.max_tokens, file.max_tokens, "max_tokens")?,
            session_ms: span(self.session_time, &file.session_time, "session_time")?,
            idle_ms: span(self.idle_time, &file.idle_time, "idle_time")?,
            output_bytes: output_mb.map(|mb| mb.saturating_mul(1024 * 1024)),
            backoff_ms: span(self.backoff, &file.backoff, "backoff")?,
            model: self.model.clone(),
            model_strategy: self.model_strategy.clone(),
            agent: self.agent.clone(),
            gate: self.gate.clone(),
            gate_steps: Vec::new(),
            gate_may_fail_on_base: self.gate_may_fail_on_base,
            protect: protect(&self.protect),
            landing: self.landing,
            max_speculation: None,
            gate_retries: None,
            review: self.no_review.map(|off| !off),
            cold: self.cold.then_some(true),
        })
    }
}

/// The commands of a file's gate, and their options.
///
/// # Errors
/// A [`Usage`] when a timeout is invalid.
fn gate(file: &Verify) -> anyhow::Result<(Vec<String>, Vec<GateStep>)> {
    let mut gate = file.commands.clone();
    let mut steps = vec![GateStep::default(); if file.steps.is_empty() { 0 } else { gate.len() }];
    for step in &file.steps {
        let bound = step.timeout.as_deref().map(str::parse::<Span>).transpose();
        let bound = bound.map_err(|error| Usage(format!("a `timeout` of [[verify.steps]]: {error}")))?;
        gate.push(step.command.clone());
        steps.push(GateStep {
            name: step.name.clone(),
            timeout_ms: bound.and_then(|bound| u64::try_from(bound.ms()).ok()),
            parallel: step.parallel,
        });
    }
    Ok((gate, steps))
}

/// The patterns of the flags, where `''` means none; `None` without a flag.
pub fn protect(flags: &[String]) -> Option<Vec<String>> {
    let named = flags.iter().filter(|pattern| !pattern.is_empty()).cloned();
    (!flags.is_empty()).then(|| named.collect())
}

/// `[limits] max_parallel`, for a feature without the flag.
///
/// # Errors
/// A [`Usage`] when the number is below 1.
pub fn max_parallel(file: &Limits) -> anyhow::Result<Option<i32>> {
    match file.max_parallel {
        Some(n) if n < 1 => Err(invalid_limit(
            "max_parallel",
            &format!("{n} sessions do no work; give 1 or more"),
        )),
        given => Ok(given),
    }
}

fn below_zero(given: impl Display) -> String {
    format!("{given} is not a limit; give a number above 0, or 0 for no limit")
}

/// The error of an invalid limit in the file, with its fix.
fn invalid_limit(key: &str, why: &str) -> anyhow::Error {
    let file = Config::locate().ok().flatten();
    let file = file.map_or_else(|| ".ralph.toml".to_owned(), |path| path.display().to_string());
    Usage(format!("{file}: `[limits] {key}`: {why}")).into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_flag_wins_over_the_file() {
        let file = Limits {
            iterations: Some(7),
            max_time: Some("2h".to_owned()),
            max_cost: Some(1.5),
            ..Limits::default()
        };
        let flags = RunFlags {
            max_cost: Some(3.0),
            ..RunFlags::default()
        };
        let options = flags.request_with(&file).unwrap();
        assert_eq!(
            (options.iterations, options.time_ms, options.cost_usd),
            (Some(7), Some(7_200_000), Some(3.0))
        );

        let once = RunFlags {
            once: true,
            ..RunFlags::default()
        };
        assert_eq!(once.request_with(&file).unwrap().iterations, Some(1));
    }

    #[test]
    fn steps_of_the_file_follow_its_commands() {
        let file: Config = toml::from_str(
            "[verify]
            commands = ['make']
            [[verify.steps]]
            name = 'lint'
            command = 'make lint'
            timeout = '5m'
            [[verify.steps]]
            command = 'make test'
            parallel = true",
        )
        .unwrap();
        let options = RunFlags::default().request(&file).unwrap();
        assert_eq!(options.gate, ["make", "make lint", "make test"]);
        let step = |name: Option<&str>, timeout_ms, parallel| GateStep {
            name: name.map(str::to_owned),
            timeout_ms,
            parallel,
        };
        let lint = step(Some("lint"), Some(300_000), false);
        assert_eq!(
            options.gate_steps,
            [step(None, None, false), lint, step(None, None, true)]
        );
        let settings = options.settings(1).unwrap();
        assert_eq!(settings.gate_steps.len(), 3);
        // A gate from flags replaces the file's gate.
        let flags = RunFlags {
            gate: vec!["true".to_owned()],
            ..RunFlags::default()
        };
        assert!(flags.request(&file).unwrap().gate_steps.is_empty());
        let mut file = file;
        file.verify.steps[0].timeout = Some("soon".to_owned());
        assert!(RunFlags::default().request(&file).unwrap_err().is::<Usage>());
    }

    #[test]
    fn an_error_names_an_invalid_limit_of_the_file() {
        let check = |file: Limits, words: &[&str]| {
            let error = match RunFlags::default().request_with(&file) {
                Ok(_) => max_parallel(&file).unwrap_err(),
                Err(error) => error,
            };
            assert!(error.is::<Usage>(), "{error:#}");
            let error = error.to_string();
            for word in [&[".ralph.toml: `[limits] "], words].concat() {
                assert!(error.contains(word), "no {word} in: {error}");
            }
        };
        let none = Limits::default;
        let text = |text: &str| Some(text.to_owned());
        check(
            Limits {
                max_time: text("soon"),
                ..none()
            },
            &["max_time`", "`soon`", "24h"],
        );
        check(
            Limits {
                session_time: text("1"),
                ..none()
            },
            &["session_time`", "`1`"],
        );
        check(
            Limits {
                idle_time: text("-1s"),
                ..none()
            },
            &["idle_time`", "`-1s`"],
        );
        check(
            Limits {
                backoff: text(""),
                ..none()
            },
            &["backoff`"],
        );
        check(
            Limits {
                iterations: Some(-1),
                ..none()
            },
            &["iterations`", "-1", "0 for no limit"],
        );
        check(
            Limits {
                max_tokens: Some(-7),
                ..none()
            },
            &["max_tokens`", "-7"],
        );
        check(
            Limits {
                session_output_mb: Some(-2),
                ..none()
            },
            &["session_output_mb`", "-2"],
        );
        check(
            Limits {
                max_cost: Some(-0.5),
                ..none()
            },
            &["max_cost`", "-0.5"],
        );
        check(
            Limits {
                max_cost: Some(f64::NAN),
                ..none()
            },
            &["max_cost`", "NaN"],
        );
        check(
            Limits {
                max_parallel: Some(0),
                ..none()
            },
            &["max_parallel`", "1 or more"],
        );

        // A flag replaces the file's value, which is then not checked.
        let flags = RunFlags {
            limit: Some(3),
            ..RunFlags::default()
        };
        let options = flags
            .request_with(&Limits {
                iterations: Some(-1),
                ..none()
            })
            .unwrap();
        assert_eq!(options.iterations, Some(3));
    }
}
