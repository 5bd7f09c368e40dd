//! Renders a unified diff, coloured by kind of line and by the language of the file.

use maud::{Markup, html};
use ralph_api::view::ChangedLines;

use super::code::coloured;
use crate::page::words::{block, bytes};

/// Renders at most `most_bytes` of a diff.
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

/// A line of a diff; only code is coloured.
fn row(line: &str, file: &str) -> Markup {
    let class = class(line);
    html! {
        span class=(class) {
            @if matches!(class, "plus" | "minus" | "same") { (line[..1]) (coloured(&line[1..], file)) } @else { (line) }
            "\n"
        }
    }
}

/// Numbers of added and removed lines.
pub fn sum(diff: &str) -> Markup {
    let lines = ChangedLines::of(diff);
    counts(lines.added, lines.removed)
}

fn counts(added: u32, removed: u32) -> Markup {
    html! { span.counts { span.plus { "+" (added) } " " span.minus { "−" (removed) } } }
}

/// A file's part of a diff.
struct File<'a> {
    name: &'a str,
    lines: Vec<&'a str>,
    added: u32,
    removed: u32,
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
            file.added += u32::from(line.starts_with('+'));
            file.removed += u32::from(line.starts_with('-'));
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
    fn a_diff_is_split_into_files_and_escaped() {
        let diff = "diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n one\n-<b>two\n+--- three\n\
                    diff --git a/img b/img\nBinary files differ\n";
        let files = files(diff);
        let counts: Vec<_> = files
            .iter()
            .map(|file| (file.name, file.added, file.removed))
            .collect();
        assert_eq!(counts, [("x", 1, 1), ("img", 0, 0)]);
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
