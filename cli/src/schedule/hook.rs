//! `hook …`

use std::process::ExitCode;

use clap::Subcommand;
use ralph_api::body::{CreateHook, CreatedHook, Done};
use ralph_api::view::{HookView, Page};

use crate::args::globals::Globals;
use crate::client::{Client, escape};
use crate::terminal::local_time::ago;
use crate::terminal::output::{self, Format};
use crate::terminal::table::Table;

/// Create, list and remove webhooks: each request runs a copy of a feature
#[derive(Debug, Subcommand)]
pub enum HookCommand {
    /// Create a webhook and print its secret, which is shown only once
    #[command(after_help = "Examples:
  ralph hook create deploy --feature smoke-test
  curl -X POST -H \"Authorization: Bearer $SECRET\" -H \"Ralph-Delivery: 42\" http://HOST:PORT/hooks/deploy
  At GitHub: Settings, Webhooks, payload URL https://HOST/hooks/deploy, and the secret; the content type doesn't matter")]
    Create {
        /// Name: a-z, 0-9 and `-`
        name: String,
        /// The feature to copy: one created with --draft, or any other
        #[arg(long, value_name = "FEATURE")]
        feature: String,
    },
    /// List hooks
    #[command(
        visible_alias = "ls",
        after_help = "Example:
  ralph hook list"
    )]
    List,
    /// Remove a webhook: its requests are refused from now on
    #[command(after_help = "Example:
  ralph hook remove deploy")]
    Remove {
        /// Name of the hook
        name: String,
    },
}

pub async fn run(globals: &Globals, command: HookCommand) -> anyhow::Result<ExitCode> {
    let client = Client::find(globals)?;
    let is_json = globals.output == Format::Json;
    match command {
        HookCommand::Create { name, feature } => {
            let created: CreatedHook = client.post("/hooks", &CreateHook { name, feature }).await?;
            if is_json {
                output::json(&created)?;
            } else {
                eprintln!("requests go to {}", created.path);
                output::text(&format!("{}\n", created.secret))?;
            }
        }
        HookCommand::List => {
            let page: Page<HookView> = client.get("/hooks").await?;
            output::show(globals, &page, |_| table(&page.items)).await?;
        }
        HookCommand::Remove { name } => {
            let done: Done = client.delete(&format!("/hooks/{}", escape(&name))).await?;
            if is_json {
                output::json(&done)?;
            } else {
                output::text(&format!("{name} is removed\n"))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn table(hooks: &[HookView]) -> Table {
    let mut table = Table::new(
        ["NAME", "FEATURE", "CREATED", "FIRED", "MADE", "PROBLEM"],
        "no hooks",
    );
    for hook in hooks {
        table.row([
            hook.name.clone(),
            hook.feature.clone(),
            ago(hook.created_at),
            hook.fired_at.map(ago).unwrap_or_default(),
            hook.made.clone().unwrap_or_default(),
            hook.problem.clone().unwrap_or_default(),
        ]);
    }
    table
}
