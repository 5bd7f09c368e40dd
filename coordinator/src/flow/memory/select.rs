//! Chooses entries among ranked hits: reads their texts, weighs verified outcomes, and says why others are
//! not shown.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use sqlx::PgConnection;
use uuid::Uuid;

use super::recall::{Hits, Question, recall};
use crate::domain::recall::{Dropped, Entry, Kind, Parts, select};
use crate::flow::memory::embedding::Meaning;
use crate::store;
use crate::store::memory::index::Indexed;
use crate::store::memory::library::Stored;

/// Hits of a question whose texts are read, unless more may be shown. Twice the most entries of one task, so
/// that a task can't hide the entries of others.
const READ: usize = 20;

#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Best first.
    pub shown: Vec<SelectedEntry>,
    /// The next ones, best first.
    pub left_out: Vec<(SelectedEntry, Dropped)>,
    /// Confidence of the best hits, and the floor.
    pub confidence: f64,
    /// See `confidence`.
    pub floor: f64,
    /// Number of entries that it was chosen from.
    pub entries: i64,
}

/// A chosen entry with its scores.
#[derive(Debug, Clone)]
pub struct SelectedEntry {
    pub entry: Stored,
    /// The fused score, weighted by outcomes.
    pub score: f64,
    pub parts: Parts,
}

/// Queries, reads and chooses at most `limit(kind)` entries for each question.
pub async fn select_entries(
    conn: &mut PgConnection,
    meaning: Meaning<'_>,
    questions: &[Question],
    fresh: &[Arc<Indexed>],
    limit: impl Fn(Kind) -> usize,
) -> sqlx::Result<Vec<Selection>> {
    let answers = recall(conn, meaning, questions, fresh).await?;
    let texts = texts(conn, questions, &answers, &limit).await?;
    Ok(questions
        .iter()
        .zip(&answers)
        .map(|(question, answer)| choose(answer, &texts, limit(question.kind)))
        .collect())
}

/// Most entries of a kind in a prompt (SPEC 6.5).
pub fn prompt_limit(kind: Kind) -> usize {
    match kind {
        Kind::Learning | Kind::Journal => 5,
        Kind::Knowledge => 8,
    }
}

async fn texts(
    conn: &mut PgConnection,
    questions: &[Question],
    answers: &[Hits],
    limit: impl Fn(Kind) -> usize,
) -> sqlx::Result<HashMap<Uuid, Stored>> {
    let mut texts = HashMap::new();
    for kind in Kind::ALL {
        let ids: BTreeSet<Uuid> = questions
            .iter()
            .zip(answers)
            .filter(|(question, _)| question.kind == kind)
            .flat_map(|(_, answer)| answer.ranking.hits.iter().take(READ.max(limit(kind))))
            .map(|hit| hit.entry)
            .collect();
        if ids.is_empty() {
            continue;
        }
        let ids: Vec<Uuid> = ids.into_iter().collect();
        let stored = store::memory::library::live(conn, kind, &ids).await?;
        texts.extend(stored.into_iter().map(|entry| (entry.id, entry)));
    }
    Ok(texts)
}

fn choose(answer: &Hits, texts: &HashMap<Uuid, Stored>, limit: usize) -> Selection {
    // Entries that were pruned, replaced or deleted meanwhile have no text any more.
    let (stored, entries): (Vec<&Stored>, Vec<Entry>) = answer
        .ranking
        .hits
        .iter()
        .take(READ.max(limit))
        .filter_map(|hit| {
            let stored = texts.get(&hit.entry)?;
            let entry = Entry {
                hit: *hit,
                category: stored.category.clone(),
                weight: stored.weight,
                id: stored.id,
                trusted: stored.trusted,
                task: stored.task,
                text: format!("{} {}", stored.title, stored.body),
            };
            Some((stored, entry))
        })
        .unzip();
    let (chosen, dropped) = select(&entries, limit);
    let picked = |index: usize, score: f64| SelectedEntry {
        entry: stored[index].clone(),
        score,
        parts: entries[index].hit.parts,
    };
    let mut shown: Vec<SelectedEntry> = chosen.iter().map(|one| picked(one.index, one.score)).collect();
    let mut left_out: Vec<(SelectedEntry, Dropped)> = dropped
        .iter()
        .map(|(index, why)| (picked(*index, entries[*index].hit.score), *why))
        .collect();
    if !answer.is_good() {
        let below = shown.drain(..).map(|one| (one, Dropped::BelowFloor));
        left_out = below.chain(left_out).collect();
    }
    Selection {
        shown,
        left_out,
        confidence: answer.ranking.confidence,
        floor: answer.floor.confidence(),
        entries: answer.entries,
    }
}
