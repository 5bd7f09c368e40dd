//! What an agent said is looked at before its session ends, so that it can correct itself.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use ralph_shared::sigil;

/// Looks at an agent's text, redacted; gives what the agent is to be told when it gets one more turn.
#[derive(Clone)]
pub struct Check(Arc<dyn Fn(String) -> BoxFuture<'static, Option<String>> + Send + Sync>);

impl Check {
    /// One that asks `look`.
    pub fn new(look: impl Fn(String) -> BoxFuture<'static, Option<String>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(look))
    }

    /// Runs the check; returns the next prompt, if there is one.
    pub async fn run(&self, text: String) -> Option<String> {
        (self.0)(text).await
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Check")
    }
}

/// A task graph of the second turn, which begins at `before`, takes the place of those before it.
pub fn supersede(text: &mut String, before: usize) {
    let Some((first, second)) = text.split_at_checked(before) else {
        return;
    };
    if second.contains("<task-graph") {
        *text = format!("{}\n{second}", sigil::defuse_graphs(first));
    }
}
