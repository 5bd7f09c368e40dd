//! `budget …` and `cost`: limits on spending, and past spending.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use ralph_api::body::SetBudget;
use ralph_api::view::{BudgetView, BudgetsView, By, CostRow, CostsView};
use ralph_domain::budget::levels::Level;
use ralph_shared::agents::prices::usd_text;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;
use time::{Date, OffsetDateTime};

use crate::args::globals::Globals;
use crate::args::usage::Usage;
use crate::client::{Client, escape};
use crate::feature::resume::ResumeFlag;
use crate::terminal::duration::Span;
use crate::terminal::output::{self, Format};
use crate::terminal::table::Table;

/// Show and set limits of cost and tokens, also while work runs
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  ralph budget
  ralph budget set day --max-cost 50"
)]
pub struct BudgetArgs {
    #[command(subcommand)]
    command: Option<BudgetCommand>,
}

/// Commands on limits.
#[derive(Debug, Subcommand)]
pub enum BudgetCommand {
    /// Set a limit; one below the present spending ends running sessions in order
    #[command(after_help = "Examples:
  ralph budget set day --max-cost 50
  ralph budget set account google-team --max-cost 200
  ralph budget set task --max-cost 5
  ralph budget set task todo --max-cost 2              each task of the feature todo
  ralph budget set feature todo --max-cost 0")]
    Set {
        /// Level of the limit: session, task, feature, account, day or installation
        level: String,
        /// A single task, feature or account; for sessions and tasks, a feature's name means each of the
        /// feature's; without it, every one of the level
        name: Option<String>,
        /// Cost in USD; 0 is no limit
        #[arg(long, value_name = "USD", required_unless_present = "max_tokens")]
        max_cost: Option<f64>,
        /// Tokens in and out; 0 is no limit
        #[arg(long, value_name = "N")]
        max_tokens: Option<i64>,
        #[command(flatten)]
        resume: ResumeFlag,
    },
}

pub async fn budget(globals: &Globals, args: BudgetArgs) -> anyhow::Result<ExitCode> {
    let client = Client::find(globals)?;
    let view: BudgetsView = match args.command {
        None => client.get("/budgets").await?,
        Some(BudgetCommand::Set {
            level,
            name,
            max_cost,
            max_tokens,
            resume,
        }) => {
            let options = SetBudget {
                name,
                cost_usd: max_cost,
                tokens: max_tokens,
                resume: resume.to_request(),
            };
            client
                .put(&format!("/budgets/{}", escape(&level)), &options)
                .await?
        }
    };
    output::show(globals, &view, |_| budgets(&view.items)).await?;
    Ok(ExitCode::SUCCESS)
}

fn budgets(items: &[BudgetView]) -> Table {
    let heads = vec!["LEVEL", "OF", "LIMIT", "SPENT", "IN FLIGHT", "LEFT"];
    let mut table = Table::new(heads, "no limits, and nothing was spent");
    let usd = |usd: Option<f64>| usd.map_or_else(String::new, |usd| format!("{usd:.2} USD"));
    let tokens = |n: Option<i64>| n.map_or_else(String::new, |n| format!("{n} tokens"));
    for item in items {
        let of = item.title.as_ref().or(item.name.as_ref());
        let of = match (of, item.spent_usd) {
            (Some(of), _) if item.title.is_some() && item.level != Level::Feature => format!("each of {of}"),
            (Some(of), _) => of.clone(),
            (None, None) => "each".to_owned(),
            (None, Some(_)) => String::new(),
        };
        let row = |limit: String, spent, in_flight, left| {
            let limit = if limit.is_empty() {
                "none".to_owned()
            } else {
                limit
            };
            vec![
                item.level.into_str().to_owned(),
                of.clone(),
                limit,
                spent,
                in_flight,
                left,
            ]
        };
        if item.max_cost_usd.is_some() || item.max_tokens.is_none() {
            table.row(row(
                usd(item.max_cost_usd),
                usd(item.spent_usd),
                usd(item.in_flight_usd),
                usd(item.left_usd),
            ));
        }
        if item.max_tokens.is_some() {
            table.row(row(
                tokens(item.max_tokens),
                tokens(item.spent_tokens),
                tokens(item.in_flight_tokens),
                tokens(item.left_tokens),
            ));
        }
    }
    table
}

/// Show spending
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ralph cost
  ralph cost --by model --since 12h
  ralph cost --by day --since 2026-01-01 --csv > costs.csv")]
pub struct CostArgs {
    /// Group spending by this
    #[arg(long, value_enum, default_value_t = By::Feature)]
    by: By,
    /// Only sessions that ended since: a time ago (12h), or a date by UTC (2026-01-31)
    #[arg(long, value_name = "TIME|DATE")]
    since: Option<String>,
    /// Print comma-separated values
    #[arg(long)]
    csv: bool,
}

pub async fn cost(globals: &Globals, args: CostArgs) -> anyhow::Result<ExitCode> {
    let client = Client::find(globals)?;
    let mut path = format!("/costs?by={}", args.by.into_str());
    if let Some(text) = &args.since {
        let since = since(text, OffsetDateTime::now_utc())?;
        path.push_str(&format!("&since={}", escape(&since.format(&Rfc3339)?)));
    }
    let view: CostsView = client.get(&path).await?;
    if args.csv && globals.output != Format::Json {
        output::text(&csv(&view))?;
    } else {
        output::show(globals, &view, |wide| costs(&view, wide)).await?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Parses a time ago, or a date as its midnight.
pub(crate) fn since(text: &str, now: OffsetDateTime) -> anyhow::Result<OffsetDateTime> {
    if let Ok(date) = Date::parse(text, format_description!("[year]-[month]-[day]")) {
        return Ok(date.midnight().assume_utc());
    }
    if let Ok(at) = OffsetDateTime::parse(text, &Rfc3339) {
        return Ok(at);
    }
    let ago: Span = text.parse().map_err(|_| {
        Usage(format!(
            "`--since {text}`: give a time ago like 12h, or a date like 2026-01-31"
        ))
    })?;
    Ok(now - ago.0)
}

fn words(row: &CostRow) -> String {
    if row.cost_usd <= 0.0 && row.sessions > 0 {
        let subscribed = row.subscription_sessions >= row.sessions;
        return if subscribed { "subscription" } else { "unknown" }.to_owned();
    }
    format!("{} USD", usd_text(row.cost_usd, row.estimated_usd > 0.0))
}

fn costs(view: &CostsView, wide: bool) -> Table {
    let mut heads = vec!["SPENT ON", "COST", "SESSIONS", "TOKENS IN", "OUT"];
    if wide {
        heads.extend(["CACHED", "CACHE WRITTEN"]);
    }
    let mut table = Table::new(heads, "nothing was spent");
    let mut add = |of: &str, row: &CostRow| {
        let mut cells = vec![
            of.to_owned(),
            words(row),
            row.sessions.to_string(),
            row.input_tokens.to_string(),
            row.output_tokens.to_string(),
        ];
        if wide {
            cells.extend([row.cached_tokens, row.cache_write_tokens].map(|n| n.to_string()));
        }
        table.row(cells);
    };
    for row in &view.items {
        let of = row.name.as_deref().unwrap_or(&row.key);
        add(if of.is_empty() { "unknown" } else { of }, row);
    }
    if view.items.len() > 1 {
        add("all", &view.total);
    }
    table
}

/// Formats CSV by RFC 4180.
fn csv(view: &CostsView) -> String {
    let quoted = |text: &str| match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    };
    let mut text = format!(
        "{},name,sessions,cost_usd,estimated_usd,subscription_sessions,input_tokens,output_tokens,cached_tokens,\
         cache_write_tokens\r\n",
        view.by.into_str()
    );
    for row in &view.items {
        text.push_str(&format!(
            "{},{},{},{:.6},{:.6},{},{},{},{},{}\r\n",
            quoted(&row.key),
            quoted(row.name.as_deref().unwrap_or_default()),
            row.sessions,
            row.cost_usd,
            row.estimated_usd,
            row.subscription_sessions,
            row.input_tokens,
            row.output_tokens,
            row.cached_tokens,
            row.cache_write_tokens,
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn since_is_a_time_ago_or_a_date() {
        let now = OffsetDateTime::from_unix_timestamp(1_767_312_000).unwrap();
        let check = |text: &str, expected: Option<&str>| {
            let at = since(text, now).ok().map(|at| at.format(&Rfc3339).unwrap());
            assert_eq!(at.as_deref(), expected, "{text}");
        };
        check("12h", Some("2026-01-01T12:00:00Z"));
        check("2026-01-01", Some("2026-01-01T00:00:00Z"));
        check("2026-01-01T06:30:00Z", Some("2026-01-01T06:30:00Z"));
        check("2026-13-01", None);
        check("yesterday", None);
    }

    #[test]
    fn an_unknown_cost_is_not_shown_as_zero() {
        let check = |cost_usd, estimated_usd, subscription_sessions, expected: &str| {
            let row = CostRow {
                sessions: 2,
                cost_usd,
                estimated_usd,
                subscription_sessions,
                ..CostRow::default()
            };
            assert_eq!(words(&row), expected);
        };
        check(0.42, 0.0, 0, "0.42 USD");
        check(0.42, 0.1, 1, "~0.42 USD");
        check(0.0, 0.0, 1, "unknown");
        check(0.0, 0.0, 0, "unknown");
        check(0.0, 0.0, 2, "subscription");
    }

    #[test]
    fn csv_values_are_quoted_where_necessary() {
        let row = CostRow {
            key: "a".to_owned(),
            name: Some("say \"no\", twice".to_owned()),
            sessions: 1,
            cost_usd: 0.5,
            ..CostRow::default()
        };
        let view = CostsView {
            by: By::Feature,
            since: None,
            items: vec![row],
            total: CostRow::default(),
        };
        let text = csv(&view);
        assert_eq!(
            text.lines().nth(1),
            Some("a,\"say \"\"no\"\", twice\",1,0.500000,0.000000,0,0,0,0,0")
        );
    }
}
