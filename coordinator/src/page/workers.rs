//! Workers: their slots, their agents, and why agents are unavailable.

use axum::extract::{Query, State};
use maud::{Markup, html};

use super::inbox::Did;
use super::sheet::{Sheet, Watch, done, hidden};
use super::site::Site;
use super::words::{ago, counted, line, sign};
use crate::page::session::signed_in::Visitor;
use crate::page::session::trouble::Trouble;
use crate::store::view::{SystemView, WorkerStatus, WorkerView};

pub async fn page(
    State(site): State<Site>,
    visitor: Visitor,
    Query(did): Query<Did>,
) -> Result<Markup, Trouble> {
    let system: SystemView = site.read(&visitor, "/status").await?;
    let body = html! {
        (done(did.did.as_deref()))
        h1 { "Workers" }
        @if system.workers.is_empty() { p.empty { "No worker has registered yet. " code { "ralph-worker run" } " starts one." } }
        @for waiting in &system.waiting { p.reason { (line(&waiting.to_string())) } }
        div #workers.items { @for worker in &system.workers { (one(&visitor, worker)) } }
        @if !system.pools.is_empty() {
            section #pools { h2 { "Pools" }
                table.list {
                    @for (name, pool) in &system.pools {
                        tr { td.main { (line(name)) } td.num { (counted(pool.slots, "slot")) } td.num { (counted(pool.ready, "task")) " ready" } }
                    }
                }
            }
        }
    };
    let sheet = Sheet {
        title: "Workers",
        place: "/workers",
        watch: Watch::All,
        body,
    };
    Ok(sheet.of(&visitor))
}

fn one(visitor: &Visitor, worker: &WorkerView) -> Markup {
    let busy = worker.slots - worker.free_slots;
    let word = match worker.status {
        WorkerStatus::Ready => "done",
        WorkerStatus::Draining => "paused",
        WorkerStatus::Away => "away",
    };
    html! {
        article.item.worker #{ "worker-" (worker.name) } data-row tabindex="-1" {
            header {
                h2 { (line(&worker.name)) }
                span.{ "state s-" (word) } { span.sign aria-hidden="true" { (sign(word)) } (worker.status.into_str()) }
                p.where { "last heartbeat " (ago(worker.seen_at)) }
            }
            dl.facts {
                div { dt { "Slots" } dd { (busy) " of " (worker.slots) " busy" } }
                div { dt { "Pools" } dd { (line(&worker.pools.join(", "))) } }
                div { dt { "Agents" } dd { (line(&worker.agents.join(", "))) } }
                @if let Some(warm) = worker.warm() { div { dt { "Stored build output" } dd { (warm) } } }
                div { dt { "Host" } dd { (line(&worker.host)) ", " (worker.pid) } }
                div { dt { "Version" } dd { (line(&worker.version)) } }
                div { dt { "Since" } dd { (ago(worker.started_at)) } }
            }
            @if let Some(reason) = &worker.drain_reason { p.reason { (line(reason)) } }
            @for door in &worker.doors { p.reason { (line(&door.to_string())) " Tried again " (ago(door.until)) "." } }
            @if visitor.is_admin() {
                div.acts {
                    @match worker.status {
                        WorkerStatus::Ready => { (form(visitor, worker, "drain", "Drain")) }
                        WorkerStatus::Away => { (form(visitor, worker, "forget", "Forget")) }
                        WorkerStatus::Draining => {}
                    }
                }
            }
        }
    }
}

fn form(visitor: &Visitor, worker: &WorkerView, verb: &str, name: &str) -> Markup {
    html! {
        form.act method="post" action={ "/do/worker/" (verb) } {
            (hidden(visitor))
            input type="hidden" name="of" value=(worker.name);
            input type="hidden" name="back" value="/workers";
            button type="submit" { (name) }
        }
    }
}
