//! Waiting in tests, with a useful message on failure.

use std::fmt::Display;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::bail;
use ralph_coordinator::domain::states::RunOutcome;
use ralph_coordinator::store;
use ralph_shared::ids::RunId;
use uuid::Uuid;

use super::world::World;

/// Time limit of a wait.
const STUCK: Duration = Duration::from_secs(120);
/// Pause between two polls.
const AGAIN: Duration = Duration::from_millis(50);

/// Result of a poll: a bool, a found value, or the present state as an error.
pub trait Look {
    /// The value to wait for.
    type Found;

    /// # Errors
    /// The present state, while there is no value.
    fn found(self) -> Result<Self::Found, String>;
}

impl Look for bool {
    type Found = ();

    fn found(self) -> Result<(), String> {
        self.then_some(()).ok_or_else(String::new)
    }
}

impl<T> Look for Option<T> {
    type Found = T;

    fn found(self) -> Result<T, String> {
        self.ok_or_else(String::new)
    }
}

impl<T, E: Display> Look for Result<T, E> {
    type Found = T;

    fn found(self) -> Result<T, String> {
        self.map_err(|state| state.to_string())
    }
}

/// Polls until there is a value, and returns it.
pub async fn until<L: Look>(what: &str, mut look: impl AsyncFnMut() -> L) -> L::Found {
    let began = Instant::now();
    loop {
        match look().await.found() {
            Ok(found) => return found,
            Err(state) => assert!(began.elapsed() < STUCK, "waited in vain for {what}: {state}"),
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Like [`until`], in a test without a runtime.
pub fn until_blocking<L: Look>(what: &str, mut look: impl FnMut() -> L) -> L::Found {
    let began = Instant::now();
    loop {
        match look().found() {
            Ok(found) => return found,
            Err(state) => assert!(began.elapsed() < STUCK, "waited in vain for {what}: {state}"),
        }
        std::thread::sleep(AGAIN);
    }
}

/// Key, kind, attempt, state, outcome and reason of a dispatch.
type DispatchRow = (String, String, i32, String, Option<String>, Option<String>);

impl World {
    /// Waits for the end of a run.
    ///
    /// # Errors
    /// When it doesn't end in time; the error has the state of everything.
    pub async fn ended(&self, run: RunId) -> anyhow::Result<RunOutcome> {
        let deadline = tokio::time::Instant::now() + STUCK;
        loop {
            if let Ok(mut conn) = self.db.acquire().await
                && let Ok(rows) = store::run::read(&mut conn, &[run.0]).await
                && let Some(outcome) = rows.first().and_then(|run| run.outcome)
            {
                return Ok(outcome);
            }
            if tokio::time::Instant::now() > deadline {
                bail!("the run did not end:\n{}", self.tell().await);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until a query about `id` returns true.
    ///
    /// # Errors
    /// When it doesn't in time; the error has the state of everything.
    pub async fn until(&self, query: &'static str, id: Uuid) -> anyhow::Result<()> {
        let deadline = tokio::time::Instant::now() + STUCK;
        loop {
            let holds = sqlx::query_scalar(query).bind(id).fetch_optional(&self.db).await;
            if matches!(holds, Ok(Some(true))) {
                return Ok(());
            }
            if tokio::time::Instant::now() > deadline {
                bail!("still not true ({holds:?}): {query}\n{}", self.tell().await);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until agents have recorded `n` effects of this name.
    pub async fn effects_of(&self, name: &str, n: usize) -> anyhow::Result<()> {
        let deadline = tokio::time::Instant::now() + STUCK;
        let of_name = |line: &String| line.split(' ').next() == Some(name);
        while self.effects_lines().iter().filter(|line| of_name(line)).count() < n {
            if tokio::time::Instant::now() > deadline {
                bail!("effect {name} did not happen {n} times:\n{}", self.tell().await);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    /// A file that agents wait for (`@wait-for`), and that the test creates.
    pub fn gate(&self, name: &str) -> PathBuf {
        self.dir().join("effects").join(format!("{name}.gate"))
    }

    /// The state of everything, for messages of failed tests.
    pub async fn tell(&self) -> String {
        let tasks: Vec<(String, String, i32, Option<String>)> = sqlx::query_as(
            "select x.key, t.state::text || coalesce('/' || t.next_kind::text, ''), t.attempt, x.reason
             from tasks t join task_texts x on x.task_id = t.id order by t.id",
        )
        .fetch_all(&self.db)
        .await
        .unwrap_or_default();
        let dispatches: Vec<DispatchRow> = sqlx::query_as(
            "select x.key, d.kind::text, d.attempt, d.state::text, d.outcome::text, d.reason
             from dispatches d join task_texts x on x.task_id = d.task_id order by d.claimed_at",
        )
        .fetch_all(&self.db)
        .await
        .unwrap_or_default();
        let mut report = String::new();
        for task in tasks {
            report.push_str(&format!("{task:?}\n"));
        }
        for dispatch in dispatches {
            report.push_str(&format!("  {dispatch:?}\n"));
        }
        for entry in std::fs::read_dir(self.dir()).into_iter().flatten().flatten() {
            if entry.path().extension().is_some_and(|e| e == "log") {
                let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
                let tail: Vec<&str> = text.lines().rev().take(25).collect();
                report.push_str(&format!("--- {}\n", entry.path().display()));
                for line in tail.into_iter().rev() {
                    report.push_str(line);
                    report.push('\n');
                }
            }
        }
        report
    }
}
