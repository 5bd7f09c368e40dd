//! Random graphs, and graphs of full size.

#![allow(clippy::unwrap_used)]

use std::fmt::Write;

use proptest::prelude::*;

use super::order::{Step, order};
use super::{Graph, GraphFile, Limits, Located, ProblemKind, TaskEntry, draw, load, validate};

/// Runs tasks by the rules of SPEC 2.3 and 2.4 until nothing changes; returns whether all were done.
fn can_be_done(parents: &[Option<u32>], after: &[Vec<u32>]) -> bool {
    let tasks = parents.len();
    let is_parent: Vec<bool> = (0..tasks).map(|t| parents.contains(&Some(t as u32))).collect();
    let mut done = vec![false; tasks];
    loop {
        let before = done.clone();
        for task in 0..tasks {
            if is_parent[task] {
                done[task] = (0..tasks).all(|child| parents[child] != Some(task as u32) || done[child]);
                continue;
            }
            let mut line = Some(task as u32);
            let mut steps = 0;
            let mut held = false;
            while let Some(ancestor) = line {
                held |= after[ancestor as usize]
                    .iter()
                    .any(|blocker| !done[*blocker as usize]);
                line = parents[ancestor as usize];
                steps += 1;
                held |= steps > tasks;
                if held {
                    break;
                }
            }
            done[task] |= !held;
        }
        if done == before {
            return done.into_iter().all(|done| done);
        }
    }
}

/// Parents and blockers of a few tasks; in half of the graphs they all point backwards, so that many have no
/// cycle.
fn links() -> impl Strategy<Value = (Vec<Option<u32>>, Vec<Vec<u32>>)> {
    (1u32..12, any::<bool>()).prop_flat_map(|(tasks, backwards)| {
        let link = move |task: u32, to: u32| match backwards {
            true => to.checked_rem(task),
            false => Some(to),
        };
        let one = (
            prop::option::weighted(0.4, 0..tasks),
            prop::collection::vec(0..tasks, 0..3),
        );
        prop::collection::vec(one, tasks as usize).prop_map(move |all| {
            (0..)
                .zip(all)
                .map(|(task, (parent, after))| {
                    let parent = parent.and_then(|to| link(task, to));
                    (
                        parent,
                        after
                            .into_iter()
                            .filter_map(|to| link(task, to))
                            .collect::<Vec<u32>>(),
                    )
                })
                .unzip()
        })
    })
}

fn file(parents: &[Option<u32>], after: &[Vec<u32>]) -> GraphFile {
    let name = |task: u32| Located {
        value: format!("k{task}"),
        line: task + 1,
    };
    let tasks = (0..)
        .zip(parents.iter().zip(after))
        .map(|(task, (parent, after))| TaskEntry {
            key: name(task),
            title: format!("Task {task}"),
            parent: parent.map(name),
            after: after.iter().copied().map(name).collect(),
            ..TaskEntry::default()
        });
    GraphFile {
        tasks: tasks.collect(),
        source_name: "random".to_owned(),
        warnings: Vec::new(),
    }
}

fn check_graph(graph: &Graph) {
    for (index, node) in graph.nodes.iter().enumerate() {
        let before = |other: &u32| (*other as usize) < index;
        assert!(
            node.parent.iter().all(before) && node.after.iter().all(before),
            "{} too early",
            node.key
        );
        let parent = node.parent.map(|parent| &graph.nodes[parent as usize]);
        assert_eq!(node.depth, parent.map_or(0, |parent| parent.depth + 1));
        let held_above = parent.is_some_and(|parent| parent.open_blockers > 0);
        assert_eq!(
            node.open_blockers as usize,
            node.after.len() + usize::from(held_above)
        );
        let children = graph
            .nodes
            .iter()
            .filter(|other| other.parent == Some(index as u32))
            .count();
        assert_eq!(node.open_children as usize, children);
    }
    assert_eq!(
        graph.edges,
        graph.nodes.iter().map(|node| node.after.len()).sum::<usize>()
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_graph_is_accepted_exactly_when_it_can_be_done((parents, after) in links()) {
        match order(&parents, &after) {
            Ok(order) => {
                prop_assert!(can_be_done(&parents, &after));
                let mut sorted = order.clone();
                sorted.sort_unstable();
                prop_assert!(sorted.into_iter().eq(0..parents.len() as u32));
            }
            Err(cycles) => {
                prop_assert!(!can_be_done(&parents, &after));
                prop_assert!(!cycles.is_empty());
                let mut concerned = Vec::new();
                for cycle in cycles {
                    let nexts: Vec<u32> = cycle.steps.iter().cycle().skip(1).take(cycle.steps.len()).map(|step| step.task()).collect();
                    for (step, next) in cycle.steps.iter().zip(nexts) {
                        let (is_link, to) = match *step {
                            Step::Blocker { task, blocker } => (after[task as usize].contains(&blocker), blocker),
                            Step::Parent { task, parent } => (parents[task as usize] == Some(parent), parent),
                            Step::Child { task, child } => (parents[child as usize] == Some(task), child),
                        };
                        prop_assert!(is_link && to == next, "{step:?} leads to {next} in {:?}", cycle.steps);
                    }
                    let mut tasks: Vec<u32> = cycle.steps.iter().map(|step| step.task()).collect();
                    tasks.sort_unstable();
                    tasks.dedup();
                    concerned.extend(tasks);
                }
                let all = concerned.len();
                concerned.sort_unstable();
                concerned.dedup();
                prop_assert_eq!(all, concerned.len(), "a task is in two cycles");
            }
        }
    }

    #[test]
    fn an_accepted_graph_is_counted_and_sorted((parents, after) in links()) {
        if let Ok(graph) = validate(file(&parents, &after), &Limits::file()) {
            check_graph(&graph);
            prop_assert_eq!(graph.nodes.len(), parents.len());
            prop_assert_eq!(draw(&graph).lines().count(), graph.nodes.len() + 1);
        }
    }

    #[test]
    fn any_text_is_a_graph_or_an_error(text in "[-\\[\\]{}:,&*#|>'\" \n\tktes]{0,60}") {
        if let Ok(graph) = load("text", &text, &Limits::file()) {
            check_graph(&graph);
        }
    }
}

/// 100,000 tasks under 1,000 parents with 300,000 blockers in all, or nearly.
fn large() -> String {
    let mut text = String::from("tasks:\n");
    for n in 0..100_000 {
        let _ = write!(
            text,
            "- key: t{n}\n  title: Do the thing number {n}\n  description: |\n    What to do,\n    and why.\n"
        );
        if n % 100 != 0 {
            let _ = writeln!(text, "  parent: t{}", n - n % 100);
        }
        let after: Vec<_> = [1, 2, 3]
            .iter()
            .filter(|back| n % 100 > **back)
            .map(|back| format!("t{}", n - back))
            .collect();
        let _ = writeln!(text, "  after: [{}]", after.join(", "));
    }
    text
}

#[test]
fn a_file_of_100_000_tasks_is_accepted() {
    let graph = load("large", &large(), &Limits::file()).unwrap();
    assert_eq!((graph.nodes.len(), graph.edges), (100_000, 291_000));
    assert_eq!(
        graph.nodes.iter().filter(|node| node.open_children == 99).count(),
        1_000
    );
    assert_eq!(
        graph
            .nodes
            .iter()
            .filter(|node| node.open_blockers == 0 && node.open_children == 0)
            .count(),
        1_000
    );
    let drawn = draw(&graph);
    assert_eq!(drawn.lines().count(), 102);
    assert!(drawn.ends_with("… and 99,900 more"));
}

#[test]
fn a_chain_of_100_000_tasks_does_not_overflow_the_stack() {
    let parents = vec![None; 100_000];
    let mut after: Vec<Vec<u32>> = (0..100_000)
        .map(|task: u32| task.checked_sub(1).into_iter().collect())
        .collect();
    assert!(order(&parents, &after).unwrap().into_iter().eq(0..100_000));
    after[0].push(99_999);
    let cycles = order(&parents, &after).unwrap_err();
    assert_eq!((cycles.len(), cycles[0].steps.len()), (1, 100_000));

    let line: Vec<Option<u32>> = (0..100_000).map(|task: u32| task.checked_sub(1)).collect();
    let none = vec![Vec::new(); 100_000];
    assert_eq!(order(&line, &none).unwrap().len(), 100_000);
    let deep = validate(file(&line, &none), &Limits::file()).unwrap_err();
    assert_eq!((deep.total, deep.problems[0].kind), (1, ProblemKind::Limit));
}

#[test]
fn at_most_20_of_many_cycles_are_reported() {
    let parents = vec![None; 100_000];
    let after: Vec<Vec<u32>> = (0..100_000).map(|task: u32| vec![task ^ 1]).collect();
    assert_eq!(order(&parents, &after).unwrap_err().len(), 20);
}

#[test]
fn json_and_yaml_give_the_same_graph() {
    let json = r#"[
	{"key": "a", "title": "Sch\u00f6n \ud83d\ude00", "description": "one\n\ttwo", "max_retries": 3, "verify": false},
	{"key": "b", "title": "B", "after": ["a"], "priority": -5, "pool": "gpu", "agent": "x", "model": "opus"},
	{"key": "c", "title": "C", "parent": "b"}
]"#;
    let yaml = "
- key: a
  title: Schön 😀
  description: \"one\\n\\ttwo\"
  max_retries: 3
  verify: false
- {key: b, title: B, after: [a], priority: -5, pool: gpu, agent: x, model: opus}
- key: c
  title: '  C '
  parent: b
";
    let graphs = [json, yaml].map(|text| {
        let mut graph = load("f", text, &Limits::file()).unwrap();
        graph.nodes.iter_mut().for_each(|node| node.line = 0);
        graph
    });
    assert_eq!(graphs[0], graphs[1]);
    assert_eq!(graphs[0].nodes[2].open_blockers, 1);
}

#[test]
fn a_code_fence_is_ignored_and_its_line_counted() {
    let text = "\n```yaml\n- key: a\n  title: A\n- key: a\n  title: B\n```\n";
    let errors = load("f", text, &Limits::agent()).unwrap_err();
    assert_eq!(
        (errors.problems[0].line, errors.problems[0].kind),
        (5, ProblemKind::DoubleKey)
    );
}

#[test]
fn numbers_may_be_keys() {
    let graph = load(
        "f",
        "- {key: 1, title: 2024}\n- {key: 2, title: no, after: [1]}",
        &Limits::file(),
    )
    .unwrap();
    assert_eq!(graph.nodes[1].after, [0]);
    assert_eq!(graph.nodes[0].title, "2024");
}

#[test]
fn a_drawing_shows_tree_waves_and_requests() {
    let text = "
- {key: release, title: Release it, after: [web, api]}
- {key: api, title: The API, priority: -1}
- {key: schema, title: Create the schema, parent: api, pool: gpu, max_retries: 1}
- {key: routes, title: Write the routes, parent: api, after: [schema], model: opus, verify: false}
- {key: web, title: The pages}
- {key: forms, title: Forms, parent: web}
- {key: login, title: Login, parent: forms}
- {key: styles, title: Styles, parent: web, max_retries: 2}
- {key: many, title: Waits for many, after: [schema, routes, forms, styles, login]}
";
    insta::assert_snapshot!(draw(&load("plan.yaml", text, &Limits::file()).unwrap()), @r#"
    plan.yaml: 9 tasks, 8 blockers, 3 waves; 3 can start at once, at most 3 run side by side
        api: The API  [priority -1]
     1  ├─ schema: Create the schema  [pool gpu, 1 retry]
     2  └─ routes: Write the routes  ← schema  [model opus, not verified]
        web: The pages
        ├─ forms: Forms
     1  │  └─ login: Login
     1  └─ styles: Styles  [2 retries]
     3  release: Release it  ← web, api
     3  many: Waits for many  ← schema, routes, forms, styles and 1 more
    "#);
}
