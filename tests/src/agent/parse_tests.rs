//! Tests of the script language.

use proptest::prelude::*;
use ralph_shared::kind::SessionKind;

use super::super::script::Facts;
use super::*;

#[track_caller]
fn check(description: &str, expected: Action) {
    let script = parse(description).unwrap_or_else(|errors| panic!("{description}: {errors:?}"));
    assert_eq!(
        script.steps,
        [Step {
            conditions: vec![],
            action: expected
        }],
        "{description}"
    );
}

#[track_caller]
fn refused(description: &str, line: usize, reason: &str) {
    let errors = parse(description).expect_err(description);
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(
        (errors[0].line, errors[0].reason.as_str()),
        (line, reason),
        "{description}"
    );
}

#[test]
fn actions_parse() {
    let path = || PathBuf::from("a/b");
    check(
        "@write a/b x\\ny\\t\\\\n",
        Action::Write {
            path: path(),
            text: "x\ny\t\\n\n".into(),
        },
    );
    check(
        "@write a/b",
        Action::Write {
            path: path(),
            text: String::new(),
        },
    );
    check(
        "@write a/b <<END\nx = 1 \\n\n  @say no\nEND\n",
        Action::Write {
            path: path(),
            text: "x = 1 \\n\n  @say no\n".into(),
        },
    );
    check(
        "@insert a/b def f(): : <<E\nx\nE\n",
        Action::Insert {
            path: path(),
            after: "def f():".into(),
            text: "x\n".into(),
        },
    );
    check(
        "@run  a \\n b ",
        Action::Run {
            command: "a \\n b".into(),
            expect: Expect::Anything,
        },
    );
    check(
        "@expect-fail false",
        Action::Run {
            command: "false".into(),
            expect: Expect::Fail,
        },
    );
    check("@say", Action::Say { text: String::new() });
    check("@say << 3", Action::Say { text: "<< 3".into() });
    check(
        "@say <task-done>{id}</task-done>",
        Action::Say {
            text: "<task-done>{id}</task-done>".into(),
        },
    );
    check(
        "@plan a|+b",
        Action::Plan {
            entries: vec!["a".into(), "+b".into()],
        },
    );
    check(
        "@usage 10 2 0.5",
        Action::Usage {
            input_tokens: 10,
            output_tokens: 2,
            cost_usd: 0.5,
            times: 1,
        },
    );
    check(
        "@spend 3 10 2 0.5",
        Action::Usage {
            input_tokens: 10,
            output_tokens: 2,
            cost_usd: 0.5,
            times: 3,
        },
    );
    check("@stream 7", Action::Stream { count: 7 });
    check(
        "@flood 2K",
        Action::Flood {
            character: 'x',
            size_bytes: 2048,
        },
    );
    check("@long-line 5M", Action::LongLine { size_bytes: 5 << 20 });
    check("@done", Action::Done { id: None });
    check(
        "@done t-1",
        Action::Done {
            id: Some("t-1".into()),
        },
    );
    check(
        "@error -32603 it broke",
        Action::Error {
            code: -32603,
            text: "it broke".into(),
        },
    );
    check("@crash", Action::Exit { status: 101 });
    check("prose\n @say indented is prose\n@hang\nmail a@b", Action::Hang);
}

#[test]
fn errors_name_the_line_and_the_reason() {
    refused(
        "x\n@wirte a b",
        2,
        "there is no directive `wirte`; `--help` lists them",
    );
    refused("@", 1, "DIRECTIVE is missing");
    refused("@write", 1, "PATH is missing");
    refused("@write a <<END\nx\n", 1, "no line `END` ends the text");
    refused("@exit one", 1, "N: invalid digit found in string");
    refused("@flood 5G", 1, "BYTES `5G`: invalid digit found in string");
    refused("@hang now", 1, "`now` is more than `@hang` takes");
    refused(
        "@on-attempt x @hang",
        1,
        "`x` is not an attempt: write 2, 2+ or 2-4",
    );
    refused("@on-attempt 1", 1, "DIRECTIVE is missing");
    refused("@on-kind task @hang", 1, "KIND: `task` is no session kind");
    refused("@if-prompt-has a @hang", 1, "there is no ` : ` after TEXT");
    assert_eq!(parse("@x\n@y").expect_err("two errors").len(), 2);
}

#[test]
fn conditions_select_directives() {
    let rows: &[(&str, &[&str])] = &[
        ("@say a", &["1 work", "2 work"]),
        ("@on-attempt 2 @say a", &["2 work"]),
        ("@on-attempt 2 say a", &["2 work"]),
        ("@on-attempt 2+ @say a", &["2 work"]),
        ("@on-attempt 1-2 @say a", &["1 work", "2 work"]),
        ("@on-kind verify @say a", &["1 verify"]),
        ("@on-attempt 1 @on-kind work @say a", &["1 work"]),
        ("@if-prompt-has lesson learned : @say a", &["1 work"]),
        ("@unless-prompt-has lesson learned : @say a", &["2 work"]),
        (
            "@unless-prompt-has never said : @on-attempt 1 @say a",
            &["1 work"],
        ),
    ];
    let facts = [
        (
            "1 work",
            Facts {
                attempt: 1,
                kind: SessionKind::Work,
                elsewhere: "a lesson learned",
            },
        ),
        (
            "2 work",
            Facts {
                attempt: 2,
                kind: SessionKind::Work,
                elsewhere: "",
            },
        ),
        (
            "1 verify",
            Facts {
                attempt: 1,
                kind: SessionKind::Verify,
                elsewhere: "",
            },
        ),
    ];
    for (description, expected) in rows {
        let script = parse(description).expect(description);
        let counts: Vec<_> = facts
            .iter()
            .filter(|(_, facts)| script.applicable(*facts).count() == 1)
            .map(|(name, _)| *name)
            .collect();
        assert_eq!(counts, *expected, "{description}");
    }
}

#[test]
fn the_document_and_the_table_name_the_same_directives() {
    let document = include_str!("directives.md");
    let mut documented: Vec<&str> = document
        .lines()
        .filter(|line| line.starts_with("| `@"))
        .filter_map(|line| line.split(" | ").next())
        .flat_map(|cell| cell.split("`@").skip(1))
        .filter_map(|directive| directive.split([' ', '`']).next())
        .collect();
    let conditions = CONDITIONS.iter().map(|(name, _)| *name);
    let mut known: Vec<&str> = FORMS.iter().map(|(name, _)| *name).chain(conditions).collect();
    documented.sort_unstable();
    documented.dedup();
    known.sort_unstable();
    assert_eq!(documented, known);
}

proptest! {
    #[test]
    fn parsing_never_panics(text in "(@[a-z-]{1,12}[ :<a-zA-Z0-9\\\\+-]{0,20}\\PC{0,4}\n){0,5}") {
        let _ = parse(&text);
    }

    #[test]
    fn a_here_document_is_verbatim(lines in proptest::collection::vec("[^\r\n]{0,20}", 0..5)) {
        prop_assume!(lines.iter().all(|line| line.trim_end() != "END"));
        let body: String = lines.iter().map(|line| format!("{line}\n")).collect();
        check(&format!("@write a <<END\n{body}END\n"), Action::Write { path: "a".into(), text: body });
    }
}
