//! Which entries of the memory a request names, and what people may give it.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::app::App;
use super::problem::Problem;
use crate::domain::recall::Kind;
use crate::store::view;

/// Entries that a request names.
const MAX_NAMED: usize = 10_000;

/// The entry that a text stands for: its id, or the beginning.
pub(super) async fn locate(app: &App, text: &str) -> Result<Uuid, Problem> {
    if text.starts_with("d-") {
        return Err(Problem::not_found(format!(
            "`{text}` is an attempt, which wrote into the journal, and no entry; `ralph-coordinator task show TASK` shows it with \
             its task"
        )));
    }
    match view::find_memory(&mut *app.db().await?, text).await?.as_slice() {
        [one] => Ok(*one),
        [] => Err(Problem::not_found(format!(
            "there is no entry `{text}`; `ralph-coordinator memory list --all` shows which there are"
        ))),
        _ => Err(Problem::conflict(format!(
            "`{text}` stands for several entries; give more of the id"
        ))),
    }
}

/// The entries that texts stand for, each once.
pub(super) async fn locate_all(app: &App, texts: &[String]) -> Result<Vec<Uuid>, Problem> {
    if texts.len() > MAX_NAMED {
        return Err(Problem::refused(format!(
            "name up to {MAX_NAMED} entries at once"
        )));
    }
    // Whole ids, as lists show them, are found together: each look for one reads the memory.
    let mut found = view::find_memories(&mut *app.db().await?, texts).await?;
    let mut ids = BTreeSet::new();
    for text in texts {
        match found.remove(text).as_deref() {
            Some([one]) => ids.insert(*one),
            _ => ids.insert(locate(app, text).await?),
        };
    }
    Ok(ids.into_iter().collect())
}

/// Why a person's entry can't be taken.
pub(super) fn check(kind: Kind, title: &str, body: &str, tags: &[String]) -> Result<(), &'static str> {
    let (titled, tagged) = (
        !title.trim().is_empty(),
        tags.iter().any(|tag| !tag.trim().is_empty()),
    );
    match kind {
        Kind::Journal => Err("only iterations write the journal; make it a learning or knowledge"),
        Kind::Knowledge if !titled || !tagged => Err("a knowledge entry needs a title and at least one tag"),
        Kind::Learning | Kind::Knowledge if body.trim().is_empty() && !titled => Err("an entry needs a text"),
        Kind::Learning | Kind::Knowledge => Ok(()),
    }
}
