//! A memory that is calibrated with vectors uses them together with words to decide whether it shows
//! anything.

use ralph_coordinator::domain::recall::Kind;
use ralph_coordinator::embedder::Embedder;
use ralph_coordinator::flow::memory::embedding::Meaning;
use ralph_coordinator::flow::memory::library::{self, QueryLine};
use ralph_coordinator::flow::{
    Settings,
    memory::{embed_entries, similarity},
};
use ralph_tests::harness::World;
use time::OffsetDateTime;

use super::model::Model;
use super::trust::settings;
use super::unrelated;

/// Confidence and floor of the answer to a task that resembles an entry, with the model or without.
async fn answer(world: &World, embedder: Option<&Embedder>) -> (f64, f64) {
    let asked = QueryLine {
        query_id: "q".to_owned(),
        date: OffsetDateTime::now_utc() + time::Duration::minutes(1),
        title: "sort the invoice of the calendar".to_owned(),
        description: String::new(),
    };
    let settings = embedder.map(|embedder| Settings {
        embedder: Some(embedder.clone()),
        ..settings()
    });
    let meaning = settings.as_ref().map_or(Meaning::NONE, Meaning::for_search);
    let picked = library::search(&world.db, meaning, "", Kind::Learning, &[asked], 5)
        .await
        .unwrap();
    // The order in which the scores of words are summed is random.
    let rounded = |confidence: f64| (confidence * 1e6).round() / 1e6;
    (rounded(picked[0].confidence), rounded(picked[0].floor))
}

async fn calibrate(world: &World, embedder: &Embedder) -> usize {
    similarity::calibrate(&mut world.db.acquire().await.unwrap(), embedder)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn vectors_count_once_the_memory_is_calibrated_with_them() {
    let model = Model::serve().await;
    let (runs, walks) = (model.embedder("runs"), model.embedder("walks"));
    let world = World::start_with(settings()).await.unwrap();
    unrelated::fill(&world, 600).await;
    let by_words = answer(&world, None).await;
    // The embedder knows its dimensions from here on.
    assert_eq!(answer(&world, Some(&runs)).await, by_words);
    assert_eq!(
        calibrate(&world, &runs).await,
        0,
        "the entries have no vectors yet"
    );

    embed_entries::settle(&world.db, &runs).await.unwrap();
    assert_eq!(answer(&world, Some(&runs)).await, by_words);
    let requests = model.requests();
    assert_eq!(calibrate(&world, &runs).await, 1);
    assert_eq!(
        model.requests(),
        requests,
        "the entries have their vectors already"
    );
    assert_eq!(calibrate(&world, &runs).await, 0, "the memory has not grown");
    let by_both = answer(&world, Some(&runs)).await;
    assert!(
        by_both.0 != by_words.0 && by_both.1 != by_words.1,
        "{by_both:?} {by_words:?}"
    );
    assert_eq!(answer(&world, None).await, by_words);

    // The calibration does not apply to another model.
    assert_eq!(answer(&world, Some(&walks)).await, by_words);
    embed_entries::settle(&world.db, &walks).await.unwrap();
    assert_eq!(calibrate(&world, &walks).await, 1);
    assert_eq!(
        answer(&world, Some(&walks)).await,
        by_both,
        "its vectors are the same"
    );
    assert_eq!(answer(&world, Some(&runs)).await, by_words);
}
