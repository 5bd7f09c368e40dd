//! Recall on a history as `memory import` and `memory search` see it; run by hand:
//! `RALPH_BENCH_DB=postgres://… RALPH_BENCH_DIR=… RALPH_BENCH_OUT=… cargo test -p ralph-coordinator --test recall_bench -- --ignored`.
#![allow(clippy::unwrap_used)]

use std::io::Write as _;
use std::path::Path;

use ralph_coordinator::domain::recall::Kind;
use ralph_coordinator::flow::library::{self, ImportLine, QueryLine};

#[tokio::test]
#[ignore = "needs a history and a database, named by environment variables"]
async fn answers_of_a_history() {
    let env = |name: &str| std::env::var(name).unwrap();
    let db = sqlx::PgPool::connect(&env("RALPH_BENCH_DB")).await.unwrap();
    for dir in env("RALPH_BENCH_DIR").split(':') {
        let dir = Path::new(dir);
        let name = dir.file_name().unwrap().to_str().unwrap();
        let read = |file: &str| std::fs::read_to_string(dir.join(file)).unwrap();
        let entries: Vec<ImportLine> = read("entries.jsonl")
            .lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect();
        let queries: Vec<QueryLine> = read("queries.jsonl")
            .lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect();
        let start = std::time::Instant::now();
        let new = library::import(&db, name, &entries).await.unwrap();
        println!("{name}: {new} imported in {:?}", start.elapsed());
        let start = std::time::Instant::now();
        let answers = library::search(&db, name, Kind::Learning, &queries, 5)
            .await
            .unwrap();
        println!("{name}: {} asked in {:?}", queries.len(), start.elapsed());
        let mut out =
            std::fs::File::create(Path::new(&env("RALPH_BENCH_OUT")).join(format!("{name}.jsonl"))).unwrap();
        for (query, picked) in queries.iter().zip(answers) {
            let ids: Vec<_> = picked
                .shown
                .iter()
                .map(|one| one.entry.external_id.clone())
                .collect();
            let all: Vec<_> = picked
                .shown
                .iter()
                .chain(picked.left_out.iter().map(|(one, _)| one))
                .map(|one| one.entry.external_id.clone())
                .collect();
            let line = serde_json::json!({"query_id": query.query_id, "ids": ids, "all": all,
                                          "confidence": picked.confidence, "floor": picked.floor});
            writeln!(out, "{line}").unwrap();
        }
    }
}
