//! Unverified text is shown to its own task only. Other tasks see only facts that the system itself recorded.

use ralph_coordinator::flow::apply::ReportFate;
use ralph_shared::wire::{EndReason, Ended, SessionLimit};
use ralph_tests::harness::World;

use super::pool::Pool;
use super::scene;

/// A text with a distinct marker in each of twelve channels.
fn poisoned() -> (String, Vec<String>) {
    let channels = [
        "<journal>MARK</journal>",
        "<knowledge tags='kettle' title='Kettle MARK'>MARK</knowledge>",
        "<learning category='pitfall' tags='kettle'>MARK</learning>",
        "<memory kind='key_fact'>MARK</memory>",
        "<memory kind='decision' rationale='MARK'>MARK</memory>",
        "<memory kind='step_done'>MARK</memory>",
        "<memory kind='step_pending'>MARK</memory>",
        "<memory kind='file_modified'>MARK.rs</memory>",
        "<failure-report>\nwhat_tried: MARK\nwhy_failed: MARK why\nerror_category: test_failure\nrelevant_files: MARK.rs\n\
         stack_trace: MARK\n</failure-report>",
        "<retry-suggestion>MARK</retry-suggestion>",
        "FAILURE_REASON: MARK",
        "AGENTIUM_MEMORY: KEY_FACT MARK",
    ];
    let marks: Vec<String> = (0..channels.len()).map(|n| format!("marker{n}x")).collect();
    let texts = channels
        .iter()
        .zip(&marks)
        .map(|(text, mark)| text.replace("MARK", mark));
    (texts.collect::<Vec<_>>().join("\n"), marks)
}

fn found<'m>(prompt: &str, marks: &'m [String]) -> Vec<&'m String> {
    marks.iter().filter(|mark| prompt.contains(*mark)).collect()
}

async fn submit(world: &World, name: &str) {
    let graph = "- {key: p, title: Kettle}\n- {key: a, title: Boil the kettle, parent: p, max_retries: 5, priority: 9}\n\
                 - {key: b, title: Fill the kettle, parent: p}\n- {key: c, title: Empty the kettle}\n\
                 - {key: d, title: Use the kettle, after: [a]}\n";
    scene::submit(world, name, graph).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn text_of_failed_attempts_is_shown_to_their_own_task_only() {
    let world = scene::world().await;
    let pool = Pool::join(&world).await;
    submit(&world, "first").await;
    let (poison, marks) = poisoned();
    let failed = pool.claim(1).await.remove(0);
    scene::says(
        &pool,
        &failed,
        &format!("{poison}\n<task-failed>{}</task-failed>", failed.task),
    )
    .await;
    sqlx::query("update runs set ended_at = now() where outcome is not null")
        .execute(&world.db)
        .await
        .unwrap();
    submit(&world, "second").await;
    let mut again = None;
    let mut others = 0;
    for of in pool.claim(8).await {
        let prompt = scene::prompt(&of);
        if of.task == failed.task {
            assert!(
                found(&prompt, &marks).len() >= 8,
                "{:?}\n{prompt}",
                found(&prompt, &marks)
            );
            again = Some(of);
        } else {
            assert_eq!(found(&prompt, &marks), Vec::<&String>::new(), "{prompt}");
            // Other tasks see that it failed, and the error's category.
            let same_feature = of.feature == failed.feature;
            assert!(!same_feature || prompt.contains("test_failure"), "{prompt}");
            scene::says(&pool, &of, &format!("<task-done>{}</task-done>", of.task)).await;
            others += 1;
        }
    }
    assert!(others >= 4, "{others}");
    // Once the task is done, others see its decisions.
    let again = again.expect("it is tried again");
    scene::says(&pool, &again, &format!("<task-done>{}</task-done>", again.task)).await;
    let of = pool.claim(1).await.remove(0);
    assert_eq!(of.feature, failed.feature);
    let prompt = scene::prompt(&of);
    assert!(found(&prompt, &marks).len() >= 2, "{prompt}");
}

#[tokio::test(flavor = "multi_thread")]
async fn text_of_a_skipped_task_does_not_reach_its_dependents() {
    let world = scene::world().await;
    let pool = Pool::join(&world).await;
    let graph = "- {key: a, title: Boil}\n- {key: b, title: Pour, after: [a]}\n";
    scene::submit(&world, "kettle", graph).await;
    let (poison, marks) = poisoned();
    let of = scene::does(&pool, &poison).await;
    // As if a person had cancelled the task and then skipped it.
    for state in ["cancelled", "skipped"] {
        sqlx::query("update tasks set state = $2::task_state where id = $1")
            .bind(of.task.0)
            .bind(state)
            .execute(&world.db)
            .await
            .unwrap();
    }
    let prompt = scene::prompt(&scene::claims(&pool).await);
    assert!(prompt.contains("skipped by a person"), "{prompt}");
    let (_, prerequisites) = prompt.split_once("### Completed Prerequisites").unwrap();
    let prerequisites = prerequisites.split("\n## ").next().unwrap();
    assert_eq!(found(prerequisites, &marks), Vec::<&String>::new(), "{prompt}");
}

#[tokio::test(flavor = "multi_thread")]
async fn text_of_aborted_attempts_is_shown_to_their_own_task_only() {
    let turn = |stop_reason: &str| Ended::Turn {
        stop_reason: stop_reason.to_owned(),
    };
    let ends = [
        turn("refusal"),
        turn("max_tokens"),
        Ended::Told {
            reason: EndReason::Interrupted,
        },
        Ended::Told {
            reason: EndReason::DiedAlone,
        },
        Ended::Limit {
            limit: SessionLimit::Session,
        },
        Ended::AgentExited {
            code: Some(1),
            signal: None,
        },
        Ended::Protocol {
            message: "marker0x".to_owned(),
        },
    ];
    for ended in ends {
        let world = scene::world().await;
        let pool = Pool::join(&world).await;
        submit(&world, "first").await;
        let (poison, marks) = poisoned();
        let of = pool.claim(1).await.remove(0);
        let report = pool.session(&of, ended.clone(), &poison, 0);
        assert_eq!(
            pool.report(vec![report]).await,
            [ReportFate::Applied],
            "{ended:?}"
        );
        submit(&world, "second").await;
        let mut others = 0;
        for other in pool.claim(8).await {
            if other.task != of.task {
                let prompt = scene::prompt(&other);
                assert_eq!(
                    found(&prompt, &marks),
                    Vec::<&String>::new(),
                    "{ended:?}\n{prompt}"
                );
                others += 1;
            }
        }
        assert!(others >= 3, "{ended:?}: {others}");
    }
}
