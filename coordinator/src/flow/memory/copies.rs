//! Follows the statements of entries through other texts: copies of one entry become its witnesses, and
//! copies of a revoked entry return to quarantine (SPEC 6.7, 6.8).

use std::collections::HashSet;

use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::recall::{Arrival, Kind, Replaced, Statement, replaced};
use crate::store;
use crate::store::memory::copies::Text;

/// Reach of a revocation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reach {
    /// Entries that repeat revoked text, by attempts that may have read it. They are in quarantine.
    pub doubted: Vec<Uuid>,
    /// Further entries of attempts that were shown it, for a person to check.
    pub to_check: Vec<Uuid>,
    /// Attempts whose journals quote it. Nobody sees these journals any more.
    pub journals: Vec<Uuid>,
}

struct Revoked(Vec<(Uuid, Statement)>);

impl Revoked {
    fn of(texts: &[Text]) -> Self {
        Self(
            texts
                .iter()
                .map(|one| (one.id, Statement::of(&one.text)))
                .collect(),
        )
    }

    /// The revoked entry that a text repeats.
    fn repeated_by(&self, text: &str) -> Option<Uuid> {
        let statement = Statement::of(text);
        let mut revoked = self.0.iter();
        revoked.find(|(_, one)| one.echoes(&statement)).map(|(id, _)| *id)
    }

    /// The revoked entry that a longer text quotes.
    fn quoted_by(&self, text: &str) -> Option<Uuid> {
        let statement = Statement::of(text);
        let mut revoked = self.0.iter();
        revoked
            .find(|(_, one)| one.is_contained_in(&statement) || one.echoes(&statement))
            .map(|(id, _)| *id)
    }
}

/// Finds texts by attempts that may have read revoked entries or dispatches, and follows copies to their
/// copies. The caller holds the memory and has hidden the entries; the texts of the dispatches still exist.
pub(in crate::flow) async fn reach(
    conn: &mut PgConnection,
    entries: &[Uuid],
    dispatches: &[Uuid],
) -> sqlx::Result<Reach> {
    let texts = store::memory::copies::revoked_texts(conn, entries, dispatches).await?;
    let revoked = Revoked::of(&texts);
    let (mut reach, mut seen) = (Reach::default(), HashSet::new());
    let mut shown = entries.to_vec();
    loop {
        let written = store::memory::copies::written_after(conn, &shown, dispatches).await?;
        let mut doubted = Vec::new();
        for one in written {
            if let Some(of) = revoked.repeated_by(&one.text) {
                doubted.push((one.id, of));
            } else if one.was_shown && seen.insert(one.id) {
                reach.to_check.push(one.id);
            }
        }
        if doubted.is_empty() {
            break;
        }
        let ids: Vec<Uuid> = doubted.iter().map(|(id, _)| *id).collect();
        let made = store::memory::distill::made_from(conn, &ids).await?;
        doubted.extend(made.into_iter().map(|made| (made, ids[0])));
        store::memory::copies::doubt(conn, &doubted).await?;
        shown = doubted.into_iter().map(|(id, _)| id).collect();
        reach.doubted.extend(&shown);
    }
    reach.to_check.retain(|id| !reach.doubted.contains(id));
    let all: Vec<Uuid> = entries.iter().chain(&reach.doubted).copied().collect();
    let journals = store::memory::copies::journals_after(conn, &all, dispatches).await?;
    let quoting: Vec<(Uuid, Uuid)> = journals
        .iter()
        .filter_map(|journal| Some((journal.id, revoked.quoted_by(&journal.text)?)))
        .collect();
    store::memory::copies::doubt_journals(conn, &quoting).await?;
    reach.journals = quoting.into_iter().map(|(id, _)| id).collect();
    let notes = store::memory::copies::notes_after(conn, &all, dispatches).await?;
    let copied = notes
        .iter()
        .filter(|note| revoked.repeated_by(&note.text).is_some());
    let copied: Vec<i64> = copied.map(|note| note.id).collect();
    store::memory::copies::forget_notes(conn, &copied).await?;
    Ok(reach)
}

/// The entries about to be written that repeat text which was revoked while their dispatches worked.
pub(in crate::flow) async fn late_copies(
    conn: &mut PgConnection,
    written: &[(Uuid, Uuid, String)],
) -> sqlx::Result<Vec<(Uuid, Uuid)>> {
    if written.is_empty() {
        return Ok(Vec::new());
    }
    let dispatches: Vec<Uuid> = written.iter().map(|(_, dispatch, _)| *dispatch).collect();
    let revoked = store::memory::copies::revoked_and_shown(conn, &dispatches).await?;
    if revoked.is_empty() {
        return Ok(Vec::new());
    }
    let copies = written.iter().filter_map(|(id, dispatch, text)| {
        let mut shown = revoked.iter().filter(|(reader, _)| reader == dispatch);
        let statement = Statement::of(text);
        let of = shown.find(|(_, one)| Statement::of(&one.text).echoes(&statement))?;
        Some((*id, of.1.id))
    });
    Ok(copies.collect())
}

/// Finds entries of agents that repeat others, and older entries that they contradict. `arrivals` are in the
/// order of their arrival. The caller holds the memories.
pub(in crate::flow) async fn replaced_by(
    conn: &mut PgConnection,
    kind: Kind,
    arrivals: &[Arrival],
) -> sqlx::Result<Vec<Replaced>> {
    let older = store::memory::copies::alike(conn, kind, arrivals).await?;
    let statement = |text: Text| (text.id, Statement::of(&text.text));
    let older = older
        .into_iter()
        .map(|(id, texts)| (id, texts.into_iter().map(statement).collect()))
        .collect();
    Ok(replaced(arrivals, &older))
}

/// Links entries to the ones that represent them, and takes them out of the index. The caller holds the
/// memories.
pub(in crate::flow) async fn replace(
    conn: &mut PgConnection,
    kind: Kind,
    replaced: &[Replaced],
) -> sqlx::Result<()> {
    store::memory::copies::stand_for(conn, kind, replaced).await?;
    let gone: Vec<Uuid> = replaced.iter().map(|one| one.entry).collect();
    store::memory::index::remove(conn, &gone).await
}
