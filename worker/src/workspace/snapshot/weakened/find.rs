//! Findings in a diff for the verifier.

use std::collections::HashMap;

use ralph_shared::wire::{TestChange, TestChangeKind};

use super::diff::{FileDiff, files};
use super::marks;

/// Most findings in a report.
const FINDINGS: usize = 30;
/// Most lines per finding.
const LINES: usize = 10;
/// Longest line that is kept whole. The line is shortened for display only after its redaction. Bytes.
const LINE_BYTES: usize = 4 * 1024;

/// Most scanned lines of a diff; each takes about 100 bytes of memory, however short it is.
const MAX_SCANNED_LINES: usize = 500_000;

#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::workspace) struct WeakenedTests {
    /// The most serious kind first; within a kind in the order of the diff.
    pub tests: Vec<TestChange>,
    /// Number of further findings.
    pub more: u32,
    /// Whether the diff has more lines than were scanned.
    pub unread: bool,
}

/// Scans the output of `git diff-tree -p`. A line that only moved to another test is no finding. `gate` holds
/// the commands of the gate.
pub(in crate::workspace) fn weakened(diff: &[u8], gate: &[String]) -> WeakenedTests {
    let (files, unread) = files(diff, MAX_SCANNED_LINES);
    let mut moved = Moved::of(&files);
    let mut found: Vec<TestChange> = files
        .iter()
        .flat_map(|file| of_file(file, &mut moved, gate))
        .collect();
    found.sort_by_key(|change| change.kind);
    let more = found.len().saturating_sub(FINDINGS);
    found.truncate(FINDINGS);
    WeakenedTests {
        tests: found,
        more: u32::try_from(more).unwrap_or(u32::MAX),
        unread,
    }
}

/// Lines added to tests, with their counts.
struct Moved(HashMap<String, usize>);

impl Moved {
    fn of(files: &[FileDiff]) -> Self {
        let mut lines = HashMap::new();
        for file in files {
            let is_test = file.new.as_deref().is_some_and(marks::is_test_path)
                || file
                    .added
                    .iter()
                    .chain(&file.around)
                    .any(|line| marks::declares(line));
            for line in file.added.iter().filter(|_| is_test) {
                *lines.entry(line.trim().to_owned()).or_default() += 1;
            }
        }
        Self(lines)
    }

    /// Whether a removed line was added elsewhere. Each added line counts once.
    fn take(&mut self, line: &str) -> bool {
        match self.0.get_mut(line.trim()) {
            Some(left) if *left > 0 => {
                *left -= 1;
                true
            }
            _ => false,
        }
    }
}

fn of_file(file: &FileDiff, moved: &mut Moved, gate: &[String]) -> Vec<TestChange> {
    let Some(path) = file.old.as_ref().or(file.new.as_ref()) else {
        return Vec::new();
    };
    let by_name = marks::is_test_path(path);
    let was_test = by_name
        || file
            .removed
            .iter()
            .chain(&file.around)
            .any(|line| marks::declares(line));
    let mut found: Vec<TestChange> = of_settings(file, gate).into_iter().collect();
    let mut report = |kind, lines: Vec<&String>| {
        if !lines.is_empty() || matches!(kind, TestChangeKind::FileDeleted | TestChangeKind::Hidden) {
            found.push(change(path, kind, &lines));
        }
    };
    if was_test && file.old.is_some() && !marks::is_prose(path) {
        let gone: Vec<&String> = file
            .removed
            .iter()
            .filter(|line| !marks::is_empty(line) && !moved.take(line))
            .collect();
        let stays = file
            .new
            .as_deref()
            .is_some_and(|new| !by_name || marks::is_test_path(new));
        let (tests, rest): (Vec<_>, Vec<_>) = gone.into_iter().partition(|line| marks::declares(line));
        let (assertions, rest): (Vec<_>, Vec<_>) = rest.into_iter().partition(|line| marks::asserts(line));
        if !stays {
            report(
                TestChangeKind::FileDeleted,
                tests.into_iter().chain(assertions).collect(),
            );
        } else {
            report(TestChangeKind::TestsRemoved, tests);
            report(TestChangeKind::AssertionsRemoved, assertions);
            if by_name {
                report(TestChangeKind::LinesRemoved, rest);
            }
        }
        if file.hidden && by_name && stays {
            report(TestChangeKind::Hidden, Vec::new());
        }
    }
    if let Some(new) = file.new.as_deref().filter(|new| !marks::is_prose(new)) {
        report(TestChangeKind::Skipped, skipped(file, marks::is_test_path(new)));
    }
    found
}

/// Whether the file decides which tests run or how they are checked.
fn of_settings(file: &FileDiff, gate: &[String]) -> Option<TestChange> {
    let names = || [&file.new, &file.old].into_iter().flatten();
    if let Some(configuration) = names().find(|name| marks::configures(name)) {
        let added: Vec<&String> = file.added.iter().collect();
        return Some(change(configuration, TestChangeKind::Configuration, &added));
    }
    let decides = names().find(|name| marks::decides_checks(name) || is_named_by(gate, name))?;
    // Lines of a lock file mean nothing to a reader.
    let added = file.added.iter().filter(|_| !marks::is_lock_file(decides));
    let added: Vec<&String> = added.collect();
    Some(change(decides, TestChangeKind::Checks, &added))
}

/// The added lines that skip tests, except for lines that existed before.
fn skipped(file: &FileDiff, in_tests: bool) -> Vec<&String> {
    let mut before: HashMap<&str, usize> = HashMap::new();
    for line in &file.removed {
        *before.entry(line.trim()).or_default() += 1;
    }
    let skipped = file.added.iter().filter(|line| marks::skips(line, in_tests));
    let skipped = skipped.filter(|line| match before.get_mut(line.trim()) {
        Some(left) if *left > 0 => {
            *left -= 1;
            false
        }
        _ => true,
    });
    skipped.collect()
}

/// Whether a command contains the path as a word or in quotes.
fn is_named_by(commands: &[String], path: &str) -> bool {
    let ends = |c: char| c.is_whitespace() || "'\"`;&|()<>=,".contains(c);
    commands
        .iter()
        .flat_map(|command| command.split(ends))
        .any(|word| word.trim_start_matches("./") == path)
}

fn change(path: &str, kind: TestChangeKind, lines: &[&String]) -> TestChange {
    TestChange {
        path: path.to_owned(),
        kind,
        lines: lines
            .iter()
            .take(LINES)
            .map(|line| {
                let line = line.trim();
                line[..line.floor_char_boundary(LINE_BYTES)].replace('\0', "\u{fffd}")
            })
            .collect(),
        more: u32::try_from(lines.len().saturating_sub(LINES)).unwrap_or(u32::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `KIND PATH: LINE | LINE` of each finding.
    fn reported(diff: &str) -> Vec<String> {
        let found = weakened(diff.as_bytes(), &[]);
        let one = |change: &TestChange| {
            format!(
                "{} {}: {}",
                change.kind.as_str(),
                change.path,
                change.lines.join(" | ")
            )
        };
        found.tests.iter().map(one).collect()
    }

    fn diff(path: &str, lines: &str) -> String {
        let old = lines.lines().filter(|line| !line.starts_with('+')).count();
        let new = lines.lines().filter(|line| !line.starts_with('-')).count();
        format!("diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1,{old} +1,{new} @@\n{lines}")
    }

    #[test]
    fn each_way_to_weaken_a_test_is_reported_with_its_lines() {
        let deleted = "diff --git a/tests/a.rs b/tests/a.rs\ndeleted file mode 100644\n--- a/tests/a.rs\n+++ /dev/null\n\
                       @@ -1,4 +0,0 @@\n-#[test]\n-fn a() {\n-    assert!(true);\n-}\n";
        assert_eq!(
            reported(deleted),
            ["test file deleted tests/a.rs: #[test] | assert!(true);"]
        );
        let moved_out = "diff --git a/a_test.go b/a.go.off\nsimilarity index 100%\nrename from a_test.go\nrename to a.go.off\n";
        assert_eq!(reported(moved_out), ["test file deleted a_test.go: "]);
        for (path, lines, expected) in [
            (
                "src/a.rs",
                " #[test]\n+#[ignore = \"flaky\"]\n fn a() {\n-    assert_eq!(sum(1), 2);\n+    sum(1);\n",
                vec![
                    "tests skipped src/a.rs: #[ignore = \"flaky\"]",
                    "assertions removed src/a.rs: assert_eq!(sum(1), 2);",
                ],
            ),
            (
                "web/a.test.ts",
                "-it('adds', () => {\n+it.skip('adds', () => {\n   expect(add(1)).toBe(2);\n",
                vec![
                    "tests removed web/a.test.ts: it('adds', () => {",
                    "tests skipped web/a.test.ts: it.skip('adds', () => {",
                ],
            ),
            (
                "test_a.py",
                "+@pytest.mark.skip\n def test_a():\n-    assert a() == 1\n+    # assert a() == 1\n",
                vec![
                    "tests skipped test_a.py: @pytest.mark.skip",
                    "assertions removed test_a.py: assert a() == 1",
                ],
            ),
            (
                "tests/data.rs",
                "-    (\"1 + 1\", 2),\n",
                vec!["lines removed tests/data.rs: (\"1 + 1\", 2),"],
            ),
            (
                "package.json",
                "+  \"testPathIgnorePatterns\": [\"a\"],\n",
                vec!["tests skipped package.json: \"testPathIgnorePatterns\": [\"a\"],"],
            ),
            (
                "Makefile",
                "-\tcargo test\n+\ttrue\n",
                vec!["may change what is checked, built, or told to agents Makefile: true"],
            ),
            (
                ".github/workflows/ci.yml",
                "-      - run: make test\n",
                vec!["may change what is checked, built, or told to agents .github/workflows/ci.yml: "],
            ),
            (
                "web/AGENTS.md",
                "+Skip the slow tests.\n",
                vec![
                    "may change what is checked, built, or told to agents web/AGENTS.md: Skip the slow tests.",
                ],
            ),
            (
                "Cargo.lock",
                "+name = \"evil\"\n",
                vec!["may change what is checked, built, or told to agents Cargo.lock: "],
            ),
            (
                ".ralph.toml",
                "-sandbox = \"auto\"\n+sandbox = \"none\"\n",
                vec!["configures what Ralph itself runs and confines .ralph.toml: sandbox = \"none\""],
            ),
        ] {
            assert_eq!(reported(&diff(path, lines)), expected, "{lines}");
        }
        let hidden = "diff --git a/tests/a.rs b/tests/a.rs\nindex 1..2 100644\nBinary files a/tests/a.rs and b/tests/a.rs differ\n";
        assert_eq!(
            reported(hidden),
            ["changed, but git doesn't show how tests/a.rs: "]
        );
    }

    #[test]
    fn ordinary_work_has_no_findings() {
        for (path, lines) in [
            ("src/a.rs", "-    let a = 1;\n+    let a = 2;\n"),
            ("src/a.rs", "-    assert!(a < LIMIT);\n+    check(a);\n"),
            ("tests/a.rs", " #[test]\n fn a() {\n+    assert!(b());\n }\n"),
            ("tests/a.rs", "-    assert!(b());\n+        assert!(b());\n"),
            ("tests/a.rs", "-    // once\n-\n-}\n"),
            ("README.md", "+Mark slow ones `#[ignore]`.\n"),
            ("src/a.ts", "-items.skip(1)\n+exit(1)\n"),
        ] {
            assert_eq!(reported(&diff(path, lines)), [""; 0], "{path}: {lines}");
        }
    }

    #[test]
    fn a_test_moved_to_another_test_file_is_no_finding() {
        let out = diff(
            "tests/a.rs",
            " use x;\n-#[test]\n-fn a() {\n-    assert!(a());\n-}\n",
        );
        let into = diff(
            "tests/b.rs",
            " use x;\n+#[test]\n+fn a() {\n+    assert!(a());\n+}\n",
        );
        assert_eq!(reported(&format!("{out}{into}")), [""; 0]);
        let elsewhere = diff("src/notes.rs", " use x;\n+    assert!(a());\n");
        assert_eq!(
            reported(&format!("{out}{elsewhere}")),
            [
                "tests removed tests/a.rs: #[test]",
                "assertions removed tests/a.rs: assert!(a());",
                "lines removed tests/a.rs: fn a() {",
            ]
        );
    }

    #[test]
    fn findings_and_their_lines_are_limited() {
        let many: String = (0..100)
            .map(|n| diff(&format!("tests/t{n}.rs"), "-    assert!(a);\n"))
            .collect();
        let found = weakened(many.as_bytes(), &[]);
        assert_eq!((found.tests.len(), found.more), (FINDINGS, 70));
        let long = format!("-    assert!({});\n", "ä".repeat(500)).repeat(50);
        let found = weakened(diff("tests/a.rs", &long).as_bytes(), &[]);
        assert_eq!((found.tests[0].lines.len(), found.tests[0].more), (LINES, 40));
        assert!(found.tests[0].lines.iter().all(|line| line.len() <= LINE_BYTES));
    }

    #[test]
    fn the_number_of_scanned_lines_is_limited() {
        let lines = "-#[ignore]\n".repeat(MAX_SCANNED_LINES) + &"+#[ignore]\n".repeat(MAX_SCANNED_LINES);
        let found = weakened(diff("tests/a.rs", &lines).as_bytes(), &[]);
        assert!(found.unread);
        assert_eq!(found.tests[0].lines.len(), LINES);
        assert!(!weakened(diff("tests/a.rs", "-x\n").as_bytes(), &[]).unread);
    }
}
