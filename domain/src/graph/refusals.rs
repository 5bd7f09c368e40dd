//! Error messages for authors of graphs.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fmt::Write;

use insta::assert_snapshot;

use super::limits::{MAX_DESCRIPTION_CHARS, MAX_KEY_CHARS, MAX_PROBLEMS, MAX_TITLE_CHARS};
use super::{GraphErrors, Limits, ProblemKind, load, parse, validate};

fn errors(text: &str) -> GraphErrors {
    load("plan.yaml", text, &Limits::file()).unwrap_err()
}

fn kinds(text: &str) -> Vec<ProblemKind> {
    errors(text)
        .problems
        .into_iter()
        .map(|problem| problem.kind)
        .collect()
}

#[test]
fn all_problems_of_a_file_are_reported_at_once() {
    let text = r#"
tasks:
  - key: schema
    title: Create the schema
    priority: high
  - key: api
    title: ""
    after: [shema, api]
    parent: nobody-knows
  - key: schema
    title: Once more
    pool: GPU pool
    max_retries: 101
  - title: Without a key
    verify: yes
  - key: two words
    title: [a, b]
    agent: ""
  - just words
"#;
    assert_snapshot!(errors(text), @r"
    the task graph has 14 problems:
      plan.yaml:5: task `schema`: `priority` must be a whole number from -2147483648 to 2147483647, not `high`
      plan.yaml:6: task `api`: it has no `title`; say in one line what is to be done
      plan.yaml:8: task `api`: `after` names the unknown key `shema`; did you mean `schema`?
      plan.yaml:8: task `api`: it waits for itself; remove its key from `after`
      plan.yaml:9: task `api`: `parent` names the unknown key `nobody-knows`; add that task or remove the name
      plan.yaml:10: task `schema`: `GPU pool` is not a valid pool name; use 1 to 40 of a-z, 0-9 and -
      plan.yaml:10: task `schema`: the task on line 3 has the same key; rename one of them
      plan.yaml:13: task `schema`: `max_retries` must be a whole number from 0 to 100, not `101`
      plan.yaml:14: a task has no `key`; give it a short name of its own
      plan.yaml:15: `verify` must be true or false, not `yes`
      plan.yaml:16: task `two words`: a key is at most 100 letters, digits and . _ - / : and begins with a letter, a digit or _; rename it
      plan.yaml:16: task `two words`: an empty text is not a valid agent name; use one line of at most 100 characters
      plan.yaml:17: task `two words`: `title` must be text, not a list
      plan.yaml:19: a task must be a mapping with `key` and `title`, not `just words`
    ");
}

#[test]
fn a_cycle_is_described_with_keys_and_titles() {
    let text = r"
- {key: deploy, title: Deploy it, after: [test]}
- {key: test, title: Test it, after: [build]}
- {key: build, title: Build it, after: [deploy]}
- {key: docs, title: Unconcerned, after: [test]}
";
    assert_snapshot!(errors(text), @r#"
    the task graph has a problem:
      plan.yaml:2: task `deploy`: it would wait for itself, in a circle:
          `deploy` (Deploy it) starts after `test` (Test it)
          `test` (Test it) starts after `build` (Build it)
          `build` (Build it) starts after `deploy` (Deploy it)
          remove one of these blockers, or move a task elsewhere
    "#);
    assert_eq!(kinds(text), [ProblemKind::Cycle]);
}

#[test]
fn a_cycle_may_include_parents() {
    let text = r"
- {key: backend, title: The backend, after: [frontend]}
- {key: api, title: The API, parent: backend}
- {key: frontend, title: The frontend}
- {key: page, title: The page, parent: frontend, after: [api]}
";
    assert_snapshot!(errors(text), @r#"
    the task graph has a problem:
      plan.yaml:2: task `backend`: it would wait for itself, in a circle:
          `backend` (The backend) starts after `frontend` (The frontend)
          `frontend` (The frontend) is done when its child `page` (The page) is
          `page` (The page) starts after `api` (The API)
          `api` (The API) starts when its parent `backend` (The backend) may
          remove one of these blockers, or move a task elsewhere
    "#);
}

#[test]
fn a_task_cannot_wait_for_its_ancestor_or_descendant() {
    let text = r"
- {key: feature, title: The whole}
- {key: part, title: A part, parent: feature}
- {key: detail, title: A detail, parent: part, after: [feature]}
- {key: other, title: Another whole, after: [leaf]}
- {key: leaf, title: A leaf, parent: other}
- {key: egg, title: The egg, parent: hen}
- {key: hen, title: The hen, parent: egg}
- {key: ego, title: Ego, parent: ego, after: [ego]}
";
    assert_snapshot!(errors(text), @r#"
    the task graph has 5 problems:
      plan.yaml:4: task `detail`: a task can't wait for its own ancestor or descendant:
          `detail` (A detail) starts after `feature` (The whole)
          `feature` (The whole) is done when its child `part` (A part) is
          `part` (A part) is done when its child `detail` (A detail) is
          remove that blocker
      plan.yaml:5: task `other`: a task can't wait for its own ancestor or descendant:
          `other` (Another whole) starts after `leaf` (A leaf)
          `leaf` (A leaf) starts when its parent `other` (Another whole) may
          remove that blocker
      plan.yaml:7: task `egg`: it is its own ancestor:
          `egg` (The egg) starts when its parent `hen` (The hen) may
          `hen` (The hen) starts when its parent `egg` (The egg) may
          change one `parent`
      plan.yaml:9: task `ego`: it is its own parent; remove `parent`
      plan.yaml:9: task `ego`: it waits for itself; remove its key from `after`
    "#);
}

#[test]
fn a_long_cycle_is_shortened() {
    let mut text = String::new();
    for n in 0..50_000 {
        let _ = writeln!(
            text,
            "- {{key: k{n}, title: Step {n}, after: [k{}]}}",
            (n + 1) % 50_000
        );
    }
    assert_snapshot!(errors(&text), @r#"
    the task graph has a problem:
      plan.yaml:1: task `k0`: it would wait for itself, in a circle:
          `k0` (Step 0) starts after `k1` (Step 1)
          `k1` (Step 1) starts after `k2` (Step 2)
          `k2` (Step 2) starts after `k3` (Step 3)
          `k3` (Step 3) starts after `k4` (Step 4)
          `k4` (Step 4) starts after `k5` (Step 5)
          `k5` (Step 5) starts after `k6` (Step 6)
          `k6` (Step 6) starts after `k7` (Step 7)
          `k7` (Step 7) starts after `k8` (Step 8)
          `k8` (Step 8) starts after `k9` (Step 9)
          `k9` (Step 9) starts after `k10` (Step 10)
          `k10` (Step 10) starts after `k11` (Step 11)
          … 49988 more …
          `k49999` (Step 49999) starts after `k0` (Step 0)
          remove one of these blockers, or move a task elsewhere
    "#);
}

#[test]
fn a_text_without_a_list_of_tasks_is_refused() {
    let reports: Vec<String> = [
        "",
        "# only a comment",
        "---\n",
        "[]",
        "tasks:",
        "tasks: []",
        "a graph",
        "task: []",
        "key: a\ntitle: A",
        "tasks: {a: 1}",
        "tasks: []\ntasks: []",
        "- {key: a, title: A}\n---\n- {key: b, title: B}",
        "- {key: a, title: A, key: b}",
        "- {key: a, title: A, after: b}",
        "- {key: a, title: A, after: [[b]]}",
        "- [a, b]",
    ]
    .iter()
    .map(|text| match load("f", text, &Limits::file()) {
        Err(errors) => format!(
            "{text:?}\n  {}",
            errors
                .problems
                .iter()
                .map(|p| p.describe("f"))
                .collect::<Vec<_>>()
                .join("\n  ")
        ),
        Ok(_) => format!("{text:?}\n  accepted"),
    })
    .collect();
    assert_snapshot!(reports.join("\n"), @r##"
    ""
      f: it is empty; write a list of tasks, each with `key` and `title`, or `tasks:` and that list
    "# only a comment"
      f: it is empty; write a list of tasks, each with `key` and `title`, or `tasks:` and that list
    "---\n"
      f: it is empty; write a list of tasks, each with `key` and `title`, or `tasks:` and that list
    "[]"
      f: it has no tasks; write at least one, with `key` and `title`
    "tasks:"
      f: it has no tasks; write at least one, with `key` and `title`
    "tasks: []"
      f: it has no tasks; write at least one, with `key` and `title`
    "a graph"
      f:1: it is `a graph`; write a list of tasks, each with `key` and `title`, or `tasks:` and that list
    "task: []"
      f:1: it has no `tasks`; write `tasks:` and the list of tasks under it
    "key: a\ntitle: A"
      f:1: it is one task and not a list; begin the task with `- `
    "tasks: {a: 1}"
      f:1: `tasks` must be a list of tasks, not a mapping
    "tasks: []\ntasks: []"
      f:2: a second `tasks`; join the lists
    "- {key: a, title: A}\n---\n- {key: b, title: B}"
      f:2: a second document begins; keep the tasks in one document, without `---` between them
    "- {key: a, title: A, key: b}"
      f:1: task `a`: a second `key` in one task; keep one of them
    "- {key: a, title: A, after: b}"
      f:1: task `a`: `after` must be a list of keys, as in `after: [one, two]`, not `b`
    "- {key: a, title: A, after: [[b]]}"
      f:1: task `a`: `after` must be a list of keys, as in `after: [one, two]`, not a list of lists or mappings
    "- [a, b]"
      f:1: a task must be a mapping with `key` and `title`, not a list
    "##);
}

#[test]
fn syntax_errors_name_the_line_and_a_remedy() {
    let errors: Vec<String> = [
        "- key: a\n  title: Fix: the bug",
        "- key: a\n  title: `code`",
        "- key: a\n\ttitle: A",
        "- key: a\n  title: A\n  after: [b",
        "[{\"key\": \"a\",\n\"title\": \"A\"",
        "- key: a\n  title: *bold*",
        "- key: a\n  title: 'a\u{0}b'",
        "- key: a\n  <<: {title: A}",
        &"[".repeat(100_000),
        &"- ".repeat(100_000),
    ]
    .iter()
    .map(|text| errors(text).problems[0].describe("f"))
    .collect();
    assert_snapshot!(errors.join("\n"), @r#"
    f:2: neither YAML nor JSON: mapping values are not allowed in this context; put a text that holds `: ` in quotes
    f:2: neither YAML nor JSON: unexpected character: ``'; put a text that begins with it in quotes
    f:1: neither YAML nor JSON: while scanning a plain scalar, found a tab; indent with spaces
    f:3: neither YAML nor JSON: unclosed bracket '['
    f:1: neither YAML nor JSON: unclosed bracket '{'
    f:2: neither YAML nor JSON: while parsing node, found unknown anchor; put a text that begins with `*` in quotes
    f:2: neither YAML nor JSON: unexpected character: `\u{0}'; remove it, or write it as an escape in double quotes
    f:2: merge keys (`<<`) are not supported; write the fields out
    f:1: neither YAML nor JSON: recursion limit exceeded; a task graph is a list of flat mappings
    f:1: neither YAML nor JSON: recursion limit exceeded; a task graph is a list of flat mappings
    "#);
}

#[test]
fn unknown_fields_are_warnings() {
    let text = r#"
"$schema": task-graph.schema.json
x-pool: &pool gpu
version: 2
tasks:
  - {key: a, title: A, prioriti: 3, pool: *pool}
  - {key: b, title: B, estimate: {hours: 3}}
"#;
    let graph = load("plan.yaml", text, &Limits::file()).unwrap();
    assert_eq!(graph.nodes[0].pool.as_deref(), Some("gpu"));
    let warnings: Vec<_> = graph
        .warnings
        .iter()
        .map(|warning| warning.describe("plan.yaml"))
        .collect();
    assert_snapshot!(warnings.join("\n"), @r#"
    plan.yaml:4: unknown field `version` is ignored (`2`)
    plan.yaml:6: task `a`: unknown field `prioriti` is ignored (`3`); did you mean `priority`?
    plan.yaml:7: task `b`: unknown field `estimate` is ignored (a mapping)
    "#);
}

#[test]
fn a_field_that_decides_whether_or_where_a_task_runs_is_refused() {
    for field in ["when: a.done", "repo: git@host:other.git"] {
        let text = format!("- {{key: a, title: A, {field}}}");
        let error = load("plan.yaml", &text, &Limits::file()).unwrap_err().to_string();
        assert!(
            error.contains("is not possible yet") && error.contains("leave it out"),
            "{error}"
        );
    }
}

#[test]
fn ignored_fields_are_reported_with_the_problems() {
    assert_snapshot!(errors("- {key: a, titel: One}\n- {key: b, title: B, color: red}"), @r"
    the task graph has 3 problems:
      plan.yaml:1: task `a`: it has no `title`; say in one line what is to be done
      plan.yaml:1: task `a`: unknown field `titel` is ignored (`One`); did you mean `title`?
      plan.yaml:2: task `b`: unknown field `color` is ignored (`red`)
    ");
}

#[test]
fn a_field_that_means_after_is_refused() {
    let text = r"
- {key: a, title: A}
- key: b
  title: B
  depends_on: [a]
- {key: c, title: C, needs: b, after: [a]}
- {title: D, key: d, dependsOn: {task: a}, x-needs: [a]}
- {key: e, title: E, afer: [a]}
";
    assert_snapshot!(errors(text), @r"
    the task graph has 4 problems:
      plan.yaml:5: task `b`: unknown field `depends_on`; did you mean `after`?
      plan.yaml:6: task `c`: unknown field `needs`; did you mean `after`?
      plan.yaml:7: task `d`: unknown field `dependsOn`; did you mean `after`?
      plan.yaml:8: task `e`: unknown field `afer`; did you mean `after`?
    ");
    let agents = load("the agent's graph", text, &Limits::agent()).unwrap_err();
    assert_eq!(agents.problems[0].kind, ProblemKind::UnknownField);
}

#[test]
fn further_problems_are_counted() {
    let text: String = (0..1_000)
        .map(|n| format!("- {{key: k{n}, title: T, after: [x{n}x]}}\n"))
        .collect();
    let errors = errors(&text);
    assert_eq!((errors.problems.len(), errors.total), (MAX_PROBLEMS, 1_000));
    assert!(errors.to_string().ends_with("\n  and 980 more"));
}

#[test]
fn sizes_are_bounded() {
    let key = "k".repeat(MAX_KEY_CHARS);
    let title = "ä".repeat(MAX_TITLE_CHARS);
    let description = "ä".repeat(MAX_DESCRIPTION_CHARS);
    let text = |key: &str, title: &str, description: &str| {
        serde_json::json!([{ "key": key, "title": title, "description": description }]).to_string()
    };
    load("f", &text(&key, &title, &description), &Limits::file()).unwrap();
    assert_eq!(
        kinds(&text(&format!("{key}k"), &title, &description)),
        [ProblemKind::Value]
    );
    assert_eq!(
        kinds(&text(&key, &format!("{title}ä"), &description)),
        [ProblemKind::Limit]
    );
    assert_eq!(
        kinds(&text(&key, &title, &format!("{description}ä"))),
        [ProblemKind::Limit]
    );
    assert_eq!(
        kinds(&text(&key, "a\u{0}b", "a\u{0}b")),
        [ProblemKind::Value, ProblemKind::Value]
    );
    assert_eq!(kinds(&text(&key, "a\nb", "a\nb")), [ProblemKind::Value]);
}

#[test]
fn numbers_have_ranges() {
    for (field, good, bad) in [
        ("priority", "-2147483648", "-2147483649"),
        ("priority", "2147483647", "2147483648"),
        ("priority", "0", "1.5"),
        ("priority", "7", "\"7\""),
        ("max_retries", "0", "-1"),
        ("max_retries", "100", "101"),
        ("verify", "true", "yes"),
        ("verify", "~", "1"),
    ] {
        let text = |value| format!("- {{key: a, title: A, {field}: {value}}}");
        load("f", &text(good), &Limits::file()).unwrap();
        assert_eq!(kinds(&text(bad)), [ProblemKind::Shape], "{field}: {bad}");
    }
    let mut file = parse("f", "- {key: a, title: A}").unwrap();
    file.tasks[0].max_retries = Some(101);
    assert_eq!(
        validate(file, &Limits::file()).unwrap_err().problems[0].kind,
        ProblemKind::Value
    );
}

#[test]
fn a_graph_of_an_agent_is_small() {
    let names = |names: &[&str]| {
        Some(
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<BTreeSet<_>>(),
        )
    };
    let limits = Limits {
        pools: names(&["default", "gpu"]),
        agents: names(&[]),
        ..Limits::agent()
    };
    let mut text = String::from(
        "- {key: top, title: Top, pool: gpus}\n- {key: two, title: Two, parent: top, pool: cpu}\n",
    );
    text += "- {key: three, title: Three, parent: two, agent: claude}\n- {key: four, title: Four, parent: three}\n";
    text += "- {key: five, title: Five, parent: four}\n";
    for n in 0..51 {
        let _ = writeln!(
            text,
            "- {{key: r{n}, title: Root}}\n- {{key: c{n}, title: Child, parent: top}}"
        );
    }
    assert_snapshot!(load("the agent's graph", &text, &limits).unwrap_err(), @r#"
    the task graph has 6 problems:
      the agent's graph: it has 52 tasks without a `parent`, and 50 are allowed; group them
      the agent's graph:1: task `top`: there is no pool `gpus`; did you mean `gpu`?
      the agent's graph:1: task `top`: it has 52 children, and 50 are allowed; group them
      the agent's graph:2: task `two`: there is no pool `cpu`; did you mean `gpu`?
      the agent's graph:3: task `three`: there is no agent `claude`; remove the field to take the default
      the agent's graph:4: task `four`: it is more than 3 levels deep; move it under a task further up
    "#);
}

#[test]
fn errors_contain_no_control_characters_of_the_author() {
    let text = "- {key: \"\\e[2Jx\", title: \"\\u202eevil\", after: [\"\\e]0;x\\a\"]}";
    assert!(!errors(text).to_string().contains(['\u{1b}', '\u{7}', '\u{202e}']));
}

#[test]
fn aliases_are_copied_within_bounds() {
    let keys = (0..1_000).map(|n| format!("k{n}")).collect::<Vec<_>>().join(", ");
    let mut text = format!("x-all: &all [{keys}]\nx-list: &list [*all, *all]\ntasks:\n");
    for n in 0..1_000 {
        let _ = writeln!(text, "- {{key: k{n}, title: T}}");
    }
    let good = format!("{text}- {{key: last, title: T, after: *all}}\n");
    assert_eq!(load("f", &good, &Limits::file()).unwrap().edges, 1_000);
    for n in 0..6_000 {
        let _ = writeln!(text, "- {{key: b{n}, title: T, after: *all}}");
    }
    assert_eq!(kinds(&text), [ProblemKind::Limit]);
    assert_eq!(
        kinds("- {key: a, title: A, after: &me [*me]}"),
        [ProblemKind::Shape]
    );
    assert_eq!(
        kinds("x-l: &l [[a]]\ntasks: [{key: a, title: A, after: *l}]"),
        [ProblemKind::Shape]
    );
}
