//! Whether an ended run goes on after a person's decision.

use clap::Args;
use ralph_api::body::Done;

use crate::client::Client;
use crate::wait;

#[derive(Debug, Clone, Copy, Args)]
pub struct ResumeFlag {
    /// Don't resume the run that ended to wait for this decision; `feature run` resumes it
    #[arg(long)]
    no_run: bool,
}

impl ResumeFlag {
    /// The value of a request's `resume` field.
    pub fn to_request(self) -> Option<bool> {
        self.no_run.then_some(false)
    }

    /// Reports that a run goes on, or suggests how to start one.
    pub async fn report(self, client: &Client, feature: &str, done: &Done) {
        match &done.run {
            Some(run) => eprintln!("`{feature}` goes on ({run})"),
            None => wait::hint(client, feature).await,
        }
    }

    /// Like [`ResumeFlag::report`], for a task's feature.
    pub async fn report_for_task(self, client: &Client, task: &str, done: &Done) {
        if let Some(feature) = wait::feature_of(client, task).await {
            self.report(client, &feature, done).await;
        }
    }
}
