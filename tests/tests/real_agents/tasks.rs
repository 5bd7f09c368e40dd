//! Tasks in the whole system: a diamond with each agent, and further scenes with two of them.

use ralph_coordinator::domain::routing::strategy::Strategy;
use ralph_coordinator::flow::control;
use ralph_tests::harness::FeatureOptions;

use super::real::Real;
use super::stage::Stage;

async fn writes_runs_and_lands(real: Real) {
    let stage = Stage::with(real, 1).await;
    let graph = "- key: a\n  title: Write and run\n  description: |\n    @write a.txt written by a tool\n    \
                 @run tr a-z A-Z < a.txt > b.txt\n    @say <journal>Wrote both.</journal>\n    @done\n";
    let (run, ids) = stage.submit(graph, &FeatureOptions::default()).await;
    let dispatches = stage.complete(run).await;
    assert_eq!(stage.landed("a.txt"), "written by a tool\n");
    assert_eq!(stage.landed("b.txt"), "WRITTEN BY A TOOL\n");
    let landed = stage.repository.landed("ralph/feature").unwrap();
    assert_eq!(landed, [ids[0].to_string()]);
    let [dispatch] = &dispatches[..] else {
        panic!("{dispatches:?}");
    };
    assert_eq!(dispatch.outcome.as_deref(), Some("done"));
    assert!(
        dispatch
            .agent
            .as_ref()
            .is_some_and(|agent| agent.contains(real.name())),
        "{dispatch:?}"
    );
    assert_eq!(dispatch.tool_calls, Some(2), "{dispatch:?}");
    // Both agents report their tokens, in different places.
    assert!(dispatch.input_tokens > Some(0), "{dispatch:?}");
    assert!(dispatch.output_tokens > Some(0), "{dispatch:?}");
}

/// Five tasks: two wait for the first, the fourth waits for both, and the fifth for the fourth.
async fn a_diamond_lands(real: Real) {
    let stage = Stage::with(real, 2).await;
    let task = |key: &str, after: &str, step: &str| {
        format!(
            "- key: {key}\n  title: Task {key}\n  after: [{after}]\n  description: |\n    {step}\n    @done\n"
        )
    };
    let graph = task("a", "", "@write a.txt a")
        + &task("b", "a", "@run cat a.txt a.txt > b.txt")
        + &task("c", "a", "@write c.txt c")
        + &task("d", "b, c", "@run cat b.txt c.txt > d.txt")
        + &task("e", "d", "@run tr a-z A-Z < d.txt > e.txt");
    let (run, _) = stage.submit(&graph, &FeatureOptions::default()).await;
    let dispatches = stage.complete(run).await;
    assert_eq!(dispatches.len(), 5, "{dispatches:?}");
    assert_eq!(stage.landed("e.txt"), "A\nA\nC\n");
}

async fn the_runs_model_is_set(real: Real) {
    let stage = Stage::with(real, 1).await;
    let mut options = FeatureOptions::default();
    options.run.model = Some("opus".to_owned());
    options.run.model_strategy = Strategy::Fixed;
    let graph = "- key: a\n  title: Nothing\n  description: |\n    @write a.txt x\n    @done\n";
    let (run, _) = stage.submit(graph, &options).await;
    let dispatches = stage.complete(run).await;
    let asked = stage.model.asked();
    assert!(
        !asked.is_empty() && asked.iter().all(|model| model.contains("opus")),
        "{asked:?}"
    );
    assert!(
        dispatches[0]
            .model
            .as_ref()
            .is_some_and(|model| model.contains("opus")),
        "{dispatches:?}"
    );
}

async fn two_sessions_work_at_once(real: Real) {
    let stage = Stage::with(real, 2).await;
    let graph = "- key: a\n  title: A\n  description: |\n    @meet 2\n    @write a.txt a\n    @done\n\
                 - key: b\n  title: B\n  description: |\n    @meet 2\n    @write b.txt b\n    @done\n";
    let (run, _) = stage.submit(graph, &FeatureOptions::default()).await;
    assert_eq!(stage.complete(run).await.len(), 2);
    assert_eq!(
        (stage.landed("a.txt"), stage.landed("b.txt")),
        ("a\n".into(), "b\n".into())
    );
}

/// Both agents retry by themselves: the task never learns of the error.
async fn a_providers_error_costs_no_attempt(real: Real, status: u16) {
    let stage = Stage::with(real, 1).await;
    let graph = format!(
        "- key: a\n  title: A\n  description: |\n    @status {status}\n    @write a.txt a\n    @done\n"
    );
    let (run, _) = stage.submit(&graph, &FeatureOptions::default()).await;
    let dispatches = stage.complete(run).await;
    assert!(
        dispatches.iter().all(|dispatch| dispatch.attempt == 1),
        "{dispatches:?}"
    );
    assert_eq!(stage.landed("a.txt"), "a\n");
}

async fn an_interrupted_session_ends_and_its_task_continues(real: Real) {
    let stage = Stage::with(real, 1).await;
    let graph = "- key: a\n  title: A\n  description: |\n    @hold\n    @write a.txt a\n    @done\n";
    let (run, ids) = stage.submit(graph, &FeatureOptions::default()).await;
    stage.model.holds().await;
    let feedback = Some("Go on, please.");
    let (outcome, signals) = control::interrupt(&stage.world.db, ids[0], "test", feedback)
        .await
        .unwrap();
    assert_eq!(outcome, control::CommandOutcome::Done(1));
    stage.world.bus.emit(signals).await;
    let dispatches = stage.complete(run).await;
    let outcomes: Vec<_> = dispatches
        .iter()
        .map(|dispatch| dispatch.outcome.as_deref())
        .collect();
    assert_eq!(outcomes, [Some("interrupted"), Some("done")]);
    assert_eq!(stage.landed("a.txt"), "a\n");
}

async fn a_killed_agent_resumes_its_session(real: Real) {
    let stage = Stage::with(real, 1).await;
    let graph = "- key: a\n  title: A\n  description: |\n    @hold-at 1\n    @write a.txt a\n    \
                 @run cat a.txt a.txt > b.txt\n    @done\n";
    let (run, _) = stage.submit(graph, &FeatureOptions::default()).await;
    stage.model.holds().await;
    stage.kill_agents();
    let dispatches = stage.complete(run).await;
    let [dispatch] = &dispatches[..] else {
        panic!("{dispatches:?}");
    };
    assert_eq!(dispatch.outcome.as_deref(), Some("done"), "{dispatch:?}");
    assert_eq!(stage.landed("b.txt"), "a\na\n");
}

mod diamond {
    with_each! {
        super::a_diamond_lands;
        claude: Claude;
        opencode: OpenCode;
        gemini: Gemini;
        qwen: Qwen;
        fast_agent: FastAgent;
        codex: Codex;
        codex_0_16: Codex016;
        vibe: Vibe;
    }
}

macro_rules! with_both {
    ($($name:ident: $scene:ident($($more:expr),*);)*) => {
        with_both!(claude, Real::Claude; $($name: $scene($($more),*);)*);
        with_both!(opencode, Real::OpenCode; $($name: $scene($($more),*);)*);
    };
    ($agent:ident, $real:expr; $($name:ident: $scene:ident($($more:expr),*);)*) => {
        mod $agent {
            use super::Real;
            $(
                #[tokio::test(flavor = "multi_thread")]
                #[ignore = "needs real agents: make test-agents"]
                async fn $name() {
                    super::$scene($real, $($more),*).await;
                }
            )*
        }
    };
}

with_both! {
    a_task_writes_runs_and_lands: writes_runs_and_lands();
    the_model_of_the_run_is_set: the_runs_model_is_set();
    two_tasks_at_once: two_sessions_work_at_once();
    a_429_costs_no_attempt: a_providers_error_costs_no_attempt(429);
    a_500_costs_no_attempt: a_providers_error_costs_no_attempt(500);
    a_killed_agent_resumes: a_killed_agent_resumes_its_session();
    an_interrupted_task_continues: an_interrupted_session_ends_and_its_task_continues();
}
