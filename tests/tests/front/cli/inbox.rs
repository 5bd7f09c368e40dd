//! The inbox: one command shows what waits for a person, and one more decides each item.

use ralph_tests::harness::{WorkerOptions, until};
use serde_json::{Value, json};

use crate::stage::Stage;
use crate::typed::{output, stdout_of};

async fn inbox(stage: &Stage) -> Value {
    serde_json::from_str(&stdout_of(stage, "inbox --output json").await).unwrap()
}

/// The command of an inbox item that begins with these words.
async fn command(stage: &Stage, kind: &str, name: &str, begins: &str) -> String {
    let inbox = inbox(stage).await;
    let items = inbox["items"].as_array().unwrap();
    let item = items
        .iter()
        .find(|item| item["kind"] == kind && item["name"] == name)
        .unwrap_or_else(|| panic!("no {kind} {name}: {inbox:#}"));
    let commands = item["commands"].as_array().unwrap().iter();
    let commands: Vec<&str> = commands.map(|command| command.as_str().unwrap()).collect();
    let begins = format!("ralph {begins}");
    let found = commands.iter().find(|command| command.starts_with(&begins));
    found
        .unwrap_or_else(|| panic!("no `{begins}`: {commands:?}"))
        .trim_start_matches("ralph ")
        .to_owned()
}

fn tasks(n: usize, usd: f64, last: &str) -> String {
    let done = |k: usize| {
        format!(
            "- {{key: k{k}, title: K{k}, description: \"@usage 10 2 {usd}\\n@write k{k}.txt {k}\\n@done\"}}\n"
        )
    };
    let tasks: String = (1..n).map(done).collect();
    let after: Vec<String> = (1..n).map(|k| format!("k{k}")).collect();
    format!(
        "{tasks}- {{key: last, title: Last, after: [{}], {last}}}\n",
        after.join(", ")
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn one_command_shows_a_night_and_one_more_decides_each_item() {
    let options = WorkerOptions::named("w").slots(4);
    let stage = Stage::with(&options, &[("README.md", "begin\n")], "").await;
    let submit = async |name: &str, tasks: String, more: Value| {
        let mut body =
            json!({"name": name, "tasks": {"source": "t", "text": tasks}, "run": {"backoff_ms": 0}});
        for (key, value) in more.as_object().unwrap() {
            body[key] = value.clone();
        }
        stage.submit(body).await;
    };
    let fails =
        "max_retries: 0, description: \"@on-attempt 1 @fail the port is taken\\n@write z.txt z\\n@done\"";
    let done = "description: \"@write z.txt z\\n@done\"";
    submit("finished", tasks(12, 0.2, done), json!({})).await;
    submit("waiting", tasks(12, 0.2, fails), json!({})).await;
    submit(
        "failing",
        tasks(12, 0.2, fails),
        json!({"run": {"backoff_ms": 0, "review": false}}),
    )
    .await;
    submit(
        "capped",
        tasks(12, 0.2, done),
        json!({"max_parallel": 1, "run": {"backoff_ms": 0, "cost_usd": 2.24}}),
    )
    .await;
    let planned = "@on-kind plan @say <document>One task.</document>\n\
        @on-kind build @say <<GRAPH\n<task-graph>\n- key: a\n  title: A\n  description: |\n    @write a.txt a\n    @done\n\
        </task-graph>\nGRAPH\n";
    let idea = json!({"name": "idea", "description": planned, "spec": "Do it.", "approve": ["plan"], "review_rounds": 0});
    stage.submit(idea).await;
    for name in ["finished", "waiting", "failing", "capped", "idea"] {
        crate::caller::ended(&stage.api, name).await;
    }

    // One command shows everything.
    let shown = stdout_of(&stage, "inbox").await;
    for words in [
        "5 features: ",
        "1 done",
        "2 blocked",
        "1 failed",
        "1 limit",
        "4 things wait for you",
        "approval  idea/plan",
        "review  waiting/last",
        "failed  failing/last",
        "limit  capped",
        "the port is taken",
        "limit: cost 2.20 of 2.24",
        "~8.81 USD so far",
    ] {
        assert!(shown.contains(words), "no `{words}`: {shown}");
    }
    let (status, listed) = stage.api.get("/inbox").await;
    assert!(
        status.is_success() && listed["items"].as_array().unwrap().len() == 4,
        "{listed}"
    );
    assert_eq!(listed["tasks"]["total"], 50, "{listed}");

    // One command decides each item.
    for (kind, name, begins) in [
        ("approval", "idea/plan", "task approve"),
        ("review", "waiting/last", "task retry"),
        ("failed", "failing/last", "task retry"),
        ("limit", "capped", "feature edit"),
    ] {
        let line = command(&stage, kind, name, begins).await;
        stdout_of(&stage, &line).await;
    }
    for name in ["waiting", "failing", "capped", "idea"] {
        let over = crate::caller::ended(&stage.api, name).await;
        assert_eq!(over["feature"]["run"]["outcome"], "complete", "{name}: {over}");
    }
    let shown = stdout_of(&stage, "inbox").await;
    assert!(shown.contains("nothing waits for you"), "{shown}");

    // The log, in order of time.
    let log: Value = serde_json::from_str(&stdout_of(&stage, "log --since 12h --output json").await).unwrap();
    let events = log["items"].as_array().unwrap();
    let at: Vec<&str> = events.iter().map(|event| event["at"].as_str().unwrap()).collect();
    assert!(at.is_sorted(), "{at:?}");
    let has = |event: &str, feature: &str, what: &str| {
        let mut of = events.iter();
        let found = of.any(|one| {
            one["event"] == event && one["feature"] == feature && one["what"].as_str().unwrap().contains(what)
        });
        assert!(found, "no {event} of {feature} with {what}: {log:#}");
    };
    has("run_began", "capped", "began");
    has("run_ended", "capped", "limit_reached");
    has("run_ended", "capped", "complete");
    has("run_ended", "failing", "failure");
    has("attempt", "waiting", "work 1 failed");
    has("landed", "finished", "landed");
    has("person", "idea", "approve");
    has("person", "capped", "edit");
    let shown = stdout_of(&stage, "log --since 12h --feature capped").await;
    assert!(
        shown.contains("limit_reached") && !shown.contains("idea"),
        "{shown}"
    );
    let refused = output(&stage, "log --since yesterday").await;
    assert!(String::from_utf8_lossy(&refused.stderr).contains("give a time ago like 12h"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_inbox_lists_limits_missing_workers_and_idle_features() {
    let stage = Stage::start().await;
    stage
        .api
        .submit("unserved", "- {key: a, title: A, pool: gpu}\n")
        .await;
    stage
        .api
        .submit("stopped", "- {key: a, title: A, pool: gpu}\n")
        .await;
    stage
        .api
        .submit("paused", "- {key: a, title: A, pool: gpu}\n")
        .await;
    stdout_of(&stage, "feature stop stopped").await;
    stdout_of(&stage, "feature pause paused").await;
    let more = json!({"tasks": {"source": "t", "text": "- {key: a, title: A, description: \"@usage 10 2 0.6\\n@done\"}\n"}});
    stage.submit(more).await;
    stage.ends("complete").await;
    stdout_of(&stage, "budget set day --max-cost 0.5").await;
    until("all four inbox items", async || {
        let inbox = inbox(&stage).await;
        let items = inbox["items"].as_array().unwrap().iter();
        let mut kinds: Vec<&str> = items.map(|item| item["kind"].as_str().unwrap()).collect();
        kinds.sort_unstable();
        match kinds == ["limit", "paused", "run", "worker"] {
            true => Ok(()),
            false => Err(format!("{inbox:#}")),
        }
    })
    .await;
    stdout_of(&stage, &command(&stage, "limit", "day", "budget set").await).await;
    stdout_of(
        &stage,
        &command(&stage, "paused", "paused", "feature resume").await,
    )
    .await;
    stdout_of(&stage, &command(&stage, "run", "stopped", "feature run").await).await;
    let kinds = inbox(&stage).await["items"].as_array().unwrap().len();
    assert_eq!(kinds, 1);
}
