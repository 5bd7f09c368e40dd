//! Finds what distances between vectors mean in each memory (SPEC 6.5). In the background, each memory with
//! vectors is queried with its own entries. The model itself is not asked.

use std::collections::HashMap;

use sqlx::PgConnection;
use uuid::Uuid;

use super::recall::{SAMPLE, about_itself, recall};
use crate::domain::recall::{CALIBRATION_DOCS, Kind, Nearness, Own, centre};
use crate::embedder::Embedder;
use crate::flow::memory::embedding::{Calibration, Meaning};
use crate::store;
use crate::store::memory::postings::Tail;

/// Queries memories that were never queried, or that grew; returns their number.
pub async fn calibrate(conn: &mut PgConnection, embedder: &Embedder) -> sqlx::Result<usize> {
    let Some(dimensions) = embedder.dimensions() else {
        return Ok(0);
    };
    let model = embedder.model();
    let memories = store::memory::similarity::unknown(conn, model, dimensions, CALIBRATION_DOCS).await?;
    for (repo_id, kind) in &memories {
        let found = find(conn, embedder, dimensions, repo_id, *kind).await?;
        store::memory::similarity::keep(conn, repo_id, *kind, model, found.as_ref()).await?;
    }
    Ok(memories.len())
}

async fn find(
    conn: &mut PgConnection,
    embedder: &Embedder,
    dimensions: usize,
    repo_id: &str,
    kind: Kind,
) -> sqlx::Result<Option<Nearness>> {
    let sample = store::memory::index::sample(conn, repo_id, kind, SAMPLE).await?;
    let entries: Vec<Uuid> = sample.iter().map(|doc| doc.entry).collect();
    let vectors = store::memory::vectors::of_entries(conn, embedder.model(), dimensions, &entries).await?;
    let centre = centre(sample.iter().filter_map(|doc| vectors.get(&doc.entry)));
    // The id of the entry stands for the text of the question.
    let vectors: HashMap<String, Vec<f32>> = vectors
        .into_iter()
        .map(|(entry, vector)| (entry.to_string(), vector))
        .collect();
    let questions = about_itself(repo_id, kind, &sample, |doc| doc.entry.to_string());
    let fresh = store::memory::postings::fresh(conn, &Tail::default()).await?;
    let known = Calibration { vectors, centre };
    let answers = recall(conn, Meaning::known(embedder, &known), &questions, &fresh).await?;
    let own: Vec<Own> = answers
        .iter()
        .filter_map(|answer| {
            Some(Own {
                confidence: answer.ranking.confidence,
                near: answer.ranking.near?,
            })
        })
        .collect();
    Ok(Nearness::of(known.centre, &own))
}
