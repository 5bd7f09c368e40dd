//! `task …`

pub(crate) mod context;
pub(crate) mod dependencies;
pub(crate) mod edit;
pub(crate) mod page;
pub(crate) mod replace;
pub(crate) mod run_alone;
pub(crate) mod tree;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use ralph_api::body::{AnswerQuestion, CommandOptions, Done, RevertTask};
use ralph_api::view::{LogEntry, Page, TaskDetail, TaskView};
use ralph_shared::terminal::counted;

use super::client::{Client, escape};
use super::wait::WaitFlags;
use super::{feature, submit};
use crate::args::globals::Globals;
use crate::args::usage::Usage;
use crate::feature::resume::ResumeFlag;
use crate::git::diff::{self, TaskDiffArgs};
use crate::terminal::confirm::confirm;
use crate::terminal::editor;
use crate::terminal::local_time::ago;
use crate::terminal::output::{self, Format};
use crate::terminal::table::Table;

/// Show and control tasks
#[derive(Debug, Subcommand)]
pub enum TaskCommand {
    /// List tasks, of one feature or of all
    #[command(
        visible_alias = "ls",
        after_help = "Examples:
  ralph task list todo
  ralph task list todo --status failed,needs_review --output wide"
    )]
    List(ListArgs),
    /// Show a task with its attempts, dependencies and parts
    #[command(after_help = "Examples:
  ralph task show t-9f2c
  ralph task show t-9f2c --output json")]
    Show(TaskArg),
    /// Draw the tasks of a feature, or the part below a task, as a tree
    #[command(after_help = "Examples:
  ralph task tree todo
  ralph task tree todo/api
  ralph task tree t-9f2c")]
    Tree {
        /// Name or id of a feature; or of a task its id, the id's beginning, or FEATURE/KEY
        #[arg(value_name = "FEATURE|TASK")]
        root: String,
        /// At most this many tasks
        #[arg(long, default_value_t = 1000, value_name = "N")]
        limit: usize,
    },
    /// Show the events of a task: who did what, and why
    #[command(after_help = "Example:
  ralph task log t-9f2c")]
    Log(TaskArg),
    /// Show the changes of a task; run it in a clone
    ///
    /// Shows the commit of a landed task; otherwise the changes of all its attempts since they left the
    /// feature's branch.
    #[command(after_help = "Examples:
  ralph task diff t-9f2c
  ralph task diff todo/api --attempt 2 --stat")]
    Diff(TaskDiffArgs),
    /// Retry a failed, cancelled, skipped or reviewed task; for a parent, its failed parts
    #[command(after_help = "Examples:
  ralph task retry t-9f2c
  ralph task retry --all-of todo
  ralph task retry t-9f2c --reason \"the test data is in fixtures/\"")]
    Retry(RetryArgs),
    /// Accept the last attempt's work and land it
    #[command(after_help = "Example:
  ralph task approve t-9f2c --reason \"looked at it\"")]
    Approve(Decided),
    /// Send back work that waits for you; the next session gets the reason
    #[command(after_help = "Examples:
  ralph task reject t-9f2c --reason \"the import must stay as it is\"
  ralph task reject todo/plan --reason \"one task for the parser is enough\"")]
    Reject(RejectArgs),
    /// Leave feedback for a task's next session; the running one continues
    #[command(after_help = "Example:
  ralph task feedback t-9f2c --reason \"the staging database is back\"")]
    Feedback(FeedbackArgs),
    /// Answer an agent's question
    ///
    /// A waiting session continues with the answer. If the session ended without one, the next session
    /// starts with the answer.
    #[command(after_help = "Examples:
  ralph task answer t-9f2c \"use Postgres\"
  ralph task answer todo/store --choice 2")]
    Answer(AnswerArgs),
    /// Say something to a task's running session, as its next turn
    ///
    /// This cancels the agent's current turn, and the agent continues with your text. A later attempt gets
    /// it too.
    #[command(after_help = "Examples:
  ralph task say t-9f2c \"the parser is in src/parse\"
  ralph task say todo/store \"leave the schema as it is\"")]
    Say {
        #[command(flatten)]
        named: TaskArg,
        /// Message for the agent
        text: String,
    },
    /// Add a task to a feature, or create a feature for it
    #[command(after_help = "Examples:
  ralph task create                     at a terminal, asks for the values
  ralph task create \"Write the tests\" --feature todo --after todo/api
  ralph task create \"Part two\" --feature todo --parent t-9f2c")]
    Create(Box<submit::TaskArgs>),
    /// Run one task and its parts, and nothing else of its feature
    ///
    /// Its blockers must be done. Values without a flag come from the feature's last run.
    #[command(after_help = "Examples:
  ralph task run todo/api --wait
  ralph task run t-9f2c --max-cost 2 --model opus")]
    Run(run_alone::RunArgs),
    Edit(edit::EditArgs),
    #[command(subcommand)]
    Deps(dependencies::DepsCommand),
    /// Delete a task that nobody works on; its dependents continue without it
    #[command(after_help = "Example:
  ralph task delete t-9f2c --yes")]
    Delete {
        #[command(flatten)]
        named: TaskArg,
        /// Don't ask
        #[arg(long)]
        yes: bool,
    },
    /// Skip a task: its dependents run
    #[command(after_help = "Example:
  ralph task skip t-9f2c --reason \"done by hand\"")]
    Skip(Decided),
    /// Cancel a task: its dependents don't run
    #[command(after_help = "Example:
  ralph task cancel t-9f2c")]
    Cancel(Decided),
    /// Fail a task for good
    #[command(after_help = "Example:
  ralph task fail t-9f2c --reason \"not possible\"")]
    Fail(Decided),
    /// Mark a task as done
    #[command(after_help = "Example:
  ralph task done t-9f2c --reason \"merged by hand\"")]
    Done(Decided),
    /// Revert a task's commit on the feature's branch, and its memory entries
    #[command(after_help = "Examples:
  ralph task revert t-9f2c --reason \"breaks the import\"
  ralph task revert todo/store --redo --with-dependents --wait")]
    Revert(RevertArgs),
    /// Take a task from its worker, so that another one can claim it
    #[command(after_help = "Example:
  ralph task release t-9f2c")]
    Release(CommandArgs),
    /// End a task's session in order, push its work, and give the next attempt the feedback
    #[command(after_help = "Examples:
  ralph task interrupt t-9f2c --feedback \"use the existing parser\"")]
    Interrupt {
        #[command(flatten)]
        named: TaskArg,
        /// Feedback for the next attempt
        #[arg(short, long, value_name = "TEXT")]
        feedback: Option<String>,
    },
}

/// A task.
#[derive(Debug, Args)]
pub struct TaskArg {
    /// Id of the task, its beginning, or FEATURE/KEY
    #[arg(value_name = "TASK")]
    task: String,
}

/// Filters of a list.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Name of the feature, or the beginning of its id; by default all features
    feature: Option<String>,
    /// Only tasks with one of these statuses, separated by commas
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    /// At most this many
    #[arg(long, default_value_t = 200, value_name = "N")]
    limit: usize,
}

/// The tasks to retry, and the feedback.
#[derive(Debug, Args)]
pub struct RetryArgs {
    /// Id of the task, its beginning, or FEATURE/KEY
    #[arg(value_name = "TASK")]
    task: Option<String>,
    /// Every task of this feature that failed or needs a person
    #[arg(long, value_name = "FEATURE", conflicts_with = "task")]
    all_of: Option<String>,
    /// Feedback for the next attempt; goes into its prompt and the task's log
    #[arg(short, long, value_name = "TEXT", visible_alias = "feedback")]
    reason: Option<String>,
    #[command(flatten)]
    resume: ResumeFlag,
}

/// The task whose work is sent back.
#[derive(Debug, Args)]
pub struct RejectArgs {
    #[command(flatten)]
    named: TaskArg,
    /// Feedback for the next session; goes into its prompt and the task's log [default: opens an editor]
    #[arg(short, long, value_name = "TEXT", visible_alias = "feedback")]
    reason: Option<String>,
    #[command(flatten)]
    resume: ResumeFlag,
}

/// The answer to a task's question.
#[derive(Debug, Args)]
pub struct AnswerArgs {
    #[command(flatten)]
    named: TaskArg,
    /// The answer, in words [default: opens an editor]
    #[arg(value_name = "TEXT", conflicts_with = "choice")]
    text: Option<String>,
    /// The number of one of the choices, from 1
    #[arg(long, value_name = "N")]
    choice: Option<usize>,
    /// Id of the question [default: the first one that a session waits for]
    #[arg(long, value_name = "ID")]
    question: Option<uuid::Uuid>,
    #[command(flatten)]
    resume: ResumeFlag,
}

/// The task whose commit is reverted, and options.
#[derive(Debug, Args)]
pub struct RevertArgs {
    #[command(flatten)]
    named: TaskArg,
    /// Do the task again afterwards; without this, the task is cancelled
    #[arg(long)]
    redo: bool,
    /// Also revert landed tasks that depend on it, the last first
    #[arg(long)]
    with_dependents: bool,
    /// The reason, for the task's log, and for its next prompt if it is done again
    #[arg(short, long, value_name = "TEXT", visible_alias = "feedback")]
    reason: Option<String>,
    #[command(flatten)]
    wait: WaitFlags,
}

/// A task, and the reason.
#[derive(Debug, Args)]
pub struct CommandArgs {
    #[command(flatten)]
    named: TaskArg,
    /// The reason, for the task's log
    #[arg(short, long, value_name = "TEXT")]
    reason: Option<String>,
}

/// A task, the reason, and whether a run that waited for the decision resumes.
#[derive(Debug, Args)]
pub struct Decided {
    #[command(flatten)]
    command: CommandArgs,
    #[command(flatten)]
    resume: ResumeFlag,
}

/// A task, and feedback for its next session.
#[derive(Debug, Args)]
pub struct FeedbackArgs {
    #[command(flatten)]
    named: TaskArg,
    /// Feedback for the next session; goes into its prompt and the task's log
    #[arg(short, long, value_name = "TEXT", visible_alias = "feedback")]
    reason: String,
}

pub async fn run(globals: &Globals, command: TaskCommand) -> anyhow::Result<ExitCode> {
    if let TaskCommand::Retry(RetryArgs {
        task: None,
        all_of: None,
        ..
    }) = &command
    {
        let which = "which task? Name one (ID or FEATURE/KEY), or `--all-of FEATURE` for all that failed or need a person";
        return Err(Usage(which.to_owned()).into());
    }
    let client = &Client::find(globals)?;
    let format = globals.output;
    match command {
        TaskCommand::List(args) => list(globals, client, args).await?,
        TaskCommand::Show(named) => show(globals, client, &named.task).await?,
        TaskCommand::Tree { root, limit } => draw(globals, client, &root, limit).await?,
        TaskCommand::Log(named) => log(globals, client, &named.task).await?,
        TaskCommand::Diff(args) => diff::of_task(globals, client, args).await?,
        TaskCommand::Retry(args) => retry(client, format, args).await?,
        TaskCommand::Approve(args) => decide(client, format, "approve", args).await?,
        TaskCommand::Reject(args) => reject(client, format, args).await?,
        TaskCommand::Feedback(args) => {
            post_command(client, format, ("feedback", &args.named.task), Some(args.reason)).await?;
        }
        TaskCommand::Answer(args) => answer(client, format, args).await?,
        TaskCommand::Say { named, text } => {
            post_command(client, format, ("say", &named.task), Some(text)).await?;
        }
        TaskCommand::Create(args) => return submit::task(globals, *args).await,
        TaskCommand::Run(args) => return run_alone::run(client, format, args).await,
        TaskCommand::Edit(args) => edit::run(client, format, args).await?,
        TaskCommand::Deps(command) => dependencies::run(globals, client, command).await?,
        TaskCommand::Delete { named, yes } => delete(client, format, &named.task, yes).await?,
        TaskCommand::Skip(args) => decide(client, format, "skip", args).await?,
        TaskCommand::Cancel(args) => decide(client, format, "cancel", args).await?,
        TaskCommand::Fail(args) => decide(client, format, "fail", args).await?,
        TaskCommand::Done(args) => decide(client, format, "done", args).await?,
        TaskCommand::Revert(args) => return revert(client, format, args).await,
        TaskCommand::Release(args) => {
            post_command(client, format, ("release", &args.named.task), args.reason).await?;
        }
        TaskCommand::Interrupt { named, feedback } => {
            post_command(client, format, ("interrupt", &named.task), feedback).await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(globals: &Globals, client: &Client, args: ListArgs) -> anyhow::Result<()> {
    let path = args.feature.map_or_else(
        || "/tasks".to_owned(),
        |f| format!("/features/{}/tasks", escape(&f)),
    );
    let query = args
        .status
        .map(|status| format!("status={}", escape(&status)))
        .unwrap_or_default();
    let page: Page<TaskView> = client.list(&path, &query, args.limit).await?;
    output::list(globals, &page, |wide| page::table(&page.items, wide)).await
}

async fn show(globals: &Globals, client: &Client, task: &str) -> anyhow::Result<()> {
    let detail: TaskDetail = client.get(&format!("/tasks/{}", escape(task))).await?;
    output::show(globals, &detail, |_| page::page(&detail)).await
}

async fn draw(globals: &Globals, client: &Client, root: &str, limit: usize) -> anyhow::Result<()> {
    // `root` is ambiguous only if a feature's name looks like the beginning of a task's id; then it means
    // the task.
    let path = if root.contains('/') || ralph_shared::ids::TaskId::parse_prefix(root).is_ok() {
        format!("/tasks/{}/tree", escape(root))
    } else {
        format!("/features/{}/tasks", escape(root))
    };
    let page: Page<TaskView> = client.list(&path, "", limit).await?;
    output::show(globals, &page, |_| tree::draw(&page.items, limit)).await?;
    if page.next.is_some() && globals.output != Format::Json {
        eprintln!("these are the first {limit} tasks; `--limit N` shows more");
    }
    Ok(())
}

async fn log(globals: &Globals, client: &Client, task: &str) -> anyhow::Result<()> {
    let page: Page<LogEntry> = client.get(&format!("/tasks/{}/log", escape(task))).await?;
    let nobody = "nobody has changed it yet; `ralph task show` lists its attempts";
    output::show(globals, &page, |_| log_table(&page.items, nobody)).await
}

/// Actions of people, with actors and reasons; `empty` is the text for an empty list.
pub fn log_table(entries: &[LogEntry], empty: &'static str) -> Table {
    let mut table = Table::new(["AT", "WHO", "WHAT", "WHY"], empty);
    for entry in entries {
        table.row([
            ago(entry.at),
            entry.actor.clone(),
            entry.what.clone(),
            entry.why.clone().unwrap_or_default(),
        ]);
    }
    table
}

async fn retry(client: &Client, format: Format, args: RetryArgs) -> anyhow::Result<()> {
    let (reason, resume) = (args.reason, args.resume);
    if let Some(task) = args.task {
        let named = TaskArg { task };
        let command = CommandArgs { named, reason };
        return decide(client, format, "retry", Decided { command, resume }).await;
    }
    let feature = &args.all_of.unwrap_or_default();
    let path = format!("/features/{}/tasks", escape(feature));
    let page: Page<TaskView> = client
        .list(&path, "status=failed,needs_review", usize::MAX)
        .await?;
    let body = CommandOptions {
        reason,
        resume: resume.to_request(),
    };
    let mut all = Done::default();
    for task in page.items.iter().filter(|task| task.children == 0) {
        let done: Done = client.post(&format!("/tasks/{}/retry", task.id), &body).await?;
        all.count += done.count;
        all.run = all.run.or(done.run);
    }
    let tasks = counted(all.count, "task", "tasks");
    output::answer(format, &all, &format!("retry: {tasks} of {feature}\n"))?;
    if all.count > 0 {
        resume.report(client, feature, &all).await;
    }
    Ok(())
}

async fn reject(client: &Client, format: Format, args: RejectArgs) -> anyhow::Result<()> {
    let instead = "give the reason with --reason TEXT: the next session gets it";
    let reason = match args.reason {
        None => Some(editor::edited("reason", "", instead)?),
        reason => reason,
    };
    let (named, resume) = (args.named, args.resume);
    let command = CommandArgs { named, reason };
    decide(client, format, "reject", Decided { command, resume }).await
}

/// Sends a person's decision on a task, for which an ended run may wait.
async fn decide(client: &Client, format: Format, verb: &str, args: Decided) -> anyhow::Result<()> {
    let task = &args.command.named.task;
    let body = CommandOptions {
        reason: args.command.reason,
        resume: args.resume.to_request(),
    };
    let done = post(client, format, (verb, task), &body).await?;
    args.resume.report_for_task(client, task, &done).await;
    Ok(())
}

async fn post_command(
    client: &Client,
    format: Format,
    command: (&str, &str),
    reason: Option<String>,
) -> anyhow::Result<()> {
    let body = CommandOptions { reason, resume: None };
    post(client, format, command, &body).await?;
    Ok(())
}

async fn post(
    client: &Client,
    format: Format,
    (verb, task): (&str, &str),
    body: &CommandOptions,
) -> anyhow::Result<Done> {
    let done: Done = client
        .post(&format!("/tasks/{}/{verb}", escape(task)), body)
        .await?;
    let whom = match done.count {
        1 => task.to_owned(),
        count => format!("{count} tasks below {task}"),
    };
    output::answer(format, &done, &format!("{verb}: {whom}\n"))?;
    Ok(done)
}

async fn answer(client: &Client, format: Format, args: AnswerArgs) -> anyhow::Result<()> {
    let instead = "give the answer, or its number with --choice N";
    let answer = match (args.text, args.choice) {
        (None, None) => Some(editor::edited("answer", "", instead)?),
        (text, _) => text,
    };
    let body = AnswerQuestion {
        answer,
        choice: args.choice,
        question: args.question,
        resume: args.resume.to_request(),
    };
    let task = &args.named.task;
    let path = format!("/tasks/{}/answer", escape(task));
    let done: Done = client.post(&path, &body).await?;
    output::answer(format, &done, &format!("answered: {task}\n"))?;
    args.resume.report_for_task(client, task, &done).await;
    Ok(())
}

async fn delete(client: &Client, format: Format, task: &str, yes: bool) -> anyhow::Result<()> {
    confirm(&format!("Delete the task {task} with its outcomes?"), yes)?;
    let done: Done = client.delete(&format!("/tasks/{}", escape(task))).await?;
    output::answer(format, &done, &format!("{task} is deleted\n"))
}

async fn revert(client: &Client, format: Format, args: RevertArgs) -> anyhow::Result<ExitCode> {
    let path = format!("/tasks/{}/revert", escape(&args.named.task));
    let options = RevertTask {
        redo: args.redo,
        dependents: args.with_dependents,
        reason: args.reason,
    };
    feature::operation(client, format, client.post(&path, &options), args.wait).await
}
