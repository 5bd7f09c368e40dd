//! `worker …`

use std::process::ExitCode;

use clap::Subcommand;
use ralph_api::body::{CommandOptions, Done};
use ralph_api::view::{Page, WorkerView};
use ralph_shared::rights::user_of_worker;
use ralph_shared::subjects::{Subjects, is_label};
use ralph_shared::terminal::tame;

use super::client::{Client, escape};
use crate::args::globals::Globals;
use crate::args::usage::Usage;
use crate::terminal::local_time::ago;
use crate::terminal::output;
use crate::terminal::table::Table;

/// 192 bits.
const PASSWORD_BYTES: usize = 24;

/// Show, drain and forget workers
#[derive(Debug, Subcommand)]
pub enum WorkerCommand {
    /// List workers
    #[command(
        visible_alias = "ls",
        after_help = "Example:
  ralph worker list --output wide"
    )]
    List,
    /// Show a worker
    #[command(after_help = "Example:
  ralph worker show worker-1")]
    Show {
        /// Name of the worker
        worker: String,
    },
    /// Create a broker login for one worker, which can't read responses to others
    ///
    /// Prints the entry for `authorization.users` of nats-server's configuration, with a new password. Start
    /// the worker of that name with this login in NATS_URL.
    #[command(after_help = "Example:
  ralph worker user gpu-1 >gpu-1.conf     then `include gpu-1.conf` among the users of nats.conf")]
    User {
        /// Name of the worker
        name: String,
        /// First word of all subjects, as configured for the coordinator
        #[arg(
            long,
            env = "RALPH_SUBJECT_PREFIX",
            default_value = "ralph",
            value_name = "PREFIX"
        )]
        subject_prefix: String,
    },
    /// Forget a worker that won't come back
    ///
    /// A drained worker is forgotten automatically after ten minutes, any other after 30 days.
    #[command(after_help = "Example:
  ralph worker forget worker-3")]
    Forget {
        /// Name of the worker
        worker: String,
    },
    /// Let a worker finish its sessions and take no new work
    #[command(after_help = "Example:
  ralph worker drain worker-1")]
    Drain {
        /// Name of the worker
        worker: String,
    },
}

pub async fn run(globals: &Globals, command: WorkerCommand) -> anyhow::Result<ExitCode> {
    if let WorkerCommand::User { name, subject_prefix } = &command {
        user(name, subject_prefix)?;
        return Ok(ExitCode::SUCCESS);
    }
    let client = Client::find(globals)?;
    match command {
        WorkerCommand::List => {
            let page: Page<WorkerView> = client.get("/workers").await?;
            output::show(globals, &page, |wide| self::page(&page.items, wide)).await?;
        }
        WorkerCommand::Show { worker } => {
            let worker: WorkerView = client.get(&format!("/workers/{}", escape(&worker))).await?;
            output::show(globals, &worker, |_| page(std::slice::from_ref(&worker), true)).await?;
        }
        WorkerCommand::User { .. } => {}
        WorkerCommand::Forget { worker } => {
            let done: Done = client.delete(&format!("/workers/{}", escape(&worker))).await?;
            output::answer(globals.output, &done, &format!("{worker} is forgotten\n"))?;
        }
        WorkerCommand::Drain { worker } => {
            let done: Done = client
                .post(
                    &format!("/workers/{}/drain", escape(&worker)),
                    &CommandOptions::default(),
                )
                .await?;
            output::answer(globals.output, &done, &format!("{worker} drains\n"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn user(name: &str, prefix: &str) -> anyhow::Result<()> {
    if !is_label(name) {
        let why = format!("`{name}` can't name a worker: use 1 to 40 of a-z, 0-9 and `-`");
        return Err(Usage(why).into());
    }
    let subjects = Subjects::new(prefix).map_err(Usage)?;
    let random: [u8; PASSWORD_BYTES] = rand::random();
    // nats-server may read a password that begins with a digit as a number.
    let password: String = random
        .iter()
        .fold("p".to_owned(), |text, byte| format!("{text}{byte:02x}"));
    output::text(&format!("{:#}\n", user_of_worker(&subjects, name, &password)))?;
    eprintln!(
        "put this among `authorization.users` of nats-server and reload it; then start the worker with --name {name} and \
         NATS_URL=nats://{name}:PASSWORD@HOST:4222"
    );
    Ok(())
}

/// Workers as a table, with reasons for draining and unavailable agents.
pub fn page(workers: &[WorkerView], wide: bool) -> String {
    let mut text = table(workers, wide).to_string();
    for worker in workers {
        if let Some(why) = &worker.drain_reason {
            text.push_str(&tame(&format!("{}: drained, since {why}\n", worker.name)));
        }
        for door in &worker.doors {
            text.push_str(&tame(&format!("{}: {door}\n", worker.name)));
        }
    }
    text
}

fn table(workers: &[WorkerView], wide: bool) -> Table {
    let mut heads = vec!["NAME", "STATUS", "SLOTS", "POOLS"];
    if wide {
        heads.extend(["AGENTS", "WARM", "HOST", "PID", "VERSION", "STARTED", "SEEN"]);
    }
    let mut table = Table::new(heads, "no workers; `ralph-worker run` starts one");
    for worker in workers {
        let busy = worker.slots - worker.free_slots;
        let mut row = vec![
            worker.name.clone(),
            worker.status.into_str().to_owned(),
            format!("{busy}/{} busy", worker.slots),
            worker.pools.join(","),
        ];
        if wide {
            row.extend([
                worker.agents.join(","),
                worker.warm().unwrap_or_default(),
                worker.host.clone(),
                worker.pid.to_string(),
                worker.version.clone(),
                ago(worker.started_at),
                ago(worker.seen_at),
            ]);
        }
        table.row(row);
    }
    table
}
