//! `submit task TITLE`

use std::process::ExitCode;

use clap::Args;
use clap::builder::BoolishValueParser;
use ralph_api::body::{Accepted, SubmitTask};
use ralph_domain::scheduling::concurrency::Concurrency;
use ralph_shared::file;

use super::prompt;
use super::repo::{self, RepoFlags};
use super::{BudgetFlags, RunFlags, accepted, gate};
use crate::args::globals::Globals;
use crate::args::usage::Usage;
use crate::client::Client;
use crate::config::Config;
use crate::terminal::moment::Moment;
use crate::wait::{self, Interrupts, WaitFlags};

/// Submit one task
///
/// Without --feature, this creates a feature for the task, in the repository of the current folder.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ralph submit task \"Fix the login\" --description \"It fails with an empty password.\" --wait
  ralph submit task \"Write the tests\" --feature todo --key tests --after todo/api
  ralph submit task \"Write the routes\" --feature todo --path \"src/api/**\" --path docs/api.md
  ralph submit task \"Sort the notes\" --workspace dir --repo ~/notes
  ralph submit task \"Look something up\" --no-repo --description - < question.txt")]
pub struct TaskArgs {
    /// The task, on one line [default: at a terminal, this command asks for it and for other values]
    pub(super) title: Option<String>,
    /// Name within the feature, for FEATURE/KEY: letters, digits and . _ - / : [default: derived from the
    /// title]
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Information for the agent; `-` for standard input
    #[arg(long, value_name = "TEXT|-")]
    pub(super) description: Option<String>,
    /// Name or id of the feature that the task belongs to
    #[arg(long, value_name = "FEATURE", conflicts_with_all = ["repo", "base", "branch", "no_repo"])]
    pub(super) feature: Option<String>,
    /// Id of the parent task
    #[arg(long, value_name = "TASK", requires = "feature")]
    parent: Option<String>,
    /// Id of a task that must be done before; may be repeated
    #[arg(long, value_name = "TASK", requires = "feature", value_delimiter = ',')]
    pub(super) after: Vec<String>,
    /// Lower goes first
    #[arg(long, default_value_t = 0, allow_negative_numbers = true, value_name = "N")]
    priority: i32,
    /// Run at most LIMIT sessions at once, over all tasks with this KEY; the last given limit applies to all
    #[arg(long, value_name = "KEY=LIMIT")]
    concurrency: Option<Concurrency>,
    /// Don't start it before this time: 2026-12-01T08:00+01:00, "2026-12-01 08:00", or 6h for 6 hours from
    /// now
    #[arg(long, value_name = "TIME")]
    not_before: Option<Moment>,
    /// Pool of workers that may take it [default: default]
    #[arg(long, value_name = "POOL")]
    pool: Option<String>,
    /// A path that it changes, such as `src/api/**`; may be repeated. See `submit feature --avoid-conflicts`
    #[arg(long = "path", value_name = "PATH")]
    paths: Vec<String>,
    /// Retries [default: 3]
    #[arg(long, env = "RALPH_MAX_RETRIES", value_name = "N")]
    max_retries: Option<i32>,
    /// Let no other session judge an attempt before it counts
    #[arg(long, env = "RALPH_NO_VERIFY", value_name = "YES|NO", num_args = 0..=1, require_equals = true,
          default_missing_value = "yes", value_parser = BoolishValueParser::new())]
    no_verify: Option<bool>,
    #[command(flatten)]
    wait: WaitFlags,
    #[command(flatten)]
    pub(super) repo: RepoFlags,
    #[command(flatten)]
    pub(super) run: RunFlags,
    #[command(flatten)]
    budgets: BudgetFlags,
}

pub async fn submit(globals: &Globals, mut args: TaskArgs) -> anyhow::Result<ExitCode> {
    let in_conversation = args.title.is_none();
    if in_conversation {
        prompt::fill(&mut args)?;
    }
    let title = args.title.unwrap_or_default();
    let description = match args.description.as_deref() {
        Some("-") => file::read_stdin(file::LARGE_BYTES)?,
        text => text.unwrap_or_default().to_owned(),
    };
    if title.trim().is_empty() {
        return Err(Usage("the title is empty; give the task in one line".into()).into());
    }
    let file = Config::find()?;
    // Checked before any question: nothing later can correct a wrong option.
    let mut run = args.run.request(&file)?;
    let client = Client::find(globals)?;
    let repo = match &args.feature {
        Some(_) => None,
        // Its feature gets a unique name, and so does its branch.
        None => repo::resolve(&args.repo, "", &client).await?,
    };
    let in_feature = args.feature.is_some();
    let dir = match in_feature {
        true => None,
        false => repo::dir(&args.repo).await?,
    };
    if !in_feature && !in_conversation {
        gate::offer(&args.repo, &mut run).await?;
    }
    let request = SubmitTask {
        title,
        key: args.key,
        description,
        feature: args.feature,
        parent: args.parent,
        after: args.after,
        priority: args.priority,
        pool: args.pool,
        paths: args.paths,
        concurrency: args.concurrency,
        not_before: args.not_before.map(|at| at.to_string()),
        agent: args.run.agent.clone().filter(|_| in_feature),
        model: args.run.model.clone().filter(|_| in_feature),
        max_retries: args.max_retries.or(file.execution.max_retries),
        verify: args.no_verify.map(|off| !off).or(file.execution.verify),
        repo,
        dir,
        run,
        budgets: (&args.budgets).into(),
    };
    let mut waits = Interrupts::of(args.wait)?;
    let answer: Accepted = wait::unless_interrupted(waits.as_mut(), client.post("/tasks", &request)).await?;
    let code = accepted(&client, globals.output, &answer, waits).await?;
    if !args.wait.wait {
        wait::hint(&client, &answer.feature.id).await;
    }
    Ok(code)
}
