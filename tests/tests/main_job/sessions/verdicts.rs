//! A verdict is about a patch: it stays valid on a moved head while the patch is the same; otherwise a new
//! verdict is needed.

use ralph_tests::harness::{FeatureOptions, WorkerOptions, World, until};

use crate::scene::Scene;

/// `left` lands while `right` works on the same file; both are verified. The gates let `left` and `right`
/// end.
fn beside(name: &str, gates: &[std::path::PathBuf; 2], line: u32, more: &str) -> String {
    format!(
        r"
- key: lines
  title: Write lines
  description: |
    @run seq 1 20 > lines.txt
    @effect lines
    @done
- key: left
  title: Change the first line
  after: [lines]
  description: |
    @run sed -i '1s/.*/left/' lines.txt
    @wait-for {}
    @effect left
    @done
- key: right
  title: Change another line
  after: [lines]
  description: |
    @on-attempt 1 @effect begun-{name}
    @on-attempt 1 @wait-for {}
    @on-attempt 1 @run sed -i '{line}s/.*/right/' lines.txt
{more}
    @effect right
    @done
",
        gates[0].display(),
        gates[1].display()
    )
}

async fn pass<'a>(world: &'a World, name: &str, line: u32, more: &str) -> Scene<'a> {
    let gates = ["left", "right"].map(|side| world.gate(&format!("{name}-{side}")));
    let options = FeatureOptions {
        verify: true,
        ..FeatureOptions::default()
    };
    let scene = Scene::submit_with(world, name, &beside(name, &gates, line, more), options).await;
    world.effects_of(&format!("begun-{name}"), 1).await.unwrap();
    std::fs::write(&gates[0], "").unwrap();
    scene
        .until("select count(*) = 2 from tasks where feature_id = $1 and state = 'done'")
        .await;
    std::fs::write(&gates[1], "").unwrap();
    scene
}

/// Dispatches of the last task, oldest first: kind, outcome, start commit and commit.
async fn dispatches(scene: &Scene<'_>) -> Vec<(String, String, Option<String>, Option<String>)> {
    sqlx::query_as(
        "select kind::text, outcome::text, start_commit, commit
         from dispatches where task_id = $1 order by claimed_at, id",
    )
    .bind(scene.tasks[2].0)
    .fetch_all(&scene.world.db)
    .await
    .unwrap()
}

fn steps(dispatches: &[(String, String, Option<String>, Option<String>)]) -> Vec<String> {
    let step = |(kind, outcome, ..): &(String, String, _, _)| format!("{kind} {outcome}");
    dispatches.iter().map(step).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verdict_holds_as_long_as_the_patch_is_the_same() {
    let mut world = World::calm().await.unwrap();
    world.coordinator().await.unwrap();
    let options = WorkerOptions::named("w1").slots(6).pool("far,near,worse");
    let _worker = world.worker(&options).unwrap();
    let refusal = "    @on-attempt 1 @on-kind verify @expect-fail grep -qx left lines.txt\n    \
                   @on-attempt 2 @expect-pass grep -qx left lines.txt\n    \
                   @on-attempt 2 @write more.txt more";
    let (far, near, worse) = tokio::join!(
        pass(&world, "far", 15, ""),
        pass(&world, "near", 4, ""),
        pass(&world, "worse", 4, refusal),
    );

    far.completes().await;
    let once = ["work done", "verify passed", "integrate merged"];
    assert_eq!(steps(&dispatches(&far).await), once, "{}", world.tell().await);

    near.completes().await;
    let all = dispatches(&near).await;
    let again = [
        "work done",
        "verify passed",
        "integrate void",
        "verify passed",
        "integrate merged",
    ];
    assert_eq!(steps(&all), again, "{}", world.tell().await);
    let (first, rebased) = (&all[1].2, &all[2].3);
    assert!(rebased.is_some() && first != rebased);
    assert_eq!(
        &all[3].2, rebased,
        "the verifier must judge the patch on the branch's head"
    );

    // A patch that is refused within its turn is tried again on top of both, and the turn is free.
    worse.completes().await;
    let all = dispatches(&worse).await;
    let tried = [
        "work done",
        "verify passed",
        "integrate void",
        "verify failed",
        "work done",
        "verify passed",
        "integrate merged",
    ];
    assert_eq!(steps(&all), tried, "{}", world.tell().await);
    for scene in [&far, &near, &worse] {
        let repository = scene.repository.as_ref().unwrap();
        let branch = format!("ralph/{}:lines.txt", scene.name);
        let landed = repository.git(&["show", &branch]).unwrap();
        assert!(
            landed.starts_with("left\n") && landed.contains("\nright\n"),
            "{landed}"
        );
    }
    world.check_processes().await.unwrap();
}

/// The verifier within a turn dies: the turn stays with the task, and another verifier judges it.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_survives_the_death_of_its_verifier() {
    let mut world = World::start().await.unwrap();
    world.coordinator().await.unwrap();
    let options = |name: &str| WorkerOptions::named(name).slots(3).pool("dies");
    let mut first = world.worker(&options("w1")).unwrap();
    let judging = world.gate("judging");
    let wait = format!(
        "    @on-kind verify @run grep -qx left lines.txt && touch {0} && while [ ! -e {0}.on ]; do sleep 0.05; done",
        judging.display()
    );
    let scene = pass(&world, "dies", 4, &wait).await;
    until("a verifier at work", async || judging.exists()).await;
    first.kill();
    std::fs::write(format!("{}.on", judging.display()), "").unwrap();
    let _second = world.worker(&options("w2")).unwrap();
    scene.completes().await;
    let steps = steps(&dispatches(&scene).await);
    let expected = [
        "work done",
        "verify passed",
        "integrate void",
        "verify lost",
        "verify passed",
        "integrate merged",
    ];
    assert_eq!(steps, expected, "{}", world.tell().await);
    drop(first);
    world.check_processes().await.unwrap();
}
