//! The prompt of a session, and its memory entries with the reasons for their selection.

use axum::extract::{Path, Query, State};
use maud::{Markup, html};

use super::sheet::Watch;
use super::site::Site;
use super::task::{self, TaskQuery};
use super::words::{line, pre};
use crate::api::body::PromptSent;
use crate::page::session::signed_in::Visitor;
use crate::page::session::trouble::Trouble;

/// Longest shown frame or body of a prompt. Bytes.
const TEXT_BYTES: usize = 256 * 1024;

pub async fn page(
    State(site): State<Site>,
    visitor: Visitor,
    Path(id): Path<String>,
    Query(asked): Query<TaskQuery>,
) -> Result<Markup, Trouble> {
    let of = task::read(&site, &visitor, &id).await?;
    if of.dispatches.is_empty() {
        let body = html! { (task::head(&visitor, &of, "prompt")) p.empty { "No session has started yet." } };
        return Ok(task::sheet(&visitor, &of, Watch::Nothing, body));
    }
    let path = format!("/tasks/{}/prompt?{}", of.task.id, asked.query());
    let prompt: PromptSent = site.read(&visitor, &path).await?;
    let body = html! {
        (task::head(&visitor, &of, "prompt"))
        p.dim { (prompt.of.kind.into_str()) ", attempt " (prompt.of.attempt) " on " (line(&prompt.of.worker)) }
        (memory(&prompt))
        section { h2 { "Prompt" } (pre(&prompt.body, TEXT_BYTES)) }
        details #frame { summary { "Instructions shared by all sessions of this kind" } (pre(&prompt.frame, TEXT_BYTES)) }
    };
    Ok(task::sheet(&visitor, &of, Watch::Nothing, body))
}

fn memory(prompt: &PromptSent) -> Markup {
    html! {
        @if !prompt.items.is_empty() {
            section {
                h2 { "Memory entries" }
                table.list {
                    @for one in &prompt.items {
                        tr {
                            td { @if one.shown { "shown" } @else { span.dim { "left out" } } }
                            td.main { a href={ "/memory/" (one.id) } { (line(&one.title)) }
                                @if let Some(reason) = &one.reason { p.why { (line(reason)) } } }
                            td.num.dim title="score" { (format!("{:.2}", one.score)) }
                        }
                    }
                }
            }
        }
        @if !prompt.sections.is_empty() {
            details #sections { summary { "Room for each section" }
                table.list {
                    @for section in &prompt.sections {
                        tr { td.main { (line(&section.name)) } td { (section.status) } td.num { (section.chars) " of " (section.allowed) } }
                    }
                }
            }
        }
    }
}
