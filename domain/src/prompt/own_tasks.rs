//! Descriptions of tasks that Ralph itself creates. An agent reads them if one is needed.

use minijinja::context;

use super::templates::Templates;

/// Merges `branch` into a feature's branch.
pub fn update(templates: &Templates, branch: &str) -> String {
    templates.part("own_tasks/update", context! { branch })
}

/// Reverts the landing of a task in `commit`.
pub fn revert(templates: &Templates, task: &str, title: &str, commit: &str) -> String {
    templates.part("own_tasks/revert", context! { task, title, commit })
}

/// Makes the changes of a review whose graph can no longer be used.
pub fn changes(templates: &Templates, problem: &str, graph: &str) -> String {
    templates.part("own_tasks/changes", context! { problem, graph })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_whole_sentences_with_their_values() {
        let templates = Templates::built_in();
        let descriptions = [
            update(&templates, "main"),
            revert(&templates, "t-1", "Store <items>", "abc"),
            changes(&templates, "no such pool", "- key: a"),
        ];
        let expected = [
            "Merge the present state of `main` into the feature's branch. Where both changed the same places, keep the intent of \
             both; change nothing else.",
            "Revert the change of t-1 (Store <items>) that landed in abc. Where later work changed the same places, keep that work.",
            "The review asked for tasks that can no longer be created: no such pool\n\nIt sent:\n\n- key: a",
        ];
        assert_eq!(descriptions, expected);
    }
}
