//! News from the coordinator: an overview on each change, and new lines of the selected task's log.

use std::time::Duration;

use ralph_api::body::Following;
use ralph_api::view::{Page, Progress, SystemView, TaskView, TrainView};
use ralph_domain::states::TaskState;
use ralph_shared::terminal::Paint;
use ralph_shared::terminal::transcript::TranscriptText;
use tokio::sync::{mpsc, watch};

use super::order::joined;
use crate::client::{ApiError, Client};
use crate::logs::head;

/// Poll interval without changes: costs of running sessions grow without an event.
const EVERY: Duration = Duration::from_secs(2);
/// Shortest pause between two polls.
const SHORTEST: Duration = Duration::from_millis(250);
/// Pause before a broken stream is requested again.
const AGAIN: Duration = Duration::from_secs(1);
/// Poll interval of an ended log: the task may start again.
const LOG_AGAIN: Duration = Duration::from_secs(2);
/// Tasks of a feature that are loaded in order.
const TASKS: usize = 1000;
/// Tasks that are always loaded: running, failed, or in need of a person.
const ATTENTION_FILTER: &str = "status=in_progress,needs_review,failed";
/// The most of these.
const MOST_TASKS: usize = 200;

/// An update of the state.
pub enum News {
    /// Features, sessions, workers.
    System(Box<SystemView>),
    Tasks {
        feature: String,
        /// The first tasks, and those that need attention.
        tasks: Vec<TaskView>,
        /// Whether there are more tasks.
        has_more: bool,
        /// The attempts that wait to land.
        train: Option<TrainView>,
    },
    /// New text of a task's log; empty for a task without one.
    Log { task: String, text: String },
    Diff {
        task: String,
        /// Output of `git diff`.
        text: String,
    },
    /// A person's action succeeded.
    Did(String),
    /// A read or an action failed.
    Trouble(anyhow::Error),
}

/// The news of a finished action.
pub fn did(done: anyhow::Result<String>) -> News {
    match done {
        Ok(message) => News::Did(message),
        Err(error) => News::Trouble(error),
    }
}

/// Notifies of each possible change; ends when nobody listens any more.
pub async fn changes(client: Client, changed: watch::Sender<()>) {
    while !changed.is_closed() {
        let listen = async {
            let mut events = client.events("/events", None).await?;
            while events.next().await?.is_some() {
                changed.send_replace(());
            }
            anyhow::Ok(())
        };
        if let Err(error) = listen.await {
            tracing::debug!(error = format!("{error:#}"), "the event stream failed; retrying");
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Reads the overview after each change, and at once when another feature is selected; ends when nobody
/// listens any more.
pub async fn overview(
    client: Client,
    mut chosen: watch::Receiver<(Option<String>, u64)>,
    mut changed: watch::Receiver<()>,
    sender: mpsc::Sender<News>,
) {
    loop {
        changed.mark_unchanged();
        let feature = chosen.borrow_and_update().0.clone();
        let news = async {
            let system: SystemView = client.get("/status").await?;
            let mut news = vec![News::System(Box::new(system))];
            if let Some(feature) = feature {
                news.push(tasks(&client, feature).await?);
            }
            anyhow::Ok(news)
        };
        let news = news.await.unwrap_or_else(|error| vec![News::Trouble(error)]);
        for one in news {
            if sender.send(one).await.is_err() {
                return;
            }
        }
        let wait = async {
            tokio::time::sleep(SHORTEST).await;
            let _ = tokio::time::timeout(EVERY, changed.changed()).await;
        };
        tokio::select! {
            () = wait => {}
            changed = chosen.changed() => if changed.is_err() { return },
        }
    }
}

async fn tasks(client: &Client, feature: String) -> anyhow::Result<News> {
    let path = format!("/features/{feature}/tasks");
    let first: Page<TaskView> = client.list(&path, "", TASKS).await?;
    let has_more = first.next.is_some();
    let tasks = if has_more {
        let wanted: Page<TaskView> = client.list(&path, ATTENTION_FILTER, MOST_TASKS).await?;
        joined(first.items, wanted.items)
    } else {
        first.items
    };
    let train = match tasks.iter().any(|task| task.status == TaskState::InProgress) {
        true => {
            client
                .get::<Progress>(&format!("/features/{feature}/progress"))
                .await?
                .train
        }
        false => None,
    };
    Ok(News::Tasks {
        feature,
        tasks,
        has_more,
        train,
    })
}

/// Sends the selected task's log as it grows; ends when nobody listens any more.
pub async fn log(client: Client, mut chosen: watch::Receiver<Option<String>>, sender: mpsc::Sender<News>) {
    loop {
        let task = chosen.borrow_and_update().clone();
        let follow = async {
            match task {
                Some(task) => follow(&client, &task, &sender).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = follow => return,
            changed = chosen.changed() => if changed.is_err() { return },
        }
    }
}

/// Follows the stream of a task's sessions without end, each entry once.
async fn follow(client: &Client, task: &str, sender: &mpsc::Sender<News>) {
    let path = format!("/tasks/{task}/transcript/events");
    let mut show = TranscriptText::new(Paint::none());
    let mut last_id: Option<String> = None;
    let mut announced: Option<String> = None;
    loop {
        let read = async {
            let mut events = client.events(&path, last_id.as_deref()).await?;
            while let Some(event) = events.next().await? {
                if event.id.is_some() {
                    last_id = event.id;
                }
                let text = match serde_json::from_str(&event.data)? {
                    Following::Dispatch(of) if announced.as_ref() == Some(&of.dispatch) => continue,
                    Following::Dispatch(of) => {
                        let line = head(&mut show, &of);
                        announced = Some(of.dispatch);
                        line
                    }
                    Following::Entry(entry) => show.add(&entry.update),
                    Following::End { .. } => show.close(),
                };
                let news = News::Log {
                    task: task.to_owned(),
                    text,
                };
                if sender.send(news).await.is_err() {
                    return Ok(false);
                }
            }
            anyhow::Ok(true)
        };
        match read.await {
            Ok(true) => {}
            Ok(false) => return,
            // A refusal means that the task is gone, which the overview shows. Any other error is retried.
            Err(error) if ApiError::refuses(&error) => {}
            Err(error) => tracing::debug!(error = format!("{error:#}"), "the log can't be read; retrying"),
        }
        tokio::time::sleep(LOG_AGAIN).await;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use axum::Router;
    use axum::routing::get;
    use tokio::net::TcpListener;

    use super::*;
    use crate::client::endpoint::Endpoint;

    #[tokio::test]
    async fn the_event_stream_triggers_a_read_and_is_reopened() {
        let answer = || async {
            (
                [("content-type", "text/event-stream")],
                "event: changed\ndata: {}\n\n",
            )
        };
        let router = Router::new().route("/api/v1/events", get(answer));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move { axum::serve(listener, router).await });
        let token = "t".to_owned();
        let client = Client::new(Endpoint { url, token }).unwrap();
        let (changed, mut changes) = watch::channel(());
        let hearing = tokio::spawn(super::changes(client, changed));
        changes.changed().await.unwrap();
        // A stream that ended is requested again.
        changes.changed().await.unwrap();
        hearing.abort();
        serving.abort();
    }
}
