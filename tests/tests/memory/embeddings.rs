//! Vectors of an external model help to rank memory entries. While the model is away, slow or wrong, the
//! memory works without it.

use std::time::Duration;

use ralph_coordinator::domain::recall::Kind;
use ralph_coordinator::embedder::Embedder;
use ralph_coordinator::flow::Settings;
use ralph_coordinator::flow::memory::embed_entries::{self, Embedded};
use ralph_coordinator::flow::memory::embedding::Meaning;
use ralph_coordinator::flow::memory::library::{self, ImportLine, QueryLine};
use ralph_coordinator::store;
use ralph_tests::harness::{FeatureOptions, WorkerOptions, World};
use time::OffsetDateTime;
use uuid::Uuid;

use super::model::{DIMENSIONS, KEY, Model, REFUSED, mode};
use super::scene;
use super::trust::settings;

fn learned(id: &str, days: i64, title: &str, body: &str) -> ImportLine {
    ImportLine {
        id: id.to_owned(),
        date: OffsetDateTime::now_utc() - time::Duration::days(days),
        title: title.to_owned(),
        body: body.to_owned(),
        paths: Vec::new(),
        tags: Vec::new(),
        kind: Kind::Learning,
        category: None,
        feature: None,
    }
}

/// Two entries that share equally many words with the question; the older one's text is more similar
/// otherwise.
async fn learn_two(world: &World) {
    let lines = [
        learned(
            "older",
            200,
            "Zones of the nameserver: serialization",
            "Their serialization is slow.",
        ),
        learned(
            "newer",
            1,
            "Zones of the nameserver: transfers",
            "They are tried again.",
        ),
    ];
    library::import(&world.db, "", &lines).await.unwrap();
}

fn with(embedder: &Embedder) -> Settings {
    Settings {
        embedder: Some(embedder.clone()),
        ..settings()
    }
}

/// Names of the entries shown for a question whose last word no entry contains, best first, as a claim asks.
async fn shown(world: &World, embedder: Option<&Embedder>) -> Vec<String> {
    let asked = QueryLine {
        query_id: "q".to_owned(),
        date: OffsetDateTime::now_utc() + time::Duration::minutes(1),
        title: "Zones of the nameserver: reserializing".to_owned(),
        description: String::new(),
    };
    let settings = embedder.map(with);
    let meaning = settings.as_ref().map_or(Meaning::NONE, Meaning::of_claim);
    let picked = library::search(&world.db, meaning, "", Kind::Learning, &[asked], 5)
        .await
        .unwrap();
    picked[0]
        .shown
        .iter()
        .map(|one| one.entry.external_id.clone().unwrap())
        .collect()
}

fn made(made: usize) -> Embedded {
    Embedded { made, refused: 0 }
}

#[tokio::test(flavor = "multi_thread")]
async fn vectors_help_to_order_and_nothing_depends_on_them() {
    let model = Model::serve().await;
    let embedder = model.embedder("runs");
    let world = World::start_with(settings()).await.unwrap();
    learn_two(&world).await;
    assert_eq!(
        shown(&world, Some(&embedder)).await,
        ["newer", "older"],
        "no entry has a vector yet"
    );
    assert_eq!(
        embed_entries::settle(&world.db, &embedder).await.unwrap(),
        made(2)
    );
    assert_eq!(shown(&world, None).await, ["newer", "older"]);
    assert_eq!(shown(&world, Some(&embedder)).await, ["older", "newer"]);

    for (mode, why) in [
        (mode::BROKEN, "500"),
        (mode::BUSY, "429"),
        (mode::CLOSED, "memory.embeddings.key"),
        (mode::NARROW, "128 dimensions, expected 256"),
        (mode::STRANGE, "OpenAI form"),
        (mode::SILENT, "no answer within 500 ms"),
    ] {
        let embedder = model.embedder_of("runs", Some(DIMENSIONS));
        model.set(mode);
        assert_eq!(shown(&world, Some(&embedder)).await, ["newer", "older"], "{why}");
        let trouble = embedder.trouble().unwrap();
        assert!(trouble.contains(why) && !trouble.contains(KEY), "{trouble}");
        // The coordinator pauses the model now: no further claim waits for it.
        let requests = model.requests();
        assert_eq!(shown(&world, Some(&embedder)).await, ["newer", "older"], "{why}");
        assert_eq!(model.requests(), requests, "{why}");
    }

    model.set(mode::BROKEN);
    shown(&world, Some(&embedder)).await;
    assert!(embedder.trouble().is_some());
    model.set(mode::GOOD);
    let back = async {
        while shown(&world, Some(&embedder)).await != ["older", "newer"] {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), back)
        .await
        .expect("the model is asked again after a pause");
    assert_eq!(embedder.trouble(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_entry_gets_its_vector_once_even_if_a_coordinator_dies() {
    let model = Model::serve().await;
    let (one, other) = (model.embedder("runs"), model.embedder("runs"));
    let world = World::start_with(settings()).await.unwrap();
    learn_two(&world).await;
    // Two coordinators at once: the second skips what the first is working on.
    model.set(mode::HELD);
    let first = tokio::spawn({
        let (db, one) = (world.db.clone(), one.clone());
        async move { embed_entries::settle(&db, &one).await.unwrap() }
    });
    model.holds_one().await;
    assert_eq!(embed_entries::settle(&world.db, &other).await.unwrap(), made(0));
    assert_eq!(model.requests(), 1);
    model.let_one_go();
    assert_eq!(first.await.unwrap(), made(2));
    assert_eq!(model.answered().len(), 2);

    // When a coordinator dies in the middle, another takes over once its time is up. A late result of the
    // first is ignored.
    library::import(&world.db, "", &[learned("third", 3, "Third", "Zone.")])
        .await
        .unwrap();
    let late = tokio::spawn({
        let (db, one) = (world.db.clone(), one.clone());
        async move { embed_entries::settle(&db, &one).await.unwrap() }
    });
    model.holds_one().await;
    model.set(mode::GOOD);
    sqlx::query("update memory_embedding set held_until = now() - interval '1 s'")
        .execute(&world.db)
        .await
        .unwrap();
    assert_eq!(embed_entries::settle(&world.db, &other).await.unwrap(), made(1));
    model.let_one_go();
    assert_eq!(late.await.unwrap(), made(0));
    assert_eq!(embed_entries::settle(&world.db, &one).await.unwrap(), made(0));
    assert_eq!(vectors(&world, "runs").await, 3);

    // Another model or other dimensions start anew, and so does the return to the first model.
    model.answered();
    for (embedder, name) in [
        (model.embedder("walks"), "walks"),
        (model.embedder_of("walks", Some(64)), "walks"),
        (model.embedder("runs"), "runs"),
    ] {
        assert_eq!(
            embed_entries::settle(&world.db, &embedder).await.unwrap(),
            made(3)
        );
        assert_eq!((model.answered().len(), vectors(&world, name).await), (3, 3));
        assert_eq!(
            embed_entries::settle(&world.db, &embedder).await.unwrap(),
            made(0)
        );
    }
    // A removed entry takes its vector along.
    let all: Vec<Uuid> = sqlx::query_scalar("select entry from memory_entries")
        .fetch_all(&world.db)
        .await
        .unwrap();
    store::memory::index::remove(&mut world.db.acquire().await.unwrap(), &all)
        .await
        .unwrap();
    assert_eq!(vectors(&world, "runs").await, 0);
}

async fn vectors(world: &World, model: &str) -> i64 {
    sqlx::query_scalar("select count(*) from memory_vectors where model = $1")
        .bind(model)
        .fetch_one(&world.db)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_the_model_refuses_does_not_stop_the_others() {
    let model = Model::serve().await;
    let embedder = model.embedder("runs");
    let world = World::start_with(settings()).await.unwrap();
    learn_two(&world).await;
    library::import(&world.db, "", &[learned("third", 3, "Third", REFUSED)])
        .await
        .unwrap();
    let all = Embedded { made: 2, refused: 1 };
    assert_eq!(embed_entries::settle(&world.db, &embedder).await.unwrap(), all);
    let requests = model.requests();
    assert_eq!(
        embed_entries::settle(&world.db, &embedder).await.unwrap(),
        made(0)
    );
    assert_eq!(model.requests(), requests, "the refused entry isn't sent again");
    assert_eq!(embedder.trouble(), None);
    assert_eq!(shown(&world, Some(&embedder)).await, ["older", "newer"]);
}

/// Like an entry whose transaction was committed after later entries had got their vectors.
#[tokio::test(flavor = "multi_thread")]
async fn a_skipped_entry_gets_its_vector_later() {
    let model = Model::serve().await;
    let embedder = model.embedder("runs");
    let world = World::start_with(settings()).await.unwrap();
    learn_two(&world).await;
    library::import(&world.db, "", &[learned("third", 3, "Third", REFUSED)])
        .await
        .unwrap();
    let all = Embedded { made: 2, refused: 1 };
    assert_eq!(embed_entries::settle(&world.db, &embedder).await.unwrap(), all);
    sqlx::query("delete from memory_vectors where doc_id = (select min(doc_id) from memory_vectors)")
        .execute(&world.db)
        .await
        .unwrap();
    // The scan had reached its end and starts over.
    assert_eq!(
        embed_entries::settle(&world.db, &embedder).await.unwrap(),
        made(0)
    );
    assert_eq!(
        embed_entries::settle(&world.db, &embedder).await.unwrap(),
        made(1)
    );
    let requests = model.requests();
    // The scan starts over again, and refused entries are not sent again.
    for _ in 0..3 {
        assert_eq!(
            embed_entries::settle(&world.db, &embedder).await.unwrap(),
            made(0)
        );
    }
    assert_eq!(model.requests(), requests);
    assert_eq!(vectors(&world, "runs").await, 3);
}

/// A claim whose model never answers gets its prompt with the entries found by words alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_works_while_the_model_does_not_answer() {
    let model = Model::serve().await;
    let embedder = model.embedder("runs");
    let mut world = World::start_with(with(&embedder)).await.unwrap();
    learn_two(&world).await;
    embed_entries::settle(&world.db, &embedder).await.unwrap();
    model.set(mode::SILENT);
    world.coordinator().await.unwrap();
    let worker = world.worker(&WorkerOptions::named("w1")).unwrap();
    let graph = "
- key: use
  title: 'Zones of the nameserver: reserializing'
  description: |
    @unless-prompt-has Their serialization is slow : @fail the prompt lacks it
    @done
";
    let options = FeatureOptions {
        max_retries: 0,
        ..FeatureOptions::default()
    };
    let (_, run, _) = world.submit("zones", None, graph, &options).await.unwrap();
    scene::completes(&world, run).await;
    assert!(embedder.trouble().is_some());
    drop(worker);
}

/// A coordinator with a configuration file makes the vectors by itself once the model is back. Its log
/// contains neither the key nor the address's secret.
#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_makes_vectors_and_logs_no_key() {
    let model = Model::serve().await;
    model.set(mode::CLOSED);
    let world = World::start_with(settings()).await.unwrap();
    learn_two(&world).await;
    sqlx::query("update learnings set indexed_at = now() - interval '1 minute'")
        .execute(&world.db)
        .await
        .unwrap();
    let key = world.dir().join("key");
    std::fs::write(&key, format!("{KEY}\n")).unwrap();
    let file = format!(
        "[memory.embeddings]\nurl = '{}?token=hush-hush'\nmodel = 'runs'\nkey = 'file:{}'\ndimensions = {DIMENSIONS}\n",
        model.url,
        key.display()
    );
    std::fs::write(world.dir().join(".ralph.toml"), file).unwrap();
    let coordinator = world.coordinator_process("c1", None).unwrap();
    let log = || std::fs::read_to_string(world.dir().join("c1.log")).unwrap_or_default();
    let is_logged = async {
        while !log().contains("the memory goes on without it") {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), is_logged)
        .await
        .unwrap_or_else(|_| panic!("{}", log()));
    model.set(mode::GOOD);
    let done = async {
        while vectors(&world, "runs").await < 2 || !log().contains("answers again") {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), done)
        .await
        .unwrap_or_else(|_| panic!("{}", log()));
    for secret in [KEY, "hush-hush"] {
        assert!(!log().contains(secret), "{}", log());
    }
    drop(coordinator);
}
