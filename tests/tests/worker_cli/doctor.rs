use std::os::unix::fs::PermissionsExt as _;

use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use ralph_shared::agents::presets::PRESETS;
use serde_json::Value;

use super::bench::{AGENT, Bench};

fn examined(bench: &Bench, arguments: &[&str]) -> (Option<i32>, Value) {
    let output = bench.output(&[&["doctor", "-o", "json"], arguments].concat());
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    let findings = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{words}"));
    (output.status.code(), findings)
}

fn found<'a>(list: &'a Value, name: &str) -> &'a Value {
    let mut all = list.as_array().unwrap().iter();
    all.find(|finding| finding["name"] == name)
        .unwrap_or_else(|| panic!("no {name} in {list}"))
}

#[test]
fn doctor_confirms_a_machine_that_can_work() {
    let bench = Bench::new("[agent]\ncommand = \"{agent}\"\n");
    let (code, findings) = examined(&bench, &[]);
    assert_eq!(
        (code, &findings["ok"]),
        (Some(0), &Value::Bool(true)),
        "{findings}"
    );
    assert_eq!(findings["schema"], "ralph/v1/worker_findings");
    let agent = found(&findings["agents"], "default");
    let introduction = &agent["introduction"];
    assert_eq!(introduction["name"], "ralph-scripted-agent");
    assert_eq!(introduction["protocol_version"], 1);
    assert!(
        !introduction["session"]["models"].as_array().unwrap().is_empty(),
        "{agent}"
    );
    assert!(
        found(&findings["parts"], "git")["found"]
            .as_str()
            .unwrap()
            .starts_with("git version")
    );
    let inside = found(&findings["parts"], "inside the sandbox");
    assert_eq!(inside["status"], "ok", "{inside}");
    let works = inside["found"].as_str().unwrap();
    assert!(
        works.contains("a shell in a terminal") && works.contains("the network"),
        "{works}"
    );
    let page = String::from_utf8(bench.output(&["doctor"]).stdout).unwrap();
    assert!(page.contains("agent default: ralph-scripted-agent"), "{page}");
    assert!(page.ends_with("This machine can work.\n"), "{page}");
}

#[test]
fn each_agents_problem_is_reported_with_advice() {
    let bench = Bench::new(
        "[agent]\ncommand = \"{agent}\"\n\
         [agents.gone]\ncommand = \"no-such-agent --acp\"\n\
         [agents.locked]\ncommand = \"{agent} --handshake auth-required\"\n\
         [agents.future]\ncommand = \"{agent} --handshake wrong-version\"\n\
         [agents.fallen]\ncommand = \"sh -c 'echo no node here >&2; exit 127'\"\n",
    );
    let (code, findings) = examined(&bench, &[]);
    assert_eq!(
        (code, &findings["ok"]),
        (Some(1), &Value::Bool(false)),
        "{findings}"
    );
    let check = |name: &str, problem: &str, advice: &str| {
        let agent = found(&findings["agents"], name);
        assert_eq!(agent["status"], "missing", "{agent}");
        assert!(agent["problem"].as_str().unwrap().contains(problem), "{agent}");
        assert!(agent["advice"].as_str().unwrap().contains(advice), "{agent}");
    };
    check("gone", "`no-such-agent`", "install it");
    check("locked", "Authentication required", "log in with the agent");
    check("future", "version 999", "update the agent");
    check("fallen", "no node here", "by hand");
    assert_eq!(found(&findings["agents"], "default")["status"], "ok");
}

#[test]
fn agents_of_presets_are_checked_for_program_and_login() {
    let bench = Bench::new(
        "[agent]\nenv = { PATH = \"{bin}\" }\n[agents.gemini]\nenv = { PATH = \"{bin}\" }\n\
         [agents.judge]\npreset = \"codex\"\nenv = { PATH = \"/usr/bin:/bin\" }\n",
    );
    let config = bench.path(".ralph.toml");
    let bin = bench.path("bin");
    let text = std::fs::read_to_string(&config).unwrap();
    let text = text.replace("{bin}", &format!("{}:/usr/bin:/bin", bin.display()));
    std::fs::write(config, text).unwrap();
    std::fs::create_dir(&bin).unwrap();
    for name in ["claude-agent-acp", "gemini"] {
        let path = bin.join(name);
        // The scripted agent does not know the preset's arguments.
        std::fs::write(&path, format!("#!/bin/sh\nexec {AGENT}\n")).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let examined = |variable: (&str, &str)| {
        let mut doctor = bench.worker(&["doctor", "-o", "json", "--sandbox-read", AGENT]);
        for preset in PRESETS {
            for key in preset.keys {
                doctor.env_remove(key);
            }
        }
        doctor.env("RALPH_CONFIG", bench.path(".ralph.toml"));
        let output = doctor.env(variable.0, variable.1).output().unwrap();
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let check = |findings: &Value, name: &str, status: &str, words: &str| {
        let agent = found(&findings["agents"], name);
        assert_eq!(agent["status"], status, "{agent}");
        assert!(agent.to_string().contains(words), "{words}: {agent}");
    };
    let none = examined(("X", ""));
    check(
        &none,
        "default",
        "warning",
        "no login was found: Claude Code: run `claude-agent-acp --cli`",
    );
    check(&none, "default", "warning", "\"preset\":\"claude\"");
    check(&none, "gemini", "warning", "set GEMINI_API_KEY");
    check(&none, "gemini", "warning", "\"command\":\"gemini --acp\"");
    check(
        &none,
        "judge",
        "missing",
        "npm install --global @agentclientprotocol/codex-acp",
    );
    check(&none, "judge", "missing", "agent-full-access");
    let key = examined(("CLAUDE_CODE_OAUTH_TOKEN", "token"));
    check(&key, "default", "ok", "");
    check(&key, "gemini", "warning", "");
    std::fs::create_dir(bench.path(".gemini")).unwrap();
    std::fs::write(bench.path(".gemini/oauth_creds.json"), "{}").unwrap();
    let file = examined(("X", ""));
    check(&file, "gemini", "ok", "");
    check(&file, "default", "warning", "");
}

#[test]
fn a_secret_in_an_agents_last_words_is_not_shown() {
    let bench = Bench::new(
        "[agent]\ncommand = \"sh -c 'echo key $MY_API_KEY >&2; exit 1'\"\n\
         env = { MY_API_KEY = \"hidden-12345678\" }\n",
    );
    let output = bench.output(&["doctor"]);
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(
        page.contains("key [redacted]") && !page.contains("hidden"),
        "{page}"
    );
}

#[test]
fn an_unreachable_broker_is_reported_without_its_password() {
    let port = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().port()
    };
    let bench = Bench::new("[agent]\ncommand = \"{agent}\"\n");
    let url = format!("nats://worker:secret@127.0.0.1:{port}");
    let (code, findings) = examined(&bench, &["--nats", &url]);
    assert_eq!(code, Some(1));
    let nats = found(&findings["parts"], "NATS");
    assert_eq!(nats["status"], "missing");
    assert!(!nats.to_string().contains("secret"), "{nats}");
}

#[test]
fn a_terminated_doctor_stops_its_agent() {
    let bench = Bench::new("[agent]\ncommand = \"sh -c 'echo $$ > $STARTED; exec sleep 600'\"\n");
    let started = bench.path("started");
    mkfifo(&started, Mode::S_IRWXU).unwrap();
    let mut child = bench
        .worker(&["doctor", "--sandbox", "none", "--pass-env", "STARTED"])
        .env("STARTED", &started)
        .spawn()
        .unwrap();
    let agent = std::fs::read_to_string(&started).unwrap();
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(!std::path::Path::new("/proc").join(agent.trim()).exists());
}

#[test]
fn an_unusable_configuration_gives_an_error_of_one_line() {
    let bench = Bench::new("[agent]\ncommand = \"agent 'x\"\n");
    let mut doctor = bench.worker(&["doctor"]);
    // The error shows no backtrace.
    let output = doctor.env("RUST_BACKTRACE", "1").output().unwrap();
    let words = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(words.contains("unclosed quote"), "{words}");
    assert!(
        words.starts_with("error: ") && words.lines().count() == 1,
        "{words}"
    );
}

#[test]
fn a_network_policy_is_shown_and_needs_a_sandbox() {
    let configuration = "[agent]\ncommand = \"{agent}\"\n[workspace]\nsandbox_network = \"none\"\n";
    let bench = Bench::new(configuration);
    let (code, findings) = examined(&bench, &[]);
    assert_eq!(code, Some(0), "{findings}");
    let sandbox = found(&findings["parts"], "sandbox");
    assert!(
        sandbox["found"].as_str().unwrap().ends_with(", no network"),
        "{sandbox}"
    );

    let (code, findings) = examined(&bench, &["--sandbox", "none"]);
    assert_eq!(code, Some(1), "{findings}");
    let sandbox = found(&findings["parts"], "sandbox");
    assert_eq!(sandbox["status"], "missing", "{sandbox}");

    let refused = bench.output(&["run", "--sandbox", "none"]);
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success(), "{words}");
    assert!(
        words.contains("`sandbox_network = \"none\"` needs a sandbox"),
        "{words}"
    );

    let refused = bench.output(&["run", "--sandbox-network", "https://proxy"]);
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(words.contains("without TLS"), "{words}");
}

#[test]
fn doctor_finds_commit_signing_that_fails() {
    let bench = Bench::new("[agent]\ncommand = \"{agent}\"\n");
    let config = bench.path("gitconfig");
    let examined = |program: &str| -> Value {
        let text = format!("[commit]\n\tgpgSign = true\n[gpg]\n\tprogram = {program}\n");
        std::fs::write(&config, text).unwrap();
        let mut doctor = bench.worker(&["doctor", "-o", "json"]);
        doctor
            .env("GIT_CONFIG_GLOBAL", &config)
            .env("RALPH_CONFIG", bench.path(".ralph.toml"));
        serde_json::from_slice(&doctor.output().unwrap().stdout).unwrap()
    };
    let findings = examined("false");
    let signing = found(&findings["parts"], "signing");
    assert_eq!(signing["status"], "missing", "{signing}");
    assert!(
        signing["advice"].as_str().unwrap().contains("gpg-agent"),
        "{signing}"
    );
}
