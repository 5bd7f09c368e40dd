//! An optional embedding model compares questions and entries (SPEC 6.5). Without it, and while it is slow or
//! away, words alone decide.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use sqlx::PgConnection;
use uuid::Uuid;

use super::recall::{Hits, Question};
use crate::domain::recall::Doc;
use crate::embedder::Embedder;
use crate::flow::Settings;
use crate::store;

/// Time limit of the model for a person's search.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy)]
pub struct Meaning<'a> {
    embedder: Option<&'a Embedder>,
    /// How long the caller can wait.
    within: Duration,
    /// Calibration vectors; then the model is not asked.
    known: Option<&'a Calibration>,
}

/// Vectors of a memory's own entries, used as questions before the meaning of distances in this memory is
/// known.
#[derive(Debug)]
pub(in crate::flow) struct Calibration {
    /// Vectors by the questions' texts.
    pub vectors: HashMap<String, Vec<f32>>,
    /// The mean of the memory's vectors.
    pub centre: Vec<f32>,
}

impl<'a> Meaning<'a> {
    pub const NONE: Self = Self {
        embedder: None,
        within: Duration::ZERO,
        known: None,
    };

    /// The time limit of a claim, whose worker has other work.
    pub fn of_claim(settings: &'a Settings) -> Self {
        let embedder = settings.embedder.as_ref();
        Self {
            embedder,
            within: embedder.map_or(Duration::ZERO, Embedder::timeout),
            known: None,
        }
    }

    /// For a person's search, which waits for the result.
    pub fn for_search(settings: &'a Settings) -> Self {
        Self {
            embedder: settings.embedder.as_ref(),
            within: SEARCH_TIMEOUT,
            known: None,
        }
    }

    /// Uses the known vectors of a memory's own entries.
    pub(in crate::flow) fn known(embedder: &'a Embedder, known: &'a Calibration) -> Self {
        Self {
            embedder: Some(embedder),
            within: Duration::ZERO,
            known: Some(known),
        }
    }

    /// The vectors of questions; none when the model fails or takes too long.
    pub(in crate::flow) async fn embed(self, questions: &[Question]) -> QuestionVectors<'a> {
        let Some(embedder) = self.embedder else {
            return QuestionVectors::default();
        };
        if let Some(known) = self.known {
            return QuestionVectors {
                embedder: Some(embedder),
                vectors: Cow::Borrowed(&known.vectors),
                centre: Some(&known.centre),
            };
        }
        // Questions of one task to several kinds have the same text.
        let texts: BTreeSet<&String> = questions
            .iter()
            .map(|q| &q.text)
            .filter(|text| !text.trim().is_empty())
            .collect();
        let texts: Vec<String> = texts.into_iter().cloned().collect();
        let vectors = embedder.questions(&texts, self.within).await.unwrap_or_default();
        QuestionVectors {
            embedder: Some(embedder),
            vectors: Cow::Owned(texts.into_iter().zip(vectors).collect()),
            centre: None,
        }
    }
}

/// Vectors of questions, by their text.
#[derive(Debug, Default)]
pub(in crate::flow) struct QuestionVectors<'a> {
    embedder: Option<&'a Embedder>,
    vectors: Cow<'a, HashMap<String, Vec<f32>>>,
    /// The centre of the vectors, while the meaning of distances is unknown.
    centre: Option<&'a [f32]>,
}

impl QuestionVectors<'_> {
    /// Reorders each answer's best hits by their vectors as well. Where the memory knows the meaning of
    /// distances, they also count for the floor. `docs_of` returns the hits of the question at an index.
    pub(in crate::flow) async fn order<'d>(
        &self,
        conn: &mut PgConnection,
        questions: &[Question],
        answers: &mut [Hits],
        docs_of: impl Fn(usize) -> Vec<&'d Doc>,
    ) -> sqlx::Result<()> {
        let Some((embedder, dimensions)) = self.embedder.and_then(|e| Some((e, e.dimensions()?))) else {
            return Ok(());
        };
        let entries: BTreeSet<Uuid> = answers
            .iter()
            .flat_map(|answer| answer.ranking.nearest())
            .collect();
        if entries.is_empty() || self.vectors.is_empty() {
            return Ok(());
        }
        let entries: Vec<Uuid> = entries.into_iter().collect();
        let vectors =
            store::memory::vectors::of_entries(conn, embedder.model(), dimensions, &entries).await?;
        let nearness = if self.centre.is_none() {
            let repos: BTreeSet<&String> = questions.iter().map(|q| &q.repo_id).collect();
            let repos: Vec<String> = repos.into_iter().cloned().collect();
            store::memory::similarity::of_memories(conn, embedder.model(), dimensions, &repos).await?
        } else {
            HashMap::new()
        };
        for (index, (question, answer)) in questions.iter().zip(answers).enumerate() {
            let Some(vector) = self.vectors.get(&question.text) else {
                continue;
            };
            let nearness = nearness.get(&(question.repo_id.clone(), question.kind));
            let centre = self.centre.or(nearness.map(|found| found.centre.as_slice()));
            let ranking = std::mem::take(&mut answer.ranking);
            answer.ranking = ranking.with_meaning(vector, &vectors, &docs_of(index), centre);
            if let Some(nearness) = nearness {
                answer.weigh(nearness);
            }
        }
        Ok(())
    }
}
