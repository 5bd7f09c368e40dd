//! What others left around a batch of claims: what helps, and their notes and journals. It is read over as many connections at once as
//! are idle.

use std::collections::HashMap;

use ralph_shared::ids::DispatchId;
use sqlx::PgConnection;
use uuid::Uuid;

use super::ask::{Asking, HERE, Recalled, THERE, join, recall};
use crate::domain::recall::Kind;
use crate::store;
use crate::store::earlier::JournalEntry;
use crate::store::memory::Note;

/// Journal entries of a run that are read (SPEC 6.5).
pub(super) const JOURNAL_READ: i64 = 10;

/// Further connections that are idle.
pub(super) type Others<'c> = (Option<&'c mut PgConnection>, Option<&'c mut PgConnection>);

/// Whose notes and journals are read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Around<'a> {
    pub features: &'a [Uuid],
    pub tasks: &'a [Uuid],
    /// Tasks that others are near to.
    pub placed: &'a [Uuid],
}

/// Notes and journals.
type Noted = (Vec<Note>, Vec<JournalEntry>);

impl Around<'_> {
    async fn read(self, conn: &mut PgConnection) -> sqlx::Result<Noted> {
        let notes = self.notes(&mut *conn).await?;
        Ok((notes, self.journal(conn).await?))
    }

    async fn notes(self, conn: &mut PgConnection) -> sqlx::Result<Vec<Note>> {
        store::memory::notes(conn, self.features, self.tasks).await
    }

    async fn journal(self, conn: &mut PgConnection) -> sqlx::Result<Vec<JournalEntry>> {
        store::earlier::journal(conn, self.features, self.placed, JOURNAL_READ, &[]).await
    }
}

/// Reads all of it: in a small memory the notes beside what is recalled, in a large one the kinds of what is recalled beside each other,
/// since each looks up how often words stand.
pub(super) async fn read(
    conn: &mut PgConnection,
    others: Others<'_>,
    asking: Asking<'_>,
    around: Around<'_>,
) -> sqlx::Result<(HashMap<DispatchId, Recalled>, Noted)> {
    let large = asking.settings.tail.is_large();
    Ok(match others {
        (Some(second), Some(third)) if !large => {
            let recalled = recall(conn, asking, &Kind::ALL);
            let (recalled, notes, journal) =
                tokio::try_join!(recalled, around.notes(third), around.journal(second))?;
            (recalled, (notes, journal))
        }
        (Some(second), None) if !large => {
            tokio::try_join!(recall(conn, asking, &Kind::ALL), around.read(second))?
        }
        (Some(second), Some(third)) => {
            let here = recall(conn, asking, &HERE);
            let there = recall(second, asking, &THERE);
            let (mut recalled, more, noted) = tokio::try_join!(here, there, around.read(third))?;
            join(&mut recalled, more);
            (recalled, noted)
        }
        (Some(second), None) | (None, Some(second)) => {
            let there = async {
                let recalled = recall(second, asking, &THERE).await?;
                sqlx::Result::Ok((recalled, around.read(second).await?))
            };
            let (mut recalled, (more, noted)) = tokio::try_join!(recall(conn, asking, &HERE), there)?;
            join(&mut recalled, more);
            (recalled, noted)
        }
        (None, None) => (recall(conn, asking, &Kind::ALL).await?, around.read(conn).await?),
    })
}
