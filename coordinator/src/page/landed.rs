//! Landed commits of a feature's branch, with the changes of each task.

use maud::{Markup, html};

use super::diff;
use super::sheet::encoded;
use super::site::Site;
use super::words::{ago, line};
use crate::api::http::locate;
use crate::page::session::signed_in::Visitor;
use crate::page::session::trouble::Trouble;
use crate::store::view::{self, FeatureView, Landing, Page};

/// Commits per page.
const LISTED: i64 = 100;
/// Number of commits whose changes are shown; others link to their changes.
const WITH_CHANGES: usize = 20;
/// Longest shown diff. Bytes.
const DIFF_BYTES: usize = 16 * 1024;

/// The part `landed` of the feature's page.
pub async fn part(
    site: &Site,
    visitor: &Visitor,
    feature: &FeatureView,
    after: Option<&str>,
) -> Result<Markup, Trouble> {
    let after = after.map_or_else(String::new, |after| format!("&cursor={}", encoded(after)));
    let path = format!("/features/{}/landings?limit={LISTED}{after}", feature.id);
    let landed: Page<Landing> = site.read(visitor, &path).await?;
    let mut changes = Vec::new();
    for one in landed.items.iter().take(WITH_CHANGES) {
        let mut conn = site.app.db().await?;
        let task = locate::task(&mut conn, &one.task).await?;
        changes.push(view::change_of_task(&mut conn, task).await?);
    }
    Ok(html! {
        @if landed.items.is_empty() { p.empty { "Nothing has landed yet." } }
        ol #landed.events {
            @for (n, one) in landed.items.iter().enumerate() {
                li.landed data-row tabindex="-1" {
                    p {
                        code { (one.commit.get(..12).unwrap_or(&one.commit)) } " "
                        a href={ "/tasks/" (one.task) } data-open { (line(&one.title)) } " "
                        span.dim { (ago(one.at)) @if one.empty { ", changes nothing" } @if one.reverted { ", reverted" } }
                    }
                    @match changes.get(n).and_then(Option::as_ref) {
                        Some(change) => {
                            details id={ "change-" (one.commit) } {
                                summary { "Changes " (diff::sum(&change.diff)) }
                                (diff::show(&change.diff, DIFF_BYTES))
                                p { a href={ "/tasks/" (one.task) "/diff" } { "The whole diff" } }
                            }
                        }
                        None if n >= WITH_CHANGES => { p { a href={ "/tasks/" (one.task) "/diff" } { "Changes" } } }
                        None => {}
                    }
                }
            }
        }
        @if let Some(next) = &landed.next { p { a href={ "?after=" (encoded(next)) } { "Earlier commits" } } }
    })
}
