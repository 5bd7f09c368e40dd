//! SPEC 4 as a table: texts and their results.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::kind::SessionKind;

const ID: &str = "t-9f2c41aa07be";

fn read(kind: SessionKind, text: &str) -> Sigils {
    let tiers = ["haiku", "sonnet", "opus"].map(str::to_owned);
    parse(
        text,
        &Context {
            kind,
            task_id: ID,
            model_tiers: &tiers,
        },
    )
}

/// Compares with the default after `change`.
fn check(kind: SessionKind, text: &str, change: impl FnOnce(&mut Sigils)) {
    let mut expected = Sigils::default();
    change(&mut expected);
    assert_eq!(read(kind, text), expected, "{kind}: {text:?}");
}

fn work(text: &str, change: impl FnOnce(&mut Sigils)) {
    check(SessionKind::Work, text, change);
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn only_the_assigned_task_can_be_ended() {
    work(&format!("日本 <task-done>\n {ID}\t</task-done>"), |s| {
        s.task_done = true
    });
    work(&format!("I can't.\n\n<task-failed>{ID}</task-failed>"), |s| {
        s.task_failed = true
    });
    for id in [
        "t-000000000000",
        "t-9f2c",
        "T-9F2C41AA07BE",
        "9f2c41aa07be",
        "ID",
        "",
        " ",
        "t-9f2c41aa07be.",
    ] {
        work(&format!("<task-done>{id}</task-done>"), |s| s.malformed = 1);
    }
    let other_first =
        format!("<task-done>t-1</task-done><task-done>{ID}</task-done><task-done>{ID}</task-done>");
    work(&other_first, |s| (s.task_done, s.malformed) = (true, 1));
}

#[test]
fn an_empty_assigned_id_matches_nothing() {
    let context = Context {
        kind: SessionKind::Work,
        task_id: "",
        model_tiers: &[],
    };
    assert!(!parse("<task-done></task-done><task-done/>", &context).task_done);
}

#[test]
fn done_precedes_split_and_allows_a_promise() {
    let both = format!(
        "<task-failed>{ID}</task-failed><task-graph>- x</task-graph><promise id='{ID}'>FAILURE</promise><task-done>{ID}</task-done>"
    );
    let sigils = read(SessionKind::Work, &both);
    assert_eq!(
        (sigils.verdict(SessionKind::Work), sigils.promise),
        (Verdict::Done, Some(Promise::Failure))
    );
}

#[test]
fn promises_estimates_and_tiers_accept_only_known_words() {
    work("<promise> COMPLETE </promise>", |s| {
        s.promise = Some(Promise::Complete)
    });
    work(
        "<promise>complete</promise><promise>FAILURE</promise><promise>COMPLETE</promise>",
        |s| {
            (s.promise, s.malformed) = (Some(Promise::Complete), 1);
        },
    );
    work("<difficulty-estimate>hard</difficulty-estimate>", |s| {
        s.difficulty = Some(Difficulty::Hard)
    });
    work(
        "<difficulty-estimate>super-hard</difficulty-estimate><difficulty-estimate>blocked</difficulty-estimate>",
        |s| {
            (s.difficulty, s.malformed) = (Some(Difficulty::Blocked), 1);
        },
    );
    work(
        "<next-model>gpt</next-model><next-model>opus</next-model><next-model>haiku</next-model>",
        |s| {
            (s.next_model, s.malformed) = (some("opus"), 1);
        },
    );
    work("<next-model>opus|sonnet|haiku</next-model>", |s| s.malformed = 1);
}

#[test]
fn free_texts_are_trimmed_and_the_first_with_content_counts() {
    work(
        "<journal> </journal><journal>\n a\n\nb \n</journal><journal>c</journal>",
        |s| {
            (s.journal, s.malformed) = (some("a\n\nb"), 1);
        },
    );
    work("<retry-suggestion>split it</retry-suggestion>", |s| {
        s.retry_suggestion = some("split it")
    });
    work("<task-graph>\n- {key: a, title: ü}\n</task-graph>", |s| {
        s.task_graph = some("- {key: a, title: ü}")
    });
}

#[test]
fn a_sigil_that_was_only_mentioned_swallows_nothing() {
    work(
        &format!("I will write a <journal> soon. <task-done>{ID}</task-done> <journal>b</journal>"),
        |s| {
            (s.task_done, s.journal, s.malformed) = (true, some("b"), 1);
        },
    );
    work(
        "<knowledge tags='a' title='T'>the <knowledge> tag</knowledge>",
        |s| {
            s.knowledge = vec![knowledge("T", &["a"], "the <knowledge> tag")];
            s.malformed = 1;
        },
    );
    work(
        &format!("<knowledge tags=\"a\" title=\"oops>x\n<task-done>{ID}</task-done>"),
        |s| {
            (s.task_done, s.malformed) = (true, 1);
        },
    );
    work("</journal> <journal", |s| s.malformed = 1);
}

#[test]
fn sigils_inside_others_count_except_endings() {
    work(
        &format!("<journal>a <task-done>{ID}</task-done></journal>"),
        |s| s.journal = Some(format!("a <task-done>{ID}</task-done>")),
    );
    check(
        SessionKind::Review,
        "<review-changes>fix <task-graph>[]</task-graph></review-changes>",
        |s| {
            (s.task_graph, s.review_changes) = (some("[]"), some("fix <task-graph>[]</task-graph>"));
        },
    );
}

fn knowledge(title: &str, tags: &[&str], body: &str) -> Knowledge {
    let tags = tags.iter().copied().map(str::to_owned).collect();
    Knowledge {
        title: title.to_owned(),
        tags,
        body: body.to_owned(),
    }
}

#[test]
fn knowledge_needs_title_tag_and_body() {
    let text = "<knowledge title='A \"quoted\" Vec<u8>\nname' tags='Rust, CI,rust'>\n body\n</knowledge>\
                <knowledge tags=\"b\" title=\"B\">b</knowledge>";
    work(text, |s| {
        s.knowledge = vec![
            knowledge("A \"quoted\" Vec<u8> name", &["rust", "ci"], "body"),
            knowledge("B", &["b"], "b"),
        ];
    });
    for text in [
        "<knowledge>b</knowledge>",
        "<knowledge title='t'>b</knowledge>",
        "<knowledge tags='t'>b</knowledge>",
        "<knowledge title='t' tags=' , '>b</knowledge>",
        "<knowledge title=' ' tags='a'>b</knowledge>",
        "<knowledge title='t' tags='a'> </knowledge>",
        "<knowledge title='t' tags='a'/>",
        "<knowledge title='t' tags=a>b</knowledge>",
        "<knowledge title='t' tags='a'>b",
    ] {
        work(text, |s| s.malformed = 1);
    }
}

#[test]
fn learnings_need_category_tag_and_body_and_keep_their_words() {
    let text = "<learning category=\"pitfall\" tags=\"Rust, Foreign Keys\">a</learning>\
                <learning category=\"Own Idea\" tags=\"x\">b</learning>";
    let learning = |category, tags: &[&str], body: &str| Learning {
        category,
        tags: tags.iter().copied().map(str::to_owned).collect(),
        body: body.to_owned(),
        merges: Vec::new(),
    };
    work(text, |s| {
        s.learnings = vec![
            learning(LearningCategory::Pitfall, &["Rust", "Foreign Keys"], "a"),
            learning(LearningCategory::Named("Own Idea".to_owned()), &["x"], "b"),
        ];
    });
    let merging = "<learning category='other' tags='a' merges=' L-1,l-2,'>b</learning>";
    check(SessionKind::Distill, merging, |s| {
        s.learnings = vec![Learning {
            merges: vec!["l-1".to_owned(), "l-2".to_owned()],
            ..learning(LearningCategory::Other, &["a"], "b")
        }];
    });
    for text in [
        "<learning tags='a'>b</learning>",
        "<learning category='other'>b</learning>",
        "<learning category='' tags='a'>b</learning>",
        "<learning category='other' tags='a'></learning>",
    ] {
        work(text, |s| s.malformed = 1);
    }
}

#[test]
fn the_first_valid_failure_report_wins() {
    let report = "<failure-report>\nwhat_tried: a\nwhy_failed: b\nerror_category: timeout\n</failure-report>";
    let text = format!(
        "<failure-report>\nwhat_tried: a\n</failure-report>{report}{}",
        report.replace('b', "c")
    );
    let sigils = read(SessionKind::Work, &text);
    let failure = sigils.failure_report.unwrap();
    assert_eq!(
        (failure.why_failed.as_str(), failure.error_category),
        ("b", ErrorCategory::Timeout)
    );
    assert_eq!(sigils.malformed, 1);
}

#[test]
fn notes_come_from_tags_and_lines_in_the_texts_order() {
    let text = "AGENTIUM_MEMORY: STEP_DONE one\n<memory kind=\"decision\" rationale=\"fast\">two</memory>\n\
                - AGENTIUM_MEMORY: KEY_FACT  three 3\r\n<memory kind='step_pending'>four</memory>\n\
                AGENTIUM_MEMORY: FEELING five\nAGENTIUM_MEMORY: DECISION\n<memory kind='mood'>six</memory> <memory>x</memory>";
    let note = |kind, text: &str, rationale: Option<&str>| Note {
        kind,
        text: text.to_owned(),
        rationale: rationale.map(str::to_owned),
    };
    work(text, |s| {
        s.notes = vec![
            note(NoteKind::StepDone, "one", None),
            note(NoteKind::Decision, "two", Some("fast")),
            note(NoteKind::KeyFact, "three 3", None),
            note(NoteKind::StepPending, "four", None),
        ];
        s.malformed = 4;
    });
    work(
        "FAILURE_REASON:\nFAILURE_REASON: no disk\nFAILURE_REASON: late",
        |s| {
            (s.failure_reason, s.malformed) = (some("no disk"), 1);
        },
    );
    check(SessionKind::Verify, text, |_| ());
}

#[test]
fn questions_may_have_choices_and_do_not_count_in_code() {
    let text = "<question choices=\"A | b, c |\"> Which?\nWhy? </question> <question>How\u{202e}?</question>\n\
                ```\n<question>No</question>\n```\n<question> </question>";
    let question = |asked: &str, choices: &[&str]| Question::new(asked, choices).unwrap();
    let expected = |s: &mut Sigils| {
        s.questions = vec![question("Which?\nWhy?", &["A", "b, c"]), question("How?", &[])];
        s.malformed = 1;
    };
    work(text, expected);
    check(SessionKind::Spec, text, expected);
    check(SessionKind::Verify, text, |_| ());
}

#[test]
fn verdicts_count_only_in_their_own_kind_of_session() {
    let text = "<verify-pass /> <verify-fail> no test </verify-fail>\n<review-pass></review-pass>";
    let said_last = text.replace("\n<review-pass></review-pass>", "");
    check(SessionKind::Verify, &said_last, |s| {
        (s.verify_pass, s.verify_fail) = (true, some("no test"))
    });
    check(SessionKind::Review, text, |s| s.review_pass = true);
    work(text, |_| ());
    check(
        SessionKind::Verify,
        "<verify-pass> x </verify-pass> <verify-pass> <verify-fail/>",
        |s| s.malformed = 3,
    );
}

#[test]
fn the_last_of_done_and_failed_counts() {
    let (done, failed) = (
        format!("<task-done>{ID}</task-done>"),
        format!("<task-failed>{ID}</task-failed>"),
    );
    work(&format!("{failed}\nNow it works.\n{done}"), |s| {
        s.task_done = true
    });
    work(&format!("{done}\nNo, it fails.\n{failed}"), |s| {
        s.task_failed = true
    });
}

#[test]
fn endings_without_an_id_count_only_as_the_last_statement() {
    for text in [
        "It can't be done.\n\n<promise>FAILURE</promise>",
        "<promise>FAILURE</promise>\n\n",
        "a\n<journal>b</journal> <promise>FAILURE</promise>\n<next-model>opus</next-model>",
    ] {
        assert_eq!(
            read(SessionKind::Work, text).promise,
            Some(Promise::Failure),
            "{text:?}"
        );
    }
    for text in [
        "It ends with <promise>FAILURE</promise>",
        "<promise>FAILURE</promise> ends the run.",
        "<promise>FAILURE</promise>\n\nI go on.",
        "<promise>FAILURE</promise>\n<journal>b</journal>\nI go on.",
    ] {
        work(text, |s| {
            s.malformed = 1;
            s.journal = text.contains("journal").then(|| "b".to_owned());
        });
    }
    let with_id = format!("Nothing can go on: <promise id=\"{ID}\">FAILURE</promise> Sorry.");
    work(&with_id, |s| s.promise = Some(Promise::Failure));
    work("<promise id='t-000000000000'>FAILURE</promise>", |s| {
        s.malformed = 1
    });
    check(
        SessionKind::Verify,
        &format!("So: <verify-pass id='{ID}'/> Well done."),
        |s| s.verify_pass = true,
    );
    check(SessionKind::Verify, "It holds.\n<verify-pass/>", |s| {
        s.verify_pass = true
    });
    check(SessionKind::Verify, "<verify-pass/>\nIt holds.", |s| {
        s.malformed = 1
    });
    check(
        SessionKind::Review,
        &format!("<review-changes id='{ID}'>a\nb</review-changes> bye"),
        |s| {
            s.review_changes = some("a\nb");
        },
    );
}

#[test]
fn endings_that_are_only_mentioned_end_nothing() {
    let ending = format!("<task-done>{ID}</task-done>");
    for text in [
        format!("```\n{ending}\n```"),
        format!("~~~xml\n```\n{ending}\n```\n~~~"),
        format!("````md\n```\n{ending}\n```\n````\n"),
        format!("```\nnever closed\n{ending}"),
        format!("> {ending}"),
        format!("> > so it says: {ending}"),
        format!("    {ending}"),
        format!("\t{ending}"),
        format!("`{ending}`"),
        format!("it said `so {ending}` there"),
        format!("it said \"{ending}\""),
        format!("it said “{ending}”"),
        format!("it said '{ending}'"),
        format!("<!-- {ending} -->"),
        format!("<!--\n{ending}\n-->"),
        format!("I do not say {ending}"),
        format!("I won't end with {ending} yet"),
        format!("I don’t end with {ending} yet"),
        format!("I'll end with {ending}"),
        format!("I will end this\nwith {ending} then."),
        format!("If all is well, {ending}"),
        format!("When the task is done and its tests pass: {ending}"),
        format!("The task is done. Unless you object: {ending}"),
        format!("<journal>{ending}</journal>"),
        format!(
            "<failure-report>\nwhat_tried: {ending}\nwhy_failed: b\nerror_category: unknown\n</failure-report>"
        ),
    ] {
        let sigils = read(SessionKind::Work, &text);
        assert!(!sigils.task_done && sigils.malformed == 0, "{text:?}: {sigils:?}");
    }
    for text in [
        format!("It works. I did not touch the rest. {ending}"),
        format!("All tests pass, the task is done: {ending} Next one please."),
        format!("- {ending}"),
        format!("**{ending}**"),
        format!("```\ncargo test\n```\n{ending}"),
        format!("<!-- b -->{ending}"),
        format!("<journal>I will not do that again</journal>{ending}"),
        format!("if you want:\n\n{ending}"),
        format!("a <!-- of HTML\n{ending}"),
    ] {
        assert!(read(SessionKind::Work, &text).task_done, "{text:?}");
    }
}

#[test]
fn templates_in_code_become_no_entries() {
    let entries = "<learning category='other' tags='t'>b</learning>\n<journal>j</journal>\nAGENTIUM_MEMORY: DECISION d\n\
                   FAILURE_REASON: r";
    work(&format!("So it looks:\n```xml\n{entries}\n```\n"), |_| ());
    work(&format!("<!--\n{entries}\n-->"), |_| ());
    work("| `<journal>notes</journal>` | what to leave |", |_| ());
    // A fence inside another one of its kind.
    work("```md\nSo:\n\n```\n<journal>j</journal>\n```\n```", |_| ());
    work("```yaml\n<task-graph>[]</task-graph>\n```", |s| {
        s.task_graph = some("[]")
    });
}

#[test]
fn invisible_characters_are_removed() {
    let text = "<learning category='o\u{200b}ther' tags='t'>a\u{202e}b\u{e0041}\u{fe0f}c</learning>";
    assert_eq!(read(SessionKind::Work, text).learnings[0].body, "abc");
}

#[test]
fn placeholders_are_ignored() {
    for text in [
        "<task-done>{id}</task-done>",
        "<journal>…</journal><journal>...</journal>",
        "<knowledge tags=\"a,b\" title=\"…\">…</knowledge>",
        "<learning category=\"...\" tags=\"...\">...</learning>",
        "<failure-report>...</failure-report>",
        "<memory kind=\"…\">…</memory>",
        "<next-model>{model}</next-model>",
    ] {
        work(text, |_| ());
    }
}

#[test]
fn used_entries_are_named_by_id() {
    let ids = |ids: &[&str]| ids.iter().map(|&id| id.to_owned()).collect::<Vec<_>>();
    work(
        "<used helped='L-1, k-2'/>\n<used helped=\"l-3\" misled=\"l-4\"></used><used misled='l-5' helped='{their ids}'/>",
        |s| {
            s.used.helped = ids(&["l-1", "k-2", "l-3"]);
            s.used.misled = ids(&["l-4", "l-5"]);
        },
    );
    work("<used/>", |s| s.malformed = 1);
    work("<used helped=''/>", |s| s.malformed = 1);
    check(SessionKind::Verify, "<used helped='l-1'/>", |_| ());
}

#[test]
fn lists_are_bounded() {
    let text = "<learning category='other' tags='t'>b</learning>".repeat(MAX_ENTRIES + 2);
    let sigils = read(SessionKind::Distill, &text);
    assert_eq!(
        (sigils.learnings.len(), sigils.left_out, sigils.malformed),
        (MAX_ENTRIES, 2, 0)
    );
}

/// The effects of a text in each kind of session: none, for a document that only describes sigils.
fn effects_of(text: &str) -> Vec<(SessionKind, Sigils)> {
    let of = |kind| {
        let sigils = read(kind, text);
        // Malformed sigils, and a graph in a fence, are refused by their readers.
        let sigils = Sigils {
            malformed: 0,
            task_graph: None,
            failure_reason: None,
            ..sigils
        };
        (kind, sigils)
    };
    let effects = SessionKind::ALL.into_iter().map(of);
    effects
        .filter(|(_, sigils)| *sigils != Sigils::default())
        .collect()
}

#[test]
fn documents_as_output_change_nothing() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut read = 0;
    for folder in ["", "docs", "docs/decisions", "domain/src/prompt/templates"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|ending| ending == "md") {
                let text = std::fs::read_to_string(&path).unwrap();
                assert_eq!(effects_of(&text), [], "{}", path.display());
                read += 1;
            }
        }
    }
    assert!(read > 60, "{read}");
}
