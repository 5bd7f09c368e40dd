//! `run …`

use std::process::ExitCode;

use clap::Subcommand;
use ralph_api::view::{Page, RunView};

use super::client::{Client, escape};
use crate::args::globals::Globals;
use crate::cost::format;
use crate::terminal::duration::show_ms;
use crate::terminal::local_time::ago;
use crate::terminal::output;
use crate::terminal::table::Table;

/// Show runs
#[derive(Debug, Subcommand)]
pub enum RunCommand {
    /// List runs, newest first
    #[command(
        visible_alias = "ls",
        after_help = "Examples:
  ralph run list
  ralph run list --feature todo"
    )]
    List {
        /// Only runs of this feature
        #[arg(long, value_name = "FEATURE")]
        feature: Option<String>,
        /// At most this many
        #[arg(long, default_value_t = 50, value_name = "N")]
        limit: usize,
    },
    /// Show a run: limits, usage, outcome
    #[command(after_help = "Example:
  ralph run show run-41aa --output json")]
    Show {
        /// Id of the run, or its beginning
        run: String,
    },
}

pub async fn run(globals: &Globals, command: RunCommand) -> anyhow::Result<ExitCode> {
    let client = Client::find(globals)?;
    match command {
        RunCommand::List { feature, limit } => {
            let query = feature
                .map(|feature| format!("feature={}", escape(&feature)))
                .unwrap_or_default();
            let page: Page<RunView> = client.list("/runs", &query, limit).await?;
            output::show(globals, &page, |wide| table(&page.items, wide)).await?;
        }
        RunCommand::Show { run } => {
            let run: RunView = client.get(&format!("/runs/{}", escape(&run))).await?;
            output::show(globals, &run, |_| table(std::slice::from_ref(&run), true)).await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn table(runs: &[RunView], wide: bool) -> Table {
    let mut heads = vec![
        "FEATURE",
        "ID",
        "OUTCOME",
        "ITERATIONS",
        "COST",
        "TIME",
        "STARTED",
    ];
    if wide {
        heads.extend(["STRATEGY", "MODEL", "TOKENS", "ONLY"]);
    }
    heads.push("REASON");
    let of =
        |used: String, limit: Option<String>| limit.map_or(used.clone(), |limit| format!("{used}/{limit}"));
    let mut table = Table::new(heads, "no runs");
    for run in runs {
        let limits = &run.limits;
        let mut row = vec![
            run.feature_name.clone(),
            run.id.clone(),
            run.outcome
                .map_or("running", |outcome| outcome.into_str())
                .to_owned(),
            of(
                run.iterations.to_string(),
                limits.iterations.map(|n| n.to_string()),
            ),
            of(
                format::spent_by(run),
                limits.cost_usd.map(|usd| format!("{usd:.2}")),
            ),
            of(show_ms(run.elapsed_ms), limits.time_ms.map(show_ms)),
            ago(run.started_at),
        ];
        if wide {
            row.extend([
                run.model_strategy.clone(),
                run.model.clone().unwrap_or_default(),
                of(
                    (run.input_tokens + run.output_tokens + run.in_flight.tokens).to_string(),
                    limits.tokens.map(|n| n.to_string()),
                ),
                run.only_task.clone().unwrap_or_default(),
            ]);
        }
        row.push(run.reason.clone().unwrap_or_default());
        table.row(row);
    }
    table
}
