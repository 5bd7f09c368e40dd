//! The frame of every page: head, ways to the others, help.

use maud::{DOCTYPE, Markup, html};

use super::assets::{SCRIPT, STYLE};
use crate::page::confirmations::is_confirmation;
use crate::page::session::signed_in::Visitor;

/// The pages that each page leads to: address, name, the key that goes there after `g`.
const PLACES: [(&str, &str, char); 6] = [
    ("/", "Inbox", 'i'),
    ("/log", "Log", 'l'),
    ("/features", "Features", 'f'),
    ("/workers", "Workers", 'w'),
    ("/memory", "Memory", 'm'),
    ("/settings", "Settings", 's'),
];
/// What else keys do.
const KEYS: [(&str, &str); 7] = [
    ("j / k", "to the next or the previous item"),
    ("Enter", "opens it"),
    ("/", "into the search field"),
    ("e", "to the next error of a transcript"),
    ("+ / - / 0", "the graph larger, smaller, as a whole"),
    ("Esc", "closes this, leaves a field"),
    ("?", "shows this"),
];

/// What a page shows changes by.
#[derive(Debug, Clone)]
pub enum Watch {
    /// Anything.
    All,
    /// What happens to this feature.
    Feature(String),
    Nothing,
}

/// A page.
pub struct Sheet<'a> {
    /// What the window is called.
    pub title: &'a str,
    /// The address of the place that it belongs to.
    pub place: &'a str,
    /// When it is looked for anew.
    pub watch: Watch,
    /// What it shows.
    pub body: Markup,
}

impl Sheet<'_> {
    /// The page as somebody sees it.
    pub fn of(self, visitor: &Visitor) -> Markup {
        let watched = match &self.watch {
            Watch::All => Some("*"),
            Watch::Feature(id) => Some(id.as_str()),
            Watch::Nothing => None,
        };
        let role = visitor.holder.role.as_str();
        framed(
            self.title,
            &html! {
                a.skip href="#main" { "To the content" }
                header.top {
                    a.brand href="/" { "Ralph" }
                    nav aria-label="Pages" {
                        @for (path, name, key) in PLACES {
                            a href=(path) data-go=(key) aria-current=[(path == self.place).then_some("page")] { (name) }
                        }
                    }
                    div.who {
                        span.dim title={ "This token may " (role) } { (visitor.holder.name) " · " (role) }
                        form method="post" action="/logout" {
                            (hidden(visitor))
                            button.plain type="submit" { "Log out" }
                        }
                        button.plain type="button" data-help title="Keys" aria-label="Keys" { "?" }
                    }
                }
                p #connection role="status" hidden { "The connection is lost; this page may be old." }
                main #main tabindex="-1" data-watch=[watched] { (self.body) }
                (help())
            },
        )
    }
}

/// A page for whoever isn't logged in, or where something went wrong.
pub fn bare(title: &str, body: &Markup) -> Markup {
    framed(title, &html! { main.bare #main { p.brand { "Ralph" } (body) } })
}

/// What each form says beside its own fields.
pub fn hidden(visitor: &Visitor) -> Markup {
    html! { input type="hidden" name="csrf" value=(visitor.csrf); }
}

/// What was done, once it is: the page that it led to says so.
pub fn done(said: Option<&str>) -> Markup {
    html! {
        @if let Some(said) = said.filter(|said| is_confirmation(said)) { p.done role="status" { (said) } }
    }
}

/// An address within the page; anything else becomes the inbox.
pub fn own_path(path: &str) -> String {
    let is_own = path.starts_with('/')
        && !path.starts_with("//")
        && !path.contains('\\')
        && path.chars().all(|c| !c.is_control())
        && path.len() < 2_000;
    if is_own { path.to_owned() } else { "/".to_owned() }
}

/// A word as a part of an address.
pub fn encoded(text: &str) -> String {
    ralph_cli::client::escape(text)
}

fn framed(title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Ralph" }
                link rel="icon" href="data:,";
                link rel="stylesheet" href=(STYLE.path);
                script src=(SCRIPT.path) defer {}
            }
            body { (body) }
        }
    }
}

fn help() -> Markup {
    html! {
        dialog #help aria-labelledby="help-title" {
            h2 #help-title { "Keys" }
            dl.keys {
                @for (_, name, key) in PLACES { dt { kbd { "g" } " " kbd { (key) } } dd { (name) } }
                @for (key, what) in KEYS { dt { kbd { (key) } } dd { (what) } }
            }
            form method="dialog" { button type="submit" { "Close" } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leads_to_another_site() {
        for own in ["/", "/tasks/t-1?attempt=2", "/log?since=x"] {
            assert_eq!(own_path(own), own);
        }
        for foreign in [
            "",
            "//evil.example",
            "/\\evil.example",
            "https://evil.example",
            "javascript:x",
            "/\n/x",
        ] {
            assert_eq!(own_path(foreign), "/", "{foreign:?}");
        }
    }
}
