//! Several agents on one machine, chosen by the machine's rules (SPEC 8).

use std::collections::BTreeSet;

use ralph_tests::harness::{FeatureOptions, WorkerOptions, World, binary};

use crate::scene::Scene;

#[tokio::test(flavor = "multi_thread")]
async fn sessions_go_to_the_agents_that_the_machines_rules_choose() {
    let mut world = World::calm().await.unwrap();
    let command = binary("ralph-scripted-agent");
    let command = command.display();
    // Each agent leaves its name as an effect in every session.
    let script = |name: &str| {
        format!("env = {{ RALPH_SCRIPT = \"@effect by-{name}\\n@on-kind verify @effect by-{name}\" }}")
    };
    let config = format!(
        "[agent]\n{}\n[agents.judge]\ncommand = \"{command}\"\nkinds = [\"verify\"]\n{}\n\
         [agents.strong]\ncommand = \"{command}\"\npools = [\"rules\"]\ntiers = [\"opus\"]\n{}\n",
        script("default"),
        script("judge"),
        script("strong"),
    );
    std::fs::write(world.dir().join(".ralph.toml"), config).unwrap();
    world.coordinator().await.unwrap();
    let _worker = world.worker(&WorkerOptions::named("w").pool("rules")).unwrap();
    let graph = "- {key: plain, title: Plain, description: \"@write a a\\n@done\"}\n\
                 - {key: hard, title: Hard, model: opus, description: \"@write b b\\n@done\"}\n";
    let options = FeatureOptions {
        verify: true,
        ..FeatureOptions::default()
    };
    let scene = Scene::submit_with(&world, "rules", graph, options).await;
    scene.completes().await;
    let mut began = BTreeSet::new();
    for line in world.effects_lines() {
        let mut words = line.split(' ');
        let (agent, task) = (words.next().unwrap(), words.next().unwrap());
        began.insert((agent.to_owned(), task.to_owned()));
    }
    let [plain, hard] = &scene.tasks[..] else {
        panic!("{:?}", scene.tasks);
    };
    let expected = [
        ("by-default", plain),
        ("by-judge", plain),
        ("by-judge", hard),
        ("by-strong", hard),
    ];
    let expected = expected.map(|(agent, task)| (agent.to_owned(), task.short().to_string()));
    assert_eq!(began, expected.into(), "{}", world.tell().await);
}
