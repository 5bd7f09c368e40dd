//! Hostile and random texts, and the proof that none of them costs more than its length.

use proptest::prelude::*;

use super::parse::read;
use super::*;
use crate::kind::SessionKind;

const ID: &str = "t-9f2c41aa07be";

fn context(kind: SessionKind) -> Context<'static> {
    Context {
        kind,
        task_id: ID,
        model_tiers: &[],
    }
}

/// Maximum number of visits of a byte: once for tags, at most twice more for attributes inside each other's
/// values and twice for required attributes, twice for lines and once for their content, four times for the
/// surroundings of endings, and once for the bodies of every name.
const MAX_VISITS: u64 = 1 + 2 + 2 + 2 + 1 + 4 + SigilName::COUNT as u64;

/// The number of visited bytes, after a check that it is within the bound.
fn visits(text: &str, kind: SessionKind) -> u64 {
    let (_, visited) = read(text, &context(kind));
    assert!(
        visited <= MAX_VISITS * text.len() as u64,
        "{visited} for {} bytes",
        text.len()
    );
    visited
}

/// Twelve ways to make a careless parser slow, each about `bytes` long.
fn hostile(bytes: usize) -> [(&'static str, String); 12] {
    let fill = |unit: &str| unit.repeat(bytes.div_ceil(unit.len()));
    let all_openers: String = SigilName::ALL.iter().map(|name| format!("<{name}>")).collect();
    [
        ("unclosed openers", fill("<task-done>")),
        ("unclosed openers of every name", fill(&all_openers)),
        ("closers only", fill("</journal>")),
        (
            "one opener, many closers",
            format!("<journal>{}", fill("</knowledge>")),
        ),
        ("open quotes", fill("<knowledge title=\"")),
        (
            "quotes of both kinds",
            fill("<learning category=' tags=\" title=' x=\"' y='\" "),
        ),
        (
            "one tag of many attributes",
            format!("<memory {}", fill("<memory kind='a' kind=\"b\" ")),
        ),
        ("angle brackets", fill("<")),
        (
            "nested bodies",
            format!("{all_openers}{}{}", fill("ü "), all_openers.replace('<', "</")),
        ),
        (
            "endings on one line",
            fill("<verify-pass/> <promise>FAILURE</promise> "),
        ),
        (
            "endings in sentences",
            fill("so <task-done>t-9f2c41aa07be</task-done> it"),
        ),
        (
            "marks without lines",
            format!("FAILURE_REASON:{}", fill(" - * AGENTIUM_MEMORY: -")),
        ),
    ]
}

#[test]
fn hostile_texts_cost_their_length() {
    for ((name, small), (_, large)) in hostile(20_000).into_iter().zip(hostile(200_000)) {
        for kind in SessionKind::ALL {
            let (few, many) = (visits(&small, kind), visits(&large, kind));
            assert!(
                many <= 11 * few,
                "{name}, {kind}: {few} bytes visited, then {many}"
            );
        }
    }
}

#[test]
fn a_million_unclosed_openers_are_a_million_malformed() {
    let text = "<task-done>".repeat(1_000_000);
    let sigils = parse(&text, &context(SessionKind::Work));
    assert_eq!(
        sigils,
        Sigils {
            malformed: 1_000_000,
            ..Sigils::default()
        }
    );
}

/// Literal pieces of sigils, and of the text between them.
const PIECES: &[&str] = &[
    "<",
    "</",
    ">",
    "/>",
    "=",
    "\"",
    "'",
    " ",
    "\n",
    "\r\n",
    ",",
    "…",
    "{x}",
    "ü",
    "日本",
    "\u{0}",
    "`",
    "- ",
    ID,
    "COMPLETE",
    "hard",
    " title=",
    " tags='a'",
    " title=\"T\"",
    " kind='decision'",
    " category=\"pitfall\"",
    "what_tried: a\n",
    "why_failed:",
    "stack_trace: ",
    "AGENTIUM_MEMORY:",
    " KEY_FACT ",
    "FAILURE_REASON: ",
];

/// Texts that consist of pieces of sigils, with other text between.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        3 => prop::sample::select(PIECES).prop_map(str::to_owned),
        3 => prop::sample::select(&SigilName::ALL[..]).prop_map(|name| format!("<{name}>")),
        3 => prop::sample::select(&SigilName::ALL[..]).prop_map(|name| format!("</{name}>")),
        2 => prop::sample::select(&SigilName::ALL[..]).prop_map(|name| format!("<{name} ")),
        1 => prop::sample::select(&SigilName::ALL[..]).prop_map(|name| name.into_str().to_owned()),
        1 => any::<String>(),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

fn kinds() -> impl Strategy<Value = SessionKind> {
    prop::sample::select(&SessionKind::ALL[..])
}

/// Texts of this repository about sigils: the templates of prompts, and the sources that read and test them.
fn own_documents() -> Vec<String> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let folders = [
        "",
        "docs",
        "shared/src/sigil",
        "domain/src/prompt",
        "domain/src/prompt/templates",
    ];
    let files = folders.iter().flat_map(|folder| {
        std::fs::read_dir(format!("{root}/{folder}"))
            .into_iter()
            .flatten()
    });
    let texts = files.flatten().map(|file| file.path());
    let texts = texts.filter(|path| {
        path.extension()
            .is_some_and(|ending| ending == "md" || ending == "rs")
    });
    texts
        .filter_map(|path| std::fs::read_to_string(path).ok())
        .collect()
}

#[test]
fn documents_about_sigils_have_bounded_costs_and_can_be_defused() {
    let documents = own_documents();
    let all = documents.join("\n");
    assert!(all.matches("<task-done>").count() > 20 && all.matches("<knowledge").count() > 20);
    for kind in [
        SessionKind::Work,
        SessionKind::Verify,
        SessionKind::Review,
        SessionKind::Build,
    ] {
        for text in documents.iter().chain([&all]) {
            visits(text, kind);
            assert_eq!(parse(&defuse(text), &context(kind)), Sigils::default());
        }
    }
}

proptest! {
    #[test]
    fn any_text_parses_within_its_bound(text in pieces(), kind in kinds()) {
        visits(&text, kind);
        let sigils = parse(&text, &context(kind));
        let texts = [&sigils.journal, &sigils.retry_suggestion, &sigils.task_graph, &sigils.verify_fail, &sigils.failure_reason];
        for text in texts.into_iter().flatten() {
            prop_assert!(!text.is_empty() && text.trim() == text);
        }
        prop_assert!(sigils.task_done <= text.contains(ID));
    }

    #[test]
    fn a_defused_text_contains_no_sigil(text in pieces(), around in pieces(), kind in kinds()) {
        let safe = defuse(&text);
        prop_assert_eq!(parse(&safe, &context(kind)), Sigils::default());
        prop_assert_eq!(safe.chars().count(), text.chars().count());
        prop_assert_eq!(&defuse(&safe), &safe);
        let alone = defuse(&around);
        prop_assert_eq!(parse(&format!("{alone}\n{safe}"), &context(kind)), Sigils::default());
    }

    #[test]
    fn sigils_survive_their_json(text in pieces(), kind in kinds()) {
        let sigils = parse(&text, &context(kind));
        let json = serde_json::to_string(&sigils).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(serde_json::from_str::<Sigils>(&json).ok(), Some(sigils));
    }

    #[test]
    fn a_failure_is_extracted_from_any_text(text in pieces(), other in pieces()) {
        let facts = FailureFacts { text: &text, tool_output: &other, ..FailureFacts::default() };
        let failure = extract_failure(&facts);
        prop_assert!(!failure.error.is_empty() && failure.error.chars().count() <= ERROR_CHARS);
        prop_assert!(failure.context.chars().count() <= CONTEXT_CHARS);
    }
}
