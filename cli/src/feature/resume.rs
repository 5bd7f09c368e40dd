//! Whether a run goes on that ended for what a person decides, and what is said of it.

use clap::Args;
use ralph_api::body::Done;

use crate::client::Client;
use crate::wait;

/// Whether it does.
#[derive(Debug, Clone, Copy, Args)]
pub struct ResumeFlag {
    /// Leave the run ended that waited for this; `feature run` goes on
    #[arg(long)]
    no_run: bool,
}

impl ResumeFlag {
    /// The value of a request's `resume` field.
    pub fn to_request(self) -> Option<bool> {
        self.no_run.then_some(false)
    }

    /// Says that a run goes on, or what to do where none does.
    pub async fn tell(self, client: &Client, feature: &str, done: &Done) {
        match &done.run {
            Some(run) => eprintln!("`{feature}` goes on ({run})"),
            None => wait::hint(client, feature).await,
        }
    }

    /// Says it of a task's feature.
    pub async fn tell_of_task(self, client: &Client, task: &str, done: &Done) {
        if let Some(feature) = wait::feature_of(client, task).await {
            self.tell(client, &feature, done).await;
        }
    }
}
