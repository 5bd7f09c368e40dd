//! "Did you mean …?"

/// The candidate nearest to `word`, when it is near enough to be a typing error: at most one edit in three
/// characters, case aside.
pub fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let word = word.to_lowercase();
    let far = word.len() / 3 + 2;
    candidates
        .into_iter()
        .filter(|candidate| candidate.len().abs_diff(word.len()) < far)
        .map(|candidate| (strsim::osa_distance(&word, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance < far)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `; did you mean …?` or nothing.
pub fn did_you_mean<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> String {
    nearest(word, candidates).map_or_else(String::new, |found| {
        format!("; did you mean {}?", super::printable::quote(found))
    })
}

/// Words of other systems for `after`, without case, `_` and `-`.
const AFTER: [&str; 13] = [
    "blockedby",
    "blockers",
    "dep",
    "dependencies",
    "dependency",
    "depends",
    "dependson",
    "deps",
    "need",
    "needs",
    "prerequisites",
    "requires",
    "waitsfor",
];

/// Whether a field means `after` under another word, or with a typing error.
pub fn means_after(field: &str) -> bool {
    let word: String = field
        .chars()
        .filter(|c| !matches!(c, '_' | '-' | ' '))
        .flat_map(char::to_lowercase)
        .collect();
    AFTER.contains(&word.as_str()) || strsim::osa_distance(&word, "after") == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_other_systems_for_after_are_known() {
        for field in [
            "depends_on",
            "dependsOn",
            "depends-on",
            "needs",
            "deps",
            "dependencies",
            "blocked_by",
            "requires",
            "afer",
            "aftr",
            "aftre",
        ] {
            assert!(means_after(field), "{field}");
        }
        for field in ["after", "alt", "water", "blocks", "description", "x-needs", ""] {
            assert!(!means_after(field), "{field}");
        }
    }
}
