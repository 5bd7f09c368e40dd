//! JSON output of commands, checked against its published schema.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Output;

use ralph_tests::harness::binary;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::caller::ADMIN;
use crate::stage::Stage;

/// Runs commands, and checks every document that they print.
struct Reader {
    url: String,
    folder: tempfile::TempDir,
    schema: Value,
    seen: BTreeSet<String>,
}

impl Reader {
    fn new(url: &str) -> Self {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/output.schema.json");
        Self {
            url: url.to_owned(),
            folder: tempfile::tempdir().unwrap(),
            schema: serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap(),
            seen: BTreeSet::new(),
        }
    }

    async fn output(&self, line: &str) -> Output {
        let mut command = Command::new(binary("ralph-coordinator"));
        command
            .args(shell_words::split(line).unwrap())
            .args(["--output", "json"])
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.folder.path())
            .env("RALPH_URL", &self.url)
            .env("RALPH_TOKEN", ADMIN);
        command.output().await.unwrap()
    }

    /// Runs a command that prints one document of this kind.
    async fn reads(&mut self, kind: &str, line: &str) -> Value {
        let output = self.output(line).await;
        let stderr = String::from_utf8_lossy(&output.stderr);
        let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
            panic!(
                "`{line}`: {error}: {}\n{stderr}",
                String::from_utf8_lossy(&output.stdout)
            )
        });
        self.check(kind, line, &document);
        document
    }

    /// Runs a command that prints documents of this kind, one per line.
    async fn reads_lines(&mut self, kind: &str, line: &str) {
        let output = self.output(line).await;
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            text.lines().count() > 0,
            "`{line}`: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        for document in text.lines() {
            self.check(kind, line, &serde_json::from_str(document).unwrap());
        }
    }

    fn check(&mut self, kind: &str, line: &str, document: &Value) {
        assert_eq!(document["schema"], format!("ralph/v1/{kind}"), "`{line}`");
        let schema = json!({"$ref": format!("#/$defs/{kind}"), "$defs": self.schema["$defs"]});
        let validator = jsonschema::validator_for(&schema).unwrap();
        let errors: Vec<String> = validator
            .iter_errors(document)
            .map(|error| format!("{} at {}", error, error.instance_path()))
            .collect();
        assert!(
            errors.is_empty(),
            "`{line}` prints what its schema forbids: {errors:#?}\n{document:#}"
        );
        self.seen.insert(kind.to_owned());
    }

    /// Kinds that no command has printed.
    fn unseen(&self) -> Vec<&str> {
        let kinds = self.schema["anyOf"].as_array().unwrap().iter();
        let kinds = kinds.map(|one| one["$ref"].as_str().unwrap().trim_start_matches("#/$defs/"));
        kinds.filter(|kind| !self.seen.contains(*kind)).collect()
    }
}

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).unwrap();
}

#[tokio::test]
async fn every_kind_of_output_matches_its_schema() {
    let stage = Stage::start().await;
    let mut reader = Reader::new(&stage.api.url);
    write(
        reader.folder.path(),
        "tasks.yaml",
        "- {key: a, title: A, description: \"@say Hello.\\n@write a.txt one\\n@done\"}\n\
         - {key: b, title: B, after: [a], description: \"@run true\\n@fail no\", max_retries: 0}\n",
    );
    let line = r#"{"id": "h-1", "date": "2026-01-01", "title": "Parse zones", "body": "Serials wrap.", "paths": [], "tags": ["dns"]}"#;
    write(reader.folder.path(), "history.jsonl", &format!("{line}\n"));
    let repo = stage.repository.path().display().to_string();

    reader
        .reads("checked_graph", "submit feature f --tasks tasks.yaml --dry-run")
        .await;
    let submit = format!("submit feature f --tasks tasks.yaml --repo {repo} --no-verify --review 0 --draft");
    reader.reads("accepted", &submit).await;
    reader.reads("started", "feature run f").await;
    // The worker works meanwhile; the wait ends with exit code 4, since B then needs a person.
    let over = reader.reads("feature_progress", "feature wait f").await;
    assert_eq!(
        over["feature"]["run"]["outcome"],
        "blocked",
        "{}",
        stage.world.tell().await
    );
    for (kind, line) in [
        ("feature_list", "feature list"),
        ("feature_progress", "feature show f"),
        ("feature_review", "feature review f --show"),
        ("feature_text", "feature tasks f"),
        ("feature_text", "feature plan f --show"),
        ("status", "status"),
        ("inbox", "inbox"),
        ("event_list", "log --since 1h"),
        ("task_list", "task list f"),
        ("task_list", "task tree f"),
        ("task", "task show f/a"),
        ("task", "task show f/b"),
        ("done", "task feedback f/b --reason more"),
        ("done", "task reject f/b --reason again --no-run"),
        ("task_log", "task log f/b"),
        ("task_edges", "task deps list f/b"),
        ("transcript", "logs f/a"),
        ("prompt", "context f/a"),
        ("prompt_preview", "context f/b --next"),
        ("run_list", "run list"),
        ("worker_list", "worker list"),
        ("worker", "worker show w"),
        ("memory_imported", "memory import history.jsonl --repo r"),
        ("memory_list", "memory list --repo r"),
        ("memory_answer", "memory search --repo r \"Parse the zones\""),
        ("memory_explained", "memory explain f/a"),
        ("memory_report", "memory report --all"),
        ("token", "token create visitor --role read --expires 30d"),
        ("token_list", "token list"),
        ("done", "token revoke visitor"),
        (
            "schedule",
            "submit feature g --tasks tasks.yaml --no-repo --every \"0 3 * * *\"",
        ),
        ("schedule_list", "schedule list"),
        ("done", "schedule pause g"),
        ("hook", "hook create deploy --feature g"),
        ("hook_list", "hook list"),
        ("setting_list", "config"),
        ("setting_list", "config --local"),
        ("finding_list", "doctor"),
        ("set_up", "init"),
    ] {
        reader.reads(kind, line).await;
    }
    reader.reads_lines("transcript_entry", "logs f/a --follow").await;
    let run = reader.reads("run_list", "run list").await["items"][0]["id"].clone();
    reader
        .reads("run", &format!("run show {}", run.as_str().unwrap()))
        .await;
    let made = reader
        .reads(
            "memory_entry",
            "memory add --repo r --category pitfall --tags dns \"Serials wrap around\"",
        )
        .await;
    let entry = made["id"].as_str().unwrap();
    reader
        .reads("memory_entry", &format!("memory show {entry}"))
        .await;
    reader
        .reads("memory_taken", &format!("memory prune {entry}"))
        .await;
    reader
        .reads("memory_purged", &format!("memory purge {entry} --yes"))
        .await;
    reader.reads("memory_revoked", "memory revoke f/a").await;
    reader.reads("operating", "task revert f/a").await;
    reader.reads("pruning", "feature prune f --dry-run").await;
    reader.reads("link", "open").await;
    reader.reads("costs", "cost").await;
    reader.reads("budgets", "budget").await;
    assert_eq!(reader.unseen(), [""; 0], "every kind has to be printed here");
}
