//! `memory search`: one query, or a file of them.

use std::path::PathBuf;

use clap::Args;
use ralph_api::body::{Answered, QueryLine, SearchMemory};
use ralph_api::view::Page;
use serde::Serialize;
use time::OffsetDateTime;

use super::{KindArg, RepoArgs, lines};
use crate::args::globals::Globals;
use crate::client::Client;
use crate::terminal::output::{self, Format};
use crate::terminal::pager;
use crate::terminal::table::Table;

/// Queries per request.
const TOGETHER: usize = 100;

/// A query.
#[derive(Debug, Args)]
pub struct SearchArgs {
    /// Title of the task
    #[arg(required_unless_present = "batch")]
    title: Option<String>,
    /// Description of the task
    #[arg(long, default_value = "", value_name = "TEXT")]
    description: String,
    /// Search for each line of a file: {query_id, date, title, description}; prints a line of JSON for each.
    /// A date is RFC 3339 or YYYY-MM-DD
    #[arg(long, value_name = "FILE", conflicts_with_all = ["title", "description"])]
    batch: Option<PathBuf>,
    /// Part of the memory
    #[arg(long, value_enum, default_value_t = KindArg::Learning)]
    kind: KindArg,
    /// Entries per query, at most
    #[arg(long, default_value_t = 5, value_name = "N")]
    limit: usize,
    #[command(flatten)]
    repo: RepoArgs,
}

/// The result of one query of a batch.
#[derive(Debug, Serialize)]
struct Line<'a> {
    query_id: &'a str,
    ids: Vec<&'a str>,
    scores: Vec<f64>,
}

/// Searches, and prints the results.
pub async fn run(globals: &Globals, args: SearchArgs) -> anyhow::Result<()> {
    let client = Client::find(globals)?;
    let repo = args.repo.identity().await?;
    let request = |queries: Vec<QueryLine>| SearchMemory {
        repo: repo.clone(),
        kind: args.kind.into(),
        limit: args.limit,
        queries,
    };
    if let Some(file) = &args.batch {
        for queries in lines::read(file, "{query_id, date, title, description}")?.chunks(TOGETHER) {
            let page: Page<Answered> = client.post("/memory/search", &request(queries.to_vec())).await?;
            for answer in &page.items {
                output::record(&Line {
                    query_id: &answer.query_id,
                    ids: answer
                        .items
                        .iter()
                        .map(|hit| hit.external_id.as_deref().unwrap_or(&hit.id))
                        .collect(),
                    scores: answer.items.iter().map(|hit| hit.score).collect(),
                })?;
            }
        }
        return Ok(());
    }
    let query = QueryLine {
        query_id: String::new(),
        date: OffsetDateTime::now_utc(),
        title: args.title.unwrap_or_default(),
        description: args.description,
    };
    let page: Page<Answered> = client.post("/memory/search", &request(vec![query])).await?;
    let Some(answer) = page.items.first() else {
        return Ok(());
    };
    if globals.output == Format::Json {
        return output::json(answer);
    }
    let wide = globals.output == Format::Wide;
    let mut table = Table::new(
        if wide {
            vec!["ID", "SCORE", "REASON", "TITLE"]
        } else {
            vec!["ID", "SCORE", "TITLE"]
        },
        "no entry matches well enough; --output wide shows the closest ones",
    );
    for hit in answer.items.iter().chain(answer.left_out.iter().filter(|_| wide)) {
        let mut row = vec![hit.id.clone(), format!("{:.2}", hit.score)];
        if wide {
            row.push(hit.reason.clone().unwrap_or_default());
        }
        row.push(hit.title.clone());
        table.row(row);
    }
    pager::show(globals, &table.to_string()).await
}
