#![allow(clippy::unwrap_used)]

use std::collections::HashMap;

use proptest::prelude::*;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::*;

const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

/// A small memory: title, body, paths, days of age.
struct Memory {
    scope: Scope,
    docs: Vec<Doc>,
    stats: Stats,
}

impl Memory {
    fn of(entries: &[(&str, &str, &[&str], i64)]) -> Self {
        let scope = Scope::new("here", Kind::Learning);
        let mut stats = Stats {
            entries: i64::try_from(entries.len()).unwrap(),
            ..Stats::default()
        };
        let mut frequency: HashMap<i64, i64> = HashMap::new();
        let analysed: Vec<Analysed> = entries
            .iter()
            .map(|(title, body, paths, _)| {
                let paths: Vec<String> = paths.iter().map(|&path| path.to_owned()).collect();
                analyse(scope, title, body, &paths, &[])
            })
            .collect();
        for words in &analysed {
            for key in words.keys(scope) {
                *frequency.entry(key).or_default() += 1;
            }
            for (sum, words) in
                stats
                    .words
                    .iter_mut()
                    .zip([&words.title, &words.body, &words.place, &words.tags])
            {
                *sum += i64::try_from(words.len()).unwrap();
            }
        }
        let docs = analysed
            .into_iter()
            .zip(entries)
            .zip(1..)
            .map(|((words, (.., days)), id)| Doc {
                entry: Uuid::from_u128(id),
                created_at: NOW - Duration::days(*days),
                words,
            })
            .collect();
        stats.frequency = frequency;
        Self { scope, docs, stats }
    }

    fn asked(&self, title: &str, description: &str) -> Ranking {
        let query = Query::new(title, description, "");
        let docs: Vec<&Doc> = self.docs.iter().collect();
        let files =
            first_hits(&query, self.scope, &self.stats, &docs, NOW).weigh(&self.stats, &self.stats.frequency);
        rank(&query, self.scope, &self.stats, &docs, &files, NOW)
    }

    /// The ids of the best hits, in order.
    fn best(&self, title: &str, count: usize) -> Vec<u128> {
        let ranking = self.asked(title, "");
        ranking
            .hits
            .iter()
            .take(count)
            .map(|hit| hit.entry.as_u128())
            .collect()
    }
}

#[test]
fn rare_words_count_more_than_frequent_ones() {
    let memory = Memory::of(&[
        ("Parser rejects tabs", "", &[], 1),
        ("Parser reads numbers", "", &[], 1),
        ("Parser of dates", "", &[], 1),
        ("Scheduler drifts", "", &[], 1),
    ]);
    assert_eq!(memory.best("Parser drifts", 1), [4]);
    assert_eq!(memory.best("The parser and its tabs", 1), [1]);
}

#[test]
fn entries_on_the_files_of_the_first_hits_rank_higher() {
    let memory = Memory::of(&[
        ("Serial numbers wrap around", "", &["src/zone/serial.rs"], 1),
        ("Keep it sorted", "", &["src/zone/serial.rs"], 1),
        ("Colours of the button", "", &["app/button.ts"], 1),
    ]);
    assert_eq!(memory.best("Compare serial numbers", 2), [1, 2]);
}

#[test]
fn an_entry_gains_from_others_with_the_same_files() {
    let memory = Memory::of(&[
        ("Serial numbers wrap around", "", &["src/zone/serial.rs"], 1),
        ("Keep it sorted", "", &["src/zone/serial.rs"], 1),
        ("Keep it plain", "", &["app/button.ts"], 1),
    ]);
    let ranking = memory.asked("Compare serial numbers", "");
    let kin: HashMap<u128, f64> = ranking
        .hits
        .iter()
        .map(|hit| (hit.entry.as_u128(), hit.parts.kin))
        .collect();
    assert!(kin[&2] == 1.0 && kin[&1] < 0.1 && kin[&3] == 0.0, "{kin:?}");
}

#[test]
fn all_texts_on_a_file_describe_it_together() {
    let memory = Memory::of(&[
        ("Serial numbers wrap around", "", &["src/zone/serial.rs"], 1),
        ("Zones are compared", "", &["src/zone/serial.rs"], 1),
        ("Serial ports", "", &["src/port.rs"], 1),
        ("Plain", "", &[], 1),
    ]);
    let ranking = memory.asked("Compare serial numbers of zones", "");
    let scores: HashMap<u128, f64> = ranking
        .hits
        .iter()
        .map(|hit| (hit.entry.as_u128(), hit.parts.told))
        .collect();
    assert!(
        scores[&1] == 1.0 && scores[&2] == 1.0 && scores[&3] < 0.5 && scores[&4] == 0.0,
        "{scores:?}"
    );
}

#[test]
fn the_area_of_a_title_is_searched_in_the_paths() {
    let memory = Memory::of(&[
        ("Plain", "", &["cli/src/main.rs"], 1),
        ("Other", "", &["lib/src/main.rs"], 1),
    ]);
    for title in [
        "cli: Say more",
        "[cli] Say more",
        "fix(cli): Say more",
        "fix(cli)!: Say more",
    ] {
        let ranking = memory.asked(title, "plain other");
        let areas: HashMap<u128, f64> = ranking
            .hits
            .iter()
            .map(|hit| (hit.entry.as_u128(), hit.parts.area))
            .collect();
        assert!(areas[&1] > 0.0 && areas[&2] == 0.0, "{title}: {areas:?}");
    }
    let ranking = memory.asked("Say more of the cli", "");
    assert!(ranking.hits.iter().all(|hit| hit.parts.area == 0.0));
}

#[test]
fn a_title_counts_by_its_share_in_the_question() {
    let memory = Memory::of(&[
        ("Serial numbers", "", &[], 1),
        ("Serial numbers of invoices in French", "", &[], 1),
    ]);
    let ranking = memory.asked("Compare serial numbers", "");
    let titles: Vec<f64> = ranking.hits.iter().map(|hit| hit.parts.title).collect();
    assert!(titles[0] == 1.0 && titles[1] < 0.5, "{titles:?}");
}

#[test]
fn neighbouring_words_of_a_path_are_found() {
    let memory = Memory::of(&[
        ("One", "", &["src/edit/bulk.rs"], 1),
        ("Other", "", &["src/bulk_edit.rs"], 1),
    ]);
    assert_eq!(memory.best("The bulk edit fails", 1), [2]);
}

#[test]
fn the_newer_of_two_equal_entries_is_first() {
    let memory = Memory::of(&[
        ("Retry with jitter", "one", &["a.rs"], 900),
        ("Retry with jitter", "two", &["b.rs"], 2),
    ]);
    assert_eq!(memory.best("Retry with jitter", 2), [2, 1]);
}

#[test]
fn a_name_is_found_however_it_is_written() {
    let memory = Memory::of(&[
        ("Bulk edits", "`parse_bulk_edit` is strict", &[], 1),
        ("Edit the parser", "in bulk", &[], 1),
    ]);
    assert_eq!(memory.best("parseBulkEdit fails", 1), [1]);
}

#[test]
fn confidence_distinguishes_an_answer_from_none() {
    let memory = Memory::of(&[
        (
            "Serial numbers of zone files wrap around",
            "RFC 1982",
            &["src/zone/serial.rs"],
            1,
        ),
        ("Colours of the button", "", &["app/button.ts"], 1),
        ("Add a flag to the command line", "", &["src/main.rs"], 1),
    ]);
    let floor = Floor::of(3, None);
    assert!(
        floor.admits(
            memory
                .asked("Compare the serial numbers of two zones", "")
                .confidence
        )
    );
    assert!(
        !floor.admits(
            memory
                .asked("Translate invoices to French", "and add tests")
                .confidence
        )
    );
    assert!(memory.asked("Nothing shared whatsoever", "").hits.is_empty());
}

#[test]
fn scopes_share_no_keys() {
    let keys = |scope| analyse(scope, "Parser", "", &[], &[]).keys(scope);
    let one = keys(Scope::new("one", Kind::Learning));
    for other in [
        Scope::new("two", Kind::Learning),
        Scope::new("one", Kind::Knowledge),
    ] {
        assert!(keys(other).iter().all(|key| !one.contains(key)));
    }
}

#[test]
fn stored_keys_never_change() {
    assert_eq!(words::hash("parser"), 0xe149_deba);
    let scope = Scope::new("one", Kind::Learning);
    assert_eq!(
        analyse(scope, "Parser", "", &[], &[]).keys(scope),
        [-1_728_251_609_031_331_360]
    );
}

#[test]
fn a_question_reads_a_bounded_part_of_the_index() {
    let scope = Scope::new("here", Kind::Learning);
    let query = Query::new("common rare words stand here", "", "");
    let mut stats = Stats {
        entries: 100_000,
        ..Stats::default()
    };
    for key in query.lookups(scope) {
        stats.frequency.insert(key, 900);
    }
    let wanted = query.candidate_lookups(scope, &stats);
    assert!(!wanted.is_empty());
    assert!(i64::try_from(wanted.len()).unwrap() * 900 <= POSTINGS);
    for entries in stats.frequency.values_mut() {
        *entries = 50_000;
    }
    assert_eq!(
        query.candidate_lookups(scope, &stats).len(),
        1,
        "one key is always asked"
    );
}

proptest! {
    #[test]
    fn any_texts_can_be_queried_and_ranked(
        texts in proptest::collection::vec("\\PC{0,60}", 1..8), title in "\\PC{0,60}", text in "\\PC{0,200}",
    ) {
        let entries: Vec<(&str, &str, &[&str], i64)> =
            texts.iter().map(|text| (text.as_str(), text.as_str(), &[][..], 3)).collect();
        let memory = Memory::of(&entries);
        let ranking = memory.asked(&title, &text);
        prop_assert!(ranking.confidence.is_finite());
        prop_assert!(ranking.hits.iter().all(|hit| hit.score.is_finite()));
        prop_assert_eq!(ranking.clone(), memory.asked(&title, &text));
    }
}
