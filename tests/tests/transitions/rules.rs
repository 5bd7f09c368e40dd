//! Rules that choose an agent by kind of session, pool and tier if the task names none (SPEC 8).

use ralph_coordinator::flow::control::CommandOutcome;
use ralph_coordinator::flow::edit;
use ralph_coordinator::store::edit::TaskEdit;
use ralph_shared::kind::SessionKind;
use ralph_shared::wire::{AgentRule, Assignment, SessionOrder, Work};
use ralph_tests::harness::{FeatureOptions, Repository, World};

use super::pool::Pool;
use super::scene::turn;

fn rule(agent: &str, kinds: &[&str], pools: &[&str], tiers: &[&str]) -> AgentRule {
    let words = |list: &[&str]| list.iter().map(|&word| word.to_owned()).collect();
    AgentRule {
        agent: agent.to_owned(),
        kinds: words(kinds),
        pools: words(pools),
        tiers: words(tiers),
    }
}

/// The title and agent of each session, sorted.
fn agents(assigned: &[Assignment]) -> Vec<(String, &str)> {
    let mut agents: Vec<_> = assigned
        .iter()
        .map(|one| match &one.work {
            Work::Session(SessionOrder { agent, .. }) => {
                (one.task_title.clone(), agent.as_deref().unwrap_or("default"))
            }
            other => panic!("{other:?}"),
        })
        .collect();
    agents.sort();
    agents
}

fn expected<'a>(list: &[(&str, &'a str)]) -> Vec<(String, &'a str)> {
    list.iter()
        .map(|(title, agent)| ((*title).to_owned(), *agent))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_gets_its_own_agent_or_that_of_its_pool_and_tier() {
    let world = World::calm().await.unwrap();
    let rules = vec![
        rule("strong", &[], &[], &["opus"]),
        rule("gpu", &[], &["gpu"], &[]),
    ];
    let pool = Pool::join_with(&world, &["default", "gpu", "named", "strong"], rules).await;
    let graph = "- {key: a, title: A}\n- {key: b, title: B, model: opus}\n- {key: c, title: C, pool: gpu, model: opus}\n\
                 - {key: d, title: D, agent: named, model: opus}\n- {key: e, title: E, agent: default, model: opus}";
    world
        .submit("f", None, graph, &FeatureOptions::default())
        .await
        .unwrap();
    let assigned = pool.claim_once(&[&["default", "gpu"]; 5]).await;
    let all = [
        ("A", "default"),
        ("B", "strong"),
        ("C", "gpu"),
        ("D", "named"),
        ("E", "strong"),
    ];
    assert_eq!(agents(&assigned), expected(&all));
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_an_unavailable_agent_wait_and_others_go_on() {
    let world = World::calm().await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let repository = Repository::create(dir.path(), &[("a", "a")]).unwrap();
    let rules = vec![
        rule("judge", &["verify"], &[], &[]),
        rule("strong", &[], &[], &["opus"]),
    ];
    let mut pool = Pool::join_with(&world, &["default", "judge", "strong"], rules).await;
    let graph = "- {key: a, title: A, priority: 1}\n- {key: b, title: B, priority: 3}\n- {key: c, title: C, model: opus, priority: 2}";
    let options = FeatureOptions {
        verify: true,
        ..FeatureOptions::default()
    };
    world
        .submit("f", Some(&repository), graph, &options)
        .await
        .unwrap();
    let first = pool.claim_once(&[&["default"]]).await;
    assert_eq!(agents(&first), expected(&[("A", "default")]));
    let text = format!("<task-done>{}</task-done>", first[0].task);
    pool.report(vec![pool.session(&first[0], turn(), &text, 1)]).await;
    // Its verification would go first, and the strong model's task next.
    pool.open = vec!["default".to_owned()];
    let second = pool.claim_once(&[&["default"]; 3]).await;
    assert_eq!(agents(&second), expected(&[("B", "default")]));
    assert_eq!(pool.claim_once(&[&["default"]; 3]).await.len(), 0);
    pool.open = vec!["strong".to_owned()];
    let third = pool.claim_once(&[&["default"]; 3]).await;
    assert_eq!(agents(&third), expected(&[("C", "strong")]));
    pool.open = vec!["judge".to_owned()];
    let fourth = pool.claim_once(&[&["default"]; 3]).await;
    assert_eq!(agents(&fourth), expected(&[("A", "judge")]));
    assert_eq!(fourth[0].kind, SessionKind::Verify);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_waits_for_the_agent_that_its_run_names() {
    let world = World::calm().await.unwrap();
    let mut pool = Pool::join_with(&world, &["default", "named"], Vec::new()).await;
    let mut options = FeatureOptions::default();
    options.run.agent = Some("named".to_owned());
    world
        .submit("f", None, "- {key: a, title: A}", &options)
        .await
        .unwrap();
    // A worker without the agent doesn't take the task, and doesn't delay it for workers with the agent.
    pool.open = vec!["default".to_owned()];
    assert_eq!(pool.claim_once(&[&["default"]]).await.len(), 0);
    pool.open.push("named".to_owned());
    let assigned = pool.claim_once(&[&["default"]]).await;
    assert_eq!(agents(&assigned), expected(&[("A", "named")]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_with_an_unknown_agent_is_refused() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join_with(&world, &["default", "named"], Vec::new()).await;
    let graph = "- {key: a, title: A}\n- {key: b, title: B}";
    world
        .submit("f", None, graph, &FeatureOptions::default())
        .await
        .unwrap();
    for (agent, outcome) in [("nobodys", "failed"), ("named", "split")] {
        let of = pool.claim_once(&[&["default"]]).await.remove(0);
        let text = format!("<task-graph>- {{key: x, title: X, agent: {agent}}}</task-graph>");
        pool.report(vec![pool.session(&of, turn(), &text, 1)]).await;
        let (ended, reason): (String, Option<String>) =
            sqlx::query_as("select outcome::text, reason from dispatches where id = $1")
                .bind(of.dispatch.0)
                .fetch_one(&world.db)
                .await
                .unwrap();
        assert_eq!(ended, outcome, "{reason:?}");
        let says_which = reason.is_some_and(|reason| reason.contains("nobodys") && reason.contains("named"));
        assert_eq!(says_which, agent == "nobodys");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_with_a_new_agent_is_offered_to_workers_with_that_agent() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join(&world).await;
    let (_, _, tasks) = world
        .submit(
            "f",
            None,
            "- {key: a, title: A, agent: nobodys}",
            &FeatureOptions::default(),
        )
        .await
        .unwrap();
    assert_eq!(pool.claim_once(&[&["default"]]).await.len(), 0);
    let change = TaskEdit {
        agent: Some("default".to_owned()),
        ..TaskEdit::default()
    };
    let (outcome, _) = edit::task(&world.db, tasks[0], &change, None, "test")
        .await
        .unwrap();
    assert_eq!(outcome, CommandOutcome::Done(1));
    let assigned = pool.claim_once(&[&["default"]]).await;
    assert_eq!(agents(&assigned), expected(&[("A", "default")]));
}

#[tokio::test(flavor = "multi_thread")]
async fn children_inherit_the_agent_model_and_priority_of_their_parent() {
    let world = World::calm().await.unwrap();
    let pool = Pool::join_with(&world, &["default", "named"], Vec::new()).await;
    let graph = "- {key: a, title: A, agent: named, model: opus, priority: -5}";
    world
        .submit("f", None, graph, &FeatureOptions::default())
        .await
        .unwrap();
    let of = pool.claim_once(&[["default"]]).await.remove(0);
    let text = "<task-graph>- {key: x, title: X}\n- {key: y, title: Y, parent: x, model: sonnet, priority: 2}\n\
                - {key: z, title: Z, agent: default}</task-graph>";
    let split = pool.session(&of, turn(), text, 0);
    pool.report(vec![split]).await;
    type Part = (String, Option<String>, Option<String>, i32);
    let parts: Vec<Part> = sqlx::query_as(
        "select x.key, x.agent, x.model, t.priority
         from tasks t join task_texts x on x.task_id = t.id
         where t.parent_id is not null
         order by x.key",
    )
    .fetch_all(&world.db)
    .await
    .unwrap();
    let some = |word: &str| Some(word.to_owned());
    let expected = [
        ("x".to_owned(), some("named"), some("opus"), -5),
        ("y".to_owned(), some("named"), some("sonnet"), 2),
        ("z".to_owned(), some("default"), None, -5),
    ];
    assert_eq!(parts, expected);
}
