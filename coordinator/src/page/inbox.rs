//! The inbox: each item with its reason, the material for a decision, and the commands.

use axum::extract::{Query, State};
use maud::{Markup, html};
use serde::Deserialize;

use super::choice::{self, Choice};
use super::sheet::{Sheet, Watch, done, encoded};
use super::site::Site;
use super::words::{ago, counted, cut_line, line, pre, state, usd};
use super::{diff, words};
use crate::api::body::TextsView;
use crate::api::http::locate;
use crate::page::session::signed_in::Visitor;
use crate::page::session::trouble::Trouble;
use crate::store::view::{self, InboxItem, InboxKind, InboxView, SystemView};

/// Items that are shown with their text or diff; further items link to it.
const WITH_INSIDE: usize = 12;
/// Longest shown text or diff. Bytes.
const INSIDE_BYTES: usize = 24 * 1024;
/// Longest reason. Characters.
const REASON: usize = 1_200;

/// The confirmation of the last form.
#[derive(Debug, Deserialize)]
pub struct Did {
    pub did: Option<String>,
}

pub async fn page(
    State(site): State<Site>,
    visitor: Visitor,
    Query(did): Query<Did>,
) -> Result<Markup, Trouble> {
    let inbox: InboxView = site.read(&visitor, "/inbox").await?;
    let system: SystemView = site.read(&visitor, "/status").await?;
    let mut insides = Vec::new();
    for item in inbox.items.iter().take(WITH_INSIDE) {
        insides.push(inside(&site, &visitor, item).await?);
    }
    let body = html! {
        (done(did.did.as_deref()))
        (glance(&inbox, &system))
        h1 { "Needs you" @if !inbox.items.is_empty() { " " span.count { (inbox.items.len()) } } }
        @if inbox.items.is_empty() {
            p.empty { "Nothing waits for you. " a href="/log" { "What happened" } " while you were away." }
        }
        div #items.items {
            @for (n, item) in inbox.items.iter().enumerate() {
                (one(&visitor, item, insides.get(n).unwrap_or(&html! {})))
            }
        }
        @if !system.sessions.is_empty() { (running(&system)) }
    };
    let title = match inbox.items.len() {
        0 => "Inbox".to_owned(),
        n => format!("({n}) Inbox"),
    };
    let sheet = Sheet {
        title: &title,
        place: "/",
        watch: Watch::All,
        body,
    };
    Ok(sheet.of(&visitor))
}

/// Totals of all features on one line.
fn glance(inbox: &InboxView, system: &SystemView) -> Markup {
    let tasks = &inbox.tasks;
    html! {
        ul #glance.glance {
            @for count in &inbox.features {
                li { (state(count.word.into_str())) " " b { (count.features) } }
            }
            @if tasks.total > 0 { li { b { (tasks.resolved()) } " of " (tasks.total) " tasks done" } }
            @if system.live_sessions > 0 { li { b { (system.live_sessions) } " running" } }
            li { b { (usd(inbox.cost_usd, inbox.estimated)) } " spent" }
        }
    }
}

fn one(visitor: &Visitor, item: &InboxItem, inside: &Markup) -> Markup {
    let of = item.task.as_deref().unwrap_or(&item.name);
    let id = format!("item-{}-{}", item.kind.into_str(), encoded(of).replace('%', "_"));
    let to = match (&item.task, &item.feature) {
        (Some(task), _) => Some(format!("/tasks/{}", encoded(task))),
        (None, Some(feature)) => Some(format!("/features/{}", encoded(feature))),
        _ if item.kind == InboxKind::Agent || item.kind == InboxKind::Worker => Some("/workers".to_owned()),
        _ if item.kind == InboxKind::Memory => Some(format!("/memory?repo={}", encoded(&item.name))),
        _ if item.kind == InboxKind::Limit => Some("/log#spent".to_owned()),
        _ => None,
    };
    let title = item.title.as_deref().unwrap_or(&item.name);
    html! {
        article.item.{ "k-" (item.kind.into_str()) } id=(id) data-row tabindex="-1" {
            header {
                span.kind { span.sign aria-hidden="true" { (words::sign(item.kind.into_str())) } (kind_in_words(item.kind)) }
                h2 { @match to { Some(to) => { a href=(to) data-open { (line(title)) } } None => { (line(title)) } } }
                p.where {
                    @if item.title.is_some() {
                        @if let Some(feature) = &item.feature { a href={ "/features/" (encoded(feature)) } { (line(feature)) } " · " }
                    }
                    @if let Some(since) = item.since { (ago(since)) }
                }
            }
            @if let Some(reason) = reason(item) { p.reason { (cut_line(reason, REASON)) } }
            (inside)
            @match &item.question {
                Some(question) => { (choice::answer_forms(visitor, question, of, "/")) }
                None => { (choice::forms(visitor, &item.commands, "/")) }
            }
            @if visitor.may_act() { (choice::typed(&item.commands)) }
        }
    }
}

/// Why the item waits, without the commands that are buttons here.
fn reason(item: &InboxItem) -> Option<&str> {
    let reason = item
        .reason
        .split(": read it with `")
        .next()
        .unwrap_or(&item.reason);
    (!reason.is_empty() && reason != "no reason given").then_some(reason)
}

fn kind_in_words(kind: InboxKind) -> &'static str {
    match kind {
        InboxKind::Approval => "Approve",
        InboxKind::Review => "Needs you",
        InboxKind::Question => "Asks",
        InboxKind::Failed => "Failed",
        InboxKind::Limit => "Limit",
        InboxKind::Run => "Not running",
        InboxKind::Blocked => "Blocked",
        InboxKind::Paused => "Paused",
        InboxKind::Agent => "Agent",
        InboxKind::Worker => "No worker",
        InboxKind::Memory => "Memory",
    }
}

/// The material for a decision: the text that waits, or the diff.
async fn inside(site: &Site, visitor: &Visitor, item: &InboxItem) -> Result<Markup, Trouble> {
    for command in &item.commands {
        match choice::read(command) {
            Choice::Text(which, feature) => return text(site, visitor, &which, &feature).await,
            Choice::Diff(task) => {
                let mut conn = site.app.db().await?;
                let id = locate::task(&mut conn, &task).await?;
                let change = view::change_of_task(&mut conn, id).await?;
                let Some(change) = change else { continue };
                return Ok(html! {
                    details.inside open {
                        summary { "Changes " (diff::sum(&change.diff)) }
                        (diff::show(&change.diff, INSIDE_BYTES))
                        p { a href={ "/tasks/" (id.short()) "/diff" } { "The whole diff" } }
                    }
                });
            }
            _ => {}
        }
    }
    Ok(html! {})
}

async fn text(site: &Site, visitor: &Visitor, which: &str, feature: &str) -> Result<Markup, Trouble> {
    let texts: TextsView = site
        .read(visitor, &format!("/features/{}/texts", encoded(feature)))
        .await?;
    let (name, text) = match which {
        "spec" => ("The specification", texts.spec),
        "plan" => ("The plan", texts.plan),
        _ => ("The tasks", texts.tasks),
    };
    Ok(html! {
        @if let Some(text) = text {
            details.inside open {
                summary { (name) }
                (pre(&text, INSIDE_BYTES))
                p { a href={ "/features/" (encoded(feature)) "/texts" } { "Read all, or edit" } }
            }
        }
    })
}

fn running(system: &SystemView) -> Markup {
    html! {
        section #running {
            h2 { "Running now " span.count { (counted(system.live_sessions, "session")) } }
            table.list {
                @for session in &system.sessions {
                    tr data-row tabindex="-1" {
                        td { (state("running")) }
                        td.main { a href={ "/tasks/" (session.task) } data-open { (line(&session.title)) } }
                        td { a href={ "/features/" (session.feature) } { (line(&session.feature_name)) } }
                        td.dim { (session.kind.into_str()) @if session.attempt > 1 { ", attempt " (session.attempt) } }
                        td.dim { (line(session.model.as_deref().unwrap_or_default())) }
                        td.dim.num { (ago(session.started_at)) }
                    }
                }
            }
        }
    }
}
