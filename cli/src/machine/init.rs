//! `init`: sets up a repository (SPEC 8).

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use ralph_shared::terminal::counted;
use serde::Serialize;

use crate::args::globals::Globals;
use crate::args::usage::Usage;
use crate::config::{KEYS, Unset};
use crate::terminal::output::{self, Format};

/// The configuration file, without the keys that need no comment of their own.
const CONFIG: &str = include_str!("ralph.toml");
/// Ignore rules for a data folder in the repository; knowledge and features are shared.
const IGNORED: [&str; 3] = [".ralph/*", "!.ralph/knowledge/", "!.ralph/features/"];

/// Set up a repository: a commented .ralph.toml, a folder for skills, lines for .gitignore
///
/// Existing files are left as they are; running this again changes nothing.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ralph init
  ralph init ../other-repository")]
pub struct InitArgs {
    /// The repository's folder
    #[arg(default_value = ".", value_name = "DIR")]
    folder: PathBuf,
}

/// Sets up the repository, and lists the changes.
pub async fn run(globals: &Globals, args: InitArgs) -> anyhow::Result<ExitCode> {
    if !args.folder.is_dir() {
        let folder = args.folder.display();
        return Err(Usage(format!(
            "there is no folder {folder}; name the folder of the repository"
        ))
        .into());
    }
    let done = set_up(&args.folder)?;
    if globals.output == Format::Json {
        output::json(&SetUp { done })?;
        return Ok(ExitCode::SUCCESS);
    }
    for line in &done {
        output::text(&format!("{line}\n"))?;
    }
    if done.is_empty() {
        output::text("everything stands already\n")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Changes made to set up a repository; empty if it was set up already.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct SetUp {
    /// One line per change.
    pub done: Vec<String>,
}

fn set_up(folder: &Path) -> anyhow::Result<Vec<String>> {
    let mut done = Vec::new();
    let config = folder.join(".ralph.toml");
    match fs::File::create_new(&config) {
        Ok(mut file) => {
            std::io::Write::write_all(&mut file, configuration().as_bytes())
                .with_context(|| format!("failed to write {}", config.display()))?;
            done.push(format!("wrote {}", config.display()));
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error).with_context(|| format!("failed to write {}", config.display())),
    }
    done.extend(skills(folder)?);
    done.extend(ignore(folder)?);
    Ok(done)
}

/// Every key of the file with its default, commented out. Keys of [`CONFIG`] come with its comments; the
/// others follow as `config` lists them.
fn configuration() -> String {
    let mut tables = tables();
    for key in KEYS.iter() {
        // Keys without a table are not keys of the file.
        let Some((table, name)) = key.name.split_once('.') else {
            continue;
        };
        // Tables with a chosen name have the keys of the unnamed table.
        if name.contains("NAME")
            || KEYS
                .iter()
                .any(|other| other.name.starts_with(&format!("{}.", key.name)))
        {
            continue;
        }
        let at = tables
            .iter()
            .position(|(known, _)| *known == table)
            .unwrap_or_else(|| {
                tables.push((table, format!("[{table}]\n")));
                tables.len() - 1
            });
        let text = &mut tables[at].1;
        let lists_key = |line: &str| {
            let rest = line.strip_prefix("#: ").and_then(|rest| rest.strip_prefix(name));
            rest.is_some_and(|rest| rest.starts_with([' ', '.']))
        };
        if text.lines().any(lists_key) {
            continue;
        }
        // Another line can't add to an inline table.
        let inline = name
            .split_once('.')
            .is_some_and(|(table, _)| text.contains(&format!("#: {table} = {{")));
        let line = match key.default {
            Unset::Toml(value) if inline => format!("# {name}: {} [{value}]\n", key.about),
            Unset::Toml(value) => format!("#: {name} = {value}   # {}\n", key.about),
            Unset::Words(words) => format!("# {name}: {} [{words}]\n", key.about),
        };
        text.push_str(&line);
    }
    let texts: Vec<&str> = tables.iter().map(|(_, text)| text.trim_end()).collect();
    texts.join("\n\n") + "\n"
}

/// The tables of the file with their text; first the text before all tables.
fn tables() -> Vec<(&'static str, String)> {
    let mut tables = vec![("", String::new())];
    for line in CONFIG.lines() {
        if let Some(table) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            tables.push((table, String::new()));
        }
        if let Some((_, text)) = tables.last_mut() {
            text.push_str(line);
            text.push('\n');
        }
    }
    // The comment before a table belongs to the table.
    for at in 1..tables.len() {
        let before = tables[at - 1].1.trim_end().to_owned();
        let words = before.rsplit_once("\n\n").map_or(0, |(body, _)| body.len() + 2);
        let (body, words) = before.split_at(words);
        let words = format!("{}\n{}", words.trim_end(), tables[at].1);
        tables[at - 1].1 = body.trim_end().to_owned() + "\n";
        tables[at].1 = words;
    }
    tables
}

fn skills(folder: &Path) -> anyhow::Result<Option<String>> {
    let skills = folder.join(".claude/skills");
    if skills.exists() {
        return Ok(None);
    }
    let parent = folder.join(".claude");
    fs::create_dir_all(&parent).with_context(|| format!("failed to make {}", parent.display()))?;
    let old = folder.join(".ralph/skills");
    if old.is_dir() {
        fs::rename(&old, &skills)
            .with_context(|| format!("failed to move {} to {}", old.display(), skills.display()))?;
        return Ok(Some(format!("moved {} to {}", old.display(), skills.display())));
    }
    fs::create_dir(&skills).with_context(|| format!("failed to make {}", skills.display()))?;
    Ok(Some(format!("made {}", skills.display())))
}

fn ignore(folder: &Path) -> anyhow::Result<Option<String>> {
    let path = folder.join(".gitignore");
    let before = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).with_context(|| format!("failed to read {}", path.display())),
    };
    let missing: Vec<&str> = IGNORED
        .into_iter()
        .filter(|line| !before.lines().any(|has| has.trim() == *line))
        .collect();
    if missing.is_empty() {
        return Ok(None);
    }
    let gap = if before.is_empty() || before.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    let text = format!("{before}{gap}{}\n", missing.join("\n"));
    fs::write(&path, text).with_context(|| format!("failed to write {}", path.display()))?;
    Ok(Some(format!(
        "added {} to {}",
        counted(missing.len(), "line", "lines"),
        path.display()
    )))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::config::Config;
    use crate::machine::datadir;

    #[test]
    fn a_repository_is_set_up_once_and_nothing_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at(".ralph/skills/testing")).unwrap();
        fs::write(at(".gitignore"), "/target").unwrap();

        assert_eq!(set_up(folder.path()).unwrap().len(), 3);
        assert!(at(".claude/skills/testing").is_dir(), "skills were moved");
        assert_eq!(
            fs::read_to_string(at(".gitignore")).unwrap(),
            "/target\n.ralph/*\n!.ralph/knowledge/\n!.ralph/features/\n"
        );
        assert_eq!(Config::read(&at(".ralph.toml")).unwrap(), Config::default());

        fs::write(at(".ralph.toml"), "[memory]\nenabled = false\n").unwrap();
        assert_eq!(set_up(folder.path()).unwrap(), Vec::<String>::new());
        assert!(!Config::read(&at(".ralph.toml")).unwrap().memory.enabled.unwrap());
    }

    #[test]
    fn init_ignores_the_same_paths_as_the_data_folder() {
        let inside: Vec<String> = datadir::IGNORED
            .lines()
            .map(|line| line.replacen('/', ".ralph/", 1))
            .collect();
        assert_eq!(inside, IGNORED);
    }

    #[test]
    fn the_written_file_lists_all_keys_and_parses_when_uncommented() {
        let written = configuration();
        for key in KEYS.iter().filter(|key| !key.name.contains("NAME")) {
            let Some((table, name)) = key.name.split_once('.') else {
                continue;
            };
            let first = name.split('.').next().unwrap();
            let prefixes = [
                format!("#: {name} = "),
                format!("# {name}: "),
                format!("#: {first}."),
                format!("#: {first} = "),
            ];
            let is_listed = prefixes
                .iter()
                .any(|start| written.lines().any(|line| line.starts_with(start)));
            assert!(
                is_listed && written.contains(&format!("[{table}]")),
                "{} is missing:\n{written}",
                key.name
            );
        }
        let uncommented: String = written
            .lines()
            .map(|line| line.strip_prefix("#: ").unwrap_or(line))
            .filter(|line| !line.starts_with("# "))
            .map(|line| format!("{line}\n"))
            .collect();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".ralph.toml");
        fs::write(&path, &uncommented).unwrap();
        let (config, unknown) = Config::parse(&uncommented).unwrap();
        assert_eq!(unknown, Vec::<String>::new());
        assert_eq!(config.execution.max_retries, Some(3));
        assert_eq!(config.models.tiers.len(), 3);
    }
}
