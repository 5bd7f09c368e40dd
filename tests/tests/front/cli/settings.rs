//! Settings and their sources (SPEC 8): each key with a flag has a variable, and a key without effect gives a
//! warning.

use std::path::Path;
use std::process::Command;

use ralph_coordinator::config::KEYS;
use ralph_coordinator::embedded::{DataDir, Published};
use ralph_tests::harness::{binary, configure};
use serde_json::Value;

fn config(folder: &Path, args: &[&str], variables: &[(&str, &str)]) -> (Value, String) {
    let output = Command::new(binary("ralph-coordinator"))
        .args(["config", "--output", "json"])
        .args(args)
        .current_dir(folder)
        .env("HOME", folder)
        .env_remove("XDG_STATE_HOME")
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{args:?} {variables:?}: {stderr}");
    (serde_json::from_slice(&output.stdout).unwrap(), stderr)
}

/// Findings of one check of `doctor`; other checks may fail here.
fn doctor(folder: &Path, check: &str, variables: &[(&str, &str)]) -> Vec<Value> {
    let output = Command::new(binary("ralph-coordinator"))
        .args(["doctor", "--output", "json"])
        .current_dir(folder)
        .env("HOME", folder)
        .env_remove("XDG_STATE_HOME")
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let page: Value = serde_json::from_slice(&output.stdout).unwrap();
    let items = page["items"].as_array().unwrap().iter();
    items.filter(|item| item["check"] == check).cloned().collect()
}

fn of<'a>(page: &'a Value, key: &str) -> &'a Value {
    let items = page["items"].as_array().unwrap();
    items.iter().find(|item| item["key"] == key).unwrap()
}

#[test]
fn each_key_is_set_by_its_variable_and_by_its_flag() {
    let folder = tempfile::tempdir().unwrap();
    let mut walked = 0;
    for key in KEYS.iter() {
        let (Some(flag), Some(variable)) = (key.flag, key.variable) else {
            continue;
        };
        let word = match key.name {
            "limits.max_time" | "limits.session_time" | "limits.idle_time" | "limits.backoff" => "7m",
            "workspace.merge" => "squash",
            "model_strategy" => "escalate",
            "verify.landing" => "batch",
            "listen" | "health_listen" => "127.0.0.1:7",
            "url" => "http://127.0.0.1:7",
            "execution.verify" | "execution.review" | "execution.avoid_conflicts" => "yes",
            _ => "7",
        };
        let (page, _) = config(folder.path(), &[], &[(variable, word)]);
        let found = of(&page, key.name);
        assert_eq!(
            (&found["source"], &found["place"]),
            (&"environment".into(), &variable.into()),
            "{found}"
        );
        assert_ne!(found["value"], Value::Null, "{found}");
        if matches!(key.name, "execution.verify" | "execution.review") {
            assert_eq!(found["value"], false, "{found}");
        }
        // `config` has the flags of the commands that submit and serve.
        let given = format!("--{flag}={word}");
        let (page, _) = config(folder.path(), &[&given], &[(variable, word)]);
        let found = of(&page, key.name);
        assert_eq!(found["source"], "flag", "{found}");
        walked += 1;
    }
    assert!(walked >= 20, "{walked} keys with a flag");
}

#[test]
fn an_empty_variable_counts_as_unset() {
    let folder = tempfile::tempdir().unwrap();
    let variables = KEYS.iter().filter_map(|key| key.variable);
    let empty: Vec<(&str, &str)> = variables.map(|variable| (variable, "")).collect();
    let (page, stderr) = config(folder.path(), &[], &empty);
    assert_eq!(stderr, "");
    for item in page["items"].as_array().unwrap() {
        assert_eq!(item["source"], "default", "{item}");
    }
}

#[test]
fn a_table_without_effect_gives_one_warning() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[sandbox]\nkind = \"none\"\n[limits]\nmax_cots = 1\n";
    configure(folder.path(), text);
    let (_, stderr) = config(folder.path(), &[], &[]);
    let lines = |words: &str| stderr.lines().filter(|line| line.contains(words)).count();
    assert_eq!(
        (
            lines("this table"),
            lines("does nothing"),
            lines("limits.max_cots")
        ),
        (1, 1, 1),
        "{stderr}"
    );
}

#[test]
fn an_unknown_key_gets_a_similar_one_suggested() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[limits]\nmax_csot = 3\n[verfy]\ncommands = [\"true\"]\n";
    configure(folder.path(), text);
    let (_, stderr) = config(folder.path(), &[], &[]);
    for meant in ["did you mean `max_cost`?", "did you mean `verify`?"] {
        assert!(stderr.contains(meant), "{stderr}");
    }
    let finding = &doctor(folder.path(), "configuration", &[])[0];
    let found = finding["found"].as_str().unwrap();
    assert!(
        finding["status"] == "note"
            && found.contains(".ralph.toml")
            && found.contains("`limits.max_csot` (did you mean `max_cost`?)")
            && found.contains("`verfy` (did you mean `verify`?)"),
        "{finding}"
    );
}

#[test]
fn doctor_reports_a_missing_agent_program_with_advice() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[agents.judge]\ncommand = \"/bin/sh -c true\"\n";
    configure(folder.path(), text);
    let found = doctor(folder.path(), "agent", &[("RALPH_AGENT", "no-such-agent --acp")]);
    assert_eq!(found.len(), 2, "{found:?}");
    let text = found[0]["found"].as_str().unwrap();
    let advice = found[0]["advice"].as_str().unwrap();
    assert!(
        found[0]["status"] == "note"
            && text.contains("`no-such-agent` isn't on the PATH")
            && advice.contains("--agent AGENT")
            && advice.contains("ralph-worker doctor"),
        "{found:?}"
    );
    assert_eq!(found[1]["status"], "ok");
    assert_eq!(found[1]["found"], "judge: /bin/sh");
}

#[test]
fn doctor_checks_the_agent_that_a_running_up_was_given() {
    let folder = tempfile::tempdir().unwrap();
    let up = DataDir::open(&folder.path().join(".ralph")).unwrap();
    for (agent, status, found) in [
        (Some("/bin/sh -c true"), "ok", "default: /bin/sh"),
        (None, "note", "`no-such-agent` isn't on the PATH"),
    ] {
        let published = Published {
            url: "http://127.0.0.1:9".to_owned(),
            token: "t".to_owned(),
            agent: agent.map(str::to_owned),
        };
        up.publish(&published).unwrap();
        let findings = doctor(folder.path(), "agent", &[("RALPH_AGENT", "no-such-agent")]);
        assert_eq!(findings[0]["status"], status, "{findings:?}");
        assert!(
            findings[0]["found"].as_str().unwrap().contains(found),
            "{findings:?}"
        );
    }
}
