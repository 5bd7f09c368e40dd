//! Patterns of tests in the languages that agents write most, by the words on a line. In an unknown language
//! nothing is found, and a word with another meaning gives a false finding; the report mentions both.

/// Folders that hold tests.
const FOLDERS: &[&str] = &[
    "test",
    "tests",
    "testing",
    "__tests__",
    "spec",
    "specs",
    "e2e",
    "testdata",
    "fixtures",
    "__snapshots__",
    "snapshots",
];

const DECLARATIONS: &[&str] = &[
    "#[test]",
    "#[tokio::test",
    "#[rstest",
    "#[async_std::test",
    "#[wasm_bindgen_test",
    "#[cfg(test)]",
    "mod tests",
    "mod test ",
    "proptest!",
    "fn test_",
    "def test",
    "class Test",
    "func Test",
    "func test",
    "func Fuzz",
    "function test",
    "it(",
    "it.each",
    "test(",
    "test.each",
    "describe(",
    "it \"",
    "it '",
    "test \"",
    "test '",
    "describe \"",
    "describe '",
    "context \"",
    "specify ",
    "scenario ",
    "Scenario:",
    "@test ",
    "@Test",
    "@ParameterizedTest",
    "[Test]",
    "[TestCase",
    "[TestMethod]",
    "[Fact",
    "[Theory",
    "TEST(",
    "TEST_F(",
    "TEST_P(",
    "TEST_CASE(",
    "XCTestCase",
    "deftest",
];

const ASSERTIONS: &[&str] = &[
    "assert",
    "Assert",
    "ASSERT_",
    "EXPECT_",
    "XCTAssert",
    "prop_assert",
    "expect(",
    "expect ",
    "#expect(",
    "should",
    "require.",
    "t.Error",
    "t.Fatal",
    "t.Fail",
    "verify(",
    "raises(",
    "raise_error",
    "toThrow",
    "toBe",
    "toEqual",
    "toMatch",
    "check!(",
    "CHECK(",
    "REQUIRE(",
    "refute",
    "is_deeply",
    "cmp_ok",
];

/// Words that skip a test, or all others, anywhere on a line.
const SKIPS: &[&str] = &[
    "#[ignore",
    "it.skip",
    "test.skip",
    "describe.skip",
    "context.skip",
    "suite.skip",
    "it.todo",
    "test.todo",
    "it.only",
    "test.only",
    "describe.only",
    "context.only",
    "it.fixme",
    "test.fixme",
    "test.failing",
    "it.failing",
    "xit(",
    "xtest(",
    "xdescribe(",
    "xcontext(",
    "fit(",
    "fdescribe(",
    "pytest.mark.skip",
    "pytest.mark.xfail",
    "pytest.skip(",
    "pytest.xfail(",
    "unittest.skip",
    "unittest.expectedFailure",
    "skipTest(",
    "t.Skip",
    "b.Skip",
    "@Ignore",
    "@Disabled",
    "[Ignore",
    "Skip = \"",
    "Skip=\"",
    "Assert.Ignore",
    "Assert.Inconclusive",
    "assumeTrue(",
    "assumeFalse(",
    "markTestSkipped",
    "markTestIncomplete",
    "XCTSkip",
    "GTEST_SKIP",
    "DISABLED_",
    "@tag :skip",
    "@moduletag :skip",
    "xspecify ",
    "xscenario ",
    "__test__ = False",
    "collect_ignore",
    "testPathIgnorePatterns",
    "--deselect",
    "-DskipTests",
    "-Dmaven.test.skip",
];

/// Words that skip a test at the start of a line in a test file. Elsewhere they have other meanings.
const SKIPS_IN_TESTS: &[&str] = &[
    "skip ",
    "skip(",
    "pending",
    "xit ",
    "pytestmark",
    "#[cfg(any())]",
    "#if 0",
];

/// Extensions of files for people, which may mention any of these words.
const PROSE: &[&str] = &["md", "rst", "txt", "adoc", "org"];

/// Whether a file is Ralph's configuration, which programs find by name in their current folder.
pub(in crate::workspace::snapshot::weakened) fn configures(path: &str) -> bool {
    path.rsplit('/').next() == Some(".ralph.toml")
}

/// Lower-case names of files that decide what a gate runs, what is built, or what agents are told.
const DECIDING: &[&str] = &[
    "makefile",
    "gnumakefile",
    "justfile",
    "taskfile.yml",
    "taskfile.yaml",
    "tox.ini",
    "noxfile.py",
    "pytest.ini",
    "jenkinsfile",
    ".gitlab-ci.yml",
    ".travis.yml",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
    ".pre-commit-config.yaml",
    "lefthook.yml",
    "claude.md",
    "agents.md",
    "gemini.md",
    ".cursorrules",
    ".windsurfrules",
    "copilot-instructions.md",
];

/// Folders whose files all decide that.
const DECIDING_FOLDERS: &[&str] = &[
    ".github/workflows",
    ".github/actions",
    ".circleci",
    ".buildkite",
    ".husky",
    ".githooks",
    ".cargo",
    ".claude",
    ".cursor",
];

/// Files that fix the versions of dependencies.
const LOCK_FILES: &[&str] = &[
    "cargo.lock",
    "package-lock.json",
    "npm-shrinkwrap.json",
    "yarn.lock",
    "pnpm-lock.yaml",
    "bun.lock",
    "uv.lock",
    "poetry.lock",
    "pdm.lock",
    "pipfile.lock",
    "go.sum",
    "gemfile.lock",
    "composer.lock",
    "gradle.lockfile",
];

/// Whether a file decides what a gate or CI runs, what is built, or what agents are told.
pub(in crate::workspace::snapshot::weakened) fn decides_checks(path: &str) -> bool {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let folder = format!("/{folder}/");
    DECIDING.contains(&name.to_ascii_lowercase().as_str())
        || is_lock_file(path)
        || DECIDING_FOLDERS
            .iter()
            .any(|known| folder.contains(&format!("/{known}/")))
}

/// Whether a file fixes the versions of dependencies.
pub(in crate::workspace::snapshot::weakened) fn is_lock_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    LOCK_FILES.contains(&name.to_ascii_lowercase().as_str())
}

/// Whether a path is a test's by its name.
pub(in crate::workspace::snapshot::weakened) fn is_test_path(path: &str) -> bool {
    let (folders, file) = path.rsplit_once('/').unwrap_or(("", path));
    if folders
        .split('/')
        .any(|folder| FOLDERS.contains(&folder.to_ascii_lowercase().as_str()))
    {
        return !is_prose(path);
    }
    let stem = file.split_once('.').map_or(file, |(stem, _)| stem);
    let inner: Vec<&str> = file.split('.').collect();
    let words: Vec<&str> = stem.split(['_', '-']).collect();
    let is_word = |word: &str| {
        matches!(
            word.to_ascii_lowercase().as_str(),
            "test" | "tests" | "spec" | "conftest"
        )
    };
    let camel = stem.ends_with("Test")
        || stem.ends_with("Tests")
        || stem.ends_with("TestCase")
        || stem.ends_with("Spec")
        || stem
            .strip_prefix("Test")
            .is_some_and(|rest| rest.starts_with(char::is_uppercase));
    let edge = [words.first(), words.last()]
        .into_iter()
        .flatten()
        .any(|word| is_word(word));
    let middle = inner.len() > 2
        && inner[1..inner.len() - 1]
            .iter()
            .any(|word| is_word(word) || *word == "e2e");
    (camel || edge || middle) && !is_prose(path)
}

/// Whether a file is written for people.
pub(in crate::workspace::snapshot::weakened) fn is_prose(path: &str) -> bool {
    path.rsplit_once('.')
        .is_some_and(|(_, end)| PROSE.contains(&end.to_ascii_lowercase().as_str()))
}

/// Whether a line starts a test or a group of tests.
pub(in crate::workspace::snapshot::weakened) fn declares(line: &str) -> bool {
    !is_comment(line) && has_any(line, DECLARATIONS)
}

pub(in crate::workspace::snapshot::weakened) fn asserts(line: &str) -> bool {
    !is_comment(line) && has_any(line, ASSERTIONS)
}

/// Whether a line skips tests; `in_tests` for a line of a test file.
pub(in crate::workspace::snapshot::weakened) fn skips(line: &str, in_tests: bool) -> bool {
    let begins = |mark: &&str| line.trim_start().starts_with(*mark);
    !is_comment(line) && (has_any(line, SKIPS) || (in_tests && SKIPS_IN_TESTS.iter().any(begins)))
}

/// Whether a line is only a comment or punctuation.
pub(in crate::workspace::snapshot::weakened) fn is_empty(line: &str) -> bool {
    is_comment(line) || !line.contains(char::is_alphanumeric)
}

fn is_comment(line: &str) -> bool {
    let line = line.trim_start();
    let hash = line.starts_with('#')
        && !line.starts_with("#[")
        && !line.starts_with("#expect")
        && !line.starts_with("#if");
    hash || ["//", "* ", "-- ", "<!--"]
        .iter()
        .any(|mark| line.starts_with(mark))
}

/// Whether the line contains one of `marks` at the start of a word. Rust's `.expect(` of a `Result` is no
/// assertion.
fn has_any(line: &str, marks: &[&str]) -> bool {
    marks.iter().any(|mark| {
        line.match_indices(mark).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            let joins = |c: char| c.is_alphanumeric() || c == '_' || (c == '.' && *mark == "expect(");
            !mark.starts_with(|c: char| c.is_alphanumeric()) || !before.is_some_and(joins)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_files_are_recognised_by_name() {
        for path in [
            "tests/a.rs",
            "src/test_a.py",
            "a_test.go",
            "web/a.test.ts",
            "web/a.spec.tsx",
            "spec/a_spec.rb",
            "src/ATest.java",
            "src/TestA.cs",
            "a/__tests__/b.js",
            "conftest.py",
            "src/tests.rs",
            "Tests/AppTests/A.swift",
            "e2e/login.ts",
        ] {
            assert!(is_test_path(path), "{path}");
        }
        for path in [
            "src/latest.rs",
            "src/contest.py",
            "src/attestation.go",
            "README.md",
            "tests/README.md",
            "src/Testimony.java",
            "src/inspect.ts",
            "Makefile",
            "src/main.rs",
        ] {
            assert!(!is_test_path(path), "{path}");
        }
    }

    #[test]
    fn skips_are_recognised_in_many_languages() {
        for line in [
            "#[ignore]",
            "    #[ignore = \"slow\"]",
            "it.skip('a', () => {",
            "  xit('a', f)",
            "@pytest.mark.skip(reason='x')",
            "@pytest.mark.skipif(True, reason='x')",
            "\tt.Skip(\"later\")",
            "    @Disabled",
            "    [Ignore(\"x\")]",
            "describe.only('a', f)",
            "TEST(Suite, DISABLED_Name) {",
            "    self.skipTest('x')",
            "[Fact(Skip = \"x\")]",
            "$this->markTestSkipped();",
            "test.todo('later')",
        ] {
            assert!(skips(line, false), "{line}");
        }
        for line in [
            "exit(1)",
            "process.exit(0);",
            "// it.skip('a')",
            "let skip = 3;",
            "benefit(x)",
            "# pytest.skip()",
            "iter.skip(1)",
            "ports.Skip",
            "profit(3)",
        ] {
            assert!(!skips(line, false), "{line}");
        }
        assert!(skips("  skip 'later'", true));
        assert!(skips("  pending", true));
    }

    #[test]
    fn assertions_are_distinguished_from_other_lines() {
        for line in [
            "assert_eq!(a, b);",
            "assert a == 1",
            "self.assertEqual(a, b)",
            "expect(a).toBe(1);",
            "\trequire.NoError(t, err)",
            "\t\tt.Errorf(\"x\")",
            "EXPECT_EQ(a, b);",
            "a.should eq(1)",
            "Assert.AreEqual(1, a);",
            "with pytest.raises(E):",
            "prop_assert!(x);",
        ] {
            assert!(asserts(line), "{line}");
        }
        for line in [
            "let a = b.expect(\"x\");",
            "// assert!(a)",
            "const x = require('x')",
            "unexpected(x)",
        ] {
            assert!(!asserts(line), "{line}");
        }
    }
}
