//! Seven features, each of which fails unless its prompt contains one earlier entry. Without the source of
//! one of them, exactly that one fails.

use std::time::Duration;

use ralph_coordinator::domain::states::RunOutcome;
use ralph_coordinator::flow::Settings;
use ralph_coordinator::prompt::{PromptOptions, Templates};
use ralph_tests::harness::{FeatureOptions, WorkerOptions, World};

use super::unrelated;

/// A source of memory: the graphs of its features, the last of which needs an entry that an earlier task or
/// attempt left. A `gate` between two tasks makes sure that the first one's report is applied: a slot claims
/// its next task at once.
struct Case {
    name: &'static str,
    graphs: &'static [&'static str],
    max_retries: i32,
    backoff_ms: i64,
}

const CASES: [Case; 7] = [
    Case {
        name: "attempt-report",
        graphs: &[r"
- key: index
  title: Rebuild the search index
  description: |
    @on-attempt 1 @say <failure-report>
    @on-attempt 1 @say what_tried: rebuilt it in place
    @on-attempt 1 @say why_failed: readers hold the old segment open
    @on-attempt 1 @say error_category: logic_error
    @on-attempt 1 @say </failure-report>
    @on-attempt 1 @fail it is held
    @unless-prompt-has rebuilt it in place : @fail did the same again
    @done
"],
        max_retries: 1,
        backoff_ms: 20,
    },
    Case {
        name: "retry-suggestion",
        graphs: &[r"
- key: quota
  title: Count the quota of each tenant
  description: |
    @on-attempt 1 @say <retry-suggestion>Count in the ledger, never in the cache.</retry-suggestion>
    @on-attempt 1 @fail the counts differ
    @unless-prompt-has Count in the ledger, never in the cache : @fail did the same again
    @done
"],
        max_retries: 1,
        backoff_ms: 20,
    },
    Case {
        name: "sibling-failure",
        graphs: &[r"
- key: first
  title: Open the port
  description: |
    @on-attempt 1 @say <failure-report>
    @on-attempt 1 @say what_tried: bound the port directly
    @on-attempt 1 @say why_failed: the lab network drops port 8123
    @on-attempt 1 @say </failure-report>
    @on-attempt 1 @fail no answer
    @done
- key: second
  title: Probe the service
  after: [first]
  description: |
    @unless-prompt-has bound the port directly : @fail ran into the same wall
    @done
"],
        max_retries: 1,
        backoff_ms: 20,
    },
    Case {
        name: "learning",
        graphs: &[
            r#"
- key: teach
  title: Parse the header of a zone file
  description: |
    @say <learning category="pitfall" tags="zone file, dns, parser">Serial numbers in a DNS zone file wrap around; compare them with RFC 1982 arithmetic.</learning>
    @done
"#,
            r"
- key: use
  title: Pick the newest of two DNS zones
  description: |
    Two copies of a zone carry serials; the parser has to say which zone file is newer.
    @unless-prompt-has RFC 1982 arithmetic : @fail compared plain integers
    @done
",
        ],
        max_retries: 0,
        backoff_ms: 20,
    },
    Case {
        name: "knowledge",
        graphs: &[
            r#"
- key: teach
  title: Run the compiler's golden tests
  description: |
    @say <knowledge tags="compiler,golden,tests" title="Golden tests of the compiler need a UTC clock">Set TZ=UTC before the golden suite runs, or the banner differs.</knowledge>
    @done
"#,
            r"
- key: use
  title: Make the golden tests of the compiler pass again
  description: |
    The compiler prints a banner that the golden suite compares.
    @unless-prompt-has Set TZ=UTC before the golden suite : @fail the banner differs
    @done
",
        ],
        max_retries: 0,
        backoff_ms: 20,
    },
    Case {
        name: "decision",
        graphs: &[r#"
- key: first
  title: Choose the encoding of messages
  description: |
    @say <memory kind="decision" rationale="old clients read nothing else">Messages are length-prefixed CBOR</memory>
    @done
- key: second
  title: Write the reader
  after: [first]
  description: |
    @unless-prompt-has length-prefixed CBOR : @fail guessed JSON
    @done
"#],
        max_retries: 0,
        backoff_ms: 20,
    },
    Case {
        name: "journal",
        graphs: &[r"
- key: first
  title: Sketch the scheduler
  priority: 0
  description: |
    @say <journal>The timer wheel has 512 slots; anything else breaks the drift test.</journal>
    @done
- key: gate
  title: Order the parts
  priority: 1
  description: |
    @done
- key: second
  title: Implement the scheduler
  after: [gate]
  description: |
    @unless-prompt-has The timer wheel has 512 slots : @fail took 256 slots
    @done
"],
        max_retries: 0,
        backoff_ms: 20,
    },
];

fn settings() -> Settings {
    Settings {
        heartbeat: Duration::from_millis(200),
        lease: Duration::from_millis(2_000),
        grace: Duration::from_millis(300),
        hold_out: 0.0,
        ..Settings::default()
    }
}

/// Outcome of each case among `unrelated` unrelated entries.
async fn outcomes(settings: Settings, unrelated: usize) -> Vec<(&'static str, RunOutcome, String)> {
    let mut world = World::start_with(settings).await.unwrap();
    unrelated::fill(&world, unrelated).await;
    world.coordinator().await.unwrap();
    let worker = world.worker(&WorkerOptions::named("w1")).unwrap();
    let mut outcomes = Vec::new();
    for case in CASES {
        let mut options = FeatureOptions {
            max_retries: case.max_retries,
            ..FeatureOptions::default()
        };
        options.run.backoff_ms = case.backoff_ms;
        let mut last = RunOutcome::NoPlan;
        for (number, graph) in case.graphs.iter().enumerate() {
            let name = format!("{}-{number}", case.name);
            let (_, run, _) = world.submit(&name, None, graph, &options).await.unwrap();
            last = world.ended(run).await.unwrap();
        }
        outcomes.push((case.name, last, world.tell().await));
    }
    drop(worker);
    outcomes
}

#[tokio::test(flavor = "multi_thread")]
async fn each_source_of_memory_reaches_the_prompt_that_needs_it() {
    for (name, outcome, tell) in outcomes(settings(), 2_000).await {
        assert_eq!(outcome, RunOutcome::Complete, "{name}\n{tell}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_memory_no_case_completes() {
    let without = Settings {
        memory: false,
        ..settings()
    };
    for (name, outcome, _) in outcomes(without, 2_000).await {
        assert_ne!(outcome, RunOutcome::Complete, "{name}");
    }
}

/// Settings with a template `file` whose part `part` is empty; all else is unchanged.
fn silent(file: &str, part: &str) -> (tempfile::TempDir, Settings) {
    let built_in = format!(
        "{}/../domain/src/prompt/templates/{file}.md",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read_to_string(built_in).unwrap();
    let marker = format!("=== {part}\n");
    let (before, rest) = text.split_once(&marker).expect("the template has this part");
    let after = rest.find("\n=== ").map_or("", |at| &rest[at + 1..]);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join(format!("{file}.md")),
        format!("{before}{marker}(nothing)\n{after}"),
    )
    .unwrap();
    let templates = Templates::load(Some(folder.path()), PromptOptions::default())
        .unwrap()
        .into();
    let settings = Settings {
        templates,
        ..settings()
    };
    (folder, settings)
}

/// Without this part of the prompts, exactly this case fails.
async fn fails_alone(name: &str, file: &str, part: &str) {
    let (_folder, settings) = silent(file, part);
    for (case, outcome, tell) in outcomes(settings, 0).await {
        assert_eq!(
            outcome == RunOutcome::Complete,
            case != name,
            "{case} without {file}/{part}\n{tell}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_attempts_only_the_attempt_case_fails() {
    fails_alone("attempt-report", "attempts", "attempt").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_suggestions_only_the_suggestion_case_fails() {
    fails_alone("retry-suggestion", "attempts", "suggestion").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_siblings_failures_only_the_sibling_case_fails() {
    fails_alone("sibling-failure", "attempts", "sibling").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_learnings_only_the_learning_case_fails() {
    fails_alone("learning", "learnings", "learning").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_knowledge_only_the_knowledge_case_fails() {
    fails_alone("knowledge", "knowledge", "entry").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_decisions_only_the_decision_case_fails() {
    fails_alone("decision", "session", "decision").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_journal_only_the_journal_case_fails() {
    fails_alone("journal", "journal", "entry").await;
}
