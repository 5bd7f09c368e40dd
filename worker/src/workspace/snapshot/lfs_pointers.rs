//! Git LFS files in work that is stored without conversions: large contents must not get into the history. So
//! a file that was a pointer at the start is stored as its attributes say, or the work isn't stored.

use std::collections::HashSet;

use crate::workspace::error::GitError;
use crate::workspace::git::Git;
use crate::workspace::git::raw_diff::raw_changes;

/// The start of a pointer.
const BEGIN: &[u8] = b"version https://git-lfs.github.com/spec/";
/// Largest pointer, by the specification of Git LFS. Bytes.
const POINTER_BYTES: usize = 1024;

/// A file that was a pointer at the start and no longer is.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::workspace) struct Pointer {
    /// The current mode.
    mode: Vec<u8>,
    path: Vec<u8>,
}

/// A changed file, with hex object ids.
#[derive(Debug, PartialEq, Eq)]
struct Changed {
    mode: Vec<u8>,
    old: Vec<u8>,
    new: Vec<u8>,
    path: Vec<u8>,
}

/// The pointers of `start` that `tree` has as plain contents.
pub(in crate::workspace) async fn stored_raw(
    git: &Git,
    start: &str,
    tree: &str,
) -> Result<Vec<Pointer>, GitError> {
    let options = ["-r", "-z", "--raw", "--no-renames", "--diff-filter=M"];
    let diff = git.run("diff-tree").args(options).args([start, tree]);
    let raw = diff.output().await?;
    raw.must_be_whole("diff-tree")?;
    let changed = changed(&raw.stdout);
    let ids = changed.iter().flat_map(|file| [&file.old[..], &file.new]);
    let pointers = pointers(git, ids.collect()).await?;
    let lost = changed
        .into_iter()
        .filter(|file| pointers.contains(&file.old) && !pointers.contains(&file.new));
    Ok(lost
        .map(|Changed { mode, path, .. }| Pointer { mode, path })
        .collect())
}

/// Stores these files as their attributes say, without changing the index. Returns one hex object id for
/// each.
///
/// # Errors
/// When git fails, for example in a filter.
pub(in crate::workspace) async fn store(git: &Git, files: &[Pointer]) -> Result<Vec<String>, GitError> {
    let paths: String = files.iter().map(|file| quoted(&file.path)).collect();
    let stored = git.run("hash-object").args(["-w", "--stdin-paths"]).input(paths);
    let stored = stored.output().await?.text();
    Ok(stored.lines().map(str::to_owned).collect())
}

/// Writes the stored objects into the index.
pub(in crate::workspace) async fn enter(
    git: &Git,
    files: &[Pointer],
    stored: &[String],
) -> Result<(), GitError> {
    let entries = files.iter().zip(stored).flat_map(|(file, id)| {
        let parts = [&file.mode, &b" "[..], id.as_bytes(), b"\t", &file.path, b"\0"];
        parts.concat()
    });
    let entries: Vec<u8> = entries.collect();
    let entered = git.run("update-index").args(["-z", "--index-info"]);
    entered.input(entries).output().await?;
    Ok(())
}

/// A path quoted as an input line for git.
fn quoted(path: &[u8]) -> String {
    let byte = |byte: &u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => char::from(*byte).to_string(),
        _ => format!("\\{byte:03o}"),
    };
    let escaped: String = path.iter().map(byte).collect();
    format!("\"{escaped}\"\n")
}

/// Parses `diff-tree -z --raw`.
fn changed(raw: &[u8]) -> Vec<Changed> {
    raw_changes(raw)
        .map(|change| Changed {
            mode: change.new_mode.to_vec(),
            old: change.old.to_vec(),
            new: change.new.to_vec(),
            path: change.path.to_vec(),
        })
        .collect()
}

async fn pointers(git: &Git, ids: Vec<&[u8]>) -> Result<HashSet<Vec<u8>>, GitError> {
    let sizes = git
        .run("cat-file")
        .args(["--batch-check=%(objectname) %(objectsize)"]);
    let sizes = sizes.input(ids.join(&b'\n')).output().await?;
    sizes.must_be_whole("cat-file")?;
    let sizes = sizes.text();
    let small = sizes.lines().filter_map(|line| {
        let (id, size) = line.split_once(' ')?;
        (size.parse::<usize>().ok()? <= POINTER_BYTES).then_some(id)
    });
    let small: Vec<&str> = small.collect();
    let read = git.run("cat-file").args(["--batch=%(objectname) %(objectsize)"]);
    let read = read.input(small.join("\n")).output().await?;
    read.must_be_whole("cat-file")?;
    Ok(parse_pointers(&read.stdout))
}

/// Parses `cat-file --batch` (for each object a line with its id and size, then its contents) and returns the
/// pointers.
fn parse_pointers(mut batch: &[u8]) -> HashSet<Vec<u8>> {
    let mut found = HashSet::new();
    while let Some(end) = batch.iter().position(|byte| *byte == b'\n') {
        let head = String::from_utf8_lossy(&batch[..end]);
        let (id, size) = head.split_once(' ').unwrap_or_default();
        let size: usize = size.parse().unwrap_or_default();
        let content = &batch[end + 1..];
        if content.starts_with(BEGIN) {
            found.insert(id.as_bytes().to_vec());
        }
        batch = content.get(size + 1..).unwrap_or_default();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_are_recognised_by_their_first_bytes() {
        let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
        let batch = format!(
            "a1 {}\n{pointer}\nb2 3\nx\ny\nc3 0\n\nd4 {}\n{pointer}\n",
            pointer.len(),
            pointer.len()
        );
        let expected = [b"a1".to_vec(), b"d4".to_vec()];
        assert_eq!(parse_pointers(batch.as_bytes()), expected.into());
        assert_eq!(parse_pointers(b""), HashSet::new());
    }

    #[test]
    fn changed_files_are_parsed_with_any_name() {
        let file = |new: &[u8], path: &[u8]| Changed {
            mode: b"100755".to_vec(),
            old: b"a1".to_vec(),
            new: new.to_vec(),
            path: path.to_vec(),
        };
        let raw = b":100644 100755 a1 b2 M\0a\nb \xff\0:100755 100755 a1 c3 M\0d\0";
        assert_eq!(changed(raw), [file(b"b2", b"a\nb \xff"), file(b"c3", b"d")]);
        assert_eq!(quoted(b"a/b\n \"\xff"), "\"a/b\\012\\040\\042\\377\"\n");
    }
}
