//! Requested limits and choices of a run; omitted fields get SPEC 3.4's defaults.

use ralph_domain::graph::is_name;
use ralph_domain::routing::strategy::Strategy;
use ralph_domain::run::{self, Ceilings, ITERATIONS_A_TASK, RunSettings};
use ralph_domain::train::{DEFAULT_SPECULATION, Landing};
use ralph_shared::wire::GateStep;
use serde::{Deserialize, Serialize};
use utoipa::openapi::schema::{Array, Object, Type};

use super::protect::{is_path_pattern, protected_by_default};

const DEFAULT_TIME_MS: i64 = 24 * 60 * 60 * 1_000;
const DEFAULT_COST_USD: f64 = 20.0;
/// Most retries of a gate on one commit.
const MAX_GATE_RETRIES: i32 = 10;

/// Requested options of a run. A limit of 0 means no limit; an omitted limit has its default (SPEC 3.4).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunOptions {
    /// Number of the last iteration; 20 plus 5 for each task when omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub iterations: Option<i64>,
    /// Number of the first iteration; 1 when omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub first_iteration: Option<i32>,
    /// Wall time of the run; 24 hours when omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub time_ms: Option<i64>,
    /// Cost; 20 USD when omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub cost_usd: Option<f64>,
    /// Input and output tokens; no limit when omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub tokens: Option<i64>,
    /// Wall time of a session; 60 minutes when omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub session_ms: Option<i64>,
    /// Longest silence of a session; 10 minutes when omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub idle_ms: Option<i64>,
    /// Output of a session; 50 MB when omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub output_bytes: Option<i64>,
    /// Pause after a task's first failure, doubled by each further one; 10 seconds when omitted, 0 for no
    /// pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub backoff_ms: Option<i64>,
    /// A model or a tier; without `model_strategy` it implies the strategy `fixed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Strategy that chooses models (SPEC 7.1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^(fixed|cost-optimized|escalate|plan-then-execute|adaptive)$")]
    pub model_strategy: Option<String>,
    /// A configured agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Commands that must succeed on exactly the commit that lands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(schema_with = commands)]
    pub gate: Vec<String>,
    /// How the gate's commands run, by index. A command without a step has no name, starts after all earlier
    /// commands end, and has the worker's timeout.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gate_steps: Vec<GateStep>,
    /// Whether work may land although the gate fails on the feature's base commit. If `true`, the gate is not
    /// checked there; `false` when omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate_may_fail_on_base: Option<bool>,
    /// Patterns of paths, relative to the repository's root, whose changes a person must approve before they
    /// land: `*` matches within a folder, `**` across folders. CI workflows and git hooks when omitted; an
    /// empty list protects nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protect: Option<Vec<String>>,
    /// How passed attempts land: `each` runs the gate for every attempt, ahead of its turn if slots are free;
    /// `batch` runs it once, on the last of several attempts; `serial` runs it on one attempt after the
    /// other. `each` when omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub landing: Option<Landing>,
    /// Most concurrent gate checks ahead of their turn; 8 when omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub max_speculation: Option<i32>,
    /// Retries of a failed gate on the same commit, at most 10; 0 when omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 10)]
    pub gate_retries: Option<i32>,
    /// Whether a task that used up its retries, or needs a person for another reason, waits for one
    /// (`needs_review`); `true` when omitted. `false` fails the task for good. Approvals wait in both cases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<bool>,
    /// Whether checkouts of this run start without the workers' stored build output; `false` when omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cold: Option<bool>,
}

fn commands() -> Array {
    let command = Object::builder().schema_type(Type::String).pattern(Some(r"\S"));
    Array::builder().items(command).build()
}

/// Why run settings are invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRunSettings {
    #[error("the limit `{0}` is negative; give a positive number, or 0 for no limit")]
    Negative(&'static str),
    #[error("the first iteration is {0}; it must be at least 1 and at most the limit of iterations")]
    FirstIteration(i32),
    #[error(
        "`{0}` is not a model strategy; choose one of: fixed, cost-optimized, escalate, plan-then-execute, adaptive"
    )]
    Strategy(String),
    #[error("the model strategy `fixed` needs a model; give one with --model")]
    FixedNeedsModel,
    #[error(
        "`{limit}` is at most {most} here (`[ceilings]` of the coordinator's configuration); give that or less"
    )]
    AboveCeiling { limit: &'static str, most: String },
    #[error("`{0}` is not a name: it must be one line of 1 to 100 characters")]
    Name(&'static str),
    #[error("a command of the gate is empty; give each of `[verify] commands` or --gate a command to run")]
    EmptyCommand,
    #[error(
        "each gate step needs a command; its name, if any, is one line of at most 100 characters, and its timeout, if any, above 0"
    )]
    Step,
    #[error("a gate has 0 to {MAX_GATE_RETRIES} retries, not {0}")]
    Retries(i32),
    #[error(
        "`{0}` is not a path pattern: give it relative to the repository's root, without `..`, such as `migrations/**` or `Makefile`"
    )]
    Pattern(String),
}

impl RunOptions {
    /// Checks the requested limits against the coordinator's ceilings; 0 requests no limit.
    pub fn check(&self, ceilings: &Ceilings) -> Result<(), InvalidRunSettings> {
        let above = |asked: i64, most: i64| asked == 0 || asked > most;
        let iterations = ceilings.iterations.map(i64::from);
        for (limit, asked, most) in [
            ("iterations", self.iterations, iterations),
            ("time_ms", self.time_ms, ceilings.time_ms),
            ("tokens", self.tokens, ceilings.tokens),
        ] {
            if let (Some(asked), Some(most)) = (asked, most)
                && above(asked, most)
            {
                let most = most.to_string();
                return Err(InvalidRunSettings::AboveCeiling { limit, most });
            }
        }
        match (self.cost_usd, ceilings.cost_usd) {
            (Some(asked), Some(most)) if asked == 0.0 || asked > most => {
                Err(InvalidRunSettings::AboveCeiling {
                    limit: "cost_usd",
                    most: most.to_string(),
                })
            }
            _ => Ok(()),
        }
    }

    /// Fills omitted options from the feature's last run.
    #[must_use]
    pub fn after(self, last: &RunSettings) -> Self {
        let count = |n: Option<i32>| Some(i64::from(n.unwrap_or(0)));
        let names_a_model = self.model.is_some() || self.model_strategy.is_some();
        Self {
            iterations: self
                .iterations
                // The single iteration of `--once` applied to that run only.
                .or_else(|| count(last.max_iterations).filter(|n| !last.limit_grows && *n != 1)),
            first_iteration: self.first_iteration,
            time_ms: self.time_ms.or(Some(last.max_time_ms.unwrap_or(0))),
            cost_usd: self.cost_usd.or(Some(last.max_cost_usd.unwrap_or(0.0))),
            tokens: self.tokens.or(Some(last.max_tokens.unwrap_or(0))),
            session_ms: self.session_ms.or(Some(last.session_ms)),
            idle_ms: self.idle_ms.or(Some(last.idle_ms)),
            output_bytes: self.output_bytes.or(Some(last.output_bytes)),
            backoff_ms: self.backoff_ms.or(Some(last.backoff_ms)),
            model: if names_a_model {
                self.model
            } else {
                last.model.clone()
            },
            model_strategy: if names_a_model {
                self.model_strategy
            } else {
                Some(last.model_strategy.into_str().to_owned())
            },
            agent: self.agent.or_else(|| last.agent.clone()),
            // Permission to fail belongs to the gate that it was given for.
            gate_may_fail_on_base: match self.gate.is_empty() || self.gate == last.gate {
                true => self.gate_may_fail_on_base.or(Some(last.gate_may_fail)),
                false => self.gate_may_fail_on_base,
            },
            gate_steps: if self.gate.is_empty() && self.gate_steps.is_empty() {
                last.gate_steps.clone()
            } else {
                self.gate_steps
            },
            gate: if self.gate.is_empty() {
                last.gate.clone()
            } else {
                self.gate
            },
            protect: self.protect.or_else(|| Some(last.protect.clone())),
            landing: self.landing.or(Some(last.landing)),
            max_speculation: self.max_speculation.or(Some(last.max_speculation)),
            gate_retries: self.gate_retries.or(Some(last.gate_retries)),
            review: self.review.or(Some(last.review)),
            // A cold start applied to that run only.
            cold: self.cold,
        }
    }

    /// Fills omitted options of a feature's first run from the feature's draft.
    #[must_use]
    pub fn of_draft(mut self, draft: &RunSettings) -> Self {
        if !draft.limit_grows {
            let given = draft.max_iterations.map_or(0, i64::from);
            self.iterations = self.iterations.or(Some(given));
        }
        self.first_iteration = self.first_iteration.or(Some(draft.first_iteration));
        self.after(draft)
    }

    /// Settings of the run, for a feature of `tasks` tasks.
    pub fn settings(&self, tasks: usize) -> Result<RunSettings, InvalidRunSettings> {
        if self.gate.iter().any(|command| command.trim().is_empty()) {
            return Err(InvalidRunSettings::EmptyCommand);
        }
        let fits = |step: &GateStep| step.name.as_deref().is_none_or(is_name) && step.timeout_ms != Some(0);
        if self.gate_steps.len() > self.gate.len() || !self.gate_steps.iter().all(fits) {
            return Err(InvalidRunSettings::Step);
        }
        let protect = self.protect.clone().unwrap_or_else(protected_by_default);
        if let Some(pattern) = protect.iter().find(|pattern| !is_path_pattern(pattern)) {
            return Err(InvalidRunSettings::Pattern(pattern.clone()));
        }
        if self.max_speculation.is_some_and(|n| n < 0) {
            return Err(InvalidRunSettings::Negative("max_speculation"));
        }
        if let Some(n) = self.gate_retries.filter(|n| !(0..=MAX_GATE_RETRIES).contains(n)) {
            return Err(InvalidRunSettings::Retries(n));
        }
        for (field, name) in [("agent", &self.agent), ("model", &self.model)] {
            if name.as_ref().is_some_and(|name| !is_name(name)) {
                return Err(InvalidRunSettings::Name(field));
            }
        }
        let model_strategy = self.strategy()?;
        let default = tasks.saturating_mul(ITERATIONS_A_TASK).saturating_add(20);
        let default = i64::try_from(default).unwrap_or(i64::MAX);
        let iterations = limit("iterations", self.iterations, Some(default))?;
        let first_iteration = self.first_iteration.unwrap_or(1);
        if first_iteration < 1 || iterations.is_some_and(|last| i64::from(first_iteration) > last) {
            return Err(InvalidRunSettings::FirstIteration(first_iteration));
        }
        let cost_usd = cost_limit(self.cost_usd)?;
        let session = |name, asked, default| Ok(limit(name, asked, Some(default))?.unwrap_or(i64::MAX / 4));
        Ok(RunSettings {
            max_iterations: iterations.map(|n| i32::try_from(n).unwrap_or(i32::MAX)),
            first_iteration,
            max_time_ms: limit("time_ms", self.time_ms, Some(DEFAULT_TIME_MS))?,
            max_cost_usd: cost_usd,
            max_tokens: limit("tokens", self.tokens, None)?,
            session_ms: session("session_ms", self.session_ms, run::SESSION_MS)?,
            idle_ms: session("idle_ms", self.idle_ms, run::IDLE_MS)?,
            output_bytes: session("output_bytes", self.output_bytes, run::OUTPUT_BYTES)?,
            backoff_ms: limit("backoff_ms", self.backoff_ms, Some(run::BACKOFF_MS))?.unwrap_or(0),
            model: self.model.clone(),
            model_strategy,
            agent: self.agent.clone(),
            gate: self.gate.clone(),
            gate_steps: self.gate_steps.clone(),
            gate_may_fail: self.gate_may_fail_on_base.unwrap_or(false),
            protect,
            landing: self.landing.unwrap_or_default(),
            max_speculation: self.max_speculation.unwrap_or(DEFAULT_SPECULATION),
            gate_retries: self.gate_retries.unwrap_or(0),
            limit_grows: self.iterations.is_none(),
            review: self.review.unwrap_or(true),
            cold: self.cold.unwrap_or(false),
        })
    }

    fn strategy(&self) -> Result<Strategy, InvalidRunSettings> {
        Ok(match (&self.model_strategy, &self.model) {
            (Some(word), model) => {
                let strategy =
                    Strategy::from_word(word).ok_or_else(|| InvalidRunSettings::Strategy(word.clone()))?;
                if strategy == Strategy::Fixed && model.is_none() {
                    return Err(InvalidRunSettings::FixedNeedsModel);
                }
                strategy
            }
            (None, Some(_)) => Strategy::Fixed,
            (None, None) => Strategy::default(),
        })
    }
}

fn cost_limit(asked: Option<f64>) -> Result<Option<f64>, InvalidRunSettings> {
    let cost_usd = asked.unwrap_or(DEFAULT_COST_USD);
    if cost_usd.is_nan() || cost_usd < 0.0 {
        return Err(InvalidRunSettings::Negative("cost_usd"));
    }
    Ok((cost_usd > 0.0).then_some(cost_usd))
}

fn limit(
    name: &'static str,
    asked: Option<i64>,
    default: Option<i64>,
) -> Result<Option<i64>, InvalidRunSettings> {
    match asked {
        None => Ok(default),
        Some(0) => Ok(None),
        Some(n) if n < 0 => Err(InvalidRunSettings::Negative(name)),
        Some(n) => Ok(Some(n)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn omitted_options_have_the_documented_defaults() {
        let settings = RunOptions::default().settings(12).unwrap();
        assert_eq!(settings.max_iterations, Some(80));
        assert_eq!(settings.max_time_ms, Some(86_400_000));
        assert_eq!(settings.max_cost_usd, Some(20.0));
        assert_eq!(settings.max_tokens, None);
        assert_eq!((settings.session_ms, settings.idle_ms), (3_600_000, 600_000));
        assert_eq!((settings.output_bytes, settings.backoff_ms), (52_428_800, 10_000));
        assert_eq!(settings.model_strategy, Strategy::CostOptimized);
    }

    #[test]
    fn an_empty_gate_command_is_refused() {
        let gate = |command: &str| {
            let options = RunOptions {
                gate: vec![command.to_owned()],
                ..RunOptions::default()
            };
            options.settings(1).map(|settings| settings.gate)
        };
        assert_eq!(gate("cargo test"), Ok(vec!["cargo test".to_owned()]));
        assert_eq!(gate(" "), Err(InvalidRunSettings::EmptyCommand));
    }

    #[test]
    fn a_further_run_inherits_the_settings_of_the_last_run() {
        let first = RunOptions {
            cost_usd: Some(0.0),
            backoff_ms: Some(0),
            model: Some("opus".to_owned()),
            gate: vec!["make test".to_owned()],
            review: Some(false),
            ..RunOptions::default()
        };
        let last = first.settings(3).unwrap();
        let again = RunOptions::default().after(&last).settings(3).unwrap();
        assert_eq!(again, last);
        let other = RunOptions {
            iterations: Some(7),
            model_strategy: Some("escalate".to_owned()),
            review: Some(true),
            ..RunOptions::default()
        };
        let other = other.after(&last).settings(3).unwrap();
        assert_eq!(
            (other.max_iterations, other.model_strategy, other.model),
            (Some(7), Strategy::Escalate, None)
        );
        assert_eq!(other.gate, last.gate);
        assert!(other.review && !last.review);
    }

    #[test]
    fn a_first_run_inherits_the_settings_of_the_draft() {
        let given = RunOptions {
            iterations: Some(1),
            cost_usd: Some(1.0),
            gate: vec!["make test".to_owned()],
            ..RunOptions::default()
        };
        let draft = given.settings(0).unwrap();
        assert_eq!(RunOptions::default().of_draft(&draft).settings(9).unwrap(), draft);
        let options = RunOptions {
            iterations: Some(5),
            ..RunOptions::default()
        };
        let chosen = options.of_draft(&draft).settings(9).unwrap();
        assert_eq!((chosen.max_iterations, chosen.max_cost_usd), (Some(5), Some(1.0)));
        // A default limit is computed again.
        let draft = RunOptions::default().settings(0).unwrap();
        let settings = RunOptions::default().of_draft(&draft).settings(2).unwrap();
        assert_eq!(settings.max_iterations, Some(30));
    }

    #[test]
    fn limits_above_a_ceiling_are_refused() {
        let ceilings = Ceilings {
            iterations: Some(50),
            cost_usd: Some(5.0),
            ..Ceilings::default()
        };
        let options = |iterations, cost_usd| RunOptions {
            iterations,
            cost_usd,
            ..RunOptions::default()
        };
        for (iterations, cost_usd, limit) in [
            (Some(51), None, "iterations"),
            (Some(0), None, "iterations"),
            (None, Some(5.5), "cost_usd"),
            (Some(50), Some(0.0), "cost_usd"),
        ] {
            let error = options(iterations, cost_usd).check(&ceilings).unwrap_err();
            assert!(error.to_string().contains(limit), "{error}");
        }
        assert_eq!(options(Some(50), Some(5.0)).check(&ceilings), Ok(()));
        // A default above the ceiling is lowered to it.
        let settings = options(None, None).settings(100).unwrap().within(&ceilings);
        assert_eq!(
            (settings.max_iterations, settings.max_cost_usd),
            (Some(50), Some(5.0))
        );
        assert!(!settings.limit_grows);
        assert_eq!(settings.max_tokens, None);
        let settings = options(Some(7), None).settings(100).unwrap().within(&ceilings);
        assert_eq!(settings.max_iterations, Some(7));
    }

    #[test]
    fn zero_means_no_limit_and_a_negative_limit_is_refused() {
        let options = RunOptions {
            iterations: Some(0),
            cost_usd: Some(0.0),
            ..RunOptions::default()
        };
        let settings = options.settings(1).unwrap();
        assert_eq!((settings.max_iterations, settings.max_cost_usd), (None, None));
        for cost_usd in [-1.0, f64::NAN] {
            let options = RunOptions {
                cost_usd: Some(cost_usd),
                ..RunOptions::default()
            };
            assert_eq!(options.settings(1), Err(InvalidRunSettings::Negative("cost_usd")));
        }
    }

    #[test]
    fn a_model_alone_implies_fixed_and_fixed_needs_a_model() {
        let check =
            |model: Option<&str>, strategy: Option<&str>, expected: Result<Strategy, InvalidRunSettings>| {
                let options = RunOptions {
                    model: model.map(str::to_owned),
                    model_strategy: strategy.map(str::to_owned),
                    ..RunOptions::default()
                };
                let got = options.settings(1).map(|settings| settings.model_strategy);
                assert_eq!(got, expected, "{model:?} {strategy:?}");
            };
        check(None, None, Ok(Strategy::CostOptimized));
        check(Some("opus"), None, Ok(Strategy::Fixed));
        check(Some("opus"), Some("escalate"), Ok(Strategy::Escalate));
        check(None, Some("fixed"), Err(InvalidRunSettings::FixedNeedsModel));
        check(
            None,
            Some("best"),
            Err(InvalidRunSettings::Strategy("best".into())),
        );
    }
}
