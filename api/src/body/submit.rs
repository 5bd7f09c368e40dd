//! Submissions of features and tasks.

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

/// A repository that every worker can reach. The coordinator determines omitted fields; for that it needs git
/// and access to the repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RepoRef {
    /// Address or path, as git accepts it. Only workers see a login in it.
    #[schema(pattern = r"^[^-\n\x00][^\n\x00]*$")]
    pub address: String,
    /// Normalised identity, the scope of memory and names. The address without scheme, login and `.git` when
    /// omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Branch or tag that the feature starts from; the repository's default branch when omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_ref: Option<String>,
    /// The commit to start from, a full hex object id; the current commit of `base_ref` when omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^([0-9a-f]{40}|[0-9a-f]{64})$")]
    pub base_commit: Option<String>,
    /// The feature's branch; `ralph/NAME` when omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
}

/// A folder on one machine that agents work in directly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DirRef {
    /// Absolute path of the folder.
    #[schema(pattern = r"^/[^\n\x00]*$")]
    pub path: String,
    /// Pool of the workers on that machine that may work in folders.
    #[schema(pattern = "^dir-[0-9a-f]{12}$")]
    pub pool: String,
    /// Normalised identity, the scope of memory and names.
    pub id: String,
}

/// `POST /api/v1/features`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SubmitFeature {
    /// Name that is unique in its repository and valid in a ref (SPEC 1).
    #[schema(pattern = r"^(?!.*\.\.)(?!.*\.lock$)(?!.*\.$)[a-z0-9][a-z0-9._-]{0,62}$")]
    pub name: String,
    /// What the feature is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The whole specification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<String>,
    /// The whole plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Its tasks: a list, or the text of a task file. Without tasks, sessions write the missing
    /// specification, plan and tasks.
    #[serde(
        default,
        deserialize_with = "tasks::read",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(schema_with = tasks::schema)]
    pub tasks: Option<GraphText>,
    /// Results that a person must approve before the next step starts: `spec`, `plan`, `tasks`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(schema_with = results)]
    pub approve: Vec<String>,
    /// Most reviews of the whole feature once its tasks are done; when omitted, 2 if there are no tasks, else
    /// 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 20)]
    pub review_rounds: Option<i32>,
    /// How the finished feature is merged into its base branch; it stays on its own branch when omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge: Option<MergeHow>,
    /// The feature's repository; none for a feature without code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<RepoRef>,
    /// The folder that its tasks work in directly, instead of a repository: one session at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<DirRef>,
    /// Sessions that may run at once; 4 when omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_parallel: Option<i32>,
    /// What happens to siblings when a task fails for good.
    #[serde(default)]
    pub failure_policy: FailurePolicy,
    /// Retries of a task that sets none; 3 when omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 100)]
    pub max_retries: Option<i32>,
    /// Whether to verify attempts of a task that doesn't set `verify`; `true` when omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<bool>,
    /// Pool of a task that sets none; `default` when omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[a-z0-9-]{1,40}$")]
    pub pool: Option<String>,
    /// Whether tasks that change the same paths run one after the other.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub avoid_conflicts: bool,
    /// The feature's priority over other features.
    #[serde(default)]
    pub precedence: PrecedenceOptions,
    /// Limits and choices of the feature's run.
    #[serde(default)]
    pub run: RunOptions,
    /// Limits in addition to those of its runs.
    #[serde(default, skip_serializing_if = "BudgetOptions::is_none")]
    pub budgets: BudgetOptions,
    /// Only create the feature, without starting a run.
    #[serde(default)]
    pub draft: bool,
}

fn results() -> Array {
    let result = Object::builder()
        .schema_type(Type::String)
        .enum_values(Some(["spec", "plan", "tasks"]));
    Array::builder().items(result).build()
}

/// `POST /api/v1/tasks`: one task, in an existing feature or in a new one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SubmitTask {
    /// One line.
    pub title: String,
    /// Key of the task, unique within its feature, as in a graph: at most 100 letters, digits and `. _ - /
    /// :`. Derived from the title when omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What the agent needs to know.
    #[serde(default)]
    pub description: String,
    /// Name or id of the feature; a new one is created when omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feature: Option<String>,
    /// The parent task: a prefix of its id, or `FEATURE/KEY`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^(t-[0-9a-fA-F]{1,12}|[^/]+/[^/]+)$")]
    pub parent: Option<String>,
    /// The tasks that must be done first: prefixes of their ids, or `FEATURE/KEY`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(schema_with = task_ids)]
    pub after: Vec<String>,
    /// A task with a lower value goes first.
    #[serde(default)]
    pub priority: i32,
    /// Pool; `default` when omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[a-z0-9-]{1,40}$")]
    pub pool: Option<String>,
    /// Concurrency key of its sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<Concurrency>,
    /// The task doesn't start before this time: RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<String>,
    /// Paths that the task changes, such as `src/api/**`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// A configured agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// A model or a tier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Retries; 3 when omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 100)]
    pub max_retries: Option<i32>,
    /// Whether attempts are verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<bool>,
    /// The repository of the new feature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<RepoRef>,
    /// The folder that the task works in directly, instead of a repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<DirRef>,
    /// Limits and choices of the new feature's run.
    #[serde(default)]
    pub run: RunOptions,
    /// Limits in addition to the run's; for an existing feature, only the task's.
    #[serde(default, skip_serializing_if = "BudgetOptions::is_none")]
    pub budgets: BudgetOptions,
}

pub(super) fn task_ids() -> Array {
    let task = Object::builder()
        .schema_type(Type::String)
        .pattern(Some("^(t-[0-9a-fA-F]{1,12}|[^/]+/[^/]+)$"));
    Array::builder().items(task).build()
}

/// The result of a submission.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Accepted {
    /// The feature, new or extended.
    pub feature: FeatureView,
    /// The feature's run, if one was started.
    pub run: Option<String>,
    /// Number of added tasks.
    pub tasks: usize,
    /// Id of the task, if a single one was submitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Key of that task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Parts of the graph that were ignored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}
