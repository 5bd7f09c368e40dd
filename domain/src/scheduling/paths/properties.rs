//! Random overlaps, compared with a try of all short paths.

#![allow(clippy::unwrap_used)]

use std::collections::HashSet;

use proptest::prelude::*;
use ralph_shared::ids::TaskId;

use super::{Admission, Candidate, Footprint, Pattern, admit};

/// Every path of up to three names of up to three letters.
fn all_paths() -> Vec<String> {
    let mut names = vec![String::new()];
    let mut begun = 0;
    for _ in 0..3 {
        let end = names.len();
        for at in begun..end {
            for letter in ['a', 'b'] {
                names.push(format!("{}{letter}", names[at]));
            }
        }
        begun = end;
    }
    names.remove(0);
    let mut paths = names.clone();
    let mut begun = 0;
    for _ in 0..2 {
        let end = paths.len();
        for at in begun..end {
            for name in &names {
                paths.push(format!("{}/{name}", paths[at]));
            }
        }
        begun = end;
    }
    paths
}

/// Patterns so short that a common path of two is among [`all_paths`].
fn pattern() -> impl Strategy<Value = Pattern> {
    "(a|b|\\*|\\?|\\*a|b\\*|\\*\\*)(/(a|b|\\*|\\*\\*))?/?".prop_map(|text| Pattern::parse(&text).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn two_patterns_overlap_if_they_have_a_common_path(one in pattern(), other in pattern()) {
        let common = all_paths().into_iter().find(|path| one.names_file(path) && other.names_file(path));
        prop_assert_eq!(one.overlaps(&other), common.is_some(), "{} and {}: {:?}", one.as_str(), other.as_str(), common);
        prop_assert_eq!(one.overlaps(&other), other.overlaps(&one));
    }

    #[test]
    fn two_footprints_overlap_if_their_parts_do(
        one in prop::collection::vec("(a|b|\\*)(/(a|\\*\\*))?", 0..3),
        other in prop::collection::vec("(a|b|\\*)(/(a|\\*\\*))?", 0..3),
        changed in prop::collection::vec("[ab](/[ab])?", 0..3),
        theirs in prop::collection::vec("[ab](/[ab])?", 0..3),
    ) {
        let mine = Footprint::new(&one, changed.clone());
        let yours = Footprint::new(&other, theirs.clone());
        let parse = |texts: &[String]| texts.iter().map(|text| Pattern::parse(text).unwrap()).collect::<Vec<_>>();
        let (one, other) = (parse(&one), parse(&other));
        let expected = one.iter().any(|a| other.iter().any(|b| a.overlaps(b)))
            || changed.iter().any(|path| theirs.contains(path) || other.iter().any(|b| b.names_file(path)))
            || theirs.iter().any(|path| one.iter().any(|a| a.names_file(path)));
        prop_assert_eq!(mine.common(&yours).is_some(), expected);
        prop_assert_eq!(yours.common(&mine).is_some(), expected);
    }

    /// For any overlaps and any room: tasks under way never share a path, and all of them come to an end.
    #[test]
    fn overlapping_tasks_never_run_together_and_all_get_a_turn(
        tasks in prop::collection::vec((prop::collection::vec("[a-d]", 1..3), -1..2i32), 1..30),
        room in 1..4usize,
    ) {
        let id = |n: usize| TaskId(uuid::Uuid::from_u128(n as u128 + 1));
        let footprint = |n: usize| Footprint::new(&tasks[n].0, []);
        let mut queue: Vec<usize> = (0..tasks.len()).collect();
        queue.sort_by_key(|n| tasks[*n].1);
        let mut busy = Vec::new();
        let mut waiting = Vec::new();
        let mut ended = 0;
        let mut rounds = 0;
        while ended < tasks.len() {
            rounds += 1;
            prop_assert!(rounds <= 3 * tasks.len(), "nothing moves any more");
            let candidates = queue.iter().map(|n| Candidate {
                task: id(*n),
                priority: tasks[*n].1,
                footprint: footprint(*n),
                exempt: false,
            });
            let began: HashSet<TaskId> = admit(room, &mut busy, &mut waiting, candidates.collect())
                .into_iter()
                .filter(|(_, admission)| *admission == Admission::Admitted)
                .map(|(task, _)| task)
                .collect();
            queue.retain(|n| !began.contains(&id(*n)));
            for (at, one) in busy.iter().enumerate() {
                for other in &busy[at + 1..] {
                    prop_assert!(one.footprint.common(&other.footprint).is_none());
                }
            }
            prop_assert!(!busy.is_empty(), "something is ready and nothing runs");
            busy.remove(0);
            ended += 1;
        }
    }
}
