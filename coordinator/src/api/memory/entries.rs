//! Resolves memory entries in requests, and checks entries from people.

use std::collections::BTreeSet;

use ralph_shared::sigil::{TAG_CHARS, TITLE_CHARS};
use uuid::Uuid;

use crate::api::http::app::App;
use crate::api::http::locate::{MAX_CANDIDATES, did_you_mean};
use crate::api::http::problem::Problem;
use crate::domain::ids;
use crate::domain::recall::Kind;
use crate::flow::memory::capture::MAX_TEXT_CHARS;
use crate::store::view;

/// Most entries that a request names.
const MAX_NAMED: usize = 10_000;
/// Longest text of an entry: the longest stored text of an agent, including the mark of a cut. Characters.
const BODY_CHARS: usize = MAX_TEXT_CHARS + 100;
/// Most tags of an entry: more than an agent may give, since a knowledge entry takes over the tags of entries
/// that it replaces, and exports contain them.
const MOST_TAGS: usize = 100;
/// Most files of an entry; many, since a change may touch many files.
const MOST_PATHS: usize = 1_000;
/// Longest path of a file. Characters.
const PATH_CHARS: usize = 1_000;

/// Finds the entry with this id or prefix of an id.
pub(in crate::api) async fn locate(app: &App, text: &str) -> Result<Uuid, Problem> {
    if text.starts_with("d-") {
        return Err(Problem::not_found(format!(
            "`{text}` is an attempt, which wrote into the journal, not an entry; `ralph task show TASK` shows it with its task"
        )));
    }
    let mut conn = app.db().await?;
    match view::find_memory(&mut conn, text).await?.as_slice() {
        [one] => Ok(*one),
        [] => {
            let newest = view::newest_memories(&mut conn, MAX_CANDIDATES).await?;
            let near = ids::nearest(text, newest.iter().map(String::as_str));
            Err(Problem::not_found(format!(
                "there is no entry `{text}`; {}`ralph memory list --all` shows all entries",
                did_you_mean(near)
            )))
        }
        _ => Err(Problem::conflict(format!(
            "`{text}` matches several entries; give more of the id"
        ))),
    }
}

/// Finds the entries with these ids or prefixes, without duplicates.
pub(in crate::api) async fn locate_all(app: &App, texts: &[String]) -> Result<Vec<Uuid>, Problem> {
    if texts.len() > MAX_NAMED {
        return Err(Problem::refused(format!(
            "name up to {MAX_NAMED} entries at once"
        )));
    }
    // One query finds all full ids, as lists show them; a query per id would read the memory each time.
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

/// Refuses an incomplete entry from a person.
pub(in crate::api) fn check(
    kind: Kind,
    title: &str,
    body: &str,
    tags: &[String],
) -> Result<(), &'static str> {
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

/// The texts of an entry from a person.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::api) struct EntryText<'a> {
    pub(in crate::api) title: &'a str,
    pub(in crate::api) category: Option<&'a str>,
    pub(in crate::api) body: &'a str,
    pub(in crate::api) tags: &'a [String],
    pub(in crate::api) paths: &'a [String],
}

impl EntryText<'_> {
    /// Refuses texts that are too long: a person's text is never cut, unlike an agent's.
    pub(in crate::api) fn within_bounds(&self) -> Result<(), String> {
        check_length("the title", self.title, TITLE_CHARS)?;
        check_length("the category", self.category.unwrap_or_default(), TAG_CHARS)?;
        check_length("the text", self.body, BODY_CHARS)?;
        check_list("tag", self.tags, MOST_TAGS, TAG_CHARS)?;
        check_list("path", self.paths, MOST_PATHS, PATH_CHARS)
    }
}

fn check_length(what: &str, text: &str, most: usize) -> Result<(), String> {
    match text.chars().count() {
        chars if chars > most => Err(format!(
            "{what} of an entry has at most {most} characters, not {chars}"
        )),
        _ => Ok(()),
    }
}

fn check_list(what: &str, given: &[String], most: usize, chars: usize) -> Result<(), String> {
    if given.len() > most {
        return Err(format!(
            "an entry has at most {most} {what}s, not {}",
            given.len()
        ));
    }
    given
        .iter()
        .try_for_each(|one| check_length(&format!("a {what}"), one, chars))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_part_of_an_entry_that_is_too_long() {
        let long = "ö".repeat(BODY_CHARS + 1);
        let (tag, tags) = (vec![long.clone()], vec![String::new(); MOST_TAGS + 1]);
        let paths = vec![String::new(); MOST_PATHS + 1];
        let (title, most) = ("ö".repeat(TITLE_CHARS), vec!["ö".repeat(TAG_CHARS); MOST_TAGS]);
        let fits = EntryText {
            title: &title,
            category: Some(&most[0]),
            body: &long[2..],
            tags: &most,
            ..EntryText::default()
        };
        assert_eq!(fits.within_bounds(), Ok(()));
        for (text, words) in [
            (EntryText { title: &long, ..fits }, "the title"),
            (
                EntryText {
                    category: Some(&long),
                    ..fits
                },
                "the category",
            ),
            (EntryText { body: &long, ..fits }, "the text"),
            (EntryText { tags: &tag, ..fits }, "a tag"),
            (EntryText { tags: &tags, ..fits }, "100 tags"),
            (EntryText { paths: &tag, ..fits }, "a path"),
            (
                EntryText {
                    paths: &paths,
                    ..fits
                },
                "1000 paths",
            ),
        ] {
            let refused = text.within_bounds().unwrap_err();
            assert!(refused.contains(words), "{words}: {refused}");
        }
    }
}
