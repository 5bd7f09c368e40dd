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
use ralph_api::body::{Answering, Done, Reverting, Steer};
use ralph_api::view::{LogEntry, Page, TaskDetail, TaskView};

use super::client::{Client, escape};
use super::wait::WaitFlags;
use super::{feature, submit, wait};
use crate::args::globals::Globals;
use crate::args::usage::Usage;
use crate::feature::resume::ResumeFlag;
use crate::git::diff::TaskDiffArgs;
use crate::terminal::confirm::confirm;
use crate::terminal::local_time::ago;
use crate::terminal::output::{self, Format};
use crate::terminal::plural::counted;
use crate::terminal::table::Table;
use crate::{git::diff, submit::agents, terminal::editor};

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
    List {
        /// Name of the feature, or the beginning of its id; all features when it isn't given
        feature: Option<String>,
        /// Only those with one of these statuses, with commas between them
        #[arg(long, value_name = "STATUS")]
        status: Option<String>,
        /// At most so many
        #[arg(long, default_value_t = 200, value_name = "N")]
        limit: usize,
    },
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
        /// At most so many tasks
        #[arg(long, default_value_t = 1000, value_name = "N")]
        limit: usize,
    },
    /// Show the events of a task: who did what, and why
    #[command(after_help = "Example:
  ralph task log t-9f2c")]
    Log(TaskArg),
    /// Show the changes of a task; run it in a clone
    ///
    /// Of a task that landed it is its commit, else what all its attempts changed since they left the feature's branch.
    #[command(after_help = "Examples:
  ralph task diff t-9f2c
  ralph task diff todo/api --attempt 2 --stat")]
    Diff(TaskDiffArgs),
    /// Retry a failed, cancelled, skipped or reviewed task; for a parent, its failed parts
    #[command(after_help = "Examples:
  ralph task retry t-9f2c
  ralph task retry --all-of todo
  ralph task retry t-9f2c --reason \"the test data is in fixtures/\"")]
    Retry {
        /// Id of the task, its beginning, or FEATURE/KEY
        #[arg(value_name = "TASK")]
        task: Option<String>,
        /// Every task of this feature that failed or needs a person
        #[arg(long, value_name = "FEATURE", conflicts_with = "task")]
        all_of: Option<String>,
        /// What the next attempt should know; stands in its prompt and in the task's log
        #[arg(short, long, value_name = "TEXT", visible_alias = "feedback")]
        reason: Option<String>,
        #[command(flatten)]
        resume: ResumeFlag,
    },
    /// Accept the last attempt's work and land it
    #[command(after_help = "Example:
  ralph task approve t-9f2c --reason \"looked at it\"")]
    Approve(Decided),
    /// Send back work that waits for you; the next session gets the reason
    #[command(after_help = "Examples:
  ralph task reject t-9f2c --reason \"the import must stay as it is\"
  ralph task reject todo/plan --reason \"one task for the parser is enough\"")]
    Reject {
        #[command(flatten)]
        named: TaskArg,
        /// What the next session should know; stands in its prompt and in the task's log [default: asked for in an editor]
        #[arg(short, long, value_name = "TEXT", visible_alias = "feedback")]
        reason: Option<String>,
        #[command(flatten)]
        resume: ResumeFlag,
    },
    /// Leave feedback for a task's next session; the running one continues
    #[command(after_help = "Example:
  ralph task feedback t-9f2c --reason \"the staging database is back\"")]
    Feedback(FeedbackArgs),
    /// Answer what an agent asks
    ///
    /// A session that waits goes on with the answer; one that ended since nobody answered is followed by one that begins with it.
    #[command(after_help = "Examples:
  ralph task answer t-9f2c \"use Postgres\"
  ralph task answer todo/store --choice 2")]
    Answer {
        #[command(flatten)]
        named: TaskArg,
        /// The answer, in words [default: asked for in an editor]
        #[arg(value_name = "TEXT", conflicts_with = "choice")]
        text: Option<String>,
        /// The number of one of the choices, from 1
        #[arg(long, value_name = "N")]
        choice: Option<usize>,
        /// Id of the question [default: the first that a session waits for]
        #[arg(long, value_name = "ID")]
        question: Option<uuid::Uuid>,
        #[command(flatten)]
        resume: ResumeFlag,
    },
    /// Say something to a task's running session, as its next turn
    ///
    /// The agent's turn is cancelled for it, and it goes on with what you say. A later attempt is told it as well.
    #[command(after_help = "Examples:
  ralph task say t-9f2c \"the parser is in src/parse\"
  ralph task say todo/store \"leave the schema as it is\"")]
    Say {
        #[command(flatten)]
        named: TaskArg,
        /// What the agent should know
        text: String,
    },
    /// Add a task to a feature, or create a feature for it
    #[command(after_help = "Examples:
  ralph task create                     asks for what it needs, at a terminal
  ralph task create \"Write the tests\" --feature todo --after todo/api
  ralph task create \"Part two\" --feature todo --parent t-9f2c")]
    Create(Box<submit::TaskArgs>),
    /// Run one task and its parts, and nothing else of its feature
    ///
    /// What it waits for must be done. What no flag says is as in the feature's last run.
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
    Revert {
        #[command(flatten)]
        named: TaskArg,
        /// Do it again afterwards; without it, the task is cancelled
        #[arg(long)]
        redo: bool,
        /// Take back what waited for it and landed as well, the last first
        #[arg(long)]
        with_dependents: bool,
        /// Why; stands in the task's log, and in its next prompt if it is done again
        #[arg(short, long, value_name = "TEXT", visible_alias = "feedback")]
        reason: Option<String>,
        #[command(flatten)]
        wait: WaitFlags,
    },
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
        /// What the next attempt should know
        #[arg(short, long, value_name = "TEXT")]
        feedback: Option<String>,
    },
}

/// Which task.
#[derive(Debug, Args)]
pub struct TaskArg {
    /// Id of the task, its beginning, or FEATURE/KEY
    #[arg(value_name = "TASK")]
    task: String,
}

/// Which task, and why.
#[derive(Debug, Args)]
pub struct CommandArgs {
    #[command(flatten)]
    named: TaskArg,
    /// Why; stands in the task's log
    #[arg(short, long, value_name = "TEXT")]
    reason: Option<String>,
}

/// The same, where a run may wait for it.
#[derive(Debug, Args)]
pub struct Decided {
    #[command(flatten)]
    steered: CommandArgs,
    #[command(flatten)]
    resume: ResumeFlag,
}

/// Which task, and what its next session is told.
#[derive(Debug, Args)]
pub struct FeedbackArgs {
    #[command(flatten)]
    named: TaskArg,
    /// What the next session should know; stands in its prompt and in the task's log
    #[arg(short, long, value_name = "TEXT", visible_alias = "feedback")]
    reason: String,
}

pub async fn run(globals: &Globals, command: TaskCommand) -> anyhow::Result<ExitCode> {
    if let TaskCommand::Retry {
        task: None,
        all_of: None,
        ..
    } = &command
    {
        let which = "which task? Name one (ID or FEATURE/KEY), or `--all-of FEATURE` for all that failed or need a person";
        return Err(Usage(which.to_owned()).into());
    }
    let client = Client::find(globals)?;
    let format = globals.output;
    let (verb, named, reason, resume) = match command {
        TaskCommand::List {
            feature,
            status,
            limit,
        } => {
            let path = feature.map_or_else(
                || "/tasks".to_owned(),
                |f| format!("/features/{}/tasks", escape(&f)),
            );
            let query = status
                .map(|status| format!("status={}", escape(&status)))
                .unwrap_or_default();
            let page: Page<TaskView> = client.list(&path, &query, limit).await?;
            output::list(globals, &page, |wide| page::table(&page.items, wide)).await?;
            return Ok(ExitCode::SUCCESS);
        }
        TaskCommand::Show(named) => {
            let detail: TaskDetail = client.get(&format!("/tasks/{}", escape(&named.task))).await?;
            output::show(globals, &detail, |_| page::page(&detail)).await?;
            return Ok(ExitCode::SUCCESS);
        }
        TaskCommand::Tree { root, limit } => {
            // A feature may be named like the beginning of a task's id only in theory, and then the id means the task.
            let path = if root.contains('/') || ralph_shared::ids::TaskId::parse_prefix(&root).is_ok() {
                format!("/tasks/{}/tree", escape(&root))
            } else {
                format!("/features/{}/tasks", escape(&root))
            };
            let page: Page<TaskView> = client.list(&path, "", limit).await?;
            output::show(globals, &page, |_| tree::draw(&page.items, limit)).await?;
            if page.next.is_some() {
                eprintln!(
                    "the first {limit} tasks are shown, and there are more: `--limit N` shows N of them"
                );
            }
            return Ok(ExitCode::SUCCESS);
        }
        TaskCommand::Diff(args) => {
            diff::of_task(globals, &client, args).await?;
            return Ok(ExitCode::SUCCESS);
        }
        TaskCommand::Log(named) => {
            let page: Page<LogEntry> = client.get(&format!("/tasks/{}/log", escape(&named.task))).await?;
            let nobody = "nobody has steered it yet; `ralph task show` lists its attempts";
            output::show(globals, &page, |_| log_table(&page.items, nobody)).await?;
            return Ok(ExitCode::SUCCESS);
        }
        TaskCommand::Retry {
            task,
            all_of,
            reason,
            resume,
        } => match (task, all_of) {
            (Some(task), _) => ("retry", TaskArg { task }, reason, Some(resume)),
            (None, feature) => {
                return retry_all(&client, format, &feature.unwrap_or_default(), reason, resume).await;
            }
        },
        TaskCommand::Edit(args) => {
            let task = args.task.clone();
            agents::warn_if_unknown(&client, args.agent.as_deref()).await;
            let Some(done) = edit::run(&client, args).await? else {
                return Ok(ExitCode::SUCCESS);
            };
            output::answer(format, &done, &format!("edited {task}\n"))?;
            return Ok(ExitCode::SUCCESS);
        }
        TaskCommand::Revert {
            named,
            redo,
            with_dependents: dependents,
            reason,
            wait,
        } => {
            let wish = Reverting {
                redo,
                dependents,
                reason,
            };
            let path = format!("/tasks/{}/revert", escape(&named.task));
            return feature::operation(&client, format, client.post(&path, &wish), wait).await;
        }
        TaskCommand::Run(args) => return run_alone::run(&client, format, args).await,
        TaskCommand::Create(args) => return submit::task(globals, *args).await,
        TaskCommand::Deps(command) => {
            dependencies::run(globals, &client, command).await?;
            return Ok(ExitCode::SUCCESS);
        }
        TaskCommand::Delete { named, yes } => {
            confirm(&format!("Delete the task {} with its outcomes?", named.task), yes)?;
            let done: Done = client.delete(&format!("/tasks/{}", escape(&named.task))).await?;
            output::answer(format, &done, &format!("{} is deleted\n", named.task))?;
            return Ok(ExitCode::SUCCESS);
        }
        TaskCommand::Approve(d) => ("approve", d.steered.named, d.steered.reason, Some(d.resume)),
        TaskCommand::Reject {
            named,
            reason,
            resume,
        } => {
            let reason = match reason {
                Some(reason) => reason,
                None => editor::edited(
                    "reason",
                    "",
                    "say why with --reason TEXT: the next session is told",
                )?,
            };
            ("reject", named, Some(reason), Some(resume))
        }
        TaskCommand::Feedback(s) => ("feedback", s.named, Some(s.reason), None),
        TaskCommand::Skip(d) => ("skip", d.steered.named, d.steered.reason, Some(d.resume)),
        TaskCommand::Cancel(d) => ("cancel", d.steered.named, d.steered.reason, Some(d.resume)),
        TaskCommand::Fail(d) => ("fail", d.steered.named, d.steered.reason, Some(d.resume)),
        TaskCommand::Done(d) => ("done", d.steered.named, d.steered.reason, Some(d.resume)),
        TaskCommand::Release(s) => ("release", s.named, s.reason, None),
        TaskCommand::Interrupt { named, feedback } => ("interrupt", named, feedback, None),
        TaskCommand::Say { named, text } => ("say", named, Some(text), None),
        TaskCommand::Answer {
            named,
            text,
            choice,
            question,
            resume,
        } => {
            let given = (text, choice);
            return answer(&client, format, &named.task, given, question, resume).await;
        }
    };
    let path = format!("/tasks/{}/{verb}", escape(&named.task));
    let body = Steer {
        reason,
        resume: resume.and_then(ResumeFlag::to_request),
    };
    let done: Done = client.post(&path, &body).await?;
    let whom = match done.count {
        1 => named.task.clone(),
        count => format!("{count} tasks below {}", named.task),
    };
    output::answer(format, &done, &format!("{verb}: {whom}\n"))?;
    if let Some(resume) = resume
        && let Some(feature) = wait::feature_of(&client, &named.task).await
    {
        resume.tell(&client, &feature, &done).await;
    }
    Ok(ExitCode::SUCCESS)
}

async fn answer(
    client: &Client,
    format: Format,
    task: &str,
    given: (Option<String>, Option<usize>),
    question: Option<uuid::Uuid>,
    resume: ResumeFlag,
) -> anyhow::Result<ExitCode> {
    let (text, choice) = given;
    let answer = match (text, choice) {
        (None, None) => Some(editor::edited(
            "answer",
            "",
            "say the answer, or its number with --choice N",
        )?),
        (text, _) => text,
    };
    let body = Answering {
        answer,
        choice,
        question,
        resume: resume.to_request(),
    };
    let path = format!("/tasks/{}/answer", escape(task));
    let done: Done = client.post(&path, &body).await?;
    output::answer(format, &done, &format!("answered: {task}\n"))?;
    if let Some(feature) = wait::feature_of(client, task).await {
        resume.tell(client, &feature, &done).await;
    }
    Ok(ExitCode::SUCCESS)
}

async fn retry_all(
    client: &Client,
    format: Format,
    feature: &str,
    reason: Option<String>,
    resume: ResumeFlag,
) -> anyhow::Result<ExitCode> {
    let path = format!("/features/{}/tasks", escape(feature));
    let page: Page<TaskView> = client
        .list(&path, "status=failed,needs_review", usize::MAX)
        .await?;
    let body = Steer {
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
        resume.tell(client, feature, &all).await;
    }
    Ok(ExitCode::SUCCESS)
}

/// What was done, by whom and why; `empty` is what is written of nothing.
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
