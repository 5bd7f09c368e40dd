//! Agents that a submission names.

use std::collections::BTreeSet;

use crate::api::http::app::App;
use crate::api::http::problem::Problem;
use crate::store;

/// Warns of each named agent that no known worker has, since its tasks will wait.
pub(in crate::api) async fn unknown<'a>(
    app: &App,
    named: impl Iterator<Item = &'a str>,
) -> Result<Vec<String>, Problem> {
    let named: BTreeSet<&str> = named.collect();
    if named.is_empty() {
        return Ok(Vec::new());
    }
    let known = store::worker::known_agents(&mut *app.db().await?).await?;
    let unknown = named.into_iter().filter(|agent| !known.contains(*agent));
    let words = match known.is_empty() {
        true => "no worker has registered yet".to_owned(),
        false => format!(
            "they have {}",
            known.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
        ),
    };
    Ok(unknown
        .map(|agent| {
            format!(
                "no worker has an agent `{agent}` ({words}): tasks that name it wait until [agents.{agent}] is in the \
                 .ralph.toml of a worker"
            )
        })
        .collect())
}
