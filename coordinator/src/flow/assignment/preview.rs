//! Renders the prompt that an agent would get for a task now (SPEC 6.8). Changes nothing.

use ralph_shared::ids::{DispatchId, RunId, TaskId};
use sqlx::PgPool;
use uuid::Uuid;

use super::context;
use crate::flow::Settings;
use crate::flow::claim::opened::Opened;
use crate::prompt::Rendered;
use crate::store;
use crate::store::memory::exposures::Use;

/// A prompt that was not sent.
#[derive(Debug)]
pub struct Preview {
    pub attempt: i32,
    /// The prompt, with the account of its sections.
    pub rendered: Rendered,
    /// Entries of other tasks that it shows, and why others are omitted.
    pub uses: Vec<Use>,
}

/// Renders the next attempt's prompt; `None` when the task is gone or its feature has no run.
pub async fn preview(db: &PgPool, settings: &Settings, task: TaskId) -> sqlx::Result<Option<Preview>> {
    let mut conn = db.acquire().await?;
    let tasks = store::dispatch::context::tasks(&mut conn, &[task.0]).await?;
    let Some((facts, run)) = tasks.first().and_then(|task| Some((task, task.run?))) else {
        return Ok(None);
    };
    let opened = Opened {
        dispatch: DispatchId(Uuid::now_v7()),
        task,
        kind: facts.role,
        attempt: facts.attempt + 1,
        run: RunId(run),
        model: None,
        agent: None,
        prompts: None,
        share: Default::default(),
    };
    // A preview is not part of the measurement.
    let settings = Settings {
        hold_out: 0.0,
        ..settings.clone()
    };
    let rendered = context::render_one(&mut conn, &settings, &opened).await?;
    Ok(rendered.map(|(rendered, uses)| Preview {
        attempt: opened.attempt,
        rendered,
        uses,
    }))
}
