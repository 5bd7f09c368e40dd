//! Rules for what the memory counts as a failure, as tasks do (SPEC 3.3, 4.3), and which prompts mention it.

use ralph_coordinator::flow::apply::ReportFate;
use ralph_coordinator::flow::memory::library::{self, ImportLine};
use ralph_coordinator::store::{self, view};
use ralph_shared::wire::{Assignment, Ended, Finished, IntegrationEnd};
use ralph_tests::harness::{FeatureOptions, Repository, World};
use time::OffsetDateTime;

use super::pool::Pool;
use super::scene;

/// Adds an entry that matches every question about kettles.
async fn teach(world: &World) {
    let line = ImportLine {
        id: "kettle".to_owned(),
        date: OffsetDateTime::now_utc() - time::Duration::days(3),
        title: "Kettles boil over".to_owned(),
        body: "Never fill the kettle to the brim.".to_owned(),
        paths: Vec::new(),
        tags: vec!["kettle".to_owned()],
        kind: ralph_coordinator::domain::recall::Kind::Learning,
        category: Some("pitfall".to_owned()),
        feature: None,
    };
    library::import(&world.db, "", std::slice::from_ref(&line))
        .await
        .unwrap();
    library::import(&world.db, "r", &[line]).await.unwrap();
}

async fn outcomes(world: &World) -> Vec<Option<String>> {
    sqlx::query_scalar("select outcome::text from memory_trials order by dispatch_id")
        .fetch_all(&world.db)
        .await
        .unwrap()
}

async fn ends(pool: &Pool<'_>, of: &Assignment, stop_reason: &str, changes: u64) {
    let ended = Ended::Turn {
        stop_reason: stop_reason.to_owned(),
    };
    let mut report = pool.session(of, ended, "I was at it.", changes);
    if let Finished::Session(session) = &mut report.report.finished {
        session.snapshot.files_changed = (0..changes).map(|n| format!("kettle-{n}.rs")).collect();
    }
    assert_eq!(pool.report(vec![report]).await, [ReportFate::Applied]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_limit_is_a_failure_only_of_an_attempt_without_changes() {
    let world = scene::world().await;
    let pool = Pool::join(&world).await;
    teach(&world).await;
    scene::submit(&world, "kettle", "- {key: a, title: Boil the kettle}").await;
    let reports = "select dispatch_id, why_failed from failure_reports";
    ends(&pool, &scene::claims(&pool).await, "max_tokens", 2).await;
    scene::upkeep(&world).await;
    let stored: Vec<(uuid::Uuid, String)> = sqlx::query_as(reports).fetch_all(&world.db).await.unwrap();
    assert_eq!(stored, [], "the next attempt continues the work");
    let nothing = scene::claims(&pool).await;
    ends(&pool, &nothing, "max_tokens", 0).await;
    let stored: Vec<(uuid::Uuid, String)> = sqlx::query_as(reports).fetch_all(&world.db).await.unwrap();
    let why = "the agent ran into its token limit".to_owned();
    assert_eq!(
        stored,
        [(nothing.dispatch.0, why)],
        "the stop reason wins over the text"
    );
    scene::does(&pool, "").await;
    scene::upkeep(&world).await;
    let words = |words: [&str; 3]| words.map(|word| Some(word.to_owned()));
    assert_eq!(outcomes(&world).await, words(["neutral", "failed", "landed"]));
    let [with, _] = view::trials(&mut world.db.acquire().await.unwrap(), Some(""))
        .await
        .unwrap();
    assert_eq!(with, (0, 0), "only first attempts compare");
}

/// A feature with a repository, whose attempts are verified.
async fn submit_verified(world: &World, graph: &str) {
    let repository = Repository::create(world.dir(), &[("README.md", "begin\n")]).unwrap();
    let mut options = FeatureOptions {
        verify: true,
        ..FeatureOptions::default()
    };
    options.run.backoff_ms = 0;
    world
        .submit("kettle", Some(&repository), graph, &options)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_by_a_verifier_or_gate_is_stored_as_a_failure() {
    let world = scene::world().await;
    let pool = Pool::join(&world).await;
    let graph =
        "- {key: a, title: Boil the kettle}\n- {key: b, title: Boil another kettle, max_retries: 9}\n";
    submit_verified(&world, graph).await;
    let work = scene::claims(&pool).await;
    let done = |of: &Assignment| format!("<task-done>{}</task-done>", of.task);
    scene::says(&pool, &work, &done(&work)).await;
    let verify = scene::claims(&pool).await;
    assert_eq!(verify.task, work.task);
    scene::says(
        &pool,
        &verify,
        "<verify-fail>the spout is missing\nsee kettle.rs</verify-fail>",
    )
    .await;
    let stored: Vec<(String, Option<String>)> =
        sqlx::query_as("select why_failed, error_output from failure_reports where dispatch_id = $1")
            .bind(verify.dispatch.0)
            .fetch_all(&world.db)
            .await
            .unwrap();
    assert_eq!(
        stored,
        [(
            "the spout is missing".to_owned(),
            Some("see kettle.rs".to_owned())
        )]
    );
    let notes: Vec<String> = sqlx::query_scalar("select body from session_memory where kind = 'error'")
        .fetch_all(&world.db)
        .await
        .unwrap();
    assert_eq!(notes, ["the spout is missing"]);
    // The task's next attempt learns the reason; its neighbour learns only that it failed.
    let claimed = [scene::claims(&pool).await, scene::claims(&pool).await];
    for of in &claimed {
        let prompt = scene::prompt(of);
        if of.task == work.task {
            assert!(
                prompt.contains("**The verifier says:** the spout is missing"),
                "{prompt}"
            );
        } else {
            let failed = format!("[{} Boil the kettle | 2", work.task);
            assert!(
                prompt.contains(&failed) && !prompt.contains("the spout"),
                "{prompt}"
            );
        }
    }
    let again = claimed.iter().find(|of| of.task == work.task).unwrap();
    scene::says(&pool, again, &done(again)).await;
    let verify = scene::claims(&pool).await;
    scene::says(&pool, &verify, "<verify-pass/>").await;
    let turn = scene::claims(&pool).await;
    assert!(Pool::is_integration(&turn));
    let gate = IntegrationEnd::GateFailed {
        command: "make test".to_owned(),
        output: "1 test failed".to_owned(),
    };
    assert_eq!(
        pool.report(vec![pool.integration(&turn, gate)]).await,
        [ReportFate::Applied]
    );
    let (why, output): (String, String) =
        sqlx::query_as("select why_failed, error_output from failure_reports where dispatch_id = $1")
            .bind(turn.dispatch.0)
            .fetch_one(&world.db)
            .await
            .unwrap();
    assert_eq!(
        (why.as_str(), output.as_str()),
        ("`make test` failed on the rebased commit", "1 test failed")
    );
}

/// Submits a feature about kettles that lands in a repository, with an entry about kettles in its memory.
async fn boil(world: &World, graph: &str) {
    let mut options = FeatureOptions::default();
    options.run.backoff_ms = 0;
    let repository = Repository::create(world.dir(), &[("README.md", "begin\n")]).unwrap();
    world
        .submit("kettle", Some(&repository), graph, &options)
        .await
        .unwrap();
    sqlx::query("update features set repo_id = 'r'")
        .execute(&world.db)
        .await
        .unwrap();
    teach(world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_does_not_change_an_entrys_weight() {
    let world = scene::world().await;
    let pool = Pool::join(&world).await;
    boil(&world, "- {key: a, title: Boil the kettle}").await;
    scene::does(&pool, "").await;
    let turn = scene::claims(&pool).await;
    let conflict = IntegrationEnd::Conflict {
        paths: vec!["README.md".to_owned()],
        hunks: String::new(),
        head: String::new(),
        others: vec![],
        source: None,
        source_ref: None,
    };
    assert_eq!(
        pool.report(vec![pool.integration(&turn, conflict)]).await,
        [ReportFate::Applied]
    );
    scene::upkeep(&world).await;
    assert_eq!(outcomes(&world).await, [Some("neutral".to_owned())]);
    let weight: f32 = sqlx::query_scalar("select weight from learnings where repo_id = 'r'")
        .fetch_one(&world.db)
        .await
        .unwrap();
    assert!((weight - 1.0).abs() < 1e-6, "{weight}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undecided_attempt_does_not_delay_the_weighing_of_others() {
    let world = scene::world().await;
    let pool = Pool::join(&world).await;
    let graph = "- {key: a, title: Boil the kettle}\n- {key: b, title: Boil the kettle again}";
    boil(&world, graph).await;
    let both = pool.claim_once(&[["default"], ["default"]]).await;
    let says = |of: &Assignment, word: &str| format!("<task-{word}>{}</task-{word}>", of.task);
    // The first one waits to land.
    scene::says(&pool, &both[0], &says(&both[0], "done")).await;
    scene::says(&pool, &both[1], &says(&both[1], "failed")).await;
    let weigh = async || {
        let mut conn = world.db.acquire().await.unwrap();
        store::memory::exposures::settle(&mut conn, 1).await.unwrap().0
    };
    assert_eq!(weigh().await, 1);
    assert_eq!(outcomes(&world).await, [None, Some("failed".to_owned())]);
    assert_eq!(weigh().await, 0);
    sqlx::query("update features set state = 'cancelled'")
        .execute(&world.db)
        .await
        .unwrap();
    assert_eq!(weigh().await, 1);
    assert_eq!(outcomes(&world).await[0].as_deref(), Some("neutral"));
}
