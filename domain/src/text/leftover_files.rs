//! Describes the files of a session without a repository, for the person who looks for them.

use std::fmt::Write as _;

use ralph_shared::wire::LeftoverFiles;

/// Maximum number of named files.
const NAMED: usize = 20;
/// Longest shown name. Characters.
const NAME_CHARS: usize = 200;

/// The files, their place, and their retention.
pub fn words(left: &LeftoverFiles, worker: &str) -> String {
    let files = if left.files == 1 { "file" } else { "files" };
    let mut words = format!(
        "it left {} {files} ({}) in its folder: ",
        left.files,
        size(left.bytes)
    );
    let named: Vec<String> = left
        .named
        .iter()
        .take(NAMED)
        .map(|file| {
            let name: String = file.path.chars().take(NAME_CHARS).collect();
            format!("{name} ({})", size(file.bytes))
        })
        .collect();
    words.push_str(&named.join(", "));
    let more = left.files.saturating_sub(named.len() as u64);
    if more > 0 {
        let _ = write!(words, " and {more} more");
    }
    let days = if left.days == 1 { "day" } else { "days" };
    let _ = match &left.path {
        Some(path) => write!(words, "; kept on {worker} for {} {days}, in {path}", left.days),
        None if left.days == 0 => write!(
            words,
            "; deleted with it, since {worker} keeps none (`keep_files_days` of [workspace])"
        ),
        None => write!(words, "; deleted with it: it exceeds what a worker keeps"),
    };
    words
}

/// A number of bytes, for people.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let (mut size, mut unit) = (bytes as f64 / 1024.0, 0);
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use ralph_shared::wire::LeftoverFile;

    use super::*;

    #[test]
    fn the_message_names_leftover_files_and_their_place() {
        let file = |path: &str, bytes| LeftoverFile {
            path: path.to_owned(),
            bytes,
        };
        let mut left = LeftoverFiles {
            path: Some("/data/kept/d".to_owned()),
            days: 7,
            files: 3,
            bytes: 2048,
            named: vec![file("a.txt", 12), file("b.csv", 1536)],
        };
        assert_eq!(
            words(&left, "w1"),
            "it left 3 files (2.0 KiB) in its folder: a.txt (12 B), b.csv (1.5 KiB) and 1 more; kept on w1 for 7 days, in \
             /data/kept/d"
        );
        left.path = None;
        assert!(words(&left, "w1").ends_with("; deleted with it: it exceeds what a worker keeps"));
        left.days = 0;
        assert!(words(&left, "w1").contains("`keep_files_days` of [workspace]"));
    }
}
