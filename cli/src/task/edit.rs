//! `task edit`

use clap::Args;
use ralph_api::body::{Done, EditTask};
use ralph_api::view::TaskDetail;
use ralph_shared::file;

use super::replace::{ReplaceFlags, Replacing};
use crate::client::{Client, escape};
use crate::submit::agents;
use crate::terminal::editor;
use crate::terminal::output::{self, Format};

/// Change a task that isn't running; flags that are left out change nothing
///
/// Without flags, this opens its description in $VISUAL or $EDITOR.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ralph task edit t-9f2c --priority -10
  ralph task edit t-9f2c                                   its description, in the editor
  ralph task edit t-9f2c --description - --replaces 3f2a91bc < description.md
  ralph task edit t-9f2c --model opus --max-retries 5")]
pub struct EditArgs {
    /// Id of the task, its beginning, or FEATURE/KEY
    #[arg(value_name = "TASK")]
    task: String,
    /// The task, on one line
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Information for the agent; `-` for standard input
    #[arg(long, value_name = "TEXT|-")]
    description: Option<String>,
    /// Lower goes first
    #[arg(long, allow_negative_numbers = true, value_name = "N")]
    priority: Option<i32>,
    /// Pool of workers that may take it
    #[arg(long, value_name = "POOL")]
    pool: Option<String>,
    /// A configured agent of the workers
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Model or tier
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Retries
    #[arg(long, value_name = "N")]
    max_retries: Option<i32>,
    /// Whether another session judges an attempt before it counts
    #[arg(long, value_name = "BOOL")]
    verify: Option<bool>,
    /// A path that it changes; replaces the declared ones; may be repeated
    #[arg(long = "path", value_name = "PATH")]
    paths: Option<Vec<String>>,
    #[command(flatten)]
    replace: ReplaceFlags,
}

impl EditArgs {
    fn is_empty(&self) -> bool {
        let texts = [
            &self.title,
            &self.description,
            &self.pool,
            &self.agent,
            &self.model,
        ];
        texts.iter().all(|text| text.is_none())
            && self.priority.is_none()
            && self.max_retries.is_none()
            && self.verify.is_none()
            && self.paths.is_none()
    }

    fn request(self) -> anyhow::Result<EditTask> {
        let description = match self.description.as_deref() {
            Some("-") => Some(file::read_stdin(file::LARGE_BYTES)?),
            _ => self.description,
        };
        Ok(EditTask {
            title: self.title,
            description,
            before: None,
            priority: self.priority,
            pool: self.pool,
            agent: self.agent,
            model: self.model,
            max_retries: self.max_retries,
            verify: self.verify,
            paths: self.paths,
        })
    }
}

/// Changes the task, and reports it.
///
/// # Errors
/// When the coordinator refuses, or the description changed in the meantime.
pub async fn run(client: &Client, format: Format, args: EditArgs) -> anyhow::Result<()> {
    let text = format!("edited {}\n", args.task);
    agents::warn_if_unknown(client, args.agent.as_deref()).await;
    match edit(client, args).await? {
        Some(done) => output::answer(format, &done, &text),
        None => Ok(()),
    }
}

/// Changes the task; `None` when the person changed nothing. A description is replaced only if it is still
/// the one that the edit started from.
async fn edit(client: &Client, args: EditArgs) -> anyhow::Result<Option<Done>> {
    let task = args.task.clone();
    let path = format!("/tasks/{}", escape(&task));
    let replace = args.replace.clone();
    let in_editor = args.is_empty();
    if !in_editor && args.description.is_none() {
        return client.patch(&path, &args.request()?).await.map(Some);
    }
    let detail: TaskDetail = client.get(&path).await?;
    let before = detail.description;
    let mut edit = args.request()?;
    if in_editor {
        let instead = "there is nothing to change; name at least one field (--description TEXT, say)";
        edit.description = Some(editor::edited("task", &before, instead)?);
    }
    let text = edit.description.clone().unwrap_or_default();
    let what = format!("the description of {task}");
    let command = format!("ralph task edit {task} --description - <");
    let replacing = Replacing {
        which: "task",
        what: &what,
        file: None,
        command: &command,
    };
    if text == before {
        edit.description = None;
        if in_editor {
            eprintln!("nothing was changed");
            return Ok(None);
        }
    } else if !in_editor {
        replacing.replace(&replace, &before, &text)?;
    }
    edit.before = Some(before.clone());
    let error = match client.patch(&path, &edit).await {
        Ok(done) => return Ok(Some(done)),
        Err(error) => error,
    };
    let now: Option<TaskDetail> = client.get(&path).await.ok();
    let now = now.map(|now| now.description);
    Err(replacing.refused(error, (&before, now), &text)?)
}
