//! One feature: its state and the reason, its sessions, graph, tasks, landed commits, texts and log.

use axum::extract::{Path, Query, State};
use maud::{Markup, html};
use ralph_cli::terminal::duration::show_ms;
use ralph_shared::ids::TaskId;
use serde::Deserialize;

use super::features::bar;
use super::sheet::{Sheet, Watch, done, encoded, hidden};
use super::site::Site;
use super::words::{ago, clock, cut_line, line, pre, state, usd};
use super::{choice, landed};
use crate::api::body::TextsView;
use crate::api::http::locate;
use crate::domain::states::TaskState;
use crate::domain::status::condition::Word;
use crate::page::graph::drawing::draw;
use crate::page::session::signed_in::Visitor;
use crate::page::session::trouble::Trouble;
use crate::store::view::{
    self, FeatureView, GraphNode, LogEntry, Page, Progress, RunView, TaskView, TrainView,
};

/// Most tasks of a graph.
const DRAWN: i64 = 100_000;
/// Tasks per page.
const LISTED: i64 = 200;
/// Longest shown text. Bytes.
const TEXT_BYTES: usize = 400 * 1024;
/// Most shown entries of a log; the newest ones.
const LOG: usize = 500;

/// The parts of the page: address and name.
const PARTS: [(&str, &str); 5] = [
    ("", "Overview"),
    ("tasks", "Tasks"),
    ("landed", "Landed"),
    ("texts", "Texts"),
    ("log", "Log"),
];

/// Filter and start of a list.
#[derive(Debug, Default, Deserialize)]
pub struct FeatureQuery {
    status: Option<String>,
    after: Option<String>,
    did: Option<String>,
}

/// The overview.
pub async fn page(
    State(site): State<Site>,
    visitor: Visitor,
    Path(id): Path<String>,
    Query(asked): Query<FeatureQuery>,
) -> Result<Markup, Trouble> {
    let of = encoded(&id);
    let progress: Progress = site.read(&visitor, &format!("/features/{of}/progress")).await?;
    let feature = &progress.feature;
    let mut conn = site.app.db().await?;
    let found = locate::feature(&mut conn, &feature.id).await?;
    let (nodes, edges) = view::graph(&mut conn, found, DRAWN).await?;
    drop(conn);
    let tasks: Page<TaskView> = site
        .read(&visitor, &format!("/features/{}/tasks?limit=50", feature.id))
        .await?;
    let body = html! {
        (done(asked.did.as_deref()))
        (head(&visitor, &progress, ""))
        (facts(&visitor, feature))
        (needs(&visitor, &progress))
        @if !progress.sessions.is_empty() { (sessions(&progress)) }
        @if let Some(train) = &progress.train { (landing(train)) }
        @if feature.tasks.total > DRAWN { p.dim { "The graph shows the first " (DRAWN) " of " (feature.tasks.total) " tasks." } }
        @if !nodes.is_empty() { (graph(&nodes, &edges, feature)) }
        @if !progress.failures.is_empty() { (failures(&progress)) }
        section #tasks {
            h2 { "Tasks " span.count { (feature.tasks.total) } }
            (table(&tasks.items))
            @if tasks.next.is_some() { p { a href={ "/features/" (feature.id) "/tasks" } { "All tasks" } } }
        }
    };
    Ok(sheet(&visitor, feature, body))
}

fn graph(nodes: &[GraphNode], edges: &[(TaskId, TaskId)], feature: &FeatureView) -> Markup {
    html! {
        section #graph {
            div.line {
                h2 { "Graph" }
                div.zoom {
                    @for (how, sign, words) in [("out", "−", "Smaller"), ("in", "+", "Larger"), ("whole", "⤢", "Whole graph, or original size")] {
                        button type="button" data-zoom=(how) aria-label=(words) title=(words) { (sign) }
                    }
                }
            }
            (draw(nodes, edges, &feature.id))
        }
    }
}

/// Another part of the page.
pub async fn part(
    State(site): State<Site>,
    visitor: Visitor,
    Path((id, part)): Path<(String, String)>,
    Query(asked): Query<FeatureQuery>,
) -> Result<Markup, Trouble> {
    let of = encoded(&id);
    let progress: Progress = site.read(&visitor, &format!("/features/{of}/progress")).await?;
    let feature = &progress.feature;
    let inner = match part.as_str() {
        "tasks" => tasks(&site, &visitor, feature, &asked).await?,
        "landed" => landed::part(&site, &visitor, feature, asked.after.as_deref()).await?,
        "texts" => texts(&site, &visitor, feature).await?,
        "log" => {
            let log: Page<LogEntry> = site
                .read(&visitor, &format!("/features/{}/log", feature.id))
                .await?;
            entries(&log.items)
        }
        _ => return Err(Trouble::not_found("a feature has tasks, landed, texts and a log")),
    };
    let body = html! {
        (done(asked.did.as_deref()))
        (head(&visitor, &progress, &part))
        (inner)
    };
    Ok(sheet(&visitor, feature, body))
}

fn sheet(visitor: &Visitor, feature: &FeatureView, body: Markup) -> Markup {
    let name = line(&feature.name);
    let sheet = Sheet {
        title: &name,
        place: "/features",
        watch: Watch::Feature(feature.id.clone()),
        body,
    };
    sheet.of(visitor)
}

fn head(visitor: &Visitor, progress: &Progress, part: &str) -> Markup {
    let feature = &progress.feature;
    let address = format!("/features/{}", feature.id);
    let verbs: &[&str] = match feature.condition.word.into_str() {
        "running" => &["pause", "stop"],
        "paused" => &["resume", "stop"],
        "done" => &["review"],
        "cancelled" => &[],
        _ => &["run"],
    };
    html! {
        header #head.head {
            div.line {
                h1 { (line(&feature.name)) }
                (state(feature.condition.word.into_str()))
                @if visitor.may_act() {
                    div.acts {
                        @for verb in verbs { (choice::form(visitor, "feature", verb, &feature.id, &address, false)) }
                        @if let Some(base) = feature.base_ref.as_ref().filter(|_| feature.condition.word == Word::Done) {
                            (choice::merge(visitor, &feature.id, base, &address))
                        }
                    }
                }
            }
            @if let Some(reason) = &feature.condition.reason { p.reason { (cut_line(reason, 600)) } }
            (bar(&feature.tasks))
            nav.parts aria-label="Parts of the feature" {
                @for (at, name) in PARTS {
                    a href={ (address) @if !at.is_empty() { "/" (at) } } aria-current=[(at == part).then_some("page")] { (name) }
                }
            }
        }
    }
}

fn facts(visitor: &Visitor, feature: &FeatureView) -> Markup {
    let tasks = &feature.tasks;
    let run = feature.run.as_ref();
    html! {
        dl #facts.facts {
            div { dt { "Tasks" } dd { (tasks.resolved()) " of " (tasks.total) } }
            div { dt { "Cost" } dd { (cost(feature, run)) } }
            @if let Some(run) = run {
                div { dt { "Time" } dd { (show_ms(run.elapsed_ms)) @if let Some(most) = run.limits.time_ms { " of " (show_ms(most)) } } }
                div { dt { "Sessions" } dd { (run.iterations) @if let Some(most) = run.limits.iterations { " of " (most) } } }
            }
            @if let Some(branch) = &feature.branch { div { dt { "Branch" } dd { code { (line(branch)) } } } }
            @if let Some(repo) = &feature.repo { div { dt { "Repository" } dd { code { (line(repo)) } } } }
            @if let Some(dir) = &feature.dir { div { dt { "Folder" } dd { code { (line(dir)) } } } }
            @if let Some(deadline) = feature.deadline { div { dt { "Deadline" } dd { (ago(deadline)) } } }
            div { dt { "Created" } dd { (ago(feature.created_at)) } }
        }
        @if let Some(most) = run.and_then(|run| run.limits.cost_usd).filter(|_| visitor.may_act()) {
            details #limits {
                summary { "Change the cost limit" }
                (choice::limit(visitor, "/do/feature/limit", &feature.id, None, "--max-cost", &format!("{most:.2}"), &format!("/features/{}", feature.id)))
            }
        }
    }
}

/// The cost, and the part of the run's limit that is spent.
fn cost(feature: &FeatureView, run: Option<&RunView>) -> Markup {
    let all = feature.cost_usd + feature.in_flight_usd;
    html! {
        (usd(all, feature.estimated))
        @if let Some((run, most)) = run.and_then(|run| Some((run, run.limits.cost_usd?))) {
            @let used = run.cost_usd + feature.in_flight_usd;
            span.dim { ", this run " (usd(used, run.estimated)) " of " (usd(most, false)) }
            meter min="0" max=(most) value=(used) high=(most * 0.8) optimum="0" aria-label="Of its limit" { (usd(used, false)) }
        }
    }
}

/// Tasks and commands that need a person.
fn needs(visitor: &Visitor, progress: &Progress) -> Markup {
    let back = format!("/features/{}", progress.feature.id);
    let shown = progress.attention.iter().any(|task| !task.commands.is_empty());
    html! {
        section #needs {
            @for task in &progress.attention {
                article.item.k-review #{ "needs-" (task.id) } data-row tabindex="-1" {
                    header { (state(task.status.into_str())) h3 { a href={ "/tasks/" (task.id) } data-open { (line(&task.title)) } } }
                    @if let Some(reason) = &task.reason { p.reason { (cut_line(reason, 600)) } }
                    (choice::forms(visitor, &task.commands, &back))
                }
            }
            @if let Some(next) = progress.next.as_ref().filter(|_| !shown) {
                (choice::forms(visitor, std::slice::from_ref(&next.command), &back))
                (choice::typed(std::slice::from_ref(&next.command)))
            }
            @for waiting in &progress.waiting { p.reason { (line(&waiting.to_string())) } }
        }
    }
}

fn sessions(progress: &Progress) -> Markup {
    html! {
        section #sessions {
            h2 { "Running now" }
            table.list {
                @for session in &progress.sessions {
                    tr data-row tabindex="-1" {
                        td { (state("running")) }
                        td.main {
                            a href={ "/tasks/" (session.task) } data-open { (line(&session.title)) }
                            @if let Some(asks) = &session.asks { p.why { "waits for an answer: " (line(asks)) } }
                        }
                        td.dim { (session.kind.into_str()) ", attempt " (session.attempt) }
                        td.dim { (line(session.model.as_deref().unwrap_or_default())) }
                        td.dim { (line(&session.worker)) }
                        td.dim.num { (ago(session.started_at)) }
                    }
                }
            }
        }
    }
}

/// The train: attempts that wait to land, in order.
fn landing(train: &TrainView) -> Markup {
    html! {
        section #train {
            h2 { "Waiting to land " span.count { (train.length) } }
            p.dim {
                (train.landing.into_str())
                @if let Some(ms) = train.gate_ms { ", the gate takes " (show_ms(ms)) }
                @if let Some(ms) = train.expected_ms { ", about " (show_ms(ms)) " if nothing fails" }
                @if train.wasted > 0 { ", " (train.wasted) " of " (train.checks) " checks wasted" }
            }
            table.list {
                @for (n, car) in (1..).zip(&train.cars) {
                    tr data-row tabindex="-1" {
                        td.dim.num { (n) }
                        td { (state(car.status.into_str())) }
                        td.main { a href={ "/tasks/" (car.task) } data-open { (line(&car.title)) } }
                        td.dim { @if car.behind > 0 { "checked behind " (car.behind) } }
                        td.dim.num { (ago(car.since)) }
                    }
                }
            }
        }
    }
}

fn failures(progress: &Progress) -> Markup {
    html! {
        section #failures {
            h2 { "Recent failures" }
            table.list {
                @for failure in progress.failures.iter().rev() {
                    tr data-row tabindex="-1" {
                        td { (state(failure.outcome.as_str())) }
                        td.main {
                            a href={ "/tasks/" (failure.task) "?attempt=" (failure.attempt) } data-open { (line(&failure.title)) }
                            @if let Some(reason) = &failure.reason { p.why { (line(reason)) } }
                        }
                        td.dim { (failure.kind.into_str()) ", attempt " (failure.attempt) }
                        td.dim { @if let Some(again) = failure.again_at { "again " (ago(again)) } }
                    }
                }
            }
        }
    }
}

/// A table of tasks.
fn table(tasks: &[TaskView]) -> Markup {
    html! {
        table.list {
            @for task in tasks {
                @let word = if task.session.is_some() { "running" } else { task.status.into_str() };
                tr data-row tabindex="-1" {
                    td { (state(word)) }
                    td.key { code { (cut_line(&task.key, 40)) } }
                    td.main {
                        a href={ "/tasks/" (task.id) } data-open { (line(&task.title)) }
                        @let why = task.reason.as_ref().or(task.waits.as_ref());
                        @if let Some(why) = why.filter(|_| task.session.is_none()) { p.why { (line(why)) } }
                    }
                    td.dim.num { @if task.attempt > 1 { "attempt " (task.attempt) } }
                }
            }
        }
    }
}

async fn tasks(
    site: &Site,
    visitor: &Visitor,
    feature: &FeatureView,
    asked: &FeatureQuery,
) -> Result<Markup, Trouble> {
    let status = asked.status.as_deref().filter(|status| !status.is_empty());
    let mut path = format!("/features/{}/tasks?limit={LISTED}", feature.id);
    for (name, value) in [("status", status), ("cursor", asked.after.as_deref())] {
        if let Some(value) = value {
            path.push_str(&format!("&{name}={}", encoded(value)));
        }
    }
    let tasks: Page<TaskView> = site.read(visitor, &path).await?;
    let address = format!("/features/{}/tasks", feature.id);
    Ok(html! {
        form.filter method="get" action=(address) {
            label { "State"
                select name="status" data-submit {
                    option value="" { "all" }
                    @for one in TaskState::ALL {
                        option value=(one.into_str()) selected[status == Some(one.into_str())] { (one.into_str().replace('_', " ")) }
                    }
                }
            }
            noscript { button type="submit" { "Show" } }
            label { "Find" input type="search" data-find="#tasks tr" autocomplete="off"; }
        }
        section #tasks { (table(&tasks.items)) }
        @if tasks.items.is_empty() { p.empty { "No such task." } }
        @if let Some(next) = &tasks.next {
            p { a href={ (address) "?after=" (encoded(next)) "&status=" (status.unwrap_or_default()) } { "Further tasks" } }
        }
    })
}

async fn texts(site: &Site, visitor: &Visitor, feature: &FeatureView) -> Result<Markup, Trouble> {
    let texts: TextsView = site
        .read(visitor, &format!("/features/{}/texts", feature.id))
        .await?;
    let written = [
        ("spec", "Specification", texts.spec),
        ("plan", "Plan", texts.plan),
        ("tasks", "Proposed tasks", texts.tasks),
    ];
    let back = format!("/features/{}/texts", feature.id);
    Ok(html! {
        @if !texts.description.trim().is_empty() { section { h2 { "Description" } (pre(&texts.description, TEXT_BYTES)) } }
        @for (which, name, text) in &written {
            @if let Some(text) = text {
                section #{ "text-" (which) } {
                    h2 { (name) }
                    (pre(text, TEXT_BYTES))
                    @if visitor.may_act() && text.len() < TEXT_BYTES {
                        details #{ "edit-" (which) } {
                            summary.button { "Edit" }
                            form method="post" action={ "/do/feature/" (which) } {
                                (hidden(visitor))
                                input type="hidden" name="of" value=(feature.id);
                                input type="hidden" name="back" value=(back);
                                textarea hidden name="before" aria-label="Original text" readonly { "\n" (text) }
                                label { (name) textarea.wide name="text" rows="24" required { "\n" (text) } }
                                p.dim { "Storing the text approves it." }
                                button.primary type="submit" { "Store" }
                            }
                        }
                    }
                }
            }
        }
    })
}

/// A log of changes and their actors, the newest first.
pub fn entries(log: &[LogEntry]) -> Markup {
    html! {
        @if log.is_empty() { p.empty { "There are no changes yet." } }
        ol #log.events {
            @for entry in log.iter().rev().take(LOG) {
                li.event {
                    (clock(entry.at))
                    span.sign aria-hidden="true" { "·" }
                    div {
                        p { span.verb { (line(&entry.what)) } " " span.dim { (line(&entry.actor)) ", " (ago(entry.at)) } }
                        @if let Some(why) = &entry.why { p.why { (cut_line(why, 600)) } }
                    }
                }
            }
        }
        @if log.len() > LOG { p.dim { "and " (log.len() - LOG) " earlier entries" } }
    }
}
