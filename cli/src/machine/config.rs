//! `config`: the settings and their sources.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::builder::BoolishValueParser;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Subcommand};
use ralph_api::view::Page;
use ralph_shared::environment;
use ralph_shared::trust::Consents;

use super::serve_args::ServeArgs;
use crate::args::globals::{Globals, MATCHES};
use crate::args::usage::Usage;
use crate::client::Client;
use crate::client::endpoint;
use crate::config::{Config, Key, Override, Reader, Setting, Source, effective, read_table};
use crate::submit::RunFlags;
use crate::terminal::output;
use crate::terminal::table::Table;

/// Longest wait for the settings of a running coordinator.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);

/// Print the configuration, and the origin of each value
///
/// Precedence: flag, RALPH_* variable, .ralph.toml (here, or in a folder above), default. Add flags of other
/// commands to see their effect. Settings of a coordinator are those of the running one, with secrets
/// hidden. Workers on other machines have their own files.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ralph config
  ralph config limits agent.command --output wide
  ralph config --max-cost 5 --output json
  ralph config trust")]
#[command(args_conflicts_with_subcommands = true)]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: Option<ConfigCommand>,
    /// Only these keys, or keys of these tables
    #[arg(value_name = "KEY")]
    keys: Vec<String>,
    /// Don't ask a running coordinator; show what one started here would read
    #[arg(long)]
    local: bool,
    /// Sessions that may run at once
    #[arg(long, env = "RALPH_MAX_PARALLEL", value_name = "N")]
    max_parallel: Option<i32>,
    /// Retries of a task that doesn't set its own
    #[arg(long, env = "RALPH_MAX_RETRIES", value_name = "N")]
    max_retries: Option<i32>,
    /// Let no other session judge an attempt before it counts
    #[arg(long, env = "RALPH_NO_VERIFY", value_name = "YES|NO", num_args = 0..=1, require_equals = true,
          default_missing_value = "yes", value_parser = BoolishValueParser::new())]
    no_verify: Option<bool>,
    /// Let tasks that change the same paths run one after the other
    #[arg(long, env = "RALPH_AVOID_CONFLICTS", value_name = "YES|NO", num_args = 0..=1, require_equals = true,
          default_missing_value = "yes", value_parser = BoolishValueParser::new())]
    avoid_conflicts: Option<bool>,
    /// How a finished feature is merged into its base: ff, merge, squash, command
    #[arg(long, env = "RALPH_MERGE", value_name = "HOW")]
    merge: Option<String>,
    #[command(flatten)]
    serve: ServeArgs,
    #[command(flatten)]
    run: RunFlags,
}

/// Further actions on the configuration.
#[derive(Debug, Subcommand)]
enum ConfigCommand {
    Trust(TrustArgs),
}

/// Trust a configuration file with its present content
///
/// A `.ralph.toml` names programs to run and how they are confined, and an agent may have written it. So
/// Ralph obeys a file that it finds here or in a folder above only after you trusted exactly this content. A
/// file that RALPH_CONFIG names needs no further consent.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ralph config trust
  ralph config trust ~/my-project/.ralph.toml
  ralph config trust --list
  ralph config trust --revoke")]
struct TrustArgs {
    /// The file [default: .ralph.toml here or in a folder above]
    file: Option<PathBuf>,
    /// Withdraw your consent
    #[arg(long)]
    revoke: bool,
    /// List the files that you trust
    #[arg(long, conflicts_with_all = ["file", "revoke"])]
    list: bool,
}

fn trust(args: TrustArgs) -> anyhow::Result<ExitCode> {
    if args.list {
        let trusted = Consents::of_user()
            .list()
            .context("failed to read your consents")?;
        for (path, holds) in trusted {
            let changed = if holds { "" } else { "  (changed or gone since)" };
            println!("{}{changed}", path.display());
        }
        return Ok(ExitCode::SUCCESS);
    }
    let Some(path) = args.file.map_or_else(Config::locate, |file| Ok(Some(file)))? else {
        return Err(
            Usage("there is no .ralph.toml here or in a folder above; name the file".to_owned()).into(),
        );
    };
    let path = std::path::absolute(&path).with_context(|| format!("failed to resolve {}", path.display()))?;
    let text = Config::text(&path)?;
    let consents = Consents::of_user();
    if args.revoke {
        let word = match consents
            .revoke(&path, &text)
            .context("failed to remove your consent")?
        {
            true => "is no longer trusted",
            false => "was not trusted",
        };
        eprintln!("{} {word}", path.display());
        return Ok(ExitCode::SUCCESS);
    }
    Config::read(&path)?;
    consents
        .grant(&path, &text)
        .context("failed to store your consent")?;
    eprintln!(
        "{} is trusted as it is now; trust it again after each change",
        path.display()
    );
    Ok(ExitCode::SUCCESS)
}

pub async fn run(globals: &Globals, args: ConfigArgs) -> anyhow::Result<ExitCode> {
    if let Some(ConfigCommand::Trust(args)) = args.command {
        return trust(args);
    }
    let path = Config::locate()?;
    let table = path.as_deref().map(read_table).transpose()?;
    if let Some(path) = &path {
        // Reports errors, and warns of unknown keys.
        Config::read(path)?;
        if !is_trusted(path)? {
            eprintln!(
                "note: {0} is not trusted, so its values are not in force: `ralph config trust {0}`",
                path.display()
            );
        }
    }
    let matches = MATCHES.get().and_then(|all| all.subcommand_matches("config"));
    let file = path.as_deref().zip(table.as_ref());
    let mut items = effective(file, |key| given(key, matches));
    if !args.local {
        overlay_running(globals, &mut items).await;
    }
    if !args.keys.is_empty() {
        let fits = |wanted: &str, key: &str| {
            key.strip_prefix(wanted)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        for wanted in &args.keys {
            if !items.iter().any(|item| fits(wanted, &item.key)) {
                return Err(Usage(format!(
                    "there is no key `{wanted}`; `ralph config` lists all of them"
                ))
                .into());
            }
        }
        items.retain(|item| args.keys.iter().any(|wanted| fits(wanted, &item.key)));
    }
    let page = Page::whole(items);
    output::show(globals, &page, |wide| show(&page.items, wide)).await?;
    Ok(ExitCode::SUCCESS)
}

/// Replaces the settings of this environment with those of the running coordinator.
async fn overlay_running(globals: &Globals, items: &mut [Setting]) {
    let Ok(endpoint) = endpoint::find(globals) else {
        return;
    };
    let url = endpoint.url.clone();
    let asked = async {
        Client::new(endpoint)?
            .get_once::<Page<Setting>>("/config", REQUEST_TIMEOUT)
            .await
    };
    let running = match asked.await {
        Ok(page) => page.items,
        Err(error) => {
            eprintln!(
                "note: the coordinator at {url} doesn't report its settings; these are the local ones: {error:#}"
            );
            return;
        }
    };
    for item in items.iter_mut().filter(|item| item.source != Source::Flag) {
        if let Some(in_force) = running.iter().find(|running| running.key == item.key) {
            *item = in_force.clone();
        }
    }
    eprintln!(
        "note: settings of a coordinator are those of the one at {url} (--local shows those of this environment)"
    );
}

/// Settings of a coordinator that was started with this command line.
pub fn of_coordinator(subcommand: &str) -> anyhow::Result<Arc<[Setting]>> {
    let path = Config::locate()?;
    let table = path.as_deref().map(read_table).transpose()?;
    let matches = MATCHES.get().and_then(|all| all.subcommand_matches(subcommand));
    let all = effective(path.as_deref().zip(table.as_ref()), |key| given(key, matches));
    let reads = |setting: &Setting| setting.read_by == Reader::Coordinator.into_str();
    Ok(all.into_iter().filter(reads).collect())
}

/// Whether this file is obeyed.
pub fn is_trusted(path: &Path) -> anyhow::Result<bool> {
    Ok(Config::is_named() || Consents::of_user().has(path, &Config::text(path)?))
}

/// The value that this command's flags, or variables, give a key.
fn given(key: &Key, matches: Option<&ArgMatches>) -> Option<Override> {
    let argument = key.flag.map(|flag| flag.replace('-', "_"));
    if let (Some(id), Some(matches)) = (argument.as_deref(), matches) {
        // Only some keys have a flag of this command.
        let known = matches.try_contains_id(id).is_ok();
        let source = known.then(|| matches.value_source(id)).flatten();
        let words = || -> Vec<String> {
            let raw = matches.get_raw(id).into_iter().flatten();
            raw.map(|word| word.to_string_lossy().into_owned()).collect()
        };
        match source {
            Some(ValueSource::CommandLine) => return Some(Override::Flag(words())),
            Some(ValueSource::EnvVariable) => return Some(Override::Variable(words())),
            _ => {}
        }
    }
    let value = environment::value(key.variable?).ok().flatten()?;
    Some(Override::Variable(vec![value]))
}

fn show(settings: &[Setting], wide: bool) -> Table {
    let mut heads = vec!["KEY", "VALUE", "FROM"];
    if wide {
        heads.extend(["READ BY", "DEFAULT", "WHAT"]);
    }
    let mut table = Table::new(heads, "nothing can be set");
    for setting in settings {
        let value = match crate::config::shown(&setting.value) {
            text if text.is_empty() => setting.default.clone(),
            text => text,
        };
        let from = match &setting.place {
            Some(place) => format!("{} {place}", setting.source.into_str()),
            None => setting.source.into_str().to_owned(),
        };
        let mut row = vec![setting.key.clone(), value, from];
        if wide {
            row.extend([
                setting.read_by.to_string(),
                setting.default.clone(),
                setting.about.to_string(),
            ]);
        }
        table.row(row);
    }
    table
}
