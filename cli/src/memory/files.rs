//! `memory export | import`: knowledge as Markdown files with front matter, learnings as JSON lines.

use std::collections::HashSet;
use std::fs::Permissions;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use ralph_api::body::{ImportLine, ImportMemory, Imported};
use ralph_api::view::{MemoryView, Page};
use ralph_domain::recall::Kind;
use ralph_domain::text::knowledge_file::KnowledgeFile;
use ralph_shared::file::{LARGE_BYTES, read_text};
use ralph_shared::terminal::counted;
use time::OffsetDateTime;

use super::{RepoArgs, lines};
use crate::args::globals::Globals;
use crate::args::usage::Usage;
use crate::client::{Client, escape, is_passing};
use crate::git::paths::first_symlink;
use crate::terminal::output;

/// Entries per request.
const TOGETHER: usize = 2_000;
/// The first and the last pause before a resend; each pause is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(16);
/// Size of the entries of a request, which may be four times as large. Bytes.
const PART_BYTES: usize = 16 * 1024 * 1024;
/// Files per folder, at most.
const MAX_FILES: usize = 100_000;
/// The learnings of a folder. They are not Markdown, because Markdown files are a repository's knowledge,
/// and learnings are no facts about the project.
const LEARNINGS: &str = "learnings.jsonl";
const LINE: &str = "{id, date, title, body, paths, tags}";

/// Destination of an export.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The folder; created if missing
    #[arg(default_value = ".ralph/knowledge")]
    folder: PathBuf,
    #[command(flatten)]
    repo: RepoArgs,
}

pub async fn export(globals: &Globals, args: ExportArgs) -> anyhow::Result<()> {
    let client = Client::find(globals)?;
    let repo = args.repo.identity().await?;
    let query = |kind: &str| format!("kind={kind}&repo={}", escape(&repo));
    let mut page: Page<MemoryView> = client.list("/memory", &query("knowledge"), MAX_FILES).await?;
    let learnings: Page<MemoryView> = client.list("/memory", &query("learning"), usize::MAX).await?;
    let folder = &args.folder;
    if let Some(link) = first_symlink(folder) {
        return Err(Usage(format!(
            "{} is a link, so nothing is written to {}: name the link's target if you mean that",
            link.display(),
            folder.display()
        ))
        .into());
    }
    std::fs::create_dir_all(folder)
        .with_context(|| format!("failed to make the folder {}", folder.display()))?;
    let mut taken = HashSet::new();
    // An import would read an agent's entry with the title of a person's entry as a later version of it.
    let is_agents = |entry: &MemoryView| matches!(entry.origin.as_str(), "attempt" | "distilled");
    let peoples: HashSet<String> = page
        .items
        .iter()
        .filter(|entry| !is_agents(entry))
        .map(|entry| entry.title.to_lowercase())
        .collect();
    page.items
        .retain(|entry| !is_agents(entry) || !peoples.contains(&entry.title.to_lowercase()));
    // The oldest keeps the plain name, so that a later export finds the same names.
    for entry in page.items.iter().rev() {
        let file = KnowledgeFile {
            title: entry.title.clone(),
            tags: entry.tags.clone(),
            feature: entry.feature.clone(),
            created_at: Some(entry.created_at),
            body: entry.body.clone(),
        };
        let mut name = file.name();
        for number in 2.. {
            if taken.insert(name.clone()) {
                break;
            }
            name = format!("{}-{number}.md", file.name().trim_end_matches(".md"));
        }
        let path = folder.join(name);
        replace(&path, &file.text()).with_context(|| format!("failed to write {}", path.display()))?;
    }
    let path = folder.join(LEARNINGS);
    // An outdated file would restore entries that have been hidden since.
    if !learnings.items.is_empty() || path.exists() {
        let text = learnings_text(&learnings.items)?;
        replace(&path, &text).with_context(|| format!("failed to write {}", path.display()))?;
    }
    page.items.extend(learnings.items);
    let written = counted(page.items.len(), "entry", "entries");
    let text = format!("{written} written to {}\n", folder.display());
    output::answer(globals.output, &page, &text)
}

/// Learnings as lines, in a stable order. Each has the id by which an import recognizes it.
fn learnings_text(learnings: &[MemoryView]) -> serde_json::Result<String> {
    let mut lines: Vec<ImportLine> = learnings
        .iter()
        .map(|entry| ImportLine {
            id: entry.external_id.clone().unwrap_or_else(|| entry.id.clone()),
            date: entry.created_at,
            title: entry.title.clone(),
            body: entry.body.clone(),
            paths: entry.paths.clone(),
            // Normalized as on reading.
            tags: entry.tags.iter().map(|tag| tag.to_lowercase()).collect(),
            kind: Kind::Learning,
            category: entry.category.clone(),
            feature: None,
        })
        .collect();
    lines.sort_by(|a, b| (a.date, &a.id).cmp(&(b.date, &b.id)));
    let mut text = String::new();
    for line in &lines {
        text.push_str(&serde_json::to_string(line)?);
        text.push('\n');
    }
    Ok(text)
}

/// Replaces a file. If the path is a link, replaces the link, and leaves its target unchanged.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new()
        // As for any new file, the user's umask decides who else may read it.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.persist(path)?;
    Ok(())
}

/// Source of an import.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// JSON lines of {id, date, title, body, paths, tags}, or a folder of Markdown files with front matter
    /// and of such lines in learnings.jsonl; a date is RFC 3339 or YYYY-MM-DD
    from: PathBuf,
    #[command(flatten)]
    repo: RepoArgs,
}

pub async fn import(globals: &Globals, args: ImportArgs) -> anyhow::Result<()> {
    let client = Client::find(globals)?;
    let repo = args.repo.identity().await?;
    let lines = if args.from.is_dir() {
        folder(&args.from)?
    } else {
        lines::read(&args.from, LINE)?
    };
    let mut imported = Imported {
        imported: 0,
        known: 0,
    };
    let mut sent = 0;
    for items in parts(&lines, TOGETHER, PART_BYTES) {
        sent += items.len();
        let body = ImportMemory {
            repo: repo.clone(),
            items: items.to_vec(),
            more: sent < lines.len(),
        };
        let part = post(&client, &body, sent > items.len()).await?;
        imported.imported += part.imported;
        imported.known += part.known;
        if lines.len() > TOGETHER {
            eprintln!("{sent} of {} sent", counted(lines.len(), "entry", "entries"));
        }
    }
    let text = format!(
        "{} imported, {} skipped (imported before, or changed by a person since)\n",
        counted(imported.imported, "entry", "entries"),
        imported.known
    );
    output::answer(globals.output, &imported, &text)
}

/// Sends a part, with retries while the coordinator is unavailable or busy. The coordinator recognizes a
/// part that has arrived. A coordinator that has never responded gets no retry.
async fn post(client: &Client, body: &ImportMemory, has_answered: bool) -> anyhow::Result<Imported> {
    let mut pause = FIRST_PAUSE;
    loop {
        match client.post("/memory/import", body).await {
            Err(error) if has_answered && is_passing(&error) && pause <= LAST_PAUSE => {
                eprintln!("{error:#}; retrying in {} s", pause.as_secs());
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
            answer => return answer,
        }
    }
}

/// Splits lines into parts of at most `most` lines and `most_bytes` bytes; a larger line is a part of its
/// own.
fn parts(lines: &[ImportLine], most: usize, most_bytes: usize) -> Vec<&[ImportLine]> {
    let (mut parts, mut start, mut size_bytes) = (Vec::new(), 0, 0);
    for (at, line) in lines.iter().enumerate() {
        let line_bytes = serde_json::to_vec(line).map_or(0, |json| json.len());
        if at > start && (at - start == most || size_bytes + line_bytes > most_bytes) {
            parts.push(&lines[start..at]);
            (start, size_bytes) = (at, 0);
        }
        size_bytes += line_bytes;
    }
    if start < lines.len() {
        parts.push(&lines[start..]);
    }
    parts
}

/// Reads the knowledge files of a folder and its subfolders, and its learnings; skips other files with a
/// message.
fn folder(path: &Path) -> anyhow::Result<Vec<ImportLine>> {
    let mut files: Vec<PathBuf> = Vec::new();
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        let unread = || format!("failed to read the folder {}", folder.display());
        for entry in std::fs::read_dir(&folder).with_context(unread)? {
            let entry = entry.with_context(unread)?;
            let file = entry.path();
            // Links are not followed: they may leave the folder, or form a cycle.
            if entry.file_type().with_context(unread)?.is_dir() {
                folders.push(file);
            } else if file.extension().is_some_and(|ending| ending == "md") {
                files.push(file);
            }
        }
    }
    files.sort();
    let mut lines = Vec::new();
    for file in files {
        let text = match read_text(&file, LARGE_BYTES) {
            Ok(text) => text,
            Err(error) if matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::IsADirectory) => {
                eprintln!("{} is skipped: {error}", file.display());
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        match KnowledgeFile::parse(&text) {
            Ok(knowledge) => lines.push(ImportLine {
                // An edited file is a new entry, which replaces the old one.
                id: format!("file:{}", ralph_shared::wire::sha256_hex(text.as_bytes())),
                date: knowledge.created_at.unwrap_or_else(OffsetDateTime::now_utc),
                title: knowledge.title,
                body: knowledge.body,
                paths: Vec::new(),
                tags: knowledge.tags,
                kind: Kind::Knowledge,
                category: None,
                feature: knowledge.feature,
            }),
            Err(why) => eprintln!("{} is skipped: {why}", file.display()),
        }
    }
    let learnings = path.join(LEARNINGS);
    if learnings.is_file() {
        lines.extend(lines::read::<ImportLine>(&learnings, LINE)?);
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_respect_both_limits() {
        let line = |body: usize| ImportLine {
            id: String::new(),
            date: OffsetDateTime::UNIX_EPOCH,
            title: String::new(),
            body: "b".repeat(body),
            paths: Vec::new(),
            tags: Vec::new(),
            kind: Kind::Learning,
            category: None,
            feature: None,
        };
        let cases: [(&[usize], &[usize]); 4] = [
            (&[], &[]),
            (&[1, 1, 1], &[2, 1]),
            (&[600, 600, 1], &[1, 2]),
            (&[5_000, 1, 5_000], &[1, 1, 1]),
        ];
        for (bodies, expected) in cases {
            let lines: Vec<ImportLine> = bodies.iter().map(|&body| line(body)).collect();
            let sizes: Vec<usize> = parts(&lines, 2, 1_000).iter().map(|part| part.len()).collect();
            assert_eq!(sizes, expected, "{bodies:?}");
        }
    }
}
