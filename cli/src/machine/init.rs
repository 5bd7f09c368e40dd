//! `init`: sets a repository up (SPEC 8).

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use serde::Serialize;

use crate::args::globals::Globals;
use crate::args::usage::Usage;
use crate::config::{KEYS, Unset};
use crate::terminal::output::{self, Format};
use crate::terminal::plural::counted;

/// The configuration that is written, but for the keys that need no words of their own.
const CONFIG: &str = include_str!("ralph.toml");
/// What a data folder here must not bring into commits; knowledge and features are for everyone.
const IGNORED: [&str; 3] = [".ralph/*", "!.ralph/knowledge/", "!.ralph/features/"];

/// Set up a repository: a commented .ralph.toml, a folder for skills, lines for .gitignore
///
/// What stands already is left as it is; doing it again changes nothing.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ralph init
  ralph init ../other-repository")]
pub struct InitArgs {
    /// The repository's folder
    #[arg(default_value = ".", value_name = "DIR")]
    folder: PathBuf,
}

/// Does it, and tells what was done.
pub async fn run(globals: &Globals, args: InitArgs) -> anyhow::Result<ExitCode> {
    if !args.folder.is_dir() {
        let folder = args.folder.display();
        return Err(Usage(format!(
            "there is no folder {folder}; name that of the repository"
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

/// What was done to set a repository up; nothing where everything stood.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct SetUp {
    /// A line each.
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

/// Every key of the file with its default, commented out: below the words of its table, those that have none of their own as they are
/// listed by `config`.
fn configuration() -> String {
    let mut tables = tables();
    for key in KEYS.iter() {
        // What has no table is no key of the file.
        let Some((table, name)) = key.name.split_once('.') else {
            continue;
        };
        // Tables of a name of one's own have the keys of those without.
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
        let stands = |line: &str| {
            let rest = line.strip_prefix("#: ").and_then(|rest| rest.strip_prefix(name));
            rest.is_some_and(|rest| rest.starts_with([' ', '.']))
        };
        if text.lines().any(stands) {
            continue;
        }
        // A table that is shown on one line can't be added to by another.
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

/// The tables of the file and their texts; first what stands in none.
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
    // What stands in front of a table are its words.
    for at in 1..tables.len() {
        let before = tables[at - 1].1.trim_end().to_owned();
        let words = before.rsplit_once("\n\n").map_or(0, |(kept, _)| kept.len() + 2);
        let (kept, words) = before.split_at(words);
        let words = format!("{}\n{}", words.trim_end(), tables[at].1);
        tables[at - 1].1 = kept.trim_end().to_owned() + "\n";
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
    fn what_is_ignored_is_what_the_data_folder_says_itself() {
        let inside: Vec<String> = datadir::IGNORED
            .lines()
            .map(|line| line.replacen('/', ".ralph/", 1))
            .collect();
        assert_eq!(inside, IGNORED);
    }

    #[test]
    fn every_key_of_the_written_file_is_known_when_it_is_uncommented() {
        let written = configuration();
        for key in KEYS.iter().filter(|key| !key.name.contains("NAME")) {
            let Some((table, name)) = key.name.split_once('.') else {
                continue;
            };
            let first = name.split('.').next().unwrap();
            let told = [
                format!("#: {name} = "),
                format!("# {name}: "),
                format!("#: {first}."),
                format!("#: {first} = "),
            ];
            let stands = told
                .iter()
                .any(|start| written.lines().any(|line| line.starts_with(start)));
            assert!(
                stands && written.contains(&format!("[{table}]")),
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
