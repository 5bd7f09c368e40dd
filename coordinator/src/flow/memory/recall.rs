//! Queries the memory for any number of questions of any kinds (SPEC 6.5). One query counts their words, two
//! find candidates in the index by words and by files, and two read the candidates. Claims, `memory search`
//! and the calibration of floors use this.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use sqlx::PgConnection;
use time::{Duration, OffsetDateTime};

use crate::domain::recall::{
    CALIBRATION_DOCS, Doc, FileWeights, FirstHits, Floor, Kind, Lookup, Nearness, Query, Ranking, Scope,
    Stats, UNANSWERED, candidates, first_hits, quantile_floor, rank,
};
use crate::flow::memory::embedding::Meaning;
use crate::store;
use crate::store::memory::index::{Indexed, MemoryFacts};
use crate::store::memory::postings::Tail;

/// Most candidates of a question by its words, and further ones by files.
const BY_WORDS: usize = 80;
const BY_FILES: usize = 40;
/// Newest blocks of a key that are read, 128 entries each; for a word, as many as one question may read in
/// all.
const WORD_BLOCKS: i64 = 16;
const FILE_BLOCKS: i64 = 4;
/// Own entries that a memory is queried with. With 150 the floor varied by chance: the share of unanswered
/// questions had a standard deviation of 2.1 points over eight histories; with 600 it has 0.8.
pub(in crate::flow) const SAMPLE: i64 = 600;
/// Minimum age difference between an entry and its possible answers: its own neighbours would answer too
/// well.
const APART: Duration = Duration::days(14);
/// Questions that share their queries.
const TOGETHER: usize = 64;

/// A question to the entries of one kind.
#[derive(Debug, Clone)]
pub struct Question {
    /// Repository of the memory.
    pub repo_id: String,
    pub kind: Kind,
    pub query: Query,
    /// The question in words, for an embedding model.
    pub text: String,
    /// The time of the question; only older entries count.
    pub now: OffsetDateTime,
}

impl Question {
    fn scope(&self) -> Scope {
        Scope::new(&self.repo_id, self.kind)
    }
}

#[derive(Debug, Clone)]
pub struct Hits {
    /// Best first, of any confidence.
    pub ranking: Ranking,
    /// The confidence that its own confidence must reach.
    pub floor: Floor,
    /// Number of entries that it was chosen from.
    pub entries: i64,
}

impl Hits {
    fn nothing() -> Self {
        Self {
            ranking: Ranking::default(),
            floor: Floor::of(0, None),
            entries: 0,
        }
    }

    /// Includes its vectors, if any, in its confidence and in the floor.
    pub(in crate::flow) fn weigh(&mut self, nearness: &Nearness) {
        if let Some(near) = self.ranking.near {
            self.ranking.confidence = nearness.confidence(self.entries, self.ranking.confidence, near);
            self.floor = Floor::of(self.entries, Some(nearness.floor));
        }
    }

    /// Whether it may be shown.
    pub fn is_good(&self) -> bool {
        !self.ranking.hits.is_empty() && self.floor.admits(self.ranking.confidence)
    }
}

/// Answers questions, in their order. Without a memory this takes one query. `fresh` are the waiting entries,
/// read before: an entry that is merged meanwhile is found twice rather than never.
pub async fn recall(
    conn: &mut PgConnection,
    meaning: Meaning<'_>,
    questions: &[Question],
    fresh: &[Arc<Indexed>],
) -> sqlx::Result<Vec<Hits>> {
    let mut answers = Vec::with_capacity(questions.len());
    for together in questions.chunks(TOGETHER) {
        answers.extend(recall_together(conn, meaning, together, fresh).await?);
    }
    Ok(answers)
}

async fn recall_together(
    conn: &mut PgConnection,
    meaning: Meaning<'_>,
    questions: &[Question],
    fresh: &[Arc<Indexed>],
) -> sqlx::Result<Vec<Hits>> {
    let memories = Memories::read(conn, questions).await?;
    if questions.iter().all(|q| memories.of(q).is_none()) {
        return Ok(questions.iter().map(|_| Hits::nothing()).collect());
    }
    let by_words: Vec<Vec<Lookup>> = questions.iter().map(|q| memories.lookups(q)).collect();
    let keys = distinct(by_words.iter().flatten().map(|wanted| wanted.key));
    // The model works while the index is read.
    let (asked, postings) = tokio::join!(
        meaning.embed(questions),
        store::memory::postings::read(conn, &keys, WORD_BLOCKS, fresh)
    );
    let postings = postings?;
    let mut docs = Candidates::default();
    let found = questions.iter().zip(&by_words);
    let found = found.map(|(q, wanted)| candidates(&postings, wanted, q.now, BY_WORDS));
    docs.read(conn, found.collect()).await?;

    let of_words: Vec<Vec<&Doc>> = questions
        .iter()
        .enumerate()
        .map(|(index, q)| docs.of(index, q.now))
        .collect();
    let hits: Vec<FirstHits<'_>> = questions
        .iter()
        .zip(&of_words)
        .map(|(q, docs)| first_hits(&q.query, q.scope(), memories.stats(q), docs, q.now))
        .collect();
    let keys = distinct(hits.iter().flat_map(FirstHits::files));
    let (postings, counts) = store::memory::postings::read_counted(conn, &keys, FILE_BLOCKS, fresh).await?;
    let files: Vec<FileWeights> = questions
        .iter()
        .zip(&hits)
        .map(|(q, hits)| hits.weigh(memories.stats(q), &counts))
        .collect();
    let found = questions.iter().zip(&files);
    let found = found.map(|(q, files)| candidates(&postings, &files.lookups(), q.now, BY_FILES));
    let found = found.collect();
    docs.read(conn, found).await?;
    let mut answers: Vec<Hits> = questions
        .iter()
        .enumerate()
        .map(|(index, q)| memories.hits(q, &docs.of(index, q.now), &files[index]))
        .collect();
    let docs_of = |index: usize| docs.of(index, questions[index].now);
    asked.order(conn, questions, &mut answers, docs_of).await?;
    Ok(answers)
}

/// Counts of the memories that the questions address.
struct Memories {
    known: HashMap<(String, Kind), MemoryFacts>,
    none: Stats,
}

impl Memories {
    async fn read(conn: &mut PgConnection, questions: &[Question]) -> sqlx::Result<Self> {
        let repos: BTreeSet<&str> = questions.iter().map(|q| q.repo_id.as_str()).collect();
        let repos: Vec<String> = repos.into_iter().map(str::to_owned).collect();
        let keys = distinct(questions.iter().flat_map(|q| q.query.lookups(q.scope())));
        Ok(Self {
            known: store::memory::index::lookup(conn, &repos, &keys).await?,
            none: Stats::default(),
        })
    }

    fn of(&self, q: &Question) -> Option<&MemoryFacts> {
        self.known.get(&(q.repo_id.clone(), q.kind))
    }

    fn stats(&self, q: &Question) -> &Stats {
        self.of(q).map_or(&self.none, |memory| &memory.stats)
    }

    fn lookups(&self, q: &Question) -> Vec<Lookup> {
        let of_memory = |memory: &MemoryFacts| q.query.candidate_lookups(q.scope(), &memory.stats);
        self.of(q).map_or(Vec::new(), of_memory)
    }

    fn hits(&self, q: &Question, docs: &[&Doc], files: &FileWeights) -> Hits {
        let stats = self.stats(q);
        Hits {
            ranking: rank(&q.query, q.scope(), stats, docs, files, q.now),
            floor: Floor::of(stats.entries, self.of(q).and_then(|memory| memory.floor)),
            entries: stats.entries,
        }
    }
}

/// Each key once, in order.
fn distinct(keys: impl Iterator<Item = i64>) -> Vec<i64> {
    keys.collect::<BTreeSet<i64>>().into_iter().collect()
}

/// Candidates of several questions, each read once.
#[derive(Default)]
struct Candidates {
    docs: HashMap<i64, Doc>,
    of: HashMap<usize, BTreeSet<i64>>,
}

impl Candidates {
    async fn read(&mut self, conn: &mut PgConnection, found: Vec<Vec<i64>>) -> sqlx::Result<()> {
        let unread = distinct(
            found
                .iter()
                .flatten()
                .copied()
                .filter(|id| !self.docs.contains_key(id)),
        );
        for (index, ids) in found.into_iter().enumerate() {
            self.of.entry(index).or_default().extend(ids);
        }
        if !unread.is_empty() {
            self.docs.extend(store::memory::index::docs(conn, &unread).await?);
        }
        Ok(())
    }

    /// The candidates of a question, without entries of its own time or later.
    fn of(&self, index: usize, now: OffsetDateTime) -> Vec<&Doc> {
        let ids = self.of.get(&index);
        ids.into_iter()
            .flatten()
            .filter_map(|id| self.docs.get(id))
            .filter(|doc| doc.created_at < now)
            .collect()
    }
}

/// Finds the floors of memories that grew; returns their number.
pub async fn calibrate(conn: &mut PgConnection) -> sqlx::Result<usize> {
    let memories = store::memory::index::uncalibrated(conn, CALIBRATION_DOCS).await?;
    for (repo_id, kind) in &memories {
        let sample = store::memory::index::sample(conn, repo_id, *kind, SAMPLE).await?;
        let questions = about_itself(repo_id, *kind, &sample, |_| String::new());
        let fresh = store::memory::postings::fresh(conn, &Tail::default()).await?;
        let answers = recall(conn, Meaning::NONE, &questions, &fresh).await?;
        let confidences = answers
            .iter()
            .filter(|answer| !answer.ranking.hits.is_empty())
            .map(|answer| answer.ranking.confidence)
            .collect();
        store::memory::index::keep_floor(conn, repo_id, *kind, quantile_floor(confidences, UNANSWERED))
            .await?;
    }
    Ok(memories.len())
}

/// A memory's own entries as questions to older ones.
pub(in crate::flow) fn about_itself(
    repo_id: &str,
    kind: Kind,
    sample: &[Doc],
    text: impl Fn(&Doc) -> String,
) -> Vec<Question> {
    let question = |doc: &Doc| Question {
        repo_id: repo_id.to_owned(),
        kind,
        query: Query::of_entry(&doc.words),
        text: text(doc),
        now: doc.created_at - APART,
    };
    sample.iter().map(question).collect()
}
