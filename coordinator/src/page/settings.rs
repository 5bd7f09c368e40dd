//! The settings, and their sources.

use axum::extract::State;
use maud::{Markup, html};

use super::sheet::{Sheet, Watch};
use super::site::Site;
use super::words::{cut_line, line};
use crate::config::Setting;
use crate::page::session::signed_in::Visitor;
use crate::page::session::trouble::Trouble;
use crate::store::view::Page;

pub async fn page(State(site): State<Site>, visitor: Visitor) -> Result<Markup, Trouble> {
    let settings: Page<Setting> = site.read(&visitor, "/config").await?;
    let (set, unset): (Vec<&Setting>, Vec<&Setting>) = settings
        .items
        .iter()
        .partition(|one| one.source.into_str() != "default");
    let body = html! {
        h1 { "Settings" }
        p.dim { "The effective settings of this coordinator, from files, variables and flags. It reads them when it starts." }
        label.find { span.hide { "Find a setting" } input type="search" placeholder="Find" data-find=".settings tr" autocomplete="off"; }
        @if !set.is_empty() { h2 { "Set" } (table(&set)) }
        h2 { "Defaults" }
        (table(&unset))
        p { a href="/api/docs" { "The API" } }
    };
    let sheet = Sheet {
        title: "Settings",
        place: "/settings",
        watch: Watch::Nothing,
        body,
    };
    Ok(sheet.of(&visitor))
}

fn table(settings: &[&Setting]) -> Markup {
    html! {
        table.list.settings {
            @for one in settings {
                tr {
                    td.key { code { (one.key) } }
                    td.main {
                        @match &one.value {
                            serde_json::Value::Null => { span.dim { (line(&one.default)) } }
                            serde_json::Value::String(text) => { (cut_line(text, 200)) }
                            value => { (cut_line(&value.to_string(), 200)) }
                        }
                        p.why { (one.about) }
                    }
                    td.dim { (one.source.into_str()) @if let Some(place) = &one.place { p.why { (line(place)) } } }
                }
            }
        }
    }
}
