//! `task deps …`

use clap::{Args, Subcommand};
use ralph_api::body::{AddDependencies, Done};
use ralph_api::view::{TaskDetail, TaskRef};
use serde::Serialize;

use crate::args::globals::Globals;
use crate::client::{Client, escape};
use crate::terminal::output::{self, Format};
use crate::terminal::pager;
use crate::terminal::table::Table;

/// Show and change the dependencies of a task
#[derive(Debug, Subcommand)]
pub enum DepsCommand {
    /// Let a task wait for others; a cycle is refused
    #[command(after_help = "Examples:
  ralph task deps add t-9f2c t-41aa
  ralph task deps add todo/ui todo/api todo/schema")]
    Add(Edges),
    /// Remove dependencies of a task
    #[command(
        name = "rm",
        visible_alias = "remove",
        after_help = "Example:
  ralph task deps rm t-9f2c t-41aa"
    )]
    Remove(Edges),
    /// List the dependencies and dependents of a task
    #[command(
        visible_alias = "ls",
        after_help = "Example:
  ralph task deps list t-9f2c"
    )]
    List {
        /// Id of the task, its beginning, or FEATURE/KEY
        task: String,
    },
}

/// A task and its blockers.
#[derive(Debug, Args)]
pub struct Edges {
    /// The task that waits: its id, its beginning, or FEATURE/KEY
    task: String,
    /// The tasks that it waits for
    #[arg(value_name = "BLOCKER", required = true)]
    blockers: Vec<String>,
}

pub async fn run(globals: &Globals, client: &Client, command: DepsCommand) -> anyhow::Result<()> {
    let (edges, adds) = match command {
        DepsCommand::List { task } => return list(globals, client, &task).await,
        DepsCommand::Add(edges) => (edges, true),
        DepsCommand::Remove(edges) => (edges, false),
    };
    let path = format!("/tasks/{}/deps", escape(&edges.task));
    let done = if adds {
        let body = AddDependencies {
            blockers: edges.blockers,
        };
        client.post::<Done>(&path, &body).await?
    } else {
        let mut count = 0;
        for blocker in &edges.blockers {
            let done: Done = client.delete(&format!("{path}/{}", escape(blocker))).await?;
            count += done.count;
        }
        Done::of(count)
    };
    let than = if adds { "more" } else { "fewer" };
    let text = format!("{} waits for {} {than}\n", edges.task, done.count);
    output::answer(globals.output, &done, &text)
}

/// Blockers and dependents of a task.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct EdgesOfTask {
    /// The tasks that it waits for.
    pub blockers: Vec<TaskRef>,
    /// The tasks that wait for it.
    pub dependents: Vec<TaskRef>,
}

async fn list(globals: &Globals, client: &Client, task: &str) -> anyhow::Result<()> {
    let detail: TaskDetail = client.get(&format!("/tasks/{}", escape(task))).await?;
    if globals.output == Format::Json {
        return output::json(&EdgesOfTask {
            blockers: detail.blockers,
            dependents: detail.dependents,
        });
    }
    let mut table = Table::new(
        ["EDGE", "ID", "STATUS", "TITLE"],
        "it waits for nothing, and nothing for it",
    );
    let mut rows = |edge: &str, tasks: &[TaskRef]| {
        for task in tasks {
            table.row([
                edge.to_owned(),
                task.id.clone(),
                task.status.into_str().to_owned(),
                task.title.clone(),
            ]);
        }
    };
    rows("waits for", &detail.blockers);
    rows("is awaited by", &detail.dependents);
    pager::show(globals, &table.to_string()).await
}
