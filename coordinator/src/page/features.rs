//! The list of all features, the newest first.

use axum::extract::{Query, State};
use maud::{Markup, html};
use serde::Deserialize;

use super::sheet::{Sheet, Watch, encoded, hidden};
use super::site::Site;
use super::words::{ago, line, state, usd};
use crate::page::session::signed_in::Visitor;
use crate::page::session::trouble::Trouble;
use crate::store::view::{FeatureView, Page, TaskCounts};

/// Features per page.
const ROWS: i64 = 100;

/// Start of the list.
#[derive(Debug, Deserialize)]
pub struct FeaturesQuery {
    after: Option<String>,
}

pub async fn page(
    State(site): State<Site>,
    visitor: Visitor,
    Query(query): Query<FeaturesQuery>,
) -> Result<Markup, Trouble> {
    let after = query
        .after
        .map(|after| format!("&cursor={}", encoded(&after)))
        .unwrap_or_default();
    let features: Page<FeatureView> = site
        .read(&visitor, &format!("/features?limit={ROWS}{after}"))
        .await?;
    let body = html! {
        h1 { "Features" }
        @if visitor.may_act() { (new(&visitor, &features.items)) }
        @if features.items.is_empty() {
            p.empty { "There is no feature yet. " code { "ralph submit feature NAME --tasks FILE" } " submits one." }
        }
        table.list #features {
            @for feature in &features.items { (row(feature)) }
        }
        @if let Some(next) = &features.next { p { a href={ "/features?after=" (encoded(next)) } { "Older features" } } }
    };
    let sheet = Sheet {
        title: "Features",
        place: "/features",
        watch: Watch::All,
        body,
    };
    Ok(sheet.of(&visitor))
}

/// A form for a new feature with a few fields; the command line has all options.
fn new(visitor: &Visitor, known: &[FeatureView]) -> Markup {
    let mut repositories: Vec<&str> = known.iter().filter_map(|one| one.repo.as_deref()).collect();
    let last = repositories.first().copied().unwrap_or_default();
    repositories.sort_unstable();
    repositories.dedup();
    html! {
        details.act #new {
            summary.button { "New feature…" }
            form method="post" action="/do/feature/submit" {
                (hidden(visitor))
                label { "What should the feature do? A sentence is enough."
                    textarea name="description" rows="4" required {}
                }
                div.filter {
                    label { "Name (optional)" input name="name" autocomplete="off" pattern="[a-z0-9][a-z0-9._\\-]{0,62}"; }
                    label.wide { "Repository address for the coordinator (empty: no code)"
                        input name="repo" list="repositories" value=(last) autocomplete="off";
                    }
                    label.check { input type="checkbox" name="approve" value="plan" checked; " The plan waits for my approval" }
                }
                datalist #repositories { @for one in &repositories { option value=(one) {} } }
                button.primary type="submit" { "Submit" }
            }
        }
    }
}

fn row(feature: &FeatureView) -> Markup {
    html! {
        tr data-row tabindex="-1" {
            td { (state(feature.condition.word.into_str())) }
            td.main {
                a href={ "/features/" (feature.id) } data-open { (line(&feature.name)) }
                @if let Some(reason) = &feature.condition.reason { " " span.dim { (line(reason)) } }
            }
            td.bar-cell { (bar(&feature.tasks)) }
            td.num { (feature.tasks.resolved()) "/" (feature.tasks.total) }
            td.num { (usd(feature.cost_usd + feature.in_flight_usd, feature.estimated)) }
            td.num.dim { (ago(feature.updated_at)) }
        }
    }
}

/// The progress of the tasks as a bar.
pub fn bar(tasks: &TaskCounts) -> Markup {
    let parts = [
        ("done", tasks.done + tasks.skipped + tasks.cancelled),
        ("in_progress", tasks.in_progress),
        ("needs_review", tasks.needs_review),
        ("failed", tasks.failed),
    ];
    let total = tasks.total.max(1);
    let mut at = 0;
    let parts = parts.map(|(word, n)| {
        let from = at * 1000 / total;
        at += n;
        (word, from, at * 1000 / total - from)
    });
    let words = format!(
        "{} of {} tasks done, {} running, {} need you, {} failed",
        tasks.resolved(),
        tasks.total,
        tasks.in_progress,
        tasks.needs_review,
        tasks.failed
    );
    html! {
        svg.bar viewBox="0 0 1000 10" preserveAspectRatio="none" role="img" aria-label=(words) {
            rect.rest x="0" y="0" width="1000" height="10" {}
            @for (word, from, width) in parts.iter().filter(|(_, _, width)| *width > 0) {
                rect.{ "f-" (word) } x=(from) y="0" width=(width) height="10" {}
            }
        }
    }
}
