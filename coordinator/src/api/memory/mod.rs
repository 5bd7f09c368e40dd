//! Memory: search, list, add, edit, hide, delete, report.

pub(crate) mod entries;
pub(crate) mod restore;

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::State;
use ralph_shared::ids::DispatchId;
use serde::Deserialize;
use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use super::body::{
    AddMemory, Answered, Done, EditMemory, EmbeddingsView, Explained, Hit, ImportMemory, Imported,
    MemoryReport, PromptNext, PruneMemory, PurgeMemory, Purged, ResumeMemory, RetractResult, RevokedMemory,
    SearchMemory, SectionTokens, SectionView, SwitchedOffView,
};
use crate::api::http::app::App;
use crate::api::http::caller::Caller;
use crate::api::http::idempotency::NewId;
use crate::api::http::problem::Problem;
use crate::api::http::request::{Body, PageQuery, PathParams, QueryParams, Question};
use crate::api::memory::entries::{EntryText, check, locate, locate_all};

use super::transcript::{AttemptQuery, find_beginning};
use crate::domain::recall::{
    Ended, Kind, Stratum, Sums, Worth, held_out_share, needed, pooled_difference, pooled_lift,
};
use crate::flow::assignment::{preview, prompt_log};
use crate::flow::memory::embedding::Meaning;
use crate::flow::memory::library::{self, Edited, Revoked};
use crate::flow::memory::select::SelectedEntry;
use crate::store;
use crate::store::memory::library::{GivenEntry, Origin};
use crate::store::view::{self, MemoryFilter, MemoryView, Page, UseView};

/// Most queries of a request.
const MAX_QUERIES: usize = 1_000;
/// Most entries of an answer.
const MAX_LIMIT: usize = 50;
/// Most unused entries that a request hides.
const MAX_PRUNED: i64 = 10_000;
/// Longest identity of a repository. Bytes.
const MAX_REPO_BYTES: usize = 1_000;
/// Longest time without use: a hundred years.
const MAX_DAYS: f64 = 36_500.0;
/// Category of an entry that has none.
const NO_CATEGORY: &str = "other";

/// Filter of a list of entries.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct MemoryQuery {
    /// Only entries of this memory: a repository's identity.
    repo: Option<String>,
    /// Only entries of this kind: a learning, or knowledge.
    kind: Option<Kind>,
    /// Include entries that prompts no longer show, or do not show yet.
    #[serde(default)]
    all: bool,
}

/// Lists entries, newest first.
#[utoipa::path(
    get,
    path = "/memory",
    operation_id = "list_memory",
    tag = "memory",
    params(MemoryQuery, PageQuery),
    responses((status = 200, body = Page<MemoryView>))
)]
pub async fn list(
    State(app): State<App>,
    QueryParams(query): QueryParams<MemoryQuery>,
    QueryParams(page): QueryParams<PageQuery>,
) -> Result<Json<Page<MemoryView>>, Problem> {
    let (cursor, limit) = page.bounds()?;
    if query.kind == Some(Kind::Journal) {
        return Err(Problem::refused(
            "attempts write the journal, so it has no entries to list; `ralph memory search --kind journal` searches it",
        ));
    }
    let filter = MemoryFilter {
        repo: query.repo,
        kind: query.kind,
        all: query.all,
    };
    Ok(Json(
        view::memory_page(&mut *app.db().await?, &filter, cursor, limit).await?,
    ))
}

/// One entry.
#[utoipa::path(
    get,
    path = "/memory/{id}",
    operation_id = "show_entry",
    tag = "memory",
    responses((status = 200, body = MemoryView))
)]
pub async fn show(
    State(app): State<App>,
    PathParams(id): PathParams<String>,
) -> Result<Json<MemoryView>, Problem> {
    let id = locate(&app, &id).await?;
    let Json(mut entry) = read(&app, id).await?;
    entry.family = view::relatives(&mut *app.db().await?, id).await?;
    Ok(Json(entry))
}

async fn read(app: &App, id: Uuid) -> Result<Json<MemoryView>, Problem> {
    let entries = view::memory_entries(&mut *app.db().await?, &[id]).await?;
    let entry = entries.into_iter().next();
    entry.map(Json).ok_or_else(|| Problem::deleted("entry"))
}

/// Searches the memory as a claim does.
#[utoipa::path(
    post,
    path = "/memory/search",
    operation_id = "search_memory",
    tag = "memory",
    request_body = SearchMemory,
    responses((status = 200, body = Page<Answered>))
)]
pub async fn search(
    State(app): State<App>,
    Question(ask): Question<SearchMemory>,
) -> Result<Json<Page<Answered>>, Problem> {
    if ask.queries.len() > MAX_QUERIES || !(1..=MAX_LIMIT).contains(&ask.limit) {
        return Err(Problem::invalid(format!(
            "a search takes up to {MAX_QUERIES} queries with a limit of 1 to {MAX_LIMIT}"
        )));
    }
    let meaning = Meaning::for_search(&app.deps.settings);
    let answers = library::search(
        &app.deps.db,
        meaning,
        &ask.repo,
        ask.kind,
        &ask.queries,
        ask.limit,
    )
    .await?;
    let hit = |one: SelectedEntry, reason: Option<&str>| Hit {
        id: view::memory_id(one.entry.kind, one.entry.id),
        title: if one.entry.title.is_empty() {
            one.entry.body.lines().next().unwrap_or_default().to_owned()
        } else {
            one.entry.title
        },
        external_id: one.entry.external_id,
        kind: one.entry.kind,
        score: one.score,
        parts: one.parts,
        reason: reason.map(str::to_owned),
    };
    let items = ask
        .queries
        .into_iter()
        .zip(answers)
        .map(|(query, picked)| Answered {
            query_id: query.query_id,
            items: picked.shown.into_iter().map(|one| hit(one, None)).collect(),
            left_out: picked
                .left_out
                .into_iter()
                .map(|(one, why)| hit(one, Some(why.as_str())))
                .collect(),
            confidence: picked.confidence,
            floor: picked.floor,
        });
    Ok(Json(Page::whole(items.collect())))
}

/// Imports entries.
#[utoipa::path(
    post,
    path = "/memory/import",
    operation_id = "import_memory",
    tag = "memory",
    request_body = ImportMemory,
    responses((status = 200, body = Imported))
)]
pub async fn import(
    State(app): State<App>,
    caller: Caller,
    Body(import): Body<ImportMemory>,
) -> Result<Json<Imported>, Problem> {
    check_repo(&import.repo)?;
    caller.may_name(Some(&import.repo))?;
    for item in &import.items {
        let text = EntryText {
            title: &item.title,
            category: item.category.as_deref(),
            body: &item.body,
            tags: &item.tags,
            paths: &item.paths,
        };
        let checked = check(item.kind, &item.title, &item.body, &item.tags).map_err(str::to_owned);
        checked.and_then(|()| text.within_bounds()).map_err(|why| {
            Problem::refused(format!(
                "`{}`: {why}; nothing of the request was imported",
                item.id
            ))
        })?;
    }
    let db = &app.deps.db;
    let imported = if import.more {
        library::import_part(db, &import.repo, &import.items).await?
    } else {
        library::import(db, &import.repo, &import.items).await?
    };
    Ok(Json(Imported {
        imported,
        known: import.items.len() - imported,
    }))
}

/// Adds an entry.
#[utoipa::path(
    post,
    path = "/memory",
    operation_id = "add_entry",
    tag = "memory",
    request_body = AddMemory,
    responses((status = 200, body = MemoryView))
)]
pub async fn add(
    State(app): State<App>,
    caller: Caller,
    new: NewId,
    Body(mut add): Body<AddMemory>,
) -> Result<Json<MemoryView>, Problem> {
    add.tags = tidy(&add.tags);
    if new.again
        && !view::memory_entries(&mut *app.db().await?, &[new.id])
            .await?
            .is_empty()
    {
        return read(&app, new.id).await;
    }
    check_repo(&add.repo)?;
    caller.may_name(Some(&add.repo))?;
    check(add.kind, &add.title, &add.body, &add.tags).map_err(Problem::refused)?;
    let text = EntryText {
        title: &add.title,
        category: add.category.as_deref(),
        body: &add.body,
        tags: &add.tags,
        paths: &add.paths,
    };
    text.within_bounds().map_err(Problem::refused)?;
    let given = GivenEntry {
        id: new.id,
        repo_id: add.repo,
        kind: add.kind,
        origin: Origin::Manual,
        category: add.category.unwrap_or_else(|| NO_CATEGORY.to_owned()),
        title: add.title,
        body: add.body,
        tags: add.tags,
        paths: add.paths,
        feature: None,
        created_at: OffsetDateTime::now_utc(),
        external_id: None,
    };
    library::add(&app.deps.db, &[given]).await?;
    read(&app, new.id).await
}

/// Edits an entry.
#[utoipa::path(
    post,
    path = "/memory/{id}/edit",
    operation_id = "edit_entry",
    tag = "memory",
    request_body = EditMemory,
    responses((status = 200, body = MemoryView), (status = 409))
)]
pub async fn edit(
    State(app): State<App>,
    PathParams(id): PathParams<String>,
    Body(mut edit): Body<EditMemory>,
) -> Result<Json<MemoryView>, Problem> {
    edit.tags = edit.tags.as_deref().map(tidy);
    let id = locate(&app, &id).await?;
    let Json(old) = read(&app, id).await?;
    check(
        old.kind,
        edit.title.as_ref().unwrap_or(&old.title),
        edit.body.as_ref().unwrap_or(&old.body),
        edit.tags.as_ref().unwrap_or(&old.tags),
    )
    .map_err(Problem::refused)?;
    // Checks changed values only: an older entry may be longer.
    let text = EntryText {
        title: edit.title.as_deref().unwrap_or_default(),
        category: edit.category.as_deref(),
        body: edit.body.as_deref().unwrap_or_default(),
        tags: edit.tags.as_deref().unwrap_or_default(),
        paths: &[],
    };
    text.within_bounds()
        .map_err(|why| Problem::refused(format!("`{}`: {why}; nothing was changed", old.id)))?;
    let db = &app.deps.db;
    let edited = store::retry_serialization(|| library::edit(db, id, &edit)).await?;
    if let Edited::ReplacedBy(by) = edited {
        return Err(Problem::conflict(restore::replaced(old.kind, id, Some(by))));
    }
    read(&app, id).await
}

/// Normalised tags: trimmed, in lower case, without duplicates.
fn tidy(tags: &[String]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let tags = tags.iter().map(|tag| tag.trim().to_lowercase());
    tags.filter(|tag| !tag.is_empty() && seen.insert(tag.clone()))
        .collect()
}

/// Refuses an identity that is too long for an index.
pub(super) fn check_repo(repo: &str) -> Result<(), Problem> {
    if repo.len() <= MAX_REPO_BYTES {
        return Ok(());
    }
    Err(Problem::refused(format!(
        "the identity of a repository has at most {MAX_REPO_BYTES} bytes, this one has {}; usually it is the address of the origin",
        repo.len()
    )))
}

/// Hides entries.
#[utoipa::path(
    post,
    path = "/memory/prune",
    operation_id = "prune_memory",
    tag = "memory",
    request_body = PruneMemory,
    responses((status = 200, body = RetractResult), (status = 404), (status = 409))
)]
pub async fn prune(
    State(app): State<App>,
    Body(prune): Body<PruneMemory>,
) -> Result<Json<RetractResult>, Problem> {
    if prune.ids.is_empty() && prune.unused_days.is_none() {
        return Err(Problem::refused("name the entries: give `ids` or `unused_days`"));
    }
    let mut ids = locate_all(&app, &prune.ids).await?;
    if let Some(days) = prune.unused_days {
        let repo = prune.repo.unwrap_or_default();
        if !(0.0..=MAX_DAYS).contains(&days) {
            return Err(Problem::invalid(
                "`unused_days` must be a number of days, 0 to 36500",
            ));
        }
        ids.extend(store::memory::library::unused(&mut *app.db().await?, &repo, days, MAX_PRUNED).await?);
    }
    if !prune.dry_run {
        let db = &app.deps.db;
        store::retry_serialization(|| library::prune(db, &ids)).await?;
    }
    Ok(Json(RetractResult { entries: ids.len() }))
}

/// Deletes entries for good.
#[utoipa::path(
    post,
    path = "/memory/purge",
    operation_id = "purge_memory",
    tag = "memory",
    request_body = PurgeMemory,
    responses((status = 200, body = Purged), (status = 404), (status = 409))
)]
pub async fn purge(State(app): State<App>, Body(purge): Body<PurgeMemory>) -> Result<Json<Purged>, Problem> {
    if purge.ids.is_empty() {
        return Err(Problem::invalid("name the entries: give `ids`"));
    }
    let ids = locate_all(&app, &purge.ids).await?;
    let db = &app.deps.db;
    let (entries, prompts) = store::retry_serialization(|| library::purge(db, &ids)).await?;
    Ok(Json(Purged { entries, prompts }))
}

/// Revokes the entries of an attempt.
#[utoipa::path(
    post,
    path = "/tasks/{id}/memory/revoke",
    operation_id = "revoke_memory",
    tag = "memory",
    params(AttemptQuery),
    responses((status = 200, body = RevokedMemory), (status = 404), (status = 409))
)]
pub async fn revoke(
    State(app): State<App>,
    PathParams(id): PathParams<String>,
    QueryParams(query): QueryParams<AttemptQuery>,
) -> Result<Json<RevokedMemory>, Problem> {
    let (of, dispatch) = find_beginning(&app, &id, query.attempt).await?;
    let db = &app.deps.db;
    let taken = match store::retry_serialization(|| library::revoke(db, dispatch)).await? {
        Revoked::Entries(taken) => taken,
        Revoked::StillOpen => {
            return Err(Problem::conflict(format!(
                "attempt {} of {} has not ended, so the memory would still store what it learns; end it first with \
                 `ralph task interrupt {}`, or wait for it",
                of.attempt, of.task, of.task
            )));
        }
    };
    let mut conn = app.db().await?;
    let journals = taken.reach.journals.iter();
    Ok(Json(RevokedMemory {
        entries: taken.entries,
        quarantined: names(&mut conn, &taken.reach.doubted).await?,
        to_check: names(&mut conn, &taken.reach.to_check).await?,
        journals: journals.map(|id| DispatchId(*id).to_string()).collect(),
    }))
}

/// The short ids of entries.
async fn names(conn: &mut PgConnection, ids: &[Uuid]) -> sqlx::Result<Vec<String>> {
    let entries = view::memory_entries(conn, ids).await?;
    Ok(entries.into_iter().map(|entry| entry.id).collect())
}

/// The memory entries considered for an attempt's prompt.
#[utoipa::path(
    get,
    path = "/tasks/{id}/memory",
    operation_id = "explain_memory",
    tag = "memory",
    params(AttemptQuery),
    responses((status = 200, body = Explained))
)]
pub async fn explain(
    State(app): State<App>,
    PathParams(id): PathParams<String>,
    QueryParams(query): QueryParams<AttemptQuery>,
) -> Result<Json<Explained>, Problem> {
    let (of, dispatch) = find_beginning(&app, &id, query.attempt).await?;
    let mut conn = app.db().await?;
    let (items, held_out) = view::uses(&mut conn, dispatch).await?;
    let sections = store::dispatch::prompt::sections(&mut conn, dispatch).await?;
    Ok(Json(Explained {
        dispatch: of.dispatch,
        attempt: of.attempt,
        held_out,
        sections: sections.into_iter().map(SectionView::from).collect(),
        items,
    }))
}

/// Reports the measured benefit of the memory.
#[utoipa::path(
    get,
    path = "/memory/report",
    operation_id = "report_memory",
    tag = "memory",
    params(MemoryQuery),
    responses((status = 200, body = MemoryReport))
)]
pub async fn report(
    State(app): State<App>,
    QueryParams(query): QueryParams<MemoryQuery>,
) -> Result<Json<MemoryReport>, Problem> {
    let mut conn = app.db().await?;
    let repo = query.repo.as_deref();
    let strata = store::memory::worth::strata(&mut conn, repo).await?;
    let strata: Vec<Stratum> = strata.into_values().flatten().collect();
    let ended = |of: fn(&Stratum) -> Ended| strata.iter().map(of).fold(Ended::default(), Ended::and);
    let (with_memory, held_out) = (ended(|one| one.landed.0), ended(|one| one.landed.1));
    let pooled = |of: fn(&Stratum) -> (Sums, Sums)| pooled_difference(strata.iter().map(of));
    let lift = pooled_lift(&strata);
    let share = held_out_share(held_out.ended, app.deps.settings.hold_out);
    let switched_off = store::memory::worth::switched_off(&mut conn).await?;
    let of_repo = switched_off
        .into_iter()
        .filter(|one| repo.is_none_or(|repo| repo == one.repo_id));
    let fates = store::memory::upkeep::fates(&mut conn, query.repo.as_deref()).await?;
    let items = view::most_weighed(&mut conn, query.repo.as_deref()).await?;
    let embeddings = match &app.deps.settings.embedder {
        Some(embedder) => {
            let progress = store::memory::vectors::progress(&mut conn, embedder.model()).await?;
            Some(EmbeddingsView {
                model: embedder.model().to_owned(),
                made: progress.made,
                waiting: progress.waiting,
                refused: progress.refused,
                calibrated: progress.calibrated,
                trouble: embedder.trouble(),
            })
        }
        None => None,
    };
    Ok(Json(MemoryReport {
        embeddings,
        with_memory,
        held_out,
        lift,
        worth: Worth::of(lift),
        iterations: pooled(|one| one.iterations),
        cost_usd: pooled(|one| one.cost_usd),
        seconds: pooled(|one| one.seconds),
        needed: needed(with_memory, held_out, share),
        switched_off: of_repo
            .map(|one| SwitchedOffView {
                repo: one.repo_id,
                since: one.off_since,
                reason: one.reason,
            })
            .collect(),
        fates,
        items,
    }))
}

/// Switches a memory that was found to hurt on again, and restarts the comparison of its attempts.
#[utoipa::path(
    post,
    path = "/memory/resume",
    operation_id = "resume_memory",
    tag = "memory",
    request_body = ResumeMemory,
    responses((status = 200, body = Done), (status = 409))
)]
pub async fn resume(State(app): State<App>, Body(resume): Body<ResumeMemory>) -> Result<Json<Done>, Problem> {
    if !store::memory::worth::resume(&mut *app.db().await?, &resume.repo).await? {
        return Err(Problem::conflict("this memory isn't switched off"));
    }
    Ok(Json(Done::of(1)))
}

/// The prompt that the next attempt at a task would get now.
#[utoipa::path(
    get,
    path = "/tasks/{id}/preview",
    operation_id = "preview_prompt",
    tag = "memory",
    responses((status = 200, body = PromptNext))
)]
pub async fn preview(
    State(app): State<App>,
    PathParams(id): PathParams<String>,
) -> Result<Json<PromptNext>, Problem> {
    let task = crate::api::http::locate::task(&mut *app.db().await?, &id).await?;
    let preview = preview::preview(&app.deps.db, &app.deps.settings, task).await?;
    let preview = preview
        .ok_or_else(|| Problem::conflict("the task's feature has no run; `ralph feature run` starts one"))?;
    let ids: Vec<Uuid> = preview.uses.iter().map(|one| one.entry).collect();
    let entries = view::memory_entries(&mut *app.db().await?, &ids).await?;
    let items = preview.uses.iter().map(|one| {
        let id = view::memory_id(one.kind, one.entry);
        let entry = entries.iter().find(|entry| entry.id == id);
        UseView {
            title: entry.map(|entry| entry.title.clone()).unwrap_or_default(),
            id,
            kind: one.kind,
            score: one.score,
            shown: one.left_out.is_none(),
            reason: one.left_out.clone(),
        }
    });
    let sections = prompt_log::sections(&preview.rendered.account);
    Ok(Json(PromptNext {
        attempt: preview.attempt,
        tokens: SectionTokens::of(&preview.rendered.prompt.frame, &preview.rendered.prompt.body),
        items: items.collect(),
        sections: sections.into_iter().map(SectionView::from).collect(),
        frame: preview.rendered.prompt.frame,
        body: preview.rendered.prompt.body,
    }))
}
