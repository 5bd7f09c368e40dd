//! Events of all features by day, and costs.

use axum::extract::{Query, State};
use maud::{Markup, html};
use serde::Deserialize;
use time::format_description::well_known::Rfc3339;
use time::{Date, Duration, OffsetDateTime};

use super::sheet::{Sheet, Watch, encoded};
use super::site::Site;
use super::words::{clock, count, counted, cut_line, line, usd};
use crate::api::costs::{BudgetsView, CostsView};
use crate::page::session::signed_in::Visitor;
use crate::page::session::trouble::Trouble;
use crate::store::view::{EventView, FeatureView, Happened, Page};

/// Most shown events.
const EVENTS: i64 = 500;
/// Rows of a table of costs.
const ROWS: usize = 12;

/// Filter of the events.
#[derive(Debug, Default, Deserialize)]
pub struct EventQuery {
    since: Option<String>,
    feature: Option<String>,
    what: Option<String>,
}

pub async fn page(
    State(site): State<Site>,
    visitor: Visitor,
    Query(asked): Query<EventQuery>,
) -> Result<Markup, Trouble> {
    let now = OffsetDateTime::now_utc();
    let (word, since) = since(asked.since.as_deref(), visitor.left_at, now);
    let at = since.format(&Rfc3339).unwrap_or_default();
    let feature = asked.feature.as_deref().filter(|feature| !feature.is_empty());
    let of = feature
        .map(|feature| format!("&feature={}", encoded(feature)))
        .unwrap_or_default();
    let log: Page<EventView> = site
        .read(
            &visitor,
            &format!("/log?limit={EVENTS}&since={}{of}", encoded(&at)),
        )
        .await?;
    let what = asked.what.as_deref().unwrap_or_default();
    let features: Page<FeatureView> = site.read(&visitor, "/features?limit=200").await?;
    let events: Vec<&EventView> = log.items.iter().rev().filter(|event| fits(event, what)).collect();
    let spent = spent(&site, &visitor, &at).await?;
    let body = html! {
        h1 { @if word == "left" { "Since you left" } @else { "What happened" } }
        (filter(&asked, word, visitor.left_at.is_some(), &features.items))
        div.columns {
            section #events aria-label="Events" {
                (sum(&log.items))
                @if events.is_empty() { p.empty { "Nothing happened" @if !what.is_empty() || feature.is_some() { " of this kind" } "." } }
                @for (day, events) in by_day(&events) {
                    h2.day { (day_in_words(day, now.date())) }
                    ol.events { @for event in events { (one(event)) } }
                }
                @if log.next.is_some() { p.dim { "Only the newest " (EVENTS) " events are shown." } }
            }
            (spent)
        }
    };
    let sheet = Sheet {
        title: "Log",
        place: "/log",
        watch: Watch::All,
        body,
    };
    Ok(sheet.of(&visitor))
}

/// The start of the period, and its name in the form.
fn since(
    asked: Option<&str>,
    left: Option<OffsetDateTime>,
    now: OffsetDateTime,
) -> (&'static str, OffsetDateTime) {
    match (asked, left) {
        (Some("7d"), _) => ("7d", now - Duration::days(7)),
        (Some("30d"), _) => ("30d", now - Duration::days(30)),
        (Some("1h"), _) => ("1h", now - Duration::hours(1)),
        (None | Some("left"), Some(left)) => ("left", left),
        _ => ("24h", now - Duration::hours(24)),
    }
}

fn filter(asked: &EventQuery, word: &str, has_left: bool, features: &[FeatureView]) -> Markup {
    let feature = asked.feature.as_deref().unwrap_or_default();
    let what = asked.what.as_deref().unwrap_or_default();
    html! {
        form.filter method="get" action="/log" {
            label { "Since"
                select name="since" data-submit {
                    @if has_left { option value="left" selected[word == "left"] { "I left" } }
                    @for (value, name) in [("1h", "an hour ago"), ("24h", "24 hours ago"), ("7d", "7 days ago"), ("30d", "30 days ago")] {
                        option value=(value) selected[word == value] { (name) }
                    }
                }
            }
            label { "Feature"
                select name="feature" data-submit {
                    option value="" { "all" }
                    @for one in features { option value=(one.id) selected[one.id == feature || one.name == feature] { (line(&one.name)) } }
                }
            }
            label { "Kind"
                select name="what" data-submit {
                    @for (value, name) in [("", "all"), ("landed", "landed"), ("trouble", "went wrong"), ("person", "by people"), ("runs", "runs")] {
                        option value=(value) selected[what == value] { (name) }
                    }
                }
            }
            noscript { button type="submit" { "Show" } }
        }
    }
}

fn fits(event: &EventView, what: &str) -> bool {
    match what {
        "landed" => event.event == Happened::Landed,
        "person" => event.event == Happened::Person,
        "runs" => matches!(event.event, Happened::RunBegan | Happened::RunEnded),
        "trouble" => is_trouble(event),
        _ => true,
    }
}

fn is_trouble(event: &EventView) -> bool {
    let went_wrong = [
        "failed",
        "no_sigil",
        "error",
        "conflict",
        "lost",
        "door",
        "failure",
        "limit_reached",
        "blocked",
    ];
    event.event == Happened::Notice
        || matches!(event.event, Happened::Attempt | Happened::RunEnded)
            && went_wrong.iter().any(|word| event.what.contains(word))
}

/// Totals on one line.
fn sum(events: &[EventView]) -> Markup {
    let of = |happened: Happened| {
        i64::try_from(events.iter().filter(|event| event.event == happened).count()).unwrap_or(0)
    };
    let trouble = events.iter().filter(|event| is_trouble(event)).count();
    let cost: f64 = events
        .iter()
        .filter_map(|event| event.cost_usd)
        .fold(0.0, |sum, cost| sum + cost);
    html! {
        ul.glance {
            li { b { (of(Happened::Landed)) } " landed" }
            li { b { (counted(of(Happened::Attempt), "attempt")) } }
            @if trouble > 0 { li { b { (trouble) } " went wrong" } }
            li { b { (usd(cost, false)) } " spent" }
        }
    }
}

fn by_day<'a>(events: &[&'a EventView]) -> Vec<(Date, Vec<&'a EventView>)> {
    let mut days: Vec<(Date, Vec<&'a EventView>)> = Vec::new();
    for event in events {
        let day = event.at.date();
        match days.last_mut() {
            Some((last, of_day)) if *last == day => of_day.push(event),
            _ => days.push((day, vec![event])),
        }
    }
    days
}

fn day_in_words(day: Date, today: Date) -> String {
    let exact = format!("{} {} {}", day.weekday(), day.day(), day.month());
    match (today - day).whole_days() {
        0 => format!("Today, {exact}"),
        1 => format!("Yesterday, {exact}"),
        _ => exact,
    }
}

fn one(event: &EventView) -> Markup {
    let word = match event.event {
        Happened::Landed => "merged",
        Happened::RunBegan => "running",
        Happened::Person => "person",
        Happened::RunEnded if ["blocked", "limit_reached"].contains(&event.what.as_str()) => "blocked",
        _ if is_trouble(event) => "failed",
        _ => "done",
    };
    html! {
        li.event.{ "e-" (event.event.as_str()) } data-row tabindex="-1" {
            (clock(event.at))
            span.{ "sign s-" (word) } aria-hidden="true" { (super::words::sign(word)) }
            div {
                p {
                    span.verb { (verb(event)) } " "
                    @if let Some(task) = &event.task {
                        a href={ "/tasks/" (task) } data-open { (line(event.title.as_deref().unwrap_or(task))) }
                    }
                    @if let Some(feature) = &event.feature {
                        " " a.dim href={ "/features/" (encoded(feature)) } data-open[event.task.is_none()] { (line(feature)) }
                    }
                    @if let Some(cost) = event.cost_usd.filter(|cost| *cost > 0.0) { " " span.dim { (usd(cost, false)) } }
                }
                @if let Some(why) = event.why.as_ref().filter(|_| event.event != Happened::Landed) { p.why { (cut_line(why, 300)) } }
            }
        }
    }
}

fn verb(event: &EventView) -> String {
    match event.event {
        Happened::RunBegan => "Run started".to_owned(),
        Happened::RunEnded => format!("Run ended: {}", line(&event.what).replace('_', " ")),
        Happened::Landed => "Landed".to_owned(),
        Happened::Attempt => {
            // For example `work 2 no_sigil`.
            let words: Vec<&str> = event.what.splitn(3, ' ').collect();
            match words[..] {
                [kind, "1", outcome] => capital(&format!("{kind} {}", outcome.replace('_', " "))),
                [kind, n, outcome] => capital(&format!("{kind} {}, attempt {n}", outcome.replace('_', " "))),
                _ => capital(&event.what),
            }
        }
        _ => capital(&line(&event.what).replace('_', " ")),
    }
}

fn capital(words: &str) -> String {
    let mut chars = words.chars();
    chars
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// Costs since then, and the spent part of each limit.
async fn spent(site: &Site, visitor: &Visitor, since: &str) -> Result<Markup, Trouble> {
    let since = encoded(since);
    let mut tables = Vec::new();
    for (by, name) in [
        ("feature", "By feature"),
        ("model", "By model"),
        ("day", "By day"),
    ] {
        let costs: CostsView = site
            .read(visitor, &format!("/costs?by={by}&since={since}"))
            .await?;
        tables.push((name, costs));
    }
    let budgets: BudgetsView = site.read(visitor, "/budgets").await?;
    let limited = budgets
        .items
        .iter()
        .filter(|one| one.max_cost_usd.is_some() && one.spent_usd.is_some());
    Ok(html! {
        aside #spent aria-label="Costs" {
            h2 { "Spent" }
            @for one in limited {
                @let max = one.max_cost_usd.unwrap_or_default();
                @let used = one.spent_usd.unwrap_or_default() + one.in_flight_usd.unwrap_or_default();
                div.limit {
                    p { (one.level.into_str()) " " @if let Some(name) = one.title.as_deref().or(one.name.as_deref()) { (line(name)) }
                        span.num { (usd(used, false)) " of " (usd(max, false)) } }
                    meter min="0" max=(max) value=(used) high=(max * 0.8) optimum="0" aria-label=(one.level.into_str()) { (usd(used, false)) }
                }
            }
            @for (name, costs) in &tables {
                h3 { (name) }
                table.costs {
                    @for row in costs.items.iter().take(ROWS) {
                        tr {
                            th scope="row" {
                                @let shown = row.name.as_deref().unwrap_or(&row.key);
                                @if shown.is_empty() { span.dim { "unknown" } }
                                @else { (line(shown)) }
                            }
                            td.num { (usd(row.cost_usd, row.estimated_usd > 0.0)) }
                            td.num.dim title="tokens read and written" { (count(row.input_tokens + row.output_tokens)) }
                        }
                    }
                    @if costs.items.is_empty() { tr { td.dim { "nothing" } } }
                }
            }
        }
    })
}
