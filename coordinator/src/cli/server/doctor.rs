//! `doctor`: reports what this machine has and what is missing.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use ralph_cli::machine::finding::{Finding, Status};
use ralph_shared::agents::requires::OLDEST_GIT;
use ralph_shared::environment::EnvironmentError;
use ralph_shared::{broker, environment};
use tokio::process::Command;

use ralph_cli::args::globals::Globals;
use ralph_cli::client::Client;
use ralph_cli::client::endpoint;
use ralph_cli::machine::programs::Programs;
use ralph_cli::submit::agents;
use ralph_cli::submit::{self, RepoFlags};
use ralph_cli::terminal::output::{self, Format};
use ralph_shared::terminal::{Paint, Tone};

use crate::config::{Config, settings_of, unread};
use crate::embedded::SearchPaths;
use crate::store;
use crate::store::view::{Page, WorkerStatus, WorkerView};

/// Time limit of a check of a configured server.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// Check this machine for everything that Ralph needs
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ralph-coordinator doctor
  ralph-coordinator doctor --output json

Exit code: 0 when `up` could start, 1 when something is missing. `ralph-worker doctor` tries the agent.")]
pub struct DoctorArgs {}

/// Runs all checks, prints them, and returns the exit code.
pub async fn run(globals: &Globals, _args: DoctorArgs) -> anyhow::Result<ExitCode> {
    let places = SearchPaths::from_env();
    let mut findings = vec![
        Finding::ok("ralph-coordinator", env!("CARGO_PKG_VERSION")),
        worker_program(),
        git().await,
        postgres(&places).await,
        nats(&places).await,
        config(),
        running(globals).await,
    ];
    findings.extend(agent_programs(globals));
    findings.extend(embeddings().await);
    findings.extend(checkout().await);
    match globals.output {
        Format::Json => output::json(&Page::whole(findings.clone()))?,
        Format::Table | Format::Wide => output::text(&page(&findings))?,
    }
    let missing = findings.iter().any(|finding| finding.status == Status::Missing);
    Ok(ExitCode::from(u8::from(missing)))
}

fn page(findings: &[Finding]) -> String {
    let paint = Paint::stdout();
    let mut text = String::new();
    for finding in findings {
        let mark = match finding.status {
            Status::Ok => paint.apply(Tone::Good, "✓"),
            Status::Note => paint.apply(Tone::Warn, "·"),
            Status::Missing => paint.apply(Tone::Bad, "✗"),
        };
        text.push_str(&format!("{mark} {:18} {}\n", finding.check, finding.found));
        if let Some(advice) = &finding.advice {
            text.push_str(&format!("{:21}{}\n", "", paint.apply(Tone::Dim, advice)));
        }
    }
    text
}

/// Warns if the end of a feature moves the branch that is checked out in this folder.
async fn checkout() -> Option<Finding> {
    let how = Config::find().ok()?.workspace.merge?;
    let flags = RepoFlags::default();
    let warning = submit::checked_out(&flags, Some(how)).await?;
    let found = format!("`[workspace] merge = \"{how}\"` moves the branch that is checked out here");
    Some(Finding::other("merge", Status::Note, found, warning))
}

fn worker_program() -> Finding {
    match Programs::find() {
        Ok(programs) => Finding::ok("ralph-worker", programs.worker.display().to_string()),
        Err(error) => Finding::other("ralph-worker", Status::Missing, "not found", error.to_string()),
    }
}

/// Programs of the agents that workers on this machine start. A coordinator needs none.
fn agent_programs(globals: &Globals) -> Vec<Finding> {
    let check = "agent";
    let running = endpoint::published(globals.data.as_deref()).ok().flatten();
    let command = running
        .and_then(|up| up.agent)
        .or_else(|| environment::value("RALPH_AGENT").ok().flatten());
    let agents = agents::configured(command.as_deref());
    agents
        .iter()
        .map(|agent| match agent.trouble() {
            None => {
                let place = agent.found.as_deref().unwrap_or(Path::new(&agent.program));
                Finding::ok(check, format!("{}: {}", agent.name, place.display()))
            }
            Some((problem, advice)) => Finding::other(check, Status::Note, problem, advice),
        })
        .collect()
}

async fn git() -> Finding {
    let advice = "install git: workers and `submit` use its command line";
    let output = Command::new("git")
        .arg("--version")
        .kill_on_drop(true)
        .output()
        .await;
    let Ok(output) = output else {
        return Finding::other("git", Status::Missing, "not found", advice);
    };
    judge_git(String::from_utf8_lossy(&output.stdout).trim())
}

/// Judges the output of `git --version`.
fn judge_git(version_line: &str) -> Finding {
    let version = version_line.trim_start_matches("git version ").to_owned();
    let mut numbers = version.split('.').map_while(|part| part.parse::<u32>().ok());
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if found < OLDEST_GIT {
        let (major, minor) = OLDEST_GIT;
        return Finding::other(
            "git",
            Status::Missing,
            version,
            format!("git {major}.{minor} or later is needed"),
        );
    }
    Finding::ok("git", version)
}

async fn postgres(places: &SearchPaths) -> Finding {
    let check = "Postgres";
    let named = match environment::value("DATABASE_URL") {
        Ok(named) => named,
        Err(error) => return unusable(check, &error),
    };
    if let Some(url) = named {
        let version = async { store::server_version(&url).await.map_err(anyhow::Error::from) };
        return named_server(check, "DATABASE_URL", version).await;
    }
    match places.postgres() {
        Ok(servers) => {
            let each = servers.iter().map(|server| {
                format!(
                    "{}.{} in {}",
                    server.version[0],
                    server.version[1],
                    server.bin.display()
                )
            });
            Finding::ok(check, each.collect::<Vec<_>>().join("; "))
        }
        Err(error) => Finding::other(check, Status::Missing, "not found", error.to_string()),
    }
}

/// Checks a server that a variable names.
async fn named_server(
    check: &'static str,
    variable: &str,
    version: impl Future<Output = anyhow::Result<String>>,
) -> Finding {
    let problem = match tokio::time::timeout(TIME_LIMIT, version).await {
        Ok(Ok(version)) => return Finding::ok(check, format!("{version}, named by {variable}")),
        Ok(Err(error)) => format!("can't be used: {error:#}"),
        Err(_) => format!("does not answer within {} s", TIME_LIMIT.as_secs()),
    };
    Finding::other(
        check,
        Status::Missing,
        format!("{variable} names a server that {problem}"),
        format!("start it, correct {variable}, or unset {variable} to use a private server"),
    )
}

async fn nats(places: &SearchPaths) -> Finding {
    let check = "nats-server";
    let named = match environment::value("NATS_URL") {
        Ok(named) => named,
        Err(error) => return unusable(check, &error),
    };
    if let Some(url) = named {
        let connect = broker::connect(&url, "ralph-doctor");
        let version = async {
            if let Some(refused) = broker::refusal(&url, "ralph-doctor").await {
                anyhow::bail!("{refused}");
            }
            let client = connect.await?;
            let jetstream = async_nats::jetstream::new(client.clone());
            let account = jetstream.query_account().await;
            account.context("JetStream does not answer; switch it on there")?;
            anyhow::Ok(format!("{} with JetStream", client.server_info().version))
        };
        return named_server(check, "NATS_URL", version).await;
    }
    match places.nats() {
        Ok(server) => {
            let version = server.version.map(|part| part.to_string()).join(".");
            Finding::ok(check, format!("{version} at {}", server.program.display()))
        }
        Err(error) => Finding::other(check, Status::Missing, "not found", error.to_string()),
    }
}

fn config() -> Finding {
    let check = "configuration";
    let broken = |found: &str, error: anyhow::Error| {
        Finding::other(check, Status::Missing, found, format!("{error:#}"))
    };
    let path = match Config::locate() {
        Ok(None) => return Finding::ok(check, "no .ralph.toml here or above; the defaults hold"),
        Ok(Some(path)) => path,
        Err(error) => return broken("not usable", error),
    };
    // A coordinator may still refuse a readable file when it starts.
    match Config::read(&path).and_then(|config| settings_of(&config)?.with_environment()) {
        Ok(_) if ralph_cli::machine::config::is_trusted(&path).unwrap_or(false) => readable(&path),
        Ok(_) => Finding::other(
            check,
            Status::Missing,
            format!(
                "{} is not trusted: Ralph ignores it, and `up` and `submit` refuse to run",
                path.display()
            ),
            format!("read it, then `ralph config trust {}`", path.display()),
        ),
        Err(error) => broken("not readable", error),
    }
}

/// A usable file, with its unknown keys.
fn readable(path: &Path) -> Finding {
    let check = "configuration";
    let file = path.display();
    match unread(path).unwrap_or_default() {
        keys if keys.is_empty() => Finding::ok(check, file.to_string()),
        keys => Finding::other(
            check,
            Status::Note,
            format!("{file} has unknown keys, which are ignored: {}", keys.join(", ")),
            "correct or remove them; `ralph config` lists all keys",
        ),
    }
}

/// The model of `[memory.embeddings]`, if one is configured.
async fn embeddings() -> Option<Finding> {
    let check = "embeddings";
    // `config` reports a broken file.
    let config = Config::find().ok()?;
    config.memory.embeddings.as_ref()?;
    let broken = |found: String| {
        Finding::other(
            check,
            Status::Note,
            found,
            "the memory works without it; correct or remove [memory.embeddings]",
        )
    };
    let embedder = match settings_of(&config) {
        Ok(settings) => settings.embedder?,
        Err(error) => return Some(broken(format!("{error:#}"))),
    };
    let text = ["Does it answer?".to_owned()];
    Some(match embedder.questions(&text, TIME_LIMIT).await {
        Some(vectors) => Finding::ok(
            check,
            format!(
                "{} answers vectors of {} dimensions",
                embedder.model(),
                vectors.first().map_or(0, Vec::len)
            ),
        ),
        None => broken(format!(
            "{}: {}",
            embedder.model(),
            embedder.trouble().unwrap_or_default()
        )),
    })
}

async fn running(globals: &Globals) -> Finding {
    let check = "coordinator";
    let endpoint = match endpoint::find(globals) {
        Ok(endpoint) => endpoint,
        Err(error) => {
            let folder = globals.data.clone().unwrap_or_else(|| PathBuf::from(".ralph"));
            let found = format!("none runs (data folder {})", folder.display());
            return Finding::other(check, Status::Note, found, format!("{error:#}"));
        }
    };
    let url = endpoint.url.clone();
    let asked = async { Client::new(endpoint)?.get::<Page<WorkerView>>("/workers").await };
    match asked.await {
        Ok(page) => {
            let ready = page
                .items
                .iter()
                .filter(|w| w.status == WorkerStatus::Ready)
                .count();
            Finding::ok(check, format!("answers at {url}; {ready} workers are ready"))
        }
        Err(error) => Finding::other(
            check,
            Status::Note,
            format!("does not answer at {url}"),
            format!("{error:#}"),
        ),
    }
}

/// A variable with an unusable value.
fn unusable(check: &'static str, error: &EnvironmentError) -> Finding {
    let advice = "correct the variable, or unset it to use a private server";
    Finding::other(check, Status::Missing, error.to_string(), advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doctor_reports_a_git_that_workers_refuse_as_missing() {
        for (version_line, status) in [
            ("git version 2.30.2", Status::Missing),
            ("git version 2.37.9", Status::Missing),
            ("git version 2.38.0", Status::Ok),
            ("git version 2.47.3 (Apple Git-1)", Status::Ok),
            ("git version 3.0", Status::Ok),
            ("something else", Status::Missing),
        ] {
            assert_eq!(judge_git(version_line).status, status, "{version_line}");
        }
    }
}
