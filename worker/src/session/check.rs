//! Check of an agent's text before its session ends, so that the agent can correct itself.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use ralph_shared::sigil;

/// Reads an agent's redacted text. Returns the next prompt when the agent gets one more turn.
#[derive(Clone)]
pub struct Check(Arc<dyn Fn(String) -> BoxFuture<'static, Option<String>> + Send + Sync>);

impl Check {
    pub fn new(look: impl Fn(String) -> BoxFuture<'static, Option<String>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(look))
    }

    /// Returns the next prompt, if there is one.
    pub async fn run(&self, text: String) -> Option<String> {
        (self.0)(text).await
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Check")
    }
}

/// Lets a task graph in the second turn, which begins at `before`, replace the graphs of earlier turns.
pub fn supersede(text: &mut String, before: usize) {
    let Some((first, second)) = text.split_at_checked(before) else {
        return;
    };
    if second.contains("<task-graph") {
        *text = format!("{}\n{second}", sigil::defuse_graphs(first));
    }
}
