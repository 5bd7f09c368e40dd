//! One task: its state and the reason, its attempts, the transcript of a session, its changes and its log.

use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use maud::{Markup, html};
use ralph_cli::terminal::duration::show_ms;
use ralph_cli::terminal::gate_times;
use ralph_shared::ids::DispatchId;
use ralph_shared::kind::SessionKind;
use serde::Deserialize;

use super::sheet::{Sheet, Watch, done, encoded};
use super::site::Site;
use super::transcript;
use super::words::{ago, count, counted, cut_line, line, pre, state, usd};
use super::{choice, diff as diffs, feature};
use crate::api::follow::Position;
use crate::api::http::locate;
use crate::api::transcript::entries;
use crate::domain::states::TaskState;
use crate::page::session::trouble::Trouble;
use crate::page::session::{signed_in::Visitor, visitor::BACKGROUND};
use crate::store::view::{self, DispatchView, LogEntry, Page, QuestionView, TaskDetail, TaskRef};

/// Entries of a transcript that are shown at first.
const ENTRIES: usize = 400;
/// Entries that each scroll to the top adds: few enough for a browser to insert between two frames.
const EARLIER: usize = 100;
/// Longest shown description. Bytes.
const TEXT_BYTES: usize = 64 * 1024;
/// Longest shown diff. Bytes.
const DIFF_BYTES: usize = 512 * 1024;

/// The parts of the page: address and name.
const PARTS: [(&str, &str); 4] = [
    ("", "Session"),
    ("prompt", "Prompt"),
    ("diff", "Changes"),
    ("log", "Log"),
];

/// Selects a session, and a part of its transcript.
#[derive(Debug, Default, Deserialize)]
pub struct TaskQuery {
    pub attempt: Option<i32>,
    pub kind: Option<SessionKind>,
    before: Option<u64>,
    did: Option<String>,
}

impl TaskQuery {
    /// The query of the API's route.
    pub fn query(&self) -> String {
        let attempt = self.attempt.map(|n| format!("attempt={n}"));
        let kind = self.kind.map(|kind| format!("kind={}", kind.into_str()));
        [attempt, kind]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join("&")
    }
}

/// The task with the transcript of a session.
pub async fn page(
    State(site): State<Site>,
    visitor: Visitor,
    Path(id): Path<String>,
    Query(asked): Query<TaskQuery>,
    headers: HeaderMap,
) -> Result<Markup, Trouble> {
    let task = read(&site, &visitor, &id).await?;
    let is_background = headers.contains_key(BACKGROUND);
    let transcript = match chosen(&task.dispatches, &asked) {
        None if task.dispatches.is_empty() => html! { p.empty #session { "No session has started yet." } },
        None => html! { p.empty #session { "There is no such session." } },
        Some(shown) => session(&site, &task, &asked, shown, is_background).await?,
    };
    let body = html! {
        (done(asked.did.as_deref()))
        (head(&visitor, &task, ""))
        (facts(&task))
        @if !task.description.trim().is_empty() {
            details #description { summary { "Description" } (pre(&task.description, TEXT_BYTES)) }
        }
        (neighbours(&task))
        (attempts(&task, &asked))
        (transcript)
    };
    Ok(sheet(
        &visitor,
        &task,
        Watch::Feature(task.task.feature.clone()),
        body,
    ))
}

/// The changes of the task.
pub async fn diff(
    State(site): State<Site>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Markup, Trouble> {
    let task = read(&site, &visitor, &id).await?;
    let mut conn = site.app.db().await?;
    let found = locate::task(&mut conn, &task.task.id).await?;
    let change = view::change_of_task(&mut conn, found).await?;
    drop(conn);
    let weakened = task
        .dispatches
        .iter()
        .rev()
        .find(|one| !one.test_changes.is_empty());
    let body = html! {
        (head(&visitor, &task, "diff"))
        @match change {
            Some(change) => {
                p.dim {
                    "All attempts up to " (change.attempt) " together, compared with "
                    code { (change.base.get(..12).unwrap_or(&change.base)) } " " (diffs::sum(&change.diff))
                    @if change.is_cut { ". The worker reported only this beginning; " code { "ralph task diff " (task.task.handle()) } " shows all." }
                }
                @if let Some(weakened) = weakened {
                    section.warning { h2 { "Weakened tests" }
                        ul { @for one in &weakened.test_changes { li { code { (line(&one.path)) } ": " (line(&one.lines.join(" "))) } } }
                    }
                }
                (diffs::show(&change.diff, DIFF_BYTES))
            }
            None => { p.empty { "No attempt has reported changes yet. " code { "ralph task diff " (task.task.handle()) } " reads them from git, in a clone." } }
        }
    };
    Ok(sheet(&visitor, &task, Watch::Nothing, body))
}

/// The log of the task.
pub async fn log(
    State(site): State<Site>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Markup, Trouble> {
    let task = read(&site, &visitor, &id).await?;
    let log: Page<LogEntry> = site
        .read(&visitor, &format!("/tasks/{}/log", task.task.id))
        .await?;
    let body = html! { (head(&visitor, &task, "log")) (feature::entries(&log.items)) };
    Ok(sheet(
        &visitor,
        &task,
        Watch::Feature(task.task.feature.clone()),
        body,
    ))
}

pub async fn read(site: &Site, visitor: &Visitor, id: &str) -> Result<TaskDetail, Trouble> {
    site.read(visitor, &format!("/tasks/{}", encoded(id))).await
}

/// Renders a page about a task.
pub fn sheet(visitor: &Visitor, task: &TaskDetail, watch: Watch, body: Markup) -> Markup {
    let title = line(&task.task.title);
    let sheet = Sheet {
        title: &title,
        place: "/features",
        watch,
        body,
    };
    sheet.of(visitor)
}

pub fn head(visitor: &Visitor, task: &TaskDetail, part: &str) -> Markup {
    let of = &task.task;
    let address = format!("/tasks/{}", of.id);
    let word = if of.session.is_some() {
        "running"
    } else {
        of.status.into_str()
    };
    let why = of.reason.as_ref().or(task.lacks.as_ref()).or(of.waits.as_ref());
    html! {
        header #head.head {
            p.where { a href={ "/features/" (of.feature) } { (line(&of.feature_name)) } " / " code { (line(&of.key)) } }
            div.line {
                h1 { (line(&of.title)) }
                (state(word))
                @if visitor.may_act() {
                    div.acts { @for (n, verb) in verbs(task).iter().enumerate() { (choice::form(visitor, "task", verb, &of.id, &address, n == 0 && of.status == TaskState::NeedsReview)) } }
                }
            }
            @if let Some(why) = why { p.reason { (cut_line(why, 1_200)) @if let Some(until) = of.waits_until { " " (ago(until)) } } }
            @for question in open_questions(task) {
                p.reason { "The agent asks: " (cut_line(&question.words(), 4_000)) @if let Some(until) = question.waits_until { " The session waits until " (ago(until)) } }
                (choice::answer_forms(visitor, question, &of.id, &address))
            }
            @if let Some(place) = &of.queue { p.dim { (line(&place.to_string())) } }
            nav.parts aria-label="Parts of the task" {
                @for (at, name) in PARTS {
                    a href={ (address) @if !at.is_empty() { "/" (at) } } aria-current=[(at == part).then_some("page")] { (name) }
                }
            }
        }
    }
}

/// The last session's questions without an answer.
fn open_questions(task: &TaskDetail) -> impl Iterator<Item = &QuestionView> {
    let of_last = task
        .dispatches
        .iter()
        .rfind(|one| !matches!(one.kind, SessionKind::Verify | SessionKind::Integrate))
        .filter(|_| !task_is_over(task));
    of_last
        .into_iter()
        .flat_map(|one| &one.questions)
        .filter(|question| question.answer.is_none())
}

/// The commands that fit the task's state; the API refuses those that are not possible.
fn verbs(task: &TaskDetail) -> &'static [&'static str] {
    match task.task.status {
        TaskState::NeedsReview => &["approve", "reject", "retry", "skip"],
        TaskState::Failed => &["retry", "skip"],
        TaskState::InProgress if task.task.session.is_some() => &["say", "interrupt", "feedback"],
        TaskState::Cancelled => &["retry", "skip"],
        TaskState::Pending | TaskState::Blocked | TaskState::InProgress => &["feedback", "skip", "cancel"],
        TaskState::Done | TaskState::Skipped => &[],
    }
}

fn facts(task: &TaskDetail) -> Markup {
    let cost: f64 = task
        .dispatches
        .iter()
        .filter_map(|one| one.cost_usd)
        .fold(0.0, |sum, cost| sum + cost);
    let estimated = task
        .dispatches
        .iter()
        .any(|one| one.cost_basis.as_deref() == Some("estimated"));
    let took: i64 = task.dispatches.iter().filter_map(|one| one.duration_ms).sum();
    html! {
        dl #facts.facts {
            div { dt { "Attempts" } dd { (task.task.attempt) } }
            div { dt { "Cost" } dd { (usd(cost, estimated)) } }
            @if took > 0 { div { dt { "Time" } dd { (show_ms(took)) } } }
            div { dt { "Pool" } dd { (line(&task.task.pool)) } }
            @if let Some(commit) = &task.landed_commit { div { dt { "Landed" } dd { code { (commit.get(..12).unwrap_or(commit)) } } } }
            @if let Some(held) = &task.task.held_by { div { dt { "Waits for" } dd { a href={ "/tasks/" (held.task) } { (line(&held.to_string())) } } } }
        }
    }
}

fn neighbours(task: &TaskDetail) -> Markup {
    let groups: [(&str, &[TaskRef]); 3] = [
        ("Waits for", &task.blockers),
        ("Blocks", &task.dependents),
        ("Subtasks", &task.subtasks),
    ];
    html! {
        @if groups.iter().any(|(_, tasks)| !tasks.is_empty()) {
            details #neighbours {
                summary { "Related: " (groups.iter().map(|(_, tasks)| tasks.len()).sum::<usize>()) " tasks" }
                @for (name, tasks) in groups.iter().filter(|(_, tasks)| !tasks.is_empty()) {
                    h3 { (name) }
                    ul.plain { @for one in *tasks { li { (state(one.status.into_str())) " " a href={ "/tasks/" (one.id) } { (line(&one.title)) } } } }
                }
            }
        }
    }
}

fn attempts(task: &TaskDetail, asked: &TaskQuery) -> Markup {
    let shown = chosen(&task.dispatches, asked).map(|one| one.id.clone());
    html! {
        @if !task.dispatches.is_empty() {
            section #attempts {
                h2 { "Sessions" }
                table.list {
                    @for one in task.dispatches.iter().rev() { (attempt(task, one, shown.as_deref() == Some(&one.id))) }
                }
            }
        }
    }
}

fn attempt(task: &TaskDetail, one: &DispatchView, is_shown: bool) -> Markup {
    let word = one
        .outcome
        .map_or(one.status.as_str(), |outcome| outcome.as_str());
    let address = format!(
        "/tasks/{}?attempt={}&kind={}",
        task.task.id,
        one.attempt,
        one.kind.into_str()
    );
    html! {
        tr data-row tabindex="-1" aria-current=[is_shown.then_some("true")] {
            td { (state(word)) }
            td.main {
                @if one.kind == SessionKind::Integrate { (one.kind.into_str()) " " (one.attempt) }
                @else { a href={ (address) "#session" } data-open { (one.kind.into_str()) " " (one.attempt) } }
                @if let Some(reason) = &one.reason { p.why { (cut_line(reason, 400)) } }
                @if let Some(feedback) = &one.feedback { p.why { "feedback: " (cut_line(feedback, 400)) } }
                @if let Some(words) = gate_times::words(&one.gate_times) { p.why { "gate: " (cut_line(&words, 400)) } }
                @for asked in &one.questions {
                    p.why { "asked: " (line(&asked.words())) }
                    @if let (Some(answer), Some(by)) = (&asked.answer, &asked.answered_by) { p.why { (line(by)) " answered: " (cut_line(answer, 400)) } }
                }
            }
            td.dim { (line(one.model_used.as_deref().or(one.model.as_deref()).or(one.agent.as_deref()).unwrap_or_default()))
                @if let Some(why) = &one.model_reason { p.why { (line(why)) } } }
            td.dim.num { @if let Some(cost) = one.cost_usd { (usd(cost, one.cost_basis.as_deref() == Some("estimated"))) }
                @if let (Some(read), Some(written)) = (one.input_tokens, one.output_tokens) { p.why { (count(read + written)) " tokens" } } }
            td.dim.num { @match one.duration_ms { Some(ms) => { (show_ms(ms)) } None => { "since " (ago(one.started_at)) } } }
        }
    }
}

/// The shown session: the chosen one, else the live one, else the last work session rather than its
/// verification.
fn chosen<'a>(dispatches: &'a [DispatchView], asked: &TaskQuery) -> Option<&'a DispatchView> {
    let sessions = || {
        dispatches
            .iter()
            .rev()
            .filter(|one| one.kind != SessionKind::Integrate)
    };
    if asked.attempt.is_none() && asked.kind.is_none() {
        // Checks have no agent, so any other session is more informative.
        let judges = |one: &&DispatchView| matches!(one.kind, SessionKind::Verify | SessionKind::Check);
        let live = sessions().find(|one| one.status == "live" && one.kind != SessionKind::Check);
        let worked = live.or_else(|| sessions().find(|one| !judges(one)));
        return worked.or_else(|| sessions().next());
    }
    sessions().find(|one| {
        asked.attempt.is_none_or(|attempt| attempt == one.attempt)
            && asked.kind.is_none_or(|kind| kind == one.kind)
    })
}

/// The transcript of a session. A background request gets no entries of a live session, since the browser has
/// them already.
async fn session(
    site: &Site,
    task: &TaskDetail,
    asked: &TaskQuery,
    chosen: &DispatchView,
    is_background: bool,
) -> Result<Markup, Trouble> {
    let last = task
        .dispatches
        .iter()
        .rev()
        .find(|one| one.kind != SessionKind::Integrate);
    let is_last = last.is_some_and(|one| one.id == chosen.id);
    let follows = is_last && asked.before.is_none() && !task_is_over(task);
    let query = format!("attempt={}&kind={}", chosen.attempt, chosen.kind.into_str());
    let dispatch = full_id(site, task, chosen).await?;
    let items = match dispatch {
        Some(dispatch) if !(follows && is_background) => entries(&site.app, dispatch).await?,
        _ => Vec::new(),
    };
    let most = if asked.before.is_some() { EARLIER } else { ENTRIES };
    let part = transcript::part(&items, asked.before, most);
    let address = format!("/tasks/{}/live", task.task.id);
    let follow = follows.then(|| match (dispatch, items.last()) {
        (Some(dispatch), Some(last)) => format!("{address}?after={}", Position::of(dispatch, last.seq)),
        _ => address,
    });
    Ok(html! {
        section #session {
            div.line {
                h2 { (chosen.kind.into_str()) " " (chosen.attempt) " on " (line(&chosen.worker)) }
                button.plain #errors type="button" data-errors hidden[part.errors == 0] { (counted(i64::try_from(part.errors).unwrap_or(0), "error")) }
                label.find { span.hide { "Find in the transcript" } input type="search" placeholder="Find" data-find=".transcript > li" autocomplete="off"; }
            }
            p #earlier hidden[part.earlier == 0] {
                a href={ "?" (query) "&before=" (part.first) "#session" } { "Earlier" } " "
                span.dim { (part.earlier) " earlier entries" }
            }
            ol #transcript.transcript data-follow=[follow] { @for entry in &part.shown { (entry) } }
            @if part.shown.is_empty() && !follows { p.empty { "Its transcript is empty or has been deleted." } }
        }
    })
}

/// The full id of a session, since views have only the short one.
async fn full_id(site: &Site, task: &TaskDetail, of: &DispatchView) -> Result<Option<DispatchId>, Trouble> {
    let mut conn = site.app.db().await?;
    let id = locate::task(&mut conn, &task.task.id).await?;
    Ok(view::session_of_task(&mut conn, id, Some(of.attempt), Some(of.kind)).await?)
}

fn task_is_over(task: &TaskDetail) -> bool {
    matches!(
        task.task.status,
        TaskState::Done | TaskState::Skipped | TaskState::Cancelled
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_check_is_shown_only_without_another_session() {
        let check = |of: &[(&str, &str)], expected: Option<usize>| {
            let dispatches = of.iter().enumerate().map(|(n, (kind, status))| {
                let view = json!({"id": format!("d-{n}"), "task": "t", "run": "r", "kind": kind, "attempt": 1, "status": status,
                                  "worker": "w", "pruned_at": null, "files_changed": [], "started_at": "2026-01-01T00:00:00Z",
                                  "ended_at": null});
                serde_json::from_value(view).unwrap_or_else(|error| panic!("{error}"))
            });
            let dispatches: Vec<DispatchView> = dispatches.collect();
            let shown = chosen(&dispatches, &TaskQuery::default()).map(|one| one.id.as_str());
            assert_eq!(shown, expected.map(|n| format!("d-{n}")).as_deref(), "{of:?}");
        };
        let (over, live) = ("settled", "live");
        check(&[], None);
        check(&[("work", over), ("verify", over), ("check", over)], Some(0));
        check(&[("work", over), ("verify", live)], Some(1));
        check(&[("work", over), ("check", live)], Some(0));
        check(&[("work", over), ("integrate", live)], Some(0));
        check(&[("check", over), ("check", live)], Some(1));
    }
}
