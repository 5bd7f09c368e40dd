//! What is submitted.

use ralph_shared::wire::MergeHow;
use serde::{Deserialize, Serialize};
use utoipa::openapi::schema::{Array, Object, Type};

use super::budgets::BudgetOptions;
use super::limits::RunOptions;
use super::priority::PrecedenceOptions;
use super::tasks::{self, GraphText};
use crate::view::FeatureView;
use ralph_domain::scheduling::concurrency::Concurrency;
use ralph_domain::states::FailurePolicy;

/// A repository as every worker can reach it. What is left out, the coordinator finds out; it needs git and a way there for that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RepoRef {
    /// Address or path, as git takes it. A login in it is for workers; nobody is shown it.
    #[schema(pattern = r"^[^-\n\x00][^\n\x00]*$")]
    pub address: String,
    /// Normalised identity: memory and names are scoped to it. What the address leaves without scheme, login and `.git` when it isn't given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Branch or tag that the feature starts from; the repository's own choice when it isn't given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_ref: Option<String>,
    /// The commit to start from, a whole hex object id; the one that `base_ref` names now when it isn't given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^([0-9a-f]{40}|[0-9a-f]{64})$")]
    pub base_commit: Option<String>,
    /// The feature's branch; `ralph/NAME` when it isn't given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
}

/// A folder that agents work in themselves, on one machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DirRef {
    /// Its path from the root.
    #[schema(pattern = r"^/[^\n\x00]*$")]
    pub path: String,
    /// Pool of the workers on its machine that may work in folders.
    #[schema(pattern = "^dir-[0-9a-f]{12}$")]
    pub pool: String,
    /// Normalised identity: memory and names are scoped to it.
    pub id: String,
}

/// `POST /api/v1/features`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SubmitFeature {
    /// Unique in its repository, safe in a ref (SPEC 1).
    #[schema(pattern = r"^(?!.*\.\.)(?!.*\.lock$)(?!.*\.$)[a-z0-9][a-z0-9._-]{0,62}$")]
    pub name: String,
    /// What it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The specification, whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<String>,
    /// The plan, whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Its tasks: a list, or the text of a task file. Without them, sessions write what is missing: the specification, the plan, the tasks.
    #[serde(
        default,
        deserialize_with = "tasks::read",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(schema_with = tasks::schema)]
    pub tasks: Option<GraphText>,
    /// Results that a person approves before the next step starts: `spec`, `plan`, `tasks`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(schema_with = results)]
    pub approve: Vec<String>,
    /// How often the whole is reviewed at most when its tasks are done; 2 when it isn't given and there are no tasks,
    /// else 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 20)]
    pub review_rounds: Option<i32>,
    /// How it comes into the branch that it begins from when it is finished; it is left on its own branch when this isn't
    /// given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge: Option<MergeHow>,
    /// Its repository; none for a feature without code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<RepoRef>,
    /// The folder that its tasks work in themselves, instead of a repository: one session at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<DirRef>,
    /// Sessions that may run at once; 4 when it isn't given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_parallel: Option<i32>,
    /// What happens to siblings when a task fails for good.
    #[serde(default)]
    pub failure_policy: FailurePolicy,
    /// Retries of a task that doesn't say; 3 when it isn't given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 100)]
    pub max_retries: Option<i32>,
    /// Whether attempts of a task that doesn't say are verified; they are when it isn't given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<bool>,
    /// Pool of a task that doesn't say; `default` when it isn't given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[a-z0-9-]{1,40}$")]
    pub pool: Option<String>,
    /// Whether tasks that change the same paths run one after the other.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub avoid_conflicts: bool,
    /// When it goes before others.
    #[serde(default)]
    pub precedence: PrecedenceOptions,
    /// Limits and choices of its run.
    #[serde(default)]
    pub run: RunOptions,
    /// Limits beside its runs'.
    #[serde(default, skip_serializing_if = "BudgetOptions::is_none")]
    pub budgets: BudgetOptions,
    /// Only creates it.
    #[serde(default)]
    pub draft: bool,
}

fn results() -> Array {
    let result = Object::builder()
        .schema_type(Type::String)
        .enum_values(Some(["spec", "plan", "tasks"]));
    Array::builder().items(result).build()
}

/// `POST /api/v1/tasks`: one task, in a feature that stands or in one made for it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SubmitTask {
    /// One line.
    pub title: String,
    /// Its name within its feature, as in a graph: at most 100 letters, digits and `. _ - / :`, none of the feature's other tasks
    /// has it. What the title leaves when it isn't given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What the agent needs to know.
    #[serde(default)]
    pub description: String,
    /// Name or id of the feature; one is made when it isn't given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feature: Option<String>,
    /// The task that it is a part of: the beginning of its id, or `FEATURE/KEY`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^(t-[0-9a-fA-F]{1,12}|[^/]+/[^/]+)$")]
    pub parent: Option<String>,
    /// The tasks that must be done before: the beginnings of their ids, or `FEATURE/KEY`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(schema_with = task_ids)]
    pub after: Vec<String>,
    /// Lower goes first.
    #[serde(default)]
    pub priority: i32,
    /// Pool; `default` when it isn't given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[a-z0-9-]{1,40}$")]
    pub pool: Option<String>,
    /// The key that its sessions share with others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<Concurrency>,
    /// It isn't begun before this time: RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<String>,
    /// Paths that it changes, such as `src/api/**`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// A configured agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// A model or a tier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Retries; 3 when it isn't given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 100)]
    pub max_retries: Option<i32>,
    /// Whether attempts are verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<bool>,
    /// The repository of the feature that is made for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<RepoRef>,
    /// The folder that it works in itself, instead of a repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<DirRef>,
    /// Limits and choices of the run of the feature that is made for it.
    #[serde(default)]
    pub run: RunOptions,
    /// Limits beside the run's; into a feature that stands, the task's alone.
    #[serde(default, skip_serializing_if = "BudgetOptions::is_none")]
    pub budgets: BudgetOptions,
}

pub(super) fn task_ids() -> Array {
    let task = Object::builder()
        .schema_type(Type::String)
        .pattern(Some("^(t-[0-9a-fA-F]{1,12}|[^/]+/[^/]+)$"));
    Array::builder().items(task).build()
}

/// What stands after a submission.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Accepted {
    /// The feature, new or extended.
    pub feature: FeatureView,
    /// Its run, if it runs.
    pub run: Option<String>,
    /// How many tasks were added.
    pub tasks: usize,
    /// The id of a single task that was submitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What was ignored in the graph.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}
