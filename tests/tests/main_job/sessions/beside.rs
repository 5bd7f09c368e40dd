//! Agents that misbehave in every known way, beside others that don't: the worker continues with its other
//! slots.

use futures::future::join_all;
use ralph_tests::harness::{FeatureOptions, WorkerOptions, World, binary, until};

use crate::scene::Scene;

/// Script and outcome of a first attempt. Unless the outcome is `done`, the second attempt does the task.
struct Fault {
    name: &'static str,
    first: &'static [&'static str],
    outcome: &'static str,
}

const fn fault(name: &'static str, first: &'static [&'static str], outcome: &'static str) -> Fault {
    Fault { name, first, outcome }
}

/// `$MARK` is a file that only a worker can create.
const FAULTS: &[Fault] = &[
    fault("unknown-update", &["@unknown-update"], "done"),
    fault("unknown-request", &["@unknown-request"], "done"),
    fault(
        "junk",
        &["@junk Loading the model", "@bad-json", "@bad-utf8"],
        "done",
    ),
    fault("huge-line", &["@long-line 5M"], "done"),
    fault("stray-response", &["@stray-response"], "done"),
    fault("stop-reason", &["@stop whatever"], "error"),
    fault("crash", &["@crash"], "error"),
    fault("too-much", &["@flood 12M"], "error"),
    fault(
        "loud-terminal",
        &[r"@term head -c 1000000000 /dev/zero | tr '\0' x"],
        "done",
    ),
    fault(
        "detached",
        &[
            "@orphan 600",
            "@run (setsid sh -c 'trap \"\" TERM; sleep 600' &) &",
        ],
        "done",
    ),
    fault("memory", &["@run tail /dev/zero"], "done"),
    fault(
        "modes",
        &["@run mkdir d; echo x > d/f; chmod 000 d/f d; chmod 555 .; umask 777"],
        "done",
    ),
    // The agent's own filter is refused.
    fault(
        "git",
        &[
            r#"@run for h in pre-commit post-commit post-checkout pre-push reference-transaction; do printf '#!/bin/sh\ntouch $MARK\n' > .git/hooks/$h; chmod +x .git/hooks/$h; done"#,
            "@run git config core.fsmonitor 'touch $MARK'; git config core.hooksPath .git/hooks; git config core.sshCommand 'touch $MARK'",
            r#"@run printf '* filter=mark\n' > .gitattributes; git config filter.mark.clean 'touch $MARK; cat'; git config filter.mark.smudge 'touch $MARK; cat'"#,
        ],
        "error",
    ),
];

/// Faults of agents that fall silent.
const SILENT: &[Fault] = &[
    fault("hang", &["@hang"], "error"),
    fault("deaf", &["@ignore-cancel", "@ignore-term", "@hang"], "error"),
    fault("deaf-terminal", &["@term trap '' TERM; sleep 600"], "error"),
];

fn graph(faults: &[Fault], mark: &str) -> String {
    let task = |fault: &Fault| {
        let first = fault
            .first
            .iter()
            .map(|line| format!("    @on-attempt 1 {line}\n"));
        format!(
            "- key: {0}\n  title: {0}\n  description: |\n{1}    @write {0}.txt {0}\n    @done\n",
            fault.name,
            first.collect::<String>().replace("$MARK", mark)
        )
    };
    faults.iter().map(task).collect()
}

/// Outcomes of each task's sessions, in order.
async fn outcomes(scene: &Scene<'_>) -> Vec<(String, Vec<String>)> {
    sqlx::query_as(
        "select x.key, array_agg(coalesce(d.outcome::text, d.state::text) order by d.claimed_at)
         from dispatches d join task_texts x on x.task_id = d.task_id
         where d.feature_id = $1 and d.kind = 'work'
         group by x.key order by x.key",
    )
    .bind(scene.feature.0)
    .fetch_all(&scene.world.db)
    .await
    .unwrap()
}

async fn check_survived(scene: &Scene<'_>, faults: &[Fault]) {
    scene.completes().await;
    let outcomes = outcomes(scene).await;
    for fault in faults {
        let (_, of) = outcomes.iter().find(|(key, _)| key == fault.name).unwrap();
        let expected: &[&str] = match fault.outcome {
            "done" => &["done"],
            other => &[other, "done"],
        };
        assert_eq!(of, expected, "{}: {}", fault.name, scene.world.tell().await);
    }
}

/// Waits until the flooding agent has failed its attempt, and each agent that can't be started has failed
/// three times.
async fn keep_failing(scene: &Scene<'_>) {
    until("three failures of each agent that can't be started", async || {
        let outcomes = outcomes(scene).await;
        let enough = |(key, of): &(String, Vec<String>)| match key.as_str() {
            "flooding" => of == &["error"],
            _ => of.iter().filter(|outcome| *outcome == "door").count() >= 3,
        };
        match outcomes.len() == 3 && outcomes.iter().all(enough) {
            true => Ok(()),
            false => Err(format!("{outcomes:?}")),
        }
    })
    .await;
}

/// An agent that sends requests without end and reads no answer.
fn flooding() -> String {
    let request =
        r#"{"jsonrpc":"2.0","id":1,"method":"fs/read_text_file","params":{"sessionId":"s","path":"none"}}"#;
    let reply = |id: u8, result: &str| format!("read -r l; printf '{{\"id\":{id},\"result\":{result}}}\\n'");
    let script = [
        reply(0, r#"{"protocolVersion":1}"#),
        reply(1, r#"{"sessionId":"s"}"#),
        format!("read -r l; yes '{request}' | head -n 200000"),
        r#"printf '{"id":2,"result":{"stopReason":"end_turn"}}\n'"#.to_owned(),
        "exec cat >/dev/null".to_owned(),
    ];
    shell_words::join(["sh", "-c", &script.join("; ")])
}

#[tokio::test(flavor = "multi_thread")]
async fn misbehaving_agents_do_not_disturb_the_workers_other_slots() {
    let mut world = World::calm().await.unwrap();
    let agent = binary("ralph-scripted-agent");
    let config = format!(
        "[workspace]\nsession_memory_mb = 256\n[agents.newer]\ncommand = \"{0} --handshake wrong-version\"\n\
         [agents.gone]\ncommand = \"{0} --handshake exit\"\n[agents.flooding]\ncommand = {1:?}\n",
        agent.display(),
        flooding()
    );
    std::fs::write(world.dir().join(".ralph.toml"), config).unwrap();
    world.coordinator().await.unwrap();
    let options = WorkerOptions::named("w")
        .slots(6)
        .pool("beside,faults,silent,fixed");
    let mut worker = world.worker(&options).unwrap();

    // Two tasks that run all the time, and a stream of short ones.
    let gate = world.gate("beside");
    let mut good = String::new();
    for n in 0..2 {
        good += &format!(
            "- key: long{n}\n  title: Stay\n  priority: -1\n  description: |\n    @effect long\n    @wait-for {}\n    @say on\n    @done\n",
            gate.display()
        );
    }
    for n in 0..30 {
        good += &format!("- key: short{n}\n  title: Pass\n  description: |\n    @wait 200\n    @done\n");
    }
    let mut patient = FeatureOptions {
        max_parallel: 3,
        ..FeatureOptions::default()
    };
    patient.run.idle_ms = 300_000;
    patient.run.session_ms = 300_000;
    let beside = Scene::scratch(&world, "beside", &good, patient).await;
    world.effects_of("long", 2).await.unwrap();

    let mark = world.dir().join("marked");
    let mut options = FeatureOptions {
        max_parallel: 2,
        ..FeatureOptions::default()
    };
    options.run.output_bytes = 8 << 20;
    let mut silent = options.clone();
    silent.run.idle_ms = 2_000;
    let fixed = FeatureOptions {
        max_retries: 0,
        ..silent.clone()
    };
    let faults = Scene::submit_with(
        &world,
        "faults",
        &graph(FAULTS, &mark.display().to_string()),
        options,
    )
    .await;
    let silent = Scene::scratch(&world, "silent", &graph(SILENT, ""), silent).await;
    let always = "- {key: flooding, title: Ask, agent: flooding}\n- {key: newer, title: Be newer, agent: newer}\n\
                  - {key: gone, title: Be gone, agent: gone}\n";
    let fixed = Scene::scratch(&world, "fixed", always, fixed).await;
    let checks: [std::pin::Pin<Box<dyn Future<Output = ()>>>; 3] = [
        Box::pin(check_survived(&faults, FAULTS)),
        Box::pin(check_survived(&silent, SILENT)),
        Box::pin(keep_failing(&fixed)),
    ];
    join_all(checks).await;
    for (key, of) in outcomes(&fixed).await {
        // The worker stops reading from an agent that reads no answers, so that agent falls silent.
        let expected: &[&str] = if key == "flooding" {
            &["error"]
        } else {
            &["door", "live"]
        };
        assert!(
            of.iter().all(|outcome| expected.contains(&outcome.as_str())),
            "{key}: {of:?}"
        );
    }
    assert!(!mark.exists(), "the worker ran what an agent configured");

    std::fs::write(gate, "").unwrap();
    beside.completes().await;
    for (key, of) in outcomes(&beside).await {
        assert_eq!(of, ["done"], "{key} had to begin again: {}", world.tell().await);
    }
    assert!(worker.try_wait().is_none(), "{}", worker.output());
    world.check_processes().await.unwrap();
}
