//! `log`: events of all features.

use std::process::ExitCode;

use clap::Args;
use ralph_api::view::{EventView, Page};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::args::globals::Globals;
use crate::client::{Client, escape};
use crate::cost::commands::since;
use crate::terminal::local_time::when;
use crate::terminal::output::{self, Format};
use crate::terminal::table::Table;

/// Show the events of all features in order of time
///
/// Sessions and their outcomes, landings, starts and ends of runs, limits, and actions of people.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ralph log --since 12h
  ralph log --since 2026-12-01 --feature todo --output json")]
pub struct LogArgs {
    /// Start: a time ago like 12h, a date, or a time like 2026-12-01T08:00:00Z
    #[arg(long, value_name = "TIME", default_value = "24h")]
    since: String,
    /// Only events of this feature
    #[arg(long, value_name = "FEATURE")]
    feature: Option<String>,
    /// At most this many, the newest
    #[arg(long, default_value_t = 1000, value_name = "N")]
    limit: i64,
}

pub async fn run(globals: &Globals, args: LogArgs) -> anyhow::Result<ExitCode> {
    let since = since(&args.since, OffsetDateTime::now_utc())?.format(&Rfc3339)?;
    let client = Client::find(globals)?;
    let feature = args
        .feature
        .map(|feature| format!("&feature={}", escape(&feature)))
        .unwrap_or_default();
    let path = format!("/log?since={}&limit={}{feature}", escape(&since), args.limit);
    let page: Page<EventView> = client.get(&path).await?;
    output::show(globals, &page, |wide| table(&page.items, wide)).await?;
    if page.next.is_some() && globals.output != Format::Json {
        eprintln!("there are earlier events; show more with --limit");
    }
    Ok(ExitCode::SUCCESS)
}

fn table(events: &[EventView], wide: bool) -> Table {
    let mut heads = vec!["AT", "EVENT", "OF"];
    if wide {
        heads.extend(["TASK", "RUN", "COST"]);
    }
    heads.extend(["WHAT", "WHY"]);
    let mut table = Table::new(heads, "nothing happened since then");
    for event in events {
        let of = match (&event.feature, &event.key) {
            (Some(feature), Some(key)) => format!("{feature}/{key}"),
            (Some(feature), None) => feature.clone(),
            (None, _) => String::new(),
        };
        let mut row = vec![when(event.at), event.event.as_str().to_owned(), of];
        if wide {
            row.extend([
                event.task.clone().unwrap_or_default(),
                event.run.clone().unwrap_or_default(),
                event.cost_usd.map_or_else(String::new, |usd| format!("{usd:.2}")),
            ]);
        }
        row.extend([event.what.clone(), event.why.clone().unwrap_or_default()]);
        table.row(row);
    }
    table
}
