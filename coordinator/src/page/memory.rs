//! The memory: lists entries, searches them as a claim does, shows and corrects them.

use axum::extract::{Path, Query, State};
use axum::http::Method;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::sheet::{Sheet, Watch, done, encoded, hidden};
use super::site::Site;
use super::words::{ago, cut_line, line, pre};
use crate::api::body::{Answered, Hit, MemoryReport};
use crate::page::session::signed_in::Visitor;
use crate::page::session::trouble::Trouble;
use crate::store::view::{FeatureView, MemoryView, Page};

/// Entries per page.
const ROWS: i64 = 100;
/// Most entries of a search.
const HITS: usize = 20;
/// Longest shown entry. Bytes.
const TEXT_BYTES: usize = 64 * 1024;

/// Search, filter and start of a list.
#[derive(Debug, Default, Deserialize)]
pub struct EntryQuery {
    q: Option<String>,
    repo: Option<String>,
    kind: Option<String>,
    all: Option<String>,
    after: Option<String>,
    did: Option<String>,
}

pub async fn page(
    State(site): State<Site>,
    visitor: Visitor,
    Query(asked): Query<EntryQuery>,
) -> Result<Markup, Trouble> {
    let repos = repos(&site, &visitor).await?;
    let question = asked.q.as_deref().map(str::trim).filter(|q| !q.is_empty());
    let found = match question {
        Some(question) => search(&site, &visitor, &asked, &repos, question).await?,
        None => list(&site, &visitor, &asked).await?,
    };
    let report: MemoryReport = site.read(&visitor, "/memory/report").await?;
    let body = html! {
        (done(asked.did.as_deref()))
        h1 { "Memory" }
        (worth(&report))
        (filter(&asked, &repos))
        (found)
    };
    let sheet = Sheet {
        title: "Memory",
        place: "/memory",
        watch: Watch::Nothing,
        body,
    };
    Ok(sheet.of(&visitor))
}

/// The repositories of features.
async fn repos(site: &Site, visitor: &Visitor) -> Result<Vec<String>, Trouble> {
    let features: Page<FeatureView> = site.read(visitor, "/features?limit=200").await?;
    let mut repos: Vec<String> = features
        .items
        .into_iter()
        .map(|feature| feature.repo_id)
        .collect();
    repos.sort();
    repos.dedup();
    Ok(repos)
}

fn worth(report: &MemoryReport) -> Markup {
    let of = |ended: &crate::domain::recall::Ended| html! { (ended.landed) " of " (ended.ended) };
    html! {
        ul #glance.glance {
            li { "Landed with memory: " b { (of(&report.with_memory)) } }
            @if report.held_out.ended > 0 { li { "without: " b { (of(&report.held_out)) } } }
        }
    }
}

fn filter(asked: &EntryQuery, repos: &[String]) -> Markup {
    let chosen = |value: &Option<String>, one: &str| value.as_deref().unwrap_or_default() == one;
    html! {
        form.filter method="get" action="/memory" {
            label.wide { "Search with a task's title" input type="search" name="q" value=[asked.q.as_deref()] autocomplete="off"; }
            label { "Repository"
                select name="repo" data-submit {
                    option value="" { "all" }
                    @for repo in repos { option value=(repo) selected[chosen(&asked.repo, repo)] { (line(repo)) } }
                }
            }
            label { "Kind"
                select name="kind" data-submit {
                    @for (value, name) in [("", "all"), ("learning", "learnings"), ("knowledge", "knowledge")] {
                        option value=(value) selected[chosen(&asked.kind, value)] { (name) }
                    }
                }
            }
            label.check { input type="checkbox" name="all" value="1" checked[asked.all.is_some()] data-submit; " include hidden entries" }
            button type="submit" { "Search" }
        }
    }
}

async fn list(site: &Site, visitor: &Visitor, asked: &EntryQuery) -> Result<Markup, Trouble> {
    let mut path = format!("/memory?limit={ROWS}");
    for (name, value) in [
        ("repo", &asked.repo),
        ("kind", &asked.kind),
        ("cursor", &asked.after),
    ] {
        if let Some(value) = value.as_deref().filter(|value| !value.is_empty()) {
            path.push_str(&format!("&{name}={}", encoded(value)));
        }
    }
    if asked.all.is_some() {
        path.push_str("&all=true");
    }
    let page: Page<MemoryView> = site.read(visitor, &path).await?;
    Ok(html! {
        @if page.items.is_empty() { p.empty { "There are no entries yet." } }
        table.list #entries {
            @for entry in &page.items {
                tr data-row tabindex="-1" {
                    td.dim { (entry.kind.into_str()) }
                    td.main { a href={ "/memory/" (entry.id) } data-open { (title(entry)) }
                        @if entry.status != "live" { " " span.dim { (entry.status) } }
                        p.why { (cut_line(&entry.body, 160)) } }
                    td.num.dim title="landed attempts of those that were shown the entry" { (entry.landed) "/" (entry.shown) }
                    td.num.dim { (ago(entry.created_at)) }
                }
            }
        }
        @if let Some(next) = &page.next { p { a href={ "/memory?after=" (encoded(next)) "&repo=" (encoded(asked.repo.as_deref().unwrap_or_default())) "&kind=" (encoded(asked.kind.as_deref().unwrap_or_default())) } { "Older entries" } } }
    })
}

async fn search(
    site: &Site,
    visitor: &Visitor,
    asked: &EntryQuery,
    repos: &[String],
    question: &str,
) -> Result<Markup, Trouble> {
    let repo = asked.repo.as_deref().filter(|repo| !repo.is_empty());
    let repo = repo.or(repos.first().map(String::as_str)).unwrap_or_default();
    let kinds: &[&str] = match asked.kind.as_deref() {
        Some("learning") => &["learning"],
        Some("knowledge") => &["knowledge"],
        _ => &["learning", "knowledge"],
    };
    let now = OffsetDateTime::now_utc().format(&Rfc3339).unwrap_or_default();
    let mut answers = Vec::new();
    for kind in kinds {
        let queries = json!([{ "query_id": "page", "date": now, "title": question }]);
        let body = json!({ "repo": repo, "kind": kind, "limit": HITS, "queries": queries });
        let answer = site
            .request(visitor, Method::POST, "/memory/search", &body)
            .await?;
        let answer: Page<Answered> = serde_json::from_value(answer).map_err(|_| Trouble::failed())?;
        answers.extend(answer.items);
    }
    let rows = |hits: &[Hit]| {
        html! {
            @for hit in hits {
                tr data-row tabindex="-1" {
                    td.dim { (hit.kind.into_str()) }
                    td.main { a href={ "/memory/" (hit.id) } data-open { (line(&hit.title)) }
                        @if let Some(reason) = &hit.reason { p.why { (line(reason)) } } }
                    td.num.dim title="score" { (format!("{:.2}", hit.score)) }
                }
            }
        }
    };
    Ok(html! {
        p.dim { "Entries that a task with this title in " code { (line(repo)) } " would be shown" }
        table.list #found { @for answer in &answers { (rows(&answer.items)) } }
        @if answers.iter().all(|answer| answer.items.is_empty()) { p.empty { "No entry is similar enough." } }
        details #left-out { summary { "Entries that are left out" } table.list { @for answer in &answers { (rows(&answer.left_out)) } } }
    })
}

pub async fn entry(
    State(site): State<Site>,
    visitor: Visitor,
    Path(id): Path<String>,
    Query(asked): Query<EntryQuery>,
) -> Result<Markup, Trouble> {
    let entry: MemoryView = site.read(&visitor, &format!("/memory/{}", encoded(&id))).await?;
    let name = title(&entry);
    let body = html! {
        (done(asked.did.as_deref()))
        header #head.head {
            p.where { a href="/memory" { "Memory" } " / " code { (entry.id) } }
            div.line { h1 { (name) } span.state { (entry.status) } }
            @if let Some(why) = &entry.pruned_because { p.reason { "Hidden: " (line(why)) } }
        }
        (pre(&entry.body, TEXT_BYTES))
        (about(&entry))
        @if visitor.may_act() { (corrections(&visitor, &entry)) }
    };
    let sheet = Sheet {
        title: &name,
        place: "/memory",
        watch: Watch::Nothing,
        body,
    };
    Ok(sheet.of(&visitor))
}

fn about(entry: &MemoryView) -> Markup {
    html! {
        dl.facts {
            div { dt { "Kind" } dd { (entry.kind.into_str()) @if let Some(category) = &entry.category { ", " (line(category)) } } }
            div { dt { "Repository" } dd { code { (line(&entry.repo)) } } }
            div { dt { "From" } dd { (entry.origin) @if let Some(task) = &entry.task { ", " a href={ "/tasks/" (task) } { (task) } @if let Some(n) = entry.attempt { ", attempt " (n) } } } }
            @if let Some(model) = &entry.model { div { dt { "Model" } dd { (line(model)) } } }
            div { dt { "Shown" } dd { (entry.shown) ": " (entry.landed) " landed, " (entry.failed) " failed" } }
            div { dt { "Weight" } dd { (format!("{:.2}", entry.weight)) } }
            div { dt { "Created" } dd { (ago(entry.created_at)) } }
            @if !entry.tags.is_empty() { div { dt { "Tags" } dd { (line(&entry.tags.join(", "))) } } }
            @if !entry.paths.is_empty() { div { dt { "Files" } dd { (line(&entry.paths.join(", "))) } } }
            @if let Some(by) = &entry.superseded_by { div { dt { "Replaced by" } dd { a href={ "/memory/" (by) } { (by) } } } }
        }
    }
}

fn corrections(visitor: &Visitor, entry: &MemoryView) -> Markup {
    let back = format!("/memory/{}", entry.id);
    let form = |verb: &str, name: &str, of: &str, more: Markup| {
        html! {
            form.act method="post" action={ "/do/memory/" (verb) } {
                (hidden(visitor))
                input type="hidden" name="of" value=(of);
                input type="hidden" name="back" value=(back);
                (more)
                button type="submit" { (name) }
            }
        }
    };
    html! {
        div.acts {
            @match entry.status.as_str() {
                "live" | "stale" => { (form("prune", "Hide", &entry.id, html! {})) }
                "pruned" => { (form("restore", "Restore", &entry.id, html! {})) }
                _ => {}
            }
            @if let (Some(task), Some(attempt)) = (&entry.task, entry.attempt) {
                (form("revoke", "Revoke all entries of this attempt", task, html! { input type="hidden" name="attempt" value=(attempt); }))
            }
        }
        details #edit {
            summary.button { "Edit" }
            form method="post" action="/do/memory/edit" {
                (hidden(visitor))
                input type="hidden" name="of" value=(entry.id);
                input type="hidden" name="back" value=(back);
                label { "Title" input name="title" value=(entry.title); }
                label { "Text" textarea.wide name="body" rows="10" required { "\n" (entry.body) } }
                button.primary type="submit" { "Store" }
            }
        }
    }
}

fn title(entry: &MemoryView) -> String {
    match entry.title.trim() {
        "" => line(entry.body.lines().next().unwrap_or_default()),
        title => line(title),
    }
}
