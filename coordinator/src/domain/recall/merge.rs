//! When one knowledge entry takes another's place (SPEC 6.5).

use std::collections::BTreeSet;

/// Titles that are the same in any case, or one inside the other with more than half of the smaller set of tags shared.
pub fn replaces(title: &str, tags: &[String], old_title: &str, old_tags: &[String]) -> bool {
    let (title, old_title) = (plain(title), plain(old_title));
    if title == old_title {
        return true;
    }
    if title.is_empty() || old_title.is_empty() {
        return false;
    }
    let set = |tags: &[String]| -> BTreeSet<String> { tags.iter().map(|tag| tag.to_lowercase()).collect() };
    let (tags, old_tags) = (set(tags), set(old_tags));
    let shared = tags.intersection(&old_tags).count();
    let inside = title.contains(&old_title) || old_title.contains(&title);
    inside && shared * 2 > tags.len().min(old_tags.len())
}

/// The new tags and those of the entries that are replaced, in their order, each once.
pub fn merged_tags<'a>(old: impl Iterator<Item = &'a [String]>, new: &'a [String]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    old.flatten()
        .chain(new)
        .filter(|tag| seen.insert(tag.to_lowercase()))
        .cloned()
        .collect()
}

fn plain(title: &str) -> String {
    title.trim().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn same_titles_and_similar_ones_with_shared_tags_replace() {
        for (title, new, old_title, old, expected) in [
            ("Cargo Bench", "a", "cargo bench", "b", true),
            (
                "Cargo bench needs nightly",
                "cargo nightly",
                "Cargo bench",
                "cargo nightly bench",
                true,
            ),
            (
                "Cargo bench needs nightly",
                "cargo x",
                "Cargo bench",
                "cargo nightly bench",
                false,
            ),
            (
                "Cargo bench needs nightly",
                "cargo",
                "Cargo bench",
                "CARGO nightly bench",
                true,
            ),
            (
                "Cargo test",
                "cargo nightly",
                "Cargo bench",
                "cargo nightly",
                false,
            ),
            ("", "a", "x", "a", false),
        ] {
            assert_eq!(
                replaces(title, &tags(new), old_title, &tags(old)),
                expected,
                "{title} / {old_title}"
            );
        }
        let old = tags("a B");
        assert_eq!(
            merged_tags([old.as_slice()].into_iter(), &tags("b c")),
            tags("a B c")
        );
    }
}
