//! `feature …`

pub(crate) mod chat;
pub(crate) mod edit;
pub(crate) mod page;
pub(crate) mod prune;
pub(crate) mod resume;
pub(crate) mod review;
pub(crate) mod text;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Args, Subcommand};
use ralph_api::body::{
    BranchOperations, CommandOptions, Done, EditFeature, MergeFeature, PrecedenceOptions, Started,
};
use ralph_api::view::{FeatureView, Landing, LogEntry, Page, Progress};
use ralph_domain::states::{FeatureState, RunOutcome};
use ralph_shared::wire::MergeHow;

use super::client::{ApiError, Client, escape};
use super::schedule::{self, ScheduleFlags};
use super::submit::RunFlags;
use super::wait::{self, Interrupts, WaitFlags};
use super::{submit, task};
use crate::args::globals::Globals;
use crate::args::usage::Usage;
use crate::feature::text::TextArgs;
use crate::submit::priority::PrecedenceFlags;
use crate::terminal::confirm::confirm;
use crate::terminal::output::{self, Format};
use crate::{
    git::{branch, diff},
    submit::agents,
    terminal::pager,
};

/// Show and control features
#[derive(Debug, Subcommand)]
pub enum FeatureCommand {
    /// List features, newest first
    #[command(
        visible_alias = "ls",
        after_help = "Examples:
  ralph feature list
  ralph feature list --status running,paused --output json"
    )]
    List {
        /// Only features with one of these statuses, separated by commas
        #[arg(long, value_name = "STATUS")]
        status: Option<String>,
        /// At most this many
        #[arg(long, default_value_t = 50, value_name = "N")]
        limit: usize,
    },
    /// Show a feature and its progress
    #[command(after_help = "Examples:
  ralph feature show todo
  ralph feature show f-3a1 --output json")]
    Show(FeatureArg),
    /// Create a feature without running it: `submit feature --draft`
    #[command(
        mut_arg("draft", |arg| arg.hide(true)),
        mut_arg("dry_run", |arg| arg.hide(true)),
        mut_arg("wait", |arg| arg.hide(true)),
        after_help = "Examples:
  ralph feature create due --description \"A due date for each item\"
  ralph feature create todo --tasks tasks.yaml"
    )]
    Create(Box<submit::FeatureArgs>),
    /// Write the specification of a feature together with an agent; without a terminal, print it
    #[command(after_help = "Examples:
  ralph feature spec todo                talk with an agent (`ralph-worker chat`); the result is stored
  ralph feature spec todo --show
  ralph feature spec todo --edit
  ralph feature spec todo --file spec.md --replaces 3f2a91bc   the version that --show printed")]
    Spec(TextArgs),
    /// Write the plan of a feature together with an agent; without a terminal, print it
    #[command(after_help = "Examples:
  ralph feature plan todo                talk with an agent (`ralph-worker chat`); the result is stored
  ralph feature plan todo --show
  ralph feature plan todo --edit
  ralph feature plan todo --file - < plan.md")]
    Plan(TextArgs),
    /// Print or change a task graph that waits for approval
    #[command(after_help = "Examples:
  ralph feature tasks todo
  ralph feature tasks todo --edit
  ralph feature tasks todo --file tasks.yaml")]
    Tasks(TextArgs),
    Edit(Box<edit::EditArgs>),
    /// Start a run of a feature; flags that are left out keep the values of its last run
    #[command(after_help = "Examples:
  ralph feature run todo --wait
  ralph feature run todo --limit 50 --max-cost 5
  ralph feature run todo --at \"2026-12-01 08:00\"")]
    Run(RunArgs),
    /// Let agents write the tasks of a feature that has none
    #[command(after_help = "Example:
  ralph feature build due --wait")]
    Build(RunArgs),
    /// Let an agent review a finished feature; its requests become tasks
    #[command(after_help = "Examples:
  ralph feature review due --wait
  ralph feature review due --show      tasks that wait for a person, with verdicts and weakened tests")]
    Review {
        #[command(flatten)]
        run: RunArgs,
        /// Start nothing; show the verdicts and changes that a person needs to decide
        #[arg(long, conflicts_with = "wait")]
        show: bool,
    },
    /// Start nothing new; running sessions continue
    #[command(after_help = "Example:
  ralph feature pause todo")]
    Pause(FeatureArg),
    /// Continue a paused feature
    #[command(after_help = "Example:
  ralph feature resume todo")]
    Resume(FeatureArg),
    /// End a run in order, and push its work; `feature run` continues it
    #[command(after_help = "Example:
  ralph feature stop todo")]
    Stop(FeatureArg),
    /// End a feature for good: end its sessions in order, and push their work
    #[command(after_help = "Examples:
  ralph feature cancel todo
  ralph feature cancel todo --yes")]
    Cancel {
        #[command(flatten)]
        named: FeatureArg,
        /// Don't ask
        #[arg(long)]
        yes: bool,
    },
    /// Merge the base branch into the feature's branch; an agent resolves conflicts
    #[command(after_help = "Examples:
  ralph feature update todo
  ralph feature update todo --wait")]
    Update {
        #[command(flatten)]
        named: FeatureArg,
        #[command(flatten)]
        wait: WaitFlags,
    },
    /// Merge the feature's branch into its base branch
    #[command(after_help = "Examples:
  ralph feature merge todo --wait
  ralph feature merge todo --how squash --into release/2.1
  ralph feature merge todo --partial")]
    Merge(MergeArgs),
    /// Remove refs of old attempts from the remote; a worker does it
    #[command(
        after_help = "Refs of unfinished tasks stay, and so do refs that hold the only copy of a task's work.

Examples:
  ralph feature prune todo --dry-run
  ralph feature prune todo --older-than 7d --yes"
    )]
    Prune(prune::PruneArgs),
    /// Delete a feature that isn't running, with its tasks; its branches stay
    #[command(after_help = "Example:
  ralph feature delete todo --yes")]
    Delete {
        #[command(flatten)]
        named: FeatureArg,
        /// Don't ask
        #[arg(long)]
        yes: bool,
    },
    /// Show the changes of a feature since its base; run it in a clone
    #[command(after_help = "Examples:
  ralph feature diff todo
  ralph feature diff todo --stat")]
    Diff {
        #[command(flatten)]
        named: FeatureArg,
        /// Only file names and sizes of changes
        #[arg(long)]
        stat: bool,
    },
    /// Check out a feature's branch; run it in a clone
    ///
    /// In the feature's own repository this is the branch's head (a detached HEAD), so that work can still
    /// land on the branch. `git switch -` leads back.
    #[command(after_help = "Example:
  ralph feature checkout todo")]
    Checkout(FeatureArg),
    /// Show the changes that people made to a feature and its tasks
    #[command(after_help = "Example:
  ralph feature log todo")]
    Log(FeatureArg),
    /// Wait for the end of a feature's run; the exit code is its outcome
    #[command(after_help = "Example:
  ralph feature wait todo")]
    Wait {
        #[command(flatten)]
        named: FeatureArg,
        /// Wait on while something waits for a person, until the run ends otherwise
        #[arg(long)]
        through_approvals: bool,
    },
}

/// Options of a run of a feature.
#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    named: FeatureArg,
    #[command(flatten)]
    schedule: ScheduleFlags,
    #[command(flatten)]
    precedence: PrecedenceFlags,
    #[command(flatten)]
    run: Box<RunFlags>,
    #[command(flatten)]
    wait: WaitFlags,
}

/// Options of a merge.
#[derive(Debug, Args)]
pub struct MergeArgs {
    #[command(flatten)]
    named: FeatureArg,
    /// How: move that branch (ff), a merge commit (merge), one commit (squash), or the worker's own command
    /// (command)
    #[arg(long, default_value = "merge", value_name = "HOW", value_parser = PossibleValuesParser::new(["ff", "merge", "squash", "command"]).try_map(|how| how.parse::<MergeHow>()))]
    how: MergeHow,
    /// Merge into another branch
    #[arg(long, value_name = "BRANCH")]
    into: Option<String>,
    /// Merge the landed work without confirmation, even if tasks are not done
    #[arg(long, visible_alias = "yes")]
    partial: bool,
    #[command(flatten)]
    wait: WaitFlags,
}

/// A feature's name.
#[derive(Debug, Args)]
pub struct FeatureArg {
    /// Name of the feature, or the beginning of its id
    #[arg(value_name = "FEATURE")]
    feature: String,
}

pub async fn run(globals: &Globals, command: FeatureCommand) -> anyhow::Result<ExitCode> {
    let client = &Client::find(globals)?;
    let format = globals.output;
    match command {
        FeatureCommand::List { status, limit } => list(globals, client, status, limit).await?,
        FeatureCommand::Show(named) => show(globals, client, &named.feature).await?,
        FeatureCommand::Create(args) => return submit::draft(globals, *args).await,
        FeatureCommand::Spec(args) => text::run(globals, client, "spec", args).await?,
        FeatureCommand::Plan(args) => text::run(globals, client, "plan", args).await?,
        FeatureCommand::Tasks(args) => text::run(globals, client, "tasks", args).await?,
        FeatureCommand::Edit(args) => edit::run(client, format, *args).await?,
        FeatureCommand::Run(args) => return start(client, format, args, "run", "runs").await,
        FeatureCommand::Build(args) => return start(client, format, args, "build", "is built").await,
        FeatureCommand::Review { run, show: true } => {
            review::show(globals, client, &run.named.feature).await?;
        }
        FeatureCommand::Review { run, .. } => {
            return start(client, format, run, "review", "is reviewed").await;
        }
        FeatureCommand::Pause(named) => post_command(client, format, &named, "pause", "is paused").await?,
        FeatureCommand::Resume(named) => post_command(client, format, &named, "resume", "goes on").await?,
        FeatureCommand::Stop(named) => post_command(client, format, &named, "stop", "is stopped").await?,
        FeatureCommand::Cancel { named, yes } => {
            confirm(&format!("Cancel the feature `{}`?", named.feature), yes)?;
            post_command(client, format, &named, "cancel", "is cancelled").await?;
        }
        FeatureCommand::Update { named, wait } => {
            let path = format!("/features/{}/update", escape(&named.feature));
            return operation(
                client,
                format,
                client.post(&path, &CommandOptions::default()),
                wait,
            )
            .await;
        }
        FeatureCommand::Merge(args) => {
            let wait = args.wait;
            return operation(client, format, merge(client, args), wait).await;
        }
        FeatureCommand::Prune(args) => prune::run(client, format, args).await?,
        FeatureCommand::Delete { named, yes } => delete(client, format, &named.feature, yes).await?,
        FeatureCommand::Diff { named, stat } => {
            diff::of_feature(globals, client, &named.feature, stat).await?;
        }
        FeatureCommand::Checkout(named) => branch::checkout(client, &named.feature).await?,
        FeatureCommand::Log(named) => log(globals, client, &named.feature).await?,
        FeatureCommand::Wait {
            named,
            through_approvals,
        } => {
            let interrupts = Interrupts::new(through_approvals)?;
            return wait::wait(client, &named.feature, format, interrupts).await;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(
    globals: &Globals,
    client: &Client,
    status: Option<String>,
    limit: usize,
) -> anyhow::Result<()> {
    let query = status
        .map(|status| format!("status={}", escape(&status)))
        .unwrap_or_default();
    let page: Page<FeatureView> = client.list("/features", &query, limit).await?;
    output::list(globals, &page, |wide| page::list(&page.items, wide)).await
}

async fn show(globals: &Globals, client: &Client, feature: &str) -> anyhow::Result<()> {
    let path = format!("/features/{}", escape(feature));
    let progress: Progress = client.get(&format!("{path}/progress")).await?;
    let most = match globals.output {
        Format::Json => return output::json(&progress),
        Format::Wide => usize::MAX,
        Format::Table => branch::SHOWN_LANDINGS,
    };
    let landed: Page<Landing> = client.list(&format!("{path}/landings"), "", most).await?;
    let shown = &progress.feature;
    let base = (shown.base_ref.as_deref(), shown.base_commit.as_deref());
    let graph = branch::graph(base, &landed);
    pager::show(globals, &format!("{}{graph}", page::page(&progress))).await
}

async fn delete(client: &Client, format: Format, feature: &str, yes: bool) -> anyhow::Result<()> {
    let question = format!("Delete the feature `{feature}` with its tasks and outcomes?");
    confirm(&question, yes)?;
    let done: Done = client.delete(&format!("/features/{}", escape(feature))).await?;
    output::answer(format, &done, &format!("{feature} is deleted\n"))
}

async fn log(globals: &Globals, client: &Client, feature: &str) -> anyhow::Result<()> {
    let path = format!("/features/{}/log", escape(feature));
    let page: Page<LogEntry> = client.get(&path).await?;
    let nobody = "nobody has changed it yet";
    output::show(globals, &page, |_| task::log_table(&page.items, nobody)).await
}

/// Requests a merge; asks the person for confirmation if tasks of the feature are not done.
async fn merge(client: &Client, args: MergeArgs) -> anyhow::Result<BranchOperations> {
    let path = format!("/features/{}/merge", escape(&args.named.feature));
    let mut body = MergeFeature {
        how: args.how,
        into: args.into,
        partial: args.partial,
    };
    let answer = client.post(&path, &body).await;
    let Err(error) = &answer else { return answer };
    if !ApiError::is_unfinished(error) || !std::io::stdin().is_terminal() {
        return answer;
    }
    confirm(&format!("{error}. Merge that?"), false)?;
    body.partial = true;
    client.post(&path, &body).await
}

/// Requests tasks that change branches, reports them, and waits for them with `--wait`.
pub async fn operation(
    client: &Client,
    format: Format,
    request: impl Future<Output = anyhow::Result<BranchOperations>>,
    wait: WaitFlags,
) -> anyhow::Result<ExitCode> {
    let mut waits = Interrupts::of(wait)?;
    let operating = wait::unless_interrupted(waits.as_mut(), request).await?;
    if let Some(interrupts) = waits {
        return wait::wait_accepted(client, &operating.feature, format, interrupts).await;
    }
    let run = match &operating.run {
        Some(run) => format!(" ({run})"),
        None => String::new(),
    };
    let tasks = operating.tasks.join(", ");
    let text = format!("{}: {tasks} will do it{run}\n", operating.feature);
    output::answer(format, &operating, &text)?;
    if operating.run.is_none() {
        wait::hint(client, &operating.feature).await;
    }
    Ok(ExitCode::SUCCESS)
}

async fn start(
    client: &Client,
    format: Format,
    args: RunArgs,
    verb: &str,
    now: &str,
) -> anyhow::Result<ExitCode> {
    let name = escape(&args.named.feature);
    let feature: FeatureView = client.get(&format!("/features/{name}")).await?;
    // The run inherits options from the last run or the feature, not from this folder's configuration.
    let options = args.run.flags()?;
    agents::warn_if_unknown(client, options.agent.as_deref()).await;
    let precedence = PrecedenceOptions::from(args.precedence);
    if precedence != PrecedenceOptions::default() {
        let edit = EditFeature {
            precedence,
            ..EditFeature::default()
        };
        let _: Done = client.patch(&format!("/features/{name}"), &edit).await?;
    }
    if let Some(options) = args.schedule.to_request()? {
        if verb != "run" || args.wait.wait {
            let why = "--at and --every go with `feature run`, and without --wait";
            return Err(Usage(why.to_owned()).into());
        }
        return schedule::set(client, format, &args.named.feature, &options).await;
    }
    let mut waits = Interrupts::of(args.wait)?;
    let path = format!("/features/{name}/{verb}");
    let started: Started = match wait::unless_interrupted(waits.as_mut(), client.post(&path, &options)).await
    {
        Ok(started) => started,
        Err(error) if has_nothing_to_run(&feature, verb) && ApiError::is_conflict(&error) => {
            eprintln!("error: {error:#}");
            if feature.status == FeatureState::Done {
                eprintln!("{}", more_work(&feature.name));
            }
            return Ok(ExitCode::from(RunOutcome::NoPlan.exit_code()));
        }
        Err(error) => return Err(error),
    };
    if let Some(interrupts) = waits {
        return wait::wait(client, &started.feature, format, interrupts).await;
    }
    print_started(format, &started, &feature.name, now)?;
    Ok(ExitCode::SUCCESS)
}

/// Whether a feature has no tasks to run: none yet, or all done.
fn has_nothing_to_run(feature: &FeatureView, verb: &str) -> bool {
    match feature.status {
        FeatureState::Draft => feature.tasks.total == 0,
        FeatureState::Done => verb == "run",
        _ => false,
    }
}

/// Suggests how to add work to a finished feature.
fn more_work(feature: &str) -> String {
    format!("all tasks of `{feature}` are done: `ralph task create TITLE --feature {feature}` adds a task")
}

async fn post_command(
    client: &Client,
    format: Format,
    named: &FeatureArg,
    verb: &str,
    now: &str,
) -> anyhow::Result<()> {
    let path = format!("/features/{}/{verb}", escape(&named.feature));
    let started: Started = client.post(&path, &CommandOptions::default()).await?;
    print_started(format, &started, &name_of(client, named).await, now)
}

/// The feature's name, which may have been given as an id; as given if the coordinator doesn't respond.
async fn name_of(client: &Client, named: &FeatureArg) -> String {
    let path = format!("/features/{}", escape(&named.feature));
    let feature: anyhow::Result<FeatureView> = client.get(&path).await;
    feature.map_or_else(|_| named.feature.clone(), |feature| feature.name)
}

/// Reports the present state of the run.
pub(super) fn print_started(
    format: Format,
    started: &Started,
    feature: &str,
    now: &str,
) -> anyhow::Result<()> {
    let run = started.run.as_ref().map(|run| format!(" ({run})"));
    let text = format!("{feature} {now}{}\n", run.unwrap_or_default());
    output::answer(format, started, &text)
}
