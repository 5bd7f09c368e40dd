//! Which prompt shows which entries: the whole prompts of claimed sessions.

use ralph_coordinator::flow::memory::library;
use ralph_coordinator::prompt::{PromptOptions, Templates};
use ralph_coordinator::store;
use ralph_shared::ids::DispatchId;
use ralph_tests::harness::World;
use uuid::Uuid;

use super::pool::Pool;
use super::scene;
use super::trust::settings;

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_suggestion_is_shown_to_the_next_attempt_only() {
    let world = scene::world().await;
    let pool = Pool::join(&world).await;
    scene::submit(
        &world,
        "quota",
        "- {key: a, title: Count the quota, max_retries: 5}",
    )
    .await;
    scene::fails(&pool, "<retry-suggestion>Count in the ledger.</retry-suggestion>").await;
    let second = scene::claims(&pool).await;
    assert!(scene::prompt(&second).contains("Count in the ledger."));
    let text = format!("It is held.\n<task-failed>{}</task-failed>", second.task);
    scene::says(&pool, &second, &text).await;
    let prompt = scene::prompt(&scene::claims(&pool).await);
    assert!(!prompt.contains("Count in the ledger."), "{prompt}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_shows_the_latest_decisions_and_dates_of_failures() {
    let mut settings = settings();
    settings.max_entries = 2;
    let world = World::start_with(settings).await.unwrap();
    let pool = Pool::join(&world).await;
    let graph = "- {key: a, title: Count the quota, max_retries: 5}\n- {key: b, title: Other, after: [a]}\n";
    scene::submit(&world, "quota", graph).await;
    let decided: String = (1..=4)
        .map(|n| format!("<memory kind='decision'>Decision {n}.</memory>"))
        .collect();
    scene::fails(&pool, "It broke.").await;
    let again = scene::claims(&pool).await;
    let prompt = scene::prompt(&again);
    assert!(
        prompt.contains("- **Ended:** 2") && prompt.contains(" UTC"),
        "{prompt}"
    );
    let text = format!("{decided}\n<task-done>{}</task-done>", again.task);
    scene::says(&pool, &again, &text).await;
    scene::upkeep(&world).await;
    let prompt = scene::prompt(&scene::claims(&pool).await);
    let shown: Vec<bool> = (1..=4)
        .map(|n| prompt.contains(&format!("Decision {n}.")))
        .collect();
    assert_eq!(shown, [false, false, true, true], "{prompt}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_earlier_runs_failure_is_shown_without_its_unverified_words() {
    let world = scene::world().await;
    let pool = Pool::join(&world).await;
    scene::submit(
        &world,
        "first",
        "- {key: a, title: Rebuild the search index, max_retries: 0}",
    )
    .await;
    let report = "<journal>I looked at the segments.</journal><failure-report>\nwhat_tried: rebuilt it in place\n\
                  why_failed: readers hold the old segment open\n</failure-report>";
    scene::fails(&pool, report).await;
    sqlx::query("update runs set ended_at = now()")
        .execute(&world.db)
        .await
        .unwrap();
    assert_eq!(scene::upkeep(&world).await.indexed, 1);
    scene::submit(
        &world,
        "second",
        "- {key: a, title: Rebuild the search index quicker}",
    )
    .await;
    let prompt = scene::prompt(&scene::claims(&pool).await);
    assert!(
        prompt.contains("Earlier run [failed]") && prompt.contains("Rebuild the search index\n"),
        "{prompt}"
    );
    for words in [
        "I looked at the segments.",
        "rebuilt it in place",
        "readers hold the old segment open",
    ] {
        assert!(!prompt.contains(words), "{words}: {prompt}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blockers_journal_is_shown_however_long_the_journal_is() {
    let world = scene::world().await;
    let pool = Pool::join(&world).await;
    let others: String = (0..12)
        .map(|n| format!("- {{key: o{n}, title: Other {n}, after: [a]}}\n"))
        .collect();
    let all: Vec<String> = (0..12).map(|n| format!("o{n}")).collect();
    let graph = format!(
        "- {{key: a, title: Sketch}}\n{others}- {{key: gate, title: Gate, after: [{}]}}\n\
         - {{key: p, title: Parent, after: [a]}}\n- {{key: b, title: Build, parent: p, after: [gate]}}\n",
        all.join(", ")
    );
    scene::submit(&world, "wheel", &graph).await;
    scene::does(&pool, "<journal>The wheel has 512 slots.</journal>").await;
    for n in 0..13 {
        scene::does(&pool, &format!("<journal>Number {n}.</journal>")).await;
    }
    let prompt = scene::prompt(&scene::claims(&pool).await);
    let journal = prompt.split("## Run Journal").nth(1).expect("there is a journal");
    assert!(journal.contains("The wheel has 512 slots."), "{prompt}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_out_attempt_sees_no_memory_of_other_attempts() {
    let mut settings = settings();
    settings.hold_out = 1.0;
    let world = World::start_with(settings).await.unwrap();
    let pool = Pool::join(&world).await;
    let graph = "- {key: a, title: Boil the kettle}\n- {key: b, title: Boil the kettle again, after: [a]}\n";
    scene::submit(&world, "kettle", graph).await;
    let earlier = "<memory kind='decision'>Kettles are red.</memory><memory kind='key_fact'>Kettles are round.</memory>\
                <journal>Kettles are heavy.</journal><failure-report>\nwhat_tried: it\nwhy_failed: Kettles are hot.\n\
                </failure-report>";
    scene::fails(&pool, earlier).await;
    let own = scene::prompt(&scene::claims(&pool).await);
    for words in ["Kettles are red.", "Kettles are round.", "Kettles are hot."] {
        assert!(own.contains(words), "the task's own memory stays: {words}: {own}");
    }
    let of = sqlx::query_scalar::<_, Uuid>("select dispatch_id from tasks where attempt = 2")
        .fetch_one(&world.db)
        .await;
    assert!(of.is_ok());

    for (hold_out, is_shown) in [(1.0, false), (0.0, true)] {
        let mut settings = super::trust::settings();
        settings.hold_out = hold_out;
        let world = World::start_with(settings).await.unwrap();
        let pool = Pool::join(&world).await;
        scene::submit(&world, "kettle", graph).await;
        let learned = "<knowledge tags='kettle' title='Boil the kettle'>Kettles are old.</knowledge>";
        scene::does(&pool, &format!("{earlier}{learned}")).await;
        scene::upkeep(&world).await;
        let prompt = scene::prompt(&scene::claims(&pool).await);
        let memory = prompt.split("### Completed Prerequisites").nth(1).unwrap();
        let memory = memory.split_once("\n## ").map_or("", |(_, rest)| rest);
        for words in [
            "Kettles are red.",
            "Kettles are round.",
            "Kettles are heavy.",
            "Kettles are old.",
        ] {
            assert_eq!(memory.contains(words), is_shown, "{words}: {prompt}");
        }
        let trial: Vec<bool> = sqlx::query_scalar("select held_out from memory_trials")
            .fetch_all(&world.db)
            .await
            .unwrap();
        assert_eq!(trial, [!is_shown]);
    }
}

/// Number of dispatches whose stored prompt contains `words`.
pub async fn prompts_with(world: &World, words: &str) -> usize {
    let mut conn = world.db.acquire().await.unwrap();
    let dispatches: Vec<DispatchId> = sqlx::query_scalar("select id from dispatches")
        .fetch_all(&mut *conn)
        .await
        .unwrap();
    let mut found = 0;
    for dispatch in dispatches {
        let prompt = store::dispatch::prompt::read(&mut conn, dispatch).await.unwrap();
        found += usize::from(prompt.is_some_and(|(_, body)| body.contains(words)));
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purged_secret_is_in_no_stored_prompt() {
    let folder = tempfile::tempdir().unwrap();
    let text = "=== head\nmerge\n=== learning\nlearned: {{ text }}\n";
    std::fs::write(folder.path().join("distill.md"), text).unwrap();
    let mut settings = settings();
    settings.templates = Templates::load(Some(folder.path()), PromptOptions::default())
        .unwrap()
        .into();
    let world = World::start_with(settings).await.unwrap();
    let pool = Pool::join(&world).await;
    scene::submit(&world, "kettle", "- {key: a, title: Something, max_retries: 3}").await;
    let learned =
        |n: usize| format!("<learning category='pitfall' tags='kettle'>Kettle {n}: hunter2.</learning>");
    scene::fails(&pool, &(0..4).map(learned).collect::<String>()).await;
    scene::does(&pool, "").await;
    assert_eq!(
        prompts_with(&world, "hunter2").await,
        1,
        "its next attempt was shown the secret"
    );
    let above = ralph_coordinator::domain::recall::lifecycle::Distill {
        above: 3,
        usd_a_day: 1.0,
    };
    assert_eq!(
        ralph_coordinator::flow::memory::distill::begin(&world.db, above)
            .await
            .unwrap()
            .0,
        1
    );
    let merging = scene::claims(&pool).await;
    assert!(scene::prompt(&merging).contains("hunter2"));
    scene::says(&pool, &merging, "Nothing to merge.").await;
    assert_eq!(prompts_with(&world, "hunter2").await, 2);
    let entries: Vec<Uuid> = sqlx::query_scalar("select id from learnings")
        .fetch_all(&world.db)
        .await
        .unwrap();
    assert_eq!(library::purge(&world.db, &entries).await.unwrap().0, 4);
    assert_eq!(prompts_with(&world, "hunter2").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reviews_journal_is_shown_to_later_tasks() {
    let world = scene::world().await;
    let pool = Pool::join(&world).await;
    scene::submit(
        &world,
        "wheel",
        "- {key: a, title: Look}\n- {key: b, title: Go on, after: [a]}\n",
    )
    .await;
    // Like a feature's review, but with a task behind it.
    sqlx::raw_sql("update tasks set role = 'review', next_kind = 'review' where open_blockers = 0; update ready_tasks set kind = 'review'")
        .execute(&world.db)
        .await
        .unwrap();
    let review = scene::claims(&pool).await;
    scene::says(
        &pool,
        &review,
        "<journal>The wheel is round.</journal><review-pass/>",
    )
    .await;
    let prompt = scene::prompt(&scene::claims(&pool).await);
    assert!(
        prompt.contains("### REVIEW [done]") && prompt.contains("The wheel is round."),
        "{prompt}"
    );
    let iterations: i32 = sqlx::query_scalar("select iterations from runs")
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert_eq!(iterations, 0, "a review is no iteration");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_counts_the_prerequisites_and_attempts_it_leaves_out() {
    let world = scene::world().await;
    let pool = Pool::join(&world).await;
    let blockers: String = (0..23)
        .map(|n| format!("- {{key: o{n}, title: Other {n}}}\n"))
        .collect();
    let all: Vec<String> = (0..23).map(|n| format!("o{n}")).collect();
    let graph = format!(
        "{blockers}- {{key: b, title: Build, max_retries: 99, after: [{}]}}\n",
        all.join(", ")
    );
    scene::submit(&world, "wheel", &graph).await;
    for _ in 0..23 {
        scene::does(&pool, "").await;
    }
    for _ in 0..22 {
        scene::fails(&pool, "It broke.").await;
    }
    let prompt = scene::prompt(&scene::claims(&pool).await);
    let (_, prerequisites) = prompt.split_once("### Completed Prerequisites").unwrap();
    assert!(prerequisites.contains("\n- and 3 more\n"), "{prompt}");
    assert!(
        prompt.contains("This task has been attempted 22 times before."),
        "{prompt}"
    );
    let shown = prompt.matches("#### Attempt ").count();
    assert!(
        prompt.contains(&format!("_({} earlier attempts left out", 22 - shown)),
        "{prompt}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_siblings_failure_is_shown_however_many_others_failed_since() {
    let world = scene::world().await;
    let pool = Pool::join(&world).await;
    let graph = "- {key: p, title: Parent}\n- {key: a, title: First, parent: p, max_retries: 0}\n\
                 - {key: b, title: Second, parent: p}\n";
    scene::submit(&world, "wheel", graph).await;
    let first = scene::fails(&pool, "FAILURE_REASON: port 8123 is dropped").await;
    // More than a hundred later errors.
    sqlx::query(
        "insert into session_memory (feature_id, dispatch_id, kind, body)
         select feature_id, $1, 'error', 'error ' || n from session_memory, generate_series(1, 150) n",
    )
    .bind(first.dispatch.0)
    .execute(&world.db)
    .await
    .unwrap();
    let prompt = scene::prompt(&scene::claims(&pool).await);
    let failed = format!("[{} First | 2", first.task);
    assert!(
        prompt.contains(&failed) && prompt.contains("UTC] **Failed:** unknown"),
        "{prompt}"
    );
    assert!(!prompt.contains("port 8123"), "{prompt}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_a_done_task_requests_applies_to_the_task_it_frees() {
    let world = scene::world().await;
    let pool = Pool::join(&world).await;
    let graph = "- {key: a, title: Look}\n- {key: b, title: Free, after: [a]}\n- {key: c, title: Another}\n";
    scene::submit(&world, "wheel", graph).await;
    scene::does(&pool, "<next-model>opus</next-model>").await;
    let models = [scene::claims(&pool).await, scene::claims(&pool).await].map(|of| {
        let ralph_shared::wire::Work::Session(order) = of.work else {
            panic!("no session");
        };
        order.model.map(|model| model.tier)
    });
    assert_eq!(
        models.iter().flatten().filter(|tier| *tier == "opus").count(),
        1,
        "{models:?}"
    );
}
