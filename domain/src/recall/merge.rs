//! Whether one knowledge entry replaces another (SPEC 6.5).

use std::collections::BTreeSet;

use ralph_shared::sigil::MOST_TAGS;

/// Whether the titles are the same in any case, or one is inside the other with more than half of the smaller
/// set of tags shared.
pub fn replaces(title: &str, tags: &[String], old_title: &str, old_tags: &[String]) -> bool {
    let (title, old_title) = (plain(title), plain(old_title));
    if title == old_title {
        return true;
    }
    if title.is_empty() || old_title.is_empty() {
        return false;
    }
    let (tags, old_tags) = (set(tags), set(old_tags));
    let shared = tags.intersection(&old_tags).count();
    let inside = title.contains(&old_title) || old_title.contains(&title);
    inside && shared * 2 > tags.len().min(old_tags.len())
}

/// Whether two entries have the same content: title and tags in any case, and the body except for surrounding
/// blanks and line ends.
pub fn is_same_content(one: (&str, &[String], &str), other: (&str, &[String], &str)) -> bool {
    let body = |text: &str| text.trim().replace("\r\n", "\n");
    plain(one.0) == plain(other.0) && set(one.1) == set(other.1) && body(one.2) == body(other.2)
}

/// The new tags and those of replaced entries, in their order, each once. If there are more than
/// [`MOST_TAGS`], drops the oldest that are not new.
pub fn merged_tags<'a>(old: impl Iterator<Item = &'a [String]>, new: &'a [String]) -> Vec<String> {
    let own: BTreeSet<String> = new.iter().map(|tag| tag.to_lowercase()).collect();
    let mut seen = BTreeSet::new();
    let mut tags: Vec<String> = old
        .flatten()
        .chain(new)
        .filter(|tag| seen.insert(tag.to_lowercase()))
        .cloned()
        .collect();
    let mut surplus = tags.len().saturating_sub(MOST_TAGS);
    tags.retain(|tag| {
        let goes = surplus > 0 && !own.contains(&tag.to_lowercase());
        surplus -= usize::from(goes);
        !goes
    });
    tags.truncate(MOST_TAGS);
    tags
}

fn set(tags: &[String]) -> BTreeSet<String> {
    let tags = tags.iter().map(|tag| tag.to_lowercase());
    tags.filter(|tag| !tag.is_empty()).collect()
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

    #[test]
    fn the_oldest_tags_go_when_there_are_too_many() {
        let many = |from: usize, to: usize| (from..to).map(|n| format!("t{n}")).collect::<Vec<_>>();
        let (old, new) = (many(0, MOST_TAGS), tags("T0 new"));
        let merged = merged_tags([old.as_slice()].into_iter(), &new);
        assert_eq!(merged.len(), MOST_TAGS);
        assert_eq!(merged[..2], tags("t0 t2"));
        assert_eq!(merged[MOST_TAGS - 1], "new");
        let more = many(0, MOST_TAGS + 5);
        assert_eq!(
            merged_tags([old.as_slice()].into_iter(), &more),
            many(0, MOST_TAGS)
        );
    }

    #[test]
    fn content_is_equal_regardless_of_case_tag_order_and_line_ends() {
        let (own, other) = (tags("dns Zone"), tags("zone DNS"));
        let one = ("Zones", own.as_slice(), "They wrap.\r\nAlways.\n");
        for (another, expected) in [
            (("zones ", other.as_slice(), "They wrap.\nAlways."), true),
            (("zones", &other[1..], "They wrap.\nAlways."), false),
            (("Zone", other.as_slice(), "They wrap.\nAlways."), false),
            (("zones", other.as_slice(), "They wrap."), false),
        ] {
            assert_eq!(is_same_content(one, another), expected, "{another:?}");
        }
    }
}
