//! A unified diff, coloured by what its lines are, and within them by the language of the file.

use maud::{Markup, html};

use super::code::coloured;
use crate::page::words::{block, bytes};

/// Shows so many bytes of it.
pub fn show(diff: &str, most_bytes: usize) -> Markup {
    let (shown, left) = block(diff, most_bytes);
    let files = files(&shown);
    html! {
        div.diff {
            @for file in &files {
                details open[files.len() <= 12] {
                    summary { code { (file.name) } " " (counts(file.added, file.removed)) }
                    pre { @for line in &file.lines { (row(line, file.name)) } }
                }
            }
            @if left > 0 { p.dim { "… and " (bytes(left)) " more" } }
        }
    }
}

/// A line; what isn't code in it stays as it is.
fn row(line: &str, file: &str) -> Markup {
    let class = class(line);
    html! {
        span class=(class) {
            @if matches!(class, "plus" | "minus" | "same") { (line[..1]) (coloured(&line[1..], file)) } @else { (line) }
            "\n"
        }
    }
}

/// How much it adds and removes.
pub fn sum(diff: &str) -> Markup {
    let (mut added, mut removed) = (0, 0);
    for file in files(diff) {
        added += file.added;
        removed += file.removed;
    }
    counts(added, removed)
}

fn counts(added: usize, removed: usize) -> Markup {
    html! { span.counts { span.plus { "+" (added) } " " span.minus { "−" (removed) } } }
}

/// A file's part of a diff.
struct File<'a> {
    name: &'a str,
    lines: Vec<&'a str>,
    added: usize,
    removed: usize,
}

fn files(diff: &str) -> Vec<File<'_>> {
    let mut files: Vec<File<'_>> = Vec::new();
    let mut inside = false;
    for line in diff.lines() {
        if let Some(names) = line.strip_prefix("diff --git ") {
            inside = false;
            let name = names.split_once(" b/").map_or(names, |(_, name)| name);
            files.push(File {
                name,
                lines: Vec::new(),
                added: 0,
                removed: 0,
            });
            continue;
        }
        let Some(file) = files.last_mut() else { continue };
        inside |= line.starts_with("@@");
        let is_head = !inside
            && ["index ", "--- ", "+++ "]
                .iter()
                .any(|head| line.starts_with(head));
        if is_head {
            continue;
        }
        if inside {
            file.added += usize::from(line.starts_with('+'));
            file.removed += usize::from(line.starts_with('-'));
        }
        file.lines.push(line);
    }
    files
}

fn class(line: &str) -> &'static str {
    match line.as_bytes().first() {
        Some(b'+') => "plus",
        Some(b'-') => "minus",
        Some(b'@') => "hunk",
        Some(b' ') => "same",
        _ => "note",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_is_taken_apart_and_its_markup_stays_text() {
        let diff = "diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n one\n-<b>two\n+--- three\n\
                    diff --git a/img b/img\nBinary files differ\n";
        let files = files(diff);
        let told: Vec<_> = files
            .iter()
            .map(|file| (file.name, file.added, file.removed))
            .collect();
        assert_eq!(told, [("x", 1, 1), ("img", 0, 0)]);
        let shown = show(diff, 10_000).into_string();
        assert!(
            shown.contains("&lt;b&gt;two") && shown.contains("Binary files differ"),
            "{shown}"
        );
        let code = "diff --git a/x.rs b/x.rs\n@@ -1 +1 @@ fn f()\n+let s = \"<b>\";\n";
        let shown = show(code, 10_000).into_string();
        let line =
            "<span class=\"plus\">+<i class=k>let</i> s = <i class=s>&quot;&lt;b&gt;&quot;</i>;\n</span>";
        assert!(
            shown.contains(line) && shown.contains("@@ -1 +1 @@ fn f()"),
            "{shown}"
        );
    }
}
