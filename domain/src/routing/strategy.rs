//! Chooses the model of an attempt, with the reason in words (SPEC 7.1).

use ralph_shared::kind::SessionKind;

use super::adaptive::{self, Outcomes};

/// The configured models, weakest first (SPEC 7.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tiers(Vec<Tier>);

/// A tier and its names among agents' models.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Tier {
    /// Its name for people and in `<next-model>`.
    pub name: String,
    /// Names to look for among an agent's models, best first; the tier's own name is always tried.
    #[serde(default)]
    pub names: Vec<String>,
    /// The agent that has it, unless the task or its run names one; `None` lets the worker choose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

impl Default for Tiers {
    fn default() -> Self {
        let tier = |name: &str, names: &[&str]| Tier {
            name: name.to_owned(),
            names: names.iter().map(|&n| n.to_owned()).collect(),
            agent: None,
        };
        Self(vec![
            tier("haiku", &["claude-haiku", "gemini-flash", "gpt-mini"]),
            tier("sonnet", &["claude-sonnet", "gemini-pro", "gpt"]),
            tier("opus", &["claude-opus", "gemini-ultra", "gpt-pro"]),
        ])
    }
}

impl Tiers {
    /// Tiers in this order, weakest first; at least one.
    pub fn new(tiers: Vec<Tier>) -> Option<Self> {
        (!tiers.is_empty()).then_some(Self(tiers))
    }

    /// Their names, weakest first.
    pub fn names(&self) -> Vec<String> {
        self.0.iter().map(|tier| tier.name.clone()).collect()
    }

    /// Whether this is a tier with default names.
    pub fn names_by_default(&self, name: &str) -> bool {
        let default = Self::default();
        self.get(name)
            .is_some_and(|tier| tier.names.is_empty() || Some(tier) == default.get(name))
    }

    pub fn get(&self, name: &str) -> Option<&Tier> {
        self.0.iter().find(|tier| tier.name == name)
    }

    fn at(&self, index: usize) -> &str {
        &self.0[index.min(self.0.len() - 1)].name
    }

    fn middle(&self) -> usize {
        self.0.len() / 2
    }

    fn strongest(&self) -> usize {
        self.0.len() - 1
    }
}

/// The way to choose models.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(
    feature = "postgres",
    derive(sqlx::Type),
    sqlx(type_name = "text", rename_all = "kebab-case")
)]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Strategy {
    /// Always the run's model.
    Fixed,
    /// The middle tier; the strongest in trouble; the weakest while easy tasks go well.
    #[default]
    CostOptimized,
    /// The weakest first, one tier up after each failure.
    Escalate,
    /// The strongest to plan, then the middle tier.
    PlanThenExecute,
    /// By outcomes of earlier attempts in the repository; like `cost-optimized` while too little is known.
    Adaptive,
}

impl Strategy {
    pub const ALL: [Self; 5] = [
        Self::Fixed,
        Self::CostOptimized,
        Self::Escalate,
        Self::PlanThenExecute,
        Self::Adaptive,
    ];

    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|strategy| strategy.into_str() == word)
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Facts<'a> {
    /// The run's model, for the `fixed` strategy or as a request.
    pub run_model: Option<&'a str>,
    /// An agent's request for this attempt.
    pub hint: Option<&'a str>,
    /// The task's own model, from the graph.
    pub task_model: Option<&'a str>,
    /// Failures of this task in a row that a stronger model may avoid.
    pub failures: i16,
    /// The run's last attempts, at most 10: their number, and the number of done ones.
    pub recent: (u32, u32),
    /// Finished attempts in a row that were rated trivial or easy.
    pub easy_streak: u32,
    /// Whether this is the run's first iteration of a feature whose spec and plan were given.
    pub first_of_given_plan: bool,
    /// The session's kind, unless it works on a task.
    pub step: Option<SessionKind>,
    /// Outcomes of earlier attempts in the repository, and facts for a choice by them.
    pub outcomes: Option<(adaptive::Facts, &'a [Outcomes])>,
}

/// A model and the reason for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// A tier's name, or a model's own name that is no tier.
    pub model: String,
    pub reason: String,
}

/// Start of the reason for a model that an agent requested. It overrides any other choice (SPEC 7.1).
const HINTED: &str = "an agent asked for it";

/// Whether a model was chosen because an agent requested it.
pub fn is_hinted(reason: &str) -> bool {
    reason.starts_with(HINTED)
}

/// A model that overrides the strategy's choice; the reason names that choice if it is another model.
fn overriding(model: &str, why: &str, strategy: Strategy, tiers: &Tiers, without: &Facts<'_>) -> Choice {
    let instead = choose(strategy, tiers, without).filter(|instead| instead.model != model);
    let instead = instead.map(|instead| match without.task_model {
        Some(of_task) => format!(" (the task names {of_task})"),
        None => format!(" ({} would have chosen {})", strategy.into_str(), instead.model),
    });
    Choice {
        model: model.to_owned(),
        reason: format!("{why}{}", instead.unwrap_or_default()),
    }
}

/// Chooses a model; `None` leaves it to the agent (`fixed` without a model, which submit refuses).
pub fn choose(strategy: Strategy, tiers: &Tiers, facts: &Facts<'_>) -> Option<Choice> {
    let over = |model, why, without| Some(overriding(model, why, strategy, tiers, without));
    if let Some(model) = facts.hint {
        let without = Facts { hint: None, ..*facts };
        return over(model, HINTED, &without);
    }
    if let Some(model) = facts.task_model {
        let without = Facts {
            task_model: None,
            ..*facts
        };
        return over(model, "the task names it", &without);
    }
    let strongest = |reason| Some(choice(tiers.at(tiers.strongest()), reason));
    match (strategy, facts.step) {
        (Strategy::Fixed, _) => {}
        (_, Some(SessionKind::Review)) => return strongest("strongest to review the whole"),
        (Strategy::PlanThenExecute, Some(SessionKind::Spec | SessionKind::Plan | SessionKind::Build)) => {
            return strongest("strongest to plan");
        }
        _ => {}
    }
    by_strategy(strategy, tiers, facts)
}

fn by_strategy(strategy: Strategy, tiers: &Tiers, facts: &Facts<'_>) -> Option<Choice> {
    let (tier, reason) = match strategy {
        Strategy::Fixed => return Some(choice(facts.run_model?, "the run's fixed model")),
        Strategy::CostOptimized => cost_optimized(tiers, facts),
        Strategy::Adaptive => return Some(adaptive_or_cost_optimized(tiers, facts)),
        Strategy::Escalate => match usize::try_from(facts.failures).unwrap_or(0) {
            0 => (0, "weakest first"),
            up => (up, "one tier up for each failure"),
        },
        Strategy::PlanThenExecute if facts.first_of_given_plan => (
            tiers.strongest(),
            "strongest for the first iteration of a given plan",
        ),
        Strategy::PlanThenExecute => (tiers.middle(), "middle tier to execute the plan"),
    };
    Some(choice(tiers.at(tier), reason))
}

fn adaptive_or_cost_optimized(tiers: &Tiers, facts: &Facts<'_>) -> Choice {
    let models: Vec<&str> = tiers.0.iter().map(|tier| tier.name.as_str()).collect();
    let learned = facts
        .outcomes
        .and_then(|(facts, rows)| adaptive::choose(&models, facts, rows));
    learned.unwrap_or_else(|| {
        let (tier, reason) = cost_optimized(tiers, facts);
        choice(
            tiers.at(tier),
            &format!("{reason}, while too little is known of this repository"),
        )
    })
}

fn choice(model: &str, reason: &str) -> Choice {
    Choice {
        model: model.to_owned(),
        reason: reason.to_owned(),
    }
}

/// The tier with a low cost for its results, and the reason.
fn cost_optimized(tiers: &Tiers, facts: &Facts<'_>) -> (usize, &'static str) {
    let (attempts, done) = facts.recent;
    if facts.failures >= 2 {
        (
            tiers.strongest(),
            "strongest after 2 consecutive failures of this task",
        )
    } else if attempts >= 5 && done * 2 < attempts {
        (
            tiers.strongest(),
            "strongest, since under half of the run's last attempts were done",
        )
    } else if facts.easy_streak >= 3 {
        (0, "weakest after 3 done in a row that were rated easy")
    } else {
        (tiers.middle(), "middle tier by default")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agents_hint_overrides_everything_and_the_reason_says_so() {
        let facts = Facts {
            hint: Some("haiku"),
            task_model: Some("opus"),
            failures: 3,
            ..Facts::default()
        };
        let check = |facts: &Facts<'_>, model: &str, reason: &str| {
            let choice = choose(Strategy::CostOptimized, &Tiers::default(), facts).unwrap();
            assert_eq!((choice.model.as_str(), choice.reason.as_str()), (model, reason));
            assert_eq!(is_hinted(&choice.reason), facts.hint.is_some());
        };
        check(&facts, "haiku", "an agent asked for it (the task names opus)");
        let hint = Facts {
            task_model: None,
            ..facts
        };
        check(
            &hint,
            "haiku",
            "an agent asked for it (cost-optimized would have chosen opus)",
        );
        let same = Facts {
            hint: Some("opus"),
            ..hint
        };
        check(&same, "opus", HINTED);
        let named = Facts {
            task_model: Some("own"),
            ..Facts::default()
        };
        check(
            &named,
            "own",
            "the task names it (cost-optimized would have chosen sonnet)",
        );
    }

    #[test]
    fn reviews_and_planned_steps_get_the_strongest_model() {
        let step = |step| Facts {
            run_model: Some("own"),
            step: Some(step),
            ..Facts::default()
        };
        check(Strategy::CostOptimized, step(SessionKind::Review), "opus");
        check(Strategy::Escalate, step(SessionKind::Review), "opus");
        check(Strategy::Fixed, step(SessionKind::Review), "own");
        check(Strategy::PlanThenExecute, step(SessionKind::Spec), "opus");
        check(Strategy::CostOptimized, step(SessionKind::Spec), "sonnet");
    }

    fn check(strategy: Strategy, facts: Facts<'_>, model: &str) {
        let choice = choose(strategy, &Tiers::default(), &facts);
        assert_eq!(
            choice.as_ref().map(|c| c.model.as_str()),
            Some(model),
            "{strategy:?} {facts:?}"
        );
    }

    #[test]
    fn table() {
        use Strategy::*;
        let none = Facts::default();
        check(
            Fixed,
            Facts {
                run_model: Some("opus"),
                ..none
            },
            "opus",
        );
        assert_eq!(choose(Fixed, &Tiers::default(), &none), None);
        check(CostOptimized, none, "sonnet");
        check(CostOptimized, Facts { failures: 1, ..none }, "sonnet");
        check(CostOptimized, Facts { failures: 2, ..none }, "opus");
        check(
            CostOptimized,
            Facts {
                recent: (4, 0),
                ..none
            },
            "sonnet",
        );
        check(
            CostOptimized,
            Facts {
                recent: (5, 2),
                ..none
            },
            "opus",
        );
        check(
            CostOptimized,
            Facts {
                recent: (10, 5),
                easy_streak: 3,
                ..none
            },
            "haiku",
        );
        check(Escalate, none, "haiku");
        check(Escalate, Facts { failures: 1, ..none }, "sonnet");
        check(Escalate, Facts { failures: 7, ..none }, "opus");
        check(
            PlanThenExecute,
            Facts {
                first_of_given_plan: true,
                ..none
            },
            "opus",
        );
        check(PlanThenExecute, none, "sonnet");
        check(Adaptive, none, "sonnet");
        let rows = [Outcomes {
            model: "haiku".to_owned(),
            difficulty: None,
            failures: 0,
            attempts: 500.0,
            done: 499.0,
            cost_usd: 5.0,
            seconds: 0.0,
        }];
        let of = adaptive::Facts {
            task: ralph_shared::ids::TaskId(uuid::Uuid::from_u128(1)),
            attempt: 1,
            difficulty: None,
            failures: 0,
            tries: 4,
        };
        check(
            Adaptive,
            Facts {
                outcomes: Some((of, &rows)),
                ..none
            },
            "haiku",
        );
        check(
            Escalate,
            Facts {
                task_model: Some("sonnet"),
                ..none
            },
            "sonnet",
        );
    }
}
