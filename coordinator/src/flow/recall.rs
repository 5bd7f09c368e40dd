//! Asks the memory: three queries for any number of questions, whatever their kinds (SPEC 6.5). The claim, `memory search`
//! and the calibration of floors go this way.

use std::collections::{BTreeSet, HashMap};

use sqlx::PgConnection;
use time::{Duration, OffsetDateTime};

use super::meaning::Meaning;
use crate::domain::recall::{
    CALIBRATION_DOCS, Doc, FileWeights, Floor, Kind, Query, Ranking, Scope, Stats, first_hits,
    quantile_floor, rank,
};
use crate::store;
use crate::store::recall::Ask;

/// Candidates of a question by its words, and further ones by files.
const BY_WORDS: i64 = 120;
const BY_FILES: i64 = 50;
/// Entries that a memory is asked about itself.
const SAMPLE: i64 = 150;
/// An entry is asked among those that are so much older: its own neighbours would answer too well.
const APART: Duration = Duration::days(14);
/// Questions that share their queries.
const TOGETHER: usize = 64;

/// A question to the entries of one kind.
#[derive(Debug, Clone)]
pub struct Question {
    /// Whose memory.
    pub repo_id: String,
    /// Which part of it.
    pub kind: Kind,
    /// What is asked.
    pub query: Query,
    /// The same in words, for an outside model.
    pub text: String,
    /// The moment of asking; only entries older than it count.
    pub now: OffsetDateTime,
}

impl Question {
    fn scope(&self) -> Scope {
        Scope::new(&self.repo_id, self.kind)
    }
}

/// What the memory has.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Best first, of any confidence.
    pub ranking: Ranking,
    /// What its confidence has to reach.
    pub floor: Floor,
}

impl Answer {
    fn nothing() -> Self {
        Self {
            ranking: Ranking::default(),
            floor: Floor::of(0, None),
        }
    }

    /// Whether it may be shown.
    pub fn is_good(&self) -> bool {
        !self.ranking.hits.is_empty() && self.floor.admits(self.ranking.confidence)
    }
}

/// Answers questions, in their order. Where no memory is, it takes one query.
pub async fn recall(
    conn: &mut PgConnection,
    meaning: Meaning<'_>,
    questions: &[Question],
) -> sqlx::Result<Vec<Answer>> {
    let mut answers = Vec::with_capacity(questions.len());
    for together in questions.chunks(TOGETHER) {
        answers.extend(recall_together(conn, meaning, together).await?);
    }
    Ok(answers)
}

async fn recall_together(
    conn: &mut PgConnection,
    meaning: Meaning<'_>,
    questions: &[Question],
) -> sqlx::Result<Vec<Answer>> {
    let repos: BTreeSet<&str> = questions.iter().map(|q| q.repo_id.as_str()).collect();
    let repos: Vec<String> = repos.into_iter().map(str::to_owned).collect();
    let keys: BTreeSet<i64> = questions
        .iter()
        .flat_map(|q| q.query.lookups(q.scope()))
        .collect();
    let keys: Vec<i64> = keys.into_iter().collect();
    let memories = store::recall::lookup(conn, &repos, &keys).await?;
    let memory_of = |q: &Question| memories.get(&(q.repo_id.clone(), q.kind));
    if questions.iter().all(|q| memory_of(q).is_none()) {
        return Ok(questions.iter().map(|_| Answer::nothing()).collect());
    }
    let none = Stats::default();
    let stats_of = |q: &Question| memory_of(q).map_or(&none, |memory| &memory.stats);
    let by_words: Vec<Ask> = questions
        .iter()
        .map(|q| Ask {
            before: q.now,
            wanted: memory_of(q).map_or(Vec::new(), |memory| q.query.wanted(q.scope(), &memory.stats)),
        })
        .collect();
    let mut docs = Candidates::default();
    // The model thinks while the index is read.
    let (asked, found) = tokio::join!(
        meaning.ask(questions),
        store::recall::candidates(conn, &by_words, BY_WORDS)
    );
    docs.add(found?);
    let files: Vec<FileWeights> = questions
        .iter()
        .enumerate()
        .map(|(index, q)| first_hits(&q.query, q.scope(), stats_of(q), &docs.of(index), q.now))
        .collect();
    let by_files: Vec<Ask> = questions
        .iter()
        .zip(&files)
        .map(|(q, files)| Ask {
            before: q.now,
            wanted: files.wanted(),
        })
        .collect();
    docs.add(store::recall::candidates(conn, &by_files, BY_FILES).await?);
    let mut answers: Vec<Answer> = questions
        .iter()
        .enumerate()
        .map(|(index, q)| Answer {
            ranking: rank(
                &q.query,
                q.scope(),
                stats_of(q),
                &docs.of(index),
                &files[index],
                q.now,
            ),
            floor: memory_of(q).map_or(Floor::of(0, None), |memory| {
                Floor::of(memory.stats.entries, memory.floor)
            }),
        })
        .collect();
    asked.order(conn, questions, &mut answers).await?;
    Ok(answers)
}

/// Candidates of several questions, each read once.
#[derive(Default)]
struct Candidates {
    docs: HashMap<uuid::Uuid, Doc>,
    of: HashMap<usize, BTreeSet<uuid::Uuid>>,
}

impl Candidates {
    fn add(&mut self, found: Vec<(Vec<usize>, Doc)>) {
        for (asked, doc) in found {
            for index in asked {
                self.of.entry(index).or_default().insert(doc.entry);
            }
            self.docs.entry(doc.entry).or_insert(doc);
        }
    }

    fn of(&self, index: usize) -> Vec<&Doc> {
        let entries = self.of.get(&index);
        entries
            .into_iter()
            .flatten()
            .filter_map(|entry| self.docs.get(entry))
            .collect()
    }
}

/// Finds the floors of memories that grew; returns how many.
pub async fn calibrate(conn: &mut PgConnection) -> sqlx::Result<usize> {
    let memories = store::recall::uncalibrated(conn, CALIBRATION_DOCS).await?;
    for (repo_id, kind) in &memories {
        let sample = store::recall::sample(conn, repo_id, *kind, SAMPLE).await?;
        let questions: Vec<Question> = sample
            .iter()
            .map(|doc| Question {
                repo_id: repo_id.clone(),
                kind: *kind,
                query: Query::of_entry(&doc.words),
                text: String::new(),
                now: doc.created_at - APART,
            })
            .collect();
        let answers = recall(conn, Meaning::NONE, &questions).await?;
        let confidences = answers
            .iter()
            .filter(|answer| !answer.ranking.hits.is_empty())
            .map(|answer| answer.ranking.confidence)
            .collect();
        store::recall::keep_floor(conn, repo_id, *kind, quantile_floor(confidences)).await?;
    }
    Ok(memories.len())
}
