//! `submit feature NAME`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::{BoolishValueParser, PossibleValuesParser, TypedValueParser as _};
use clap::{Args, ValueEnum};
use ralph_api::body::{Accepted, GraphText, RunOptions, SetSchedule, SubmitFeature};
use ralph_domain::graph::{self, Limits};
use ralph_domain::names;
use ralph_domain::run::DEFAULT_MAX_PARALLEL;
use ralph_domain::states::FailurePolicy;
use ralph_domain::steps::{self, Provided};
use ralph_shared::file;
use ralph_shared::wire::MergeHow;

use super::checked::CheckedGraph;
use super::repo::{self, RepoFlags};
use super::{BudgetFlags, RunFlags, accepted, gate, limits, warn};
use crate::args::globals::Globals;
use crate::args::usage::Usage;
use crate::client::Client;
use crate::config::Config;
use crate::cost::estimate;
use crate::git::paths::first_symlink;
use crate::schedule::{self, ScheduleFlags};
use crate::submit::priority::PrecedenceFlags;
use crate::terminal::output::{self, Format};
use crate::terminal::pager;
use crate::wait::{self, Interrupts, WaitFlags};

/// Submit a feature: a graph of tasks that many agents work on
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ralph submit feature todo --tasks tasks.yaml --wait
  ralph submit feature todo --tasks tasks.yaml --dry-run          check and draw the graph
  ralph submit feature todo --tasks - --repo https://host/team/todo.git --base main < tasks.yaml
  ralph submit feature todo --tasks tasks.yaml --spec spec.md --max-cost 5 --max-parallel 8
  ralph submit feature todo --tasks tasks.yaml --feature-max-cost 40 --task-max-cost 5
  ralph submit feature due --description \"A due date for each item\" --approve plan,tasks --wait
  ralph submit feature todo --tasks tasks.yaml --avoid-conflicts  no two on the same paths at once
  ralph submit feature todo --tasks tasks.yaml --no-review --on-failure stop --wait   without a person
  ralph submit feature notes --tasks tasks.yaml --workspace dir --repo ~/notes   in the folder itself
  ralph submit feature todo --tasks tasks.yaml --deadline 6h --weight 3
  ralph submit feature nightly --tasks tasks.yaml --every \"0 3 * * *\" --time-zone Europe/Berlin
  ralph submit feature due --spec due.md --gate \"make test\"          start from a specification
  ralph submit feature due --tasks tasks.yaml --gate \"make due-test\" --gate-may-fail-on-base   the tasks create it")]
pub struct FeatureArgs {
    /// Name of the feature, unique in its repository: a-z, 0-9, `.`, `_`, `-`
    name: String,
    /// File with the tasks, YAML or JSON; `-` for standard input
    #[arg(long, value_name = "FILE")]
    tasks: Option<PathBuf>,
    /// Description in a sentence or more; alone, sessions write its specification, plan and tasks
    #[arg(long, value_name = "TEXT", visible_alias = "describe")]
    description: Option<String>,
    /// File with the specification, which agents see; without a plan or tasks, a session plans it
    #[arg(long, value_name = "FILE")]
    spec: Option<PathBuf>,
    /// File with the plan, which agents see; without tasks, a session breaks it into tasks
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// Results that a person approves before the next step starts, separated by commas
    #[arg(long, value_name = "RESULTS", value_delimiter = ',', value_parser = PossibleValuesParser::new(steps::RESULTS))]
    approve: Vec<String>,
    /// Rounds of reviewing the whole feature when its tasks are done; 0 is none [default: 2 without --tasks,
    /// else 0]
    #[arg(long, value_name = "N")]
    review: Option<i32>,
    /// How to merge the finished feature's branch into its base: ff, merge or squash; or command, the
    /// worker's `[workspace] on_complete` [default: the branch stays unmerged]
    #[arg(long, env = "RALPH_MERGE", value_name = "HOW", value_parser = PossibleValuesParser::new(["ff", "merge", "squash", "command"]).try_map(|how| how.parse::<MergeHow>()))]
    merge: Option<MergeHow>,
    #[command(flatten)]
    repo: RepoFlags,
    /// Sessions that may run at once [default: 4]
    #[arg(long, env = "RALPH_MAX_PARALLEL", value_name = "N")]
    max_parallel: Option<i32>,
    /// Retries of a task that doesn't set its own; after them a person decides, see --no-review [default: 3]
    #[arg(long, env = "RALPH_MAX_RETRIES", value_name = "N")]
    max_retries: Option<i32>,
    /// Pool of tasks that don't set their own [default: default]
    #[arg(long, value_name = "POOL")]
    pool: Option<String>,
    /// Let no other session judge an attempt before it counts
    #[arg(long, env = "RALPH_NO_VERIFY", value_name = "YES|NO", num_args = 0..=1, require_equals = true,
          default_missing_value = "yes", value_parser = BoolishValueParser::new())]
    no_verify: Option<bool>,
    /// Let tasks that change the same paths, as declared (`paths`) or as their earlier attempts did, run one after the other
    #[arg(long, env = "RALPH_AVOID_CONFLICTS", value_name = "YES|NO", num_args = 0..=1, require_equals = true,
          default_missing_value = "yes", value_parser = BoolishValueParser::new())]
    avoid_conflicts: Option<bool>,
    /// Effect on the siblings of a task that fails for good
    #[arg(long, value_enum, default_value_t = OnFailure::Continue, value_name = "POLICY")]
    on_failure: OnFailure,
    /// Only create it; `feature run NAME` starts it
    #[arg(long, conflicts_with = "wait")]
    pub(super) draft: bool,
    /// Check the graph and draw it; nothing is submitted, and no coordinator is needed
    #[arg(long, conflicts_with = "wait")]
    dry_run: bool,
    #[command(flatten)]
    pub(super) wait: WaitFlags,
    #[command(flatten)]
    schedule: ScheduleFlags,
    #[command(flatten)]
    precedence: PrecedenceFlags,
    #[command(flatten)]
    run: RunFlags,
    #[command(flatten)]
    budgets: BudgetFlags,
}

/// Failure policy (SPEC 2.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnFailure {
    /// Tasks that don't depend on it go on
    Continue,
    /// Ready siblings stop being ready
    Stop,
}

pub async fn submit(globals: &Globals, args: FeatureArgs) -> anyhow::Result<ExitCode> {
    names::check(&args.name).map_err(|error| Usage(error.to_string()))?;
    let tasks = args.tasks.as_deref().map(read_graph).transpose()?;
    let schedule = args.schedule()?;
    let file = Config::find()?;
    // Checked before any question or reading: nothing later can correct a wrong option.
    let mut run = args.run.request(&file)?;
    let max_parallel = match args.max_parallel {
        None => limits::max_parallel(&file.limits)?,
        given => given,
    };
    if args.dry_run {
        let checkout = repo::checked_out(&args.repo, args.merge.or(file.workspace.merge)).await;
        let tasks =
            tasks.ok_or_else(|| Usage("--dry-run needs a graph: give one with --tasks FILE".into()))?;
        return dry_run(globals, tasks, &run, checkout, max_parallel).await;
    }
    let (spec, plan) = args.texts()?;
    let client = Client::find(globals)?;
    let repo = repo::resolve(&args.repo, &args.name, &client).await?;
    let dir = repo::dir(&args.repo).await?;
    let merge = args.merge.or(file.workspace.merge.filter(|_| repo.is_some()));
    gate::offer(&args.repo, &mut run).await?;
    warn(repo::warnings(&args.repo, merge).await);
    let request = SubmitFeature {
        name: args.name,
        description: args.description,
        spec,
        plan,
        tasks,
        approve: args.approve,
        review_rounds: args.review,
        merge,
        repo,
        // In a folder, one session works at a time, whatever the file sets.
        max_parallel: max_parallel.filter(|_| dir.is_none() || args.max_parallel.is_some()),
        failure_policy: match args.on_failure {
            OnFailure::Continue => FailurePolicy::Continue,
            OnFailure::Stop => FailurePolicy::Stop,
        },
        max_retries: args.max_retries.or(file.execution.max_retries),
        verify: args.no_verify.map(|off| !off).or(file.execution.verify),
        pool: args.pool,
        avoid_conflicts: args
            .avoid_conflicts
            .or(file.execution.avoid_conflicts.filter(|_| dir.is_none()))
            .unwrap_or(false),
        dir,
        precedence: args.precedence.into(),
        run,
        budgets: (&args.budgets).into(),
        draft: args.draft || schedule.is_some(),
    };
    let mut waits = Interrupts::of(args.wait)?;
    let answer: Accepted =
        wait::unless_interrupted(waits.as_mut(), client.post("/features", &request)).await?;
    let Some(schedule) = schedule else {
        return accepted(&client, globals.output, &answer, waits).await;
    };
    warn(&answer.warnings);
    schedule::set(&client, globals.output, &answer.feature.id, &schedule).await
}

impl FeatureArgs {
    fn schedule(&self) -> Result<Option<SetSchedule>, Usage> {
        let schedule = self.schedule.to_request()?;
        if schedule.is_some() && self.wait.wait {
            let why =
                "--wait can't wait for a scheduled start; leave out --wait, and check with `schedule list`";
            return Err(Usage(why.to_owned()));
        }
        Ok(schedule)
    }

    /// The specification and the plan; an error if the feature has nothing to start with.
    fn texts(&self) -> anyhow::Result<(Option<String>, Option<String>)> {
        let (spec, plan) = match (&self.tasks, &self.spec, &self.plan) {
            (None, None, None) => (written(&self.name, "spec")?, written(&self.name, "plan")?),
            (_, spec, plan) => (
                spec.as_deref().map(read_text).transpose()?,
                plan.as_deref().map(read_text).transpose()?,
            ),
        };
        let given = Provided::new(
            self.description.as_deref().unwrap_or_default(),
            spec.as_deref(),
            plan.as_deref(),
            usize::from(self.tasks.is_some()),
        );
        if steps::missing(given).is_none() && !self.draft {
            return Err(Usage(steps::NOTHING_TO_START_WITH.to_owned()).into());
        }
        Ok((spec, plan))
    }
}

async fn dry_run(
    globals: &Globals,
    GraphText { source, text }: GraphText,
    run: &RunOptions,
    checkout: Option<String>,
    max_parallel: Option<i32>,
) -> anyhow::Result<ExitCode> {
    let graph = graph::load(&source, &text, &Limits::file()).map_err(|errors| Usage(errors.to_string()))?;
    run.settings(graph.nodes.len())
        .map_err(|options| Usage(options.to_string()))?;
    let warnings = graph
        .warnings
        .iter()
        .map(|warning| warning.describe(&graph.source_name));
    let warnings: Vec<String> = warnings.chain(checkout).collect();
    let parallel = usize::try_from(max_parallel.unwrap_or(DEFAULT_MAX_PARALLEL)).unwrap_or(1);
    let estimate = match (Client::find(globals), super::here().await) {
        (Ok(client), Some(repo_id)) => estimate::of_graph(&client, &repo_id, &graph, parallel).await,
        _ => None,
    };
    if globals.output == Format::Json {
        output::json(&CheckedGraph::new(&graph, warnings, estimate))?;
        return Ok(ExitCode::SUCCESS);
    }
    warn(&warnings);
    let words = estimate::words(estimate.as_ref());
    pager::show(globals, &format!("{}\n{words}\n", graph::draw(&graph))).await?;
    Ok(ExitCode::SUCCESS)
}

fn read_graph(path: &Path) -> anyhow::Result<GraphText> {
    let source = match path.as_os_str() == "-" {
        true => "standard input".to_owned(),
        false => path.display().to_string(),
    };
    let text = read_text(path)?;
    Ok(GraphText { source, text })
}

/// The feature's text in the project's own folder (SPEC 2.1). Everyone who may read the feature gets it, and
/// models too, so links are not followed.
fn written(feature: &str, which: &str) -> anyhow::Result<Option<String>> {
    let path = Path::new(".ralph/features")
        .join(feature)
        .join(format!("{which}.md"));
    if !path.is_file() {
        return Ok(None);
    }
    if let Some(link) = first_symlink(&path) {
        return Err(Usage(format!(
            "{} is a link, so the {which} is not read from {}: put the text there itself, or name a file with --{which}",
            link.display(),
            path.display()
        ))
        .into());
    }
    eprintln!("the {which} is read from {}", path.display());
    read_text(&path).map(Some)
}

pub(crate) fn read_text(path: &Path) -> anyhow::Result<String> {
    file::read_text_or_stdin(path, file::LARGE_BYTES).map_err(|error| Usage(error.to_string()).into())
}
