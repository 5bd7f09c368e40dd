//! What an outside model says of questions and entries, where one is configured (SPEC 6.5). Without it, and while it is slow or
//! away, answers are those of words alone.

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

/// How long a person waits for the model.
const PERSON_WAITS: Duration = Duration::from_secs(10);

/// A model, and how long it may take.
#[derive(Debug, Clone, Copy)]
pub struct Meaning<'a> {
    /// The model.
    embedder: Option<&'a Embedder>,
    /// How long whoever asks can wait for it.
    within: Duration,
    /// What it said before: then it isn't asked.
    known: Option<&'a Calibration>,
}

/// What is known of a memory's own entries, which are asked as questions before it is known what vectors mean there.
#[derive(Debug)]
pub(in crate::flow) struct Calibration {
    /// Vectors by the questions' texts.
    pub vectors: HashMap<String, Vec<f32>>,
    /// The mean of the memory's vectors.
    pub centre: Vec<f32>,
}

impl<'a> Meaning<'a> {
    /// No model.
    pub const NONE: Self = Self {
        embedder: None,
        within: Duration::ZERO,
        known: None,
    };

    /// What a claim waits for at most: its worker has work all the same.
    pub fn of_claim(settings: &'a Settings) -> Self {
        let embedder = settings.embedder.as_ref();
        Self {
            embedder,
            within: embedder.map_or(Duration::ZERO, Embedder::timeout),
            known: None,
        }
    }

    /// What a person waits for.
    pub fn of_person(settings: &'a Settings) -> Self {
        Self {
            embedder: settings.embedder.as_ref(),
            within: PERSON_WAITS,
            known: None,
        }
    }

    /// What it said of a memory's own entries.
    pub(in crate::flow) fn known(embedder: &'a Embedder, known: &'a Calibration) -> Self {
        Self {
            embedder: Some(embedder),
            within: Duration::ZERO,
            known: Some(known),
        }
    }

    /// The vectors of questions; none of them when the model fails or takes too long.
    pub(in crate::flow) async fn ask(self, questions: &[Question]) -> Asked<'a> {
        let Some(embedder) = self.embedder else {
            return Asked::default();
        };
        if let Some(known) = self.known {
            return Asked {
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
        Asked {
            embedder: Some(embedder),
            vectors: Cow::Owned(texts.into_iter().zip(vectors).collect()),
            centre: None,
        }
    }
}

/// Vectors of questions, by their text.
#[derive(Debug, Default)]
pub(in crate::flow) struct Asked<'a> {
    embedder: Option<&'a Embedder>,
    vectors: Cow<'a, HashMap<String, Vec<f32>>>,
    /// Given where it isn't known yet what they mean.
    centre: Option<&'a [f32]>,
}

impl Asked<'_> {
    /// Puts each answer's best hits into the order that their vectors give as well, and has these count for whether it is shown where the
    /// memory showed what they mean. `docs_of` has the hits of the question at a place.
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
