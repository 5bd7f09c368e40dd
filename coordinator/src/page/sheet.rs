//! The frame of every page: head, navigation, help.

use maud::{DOCTYPE, Markup, html};

use super::assets::{SCRIPT, STYLE};
use crate::page::confirmations::is_confirmation;
use crate::page::session::signed_in::Visitor;

/// The pages of the navigation: address, name, and the key that opens the page after `g`.
const PLACES: [(&str, &str, char); 6] = [
    ("/", "Inbox", 'i'),
    ("/log", "Log", 'l'),
    ("/features", "Features", 'f'),
    ("/workers", "Workers", 'w'),
    ("/memory", "Memory", 'm'),
    ("/settings", "Settings", 's'),
];
/// Other keys.
const KEYS: [(&str, &str); 7] = [
    ("j / k", "to the next or the previous item"),
    ("Enter", "opens it"),
    ("/", "into the search field"),
    ("e", "to the next error of a transcript"),
    ("+ / - / 0", "the graph larger, smaller, as a whole"),
    ("Esc", "closes this, leaves a field"),
    ("?", "shows this"),
];

/// Changes after which the browser fetches a page again.
#[derive(Debug, Clone)]
pub enum Watch {
    /// Any change.
    All,
    /// A change of this feature.
    Feature(String),
    Nothing,
}

/// A page.
pub struct Sheet<'a> {
    /// Title of the window.
    pub title: &'a str,
    /// Address of its entry in the navigation.
    pub place: &'a str,
    pub watch: Watch,
    pub body: Markup,
}

impl Sheet<'_> {
    /// Renders the page for a visitor.
    pub fn of(self, visitor: &Visitor) -> Markup {
        let watched = match &self.watch {
            Watch::All => Some("*"),
            Watch::Feature(id) => Some(id.as_str()),
            Watch::Nothing => None,
        };
        let role = visitor.holder.role.into_str();
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

/// A page without navigation, for the login and for errors.
pub fn bare(title: &str, body: &Markup) -> Markup {
    framed(title, &html! { main.bare #main { p.brand { "Ralph" } (body) } })
}

/// The hidden field of each form that proves its session.
pub fn hidden(visitor: &Visitor) -> Markup {
    html! { input type="hidden" name="csrf" value=(visitor.csrf); }
}

/// The confirmation of the form that led to this page, if any.
pub fn done(words: Option<&str>) -> Markup {
    html! {
        @if let Some(words) = words.filter(|words| is_confirmation(words)) { p.done role="status" { (words) } }
    }
}

/// The path if it is within the page, else the inbox.
pub fn own_path(path: &str) -> String {
    let is_own = path.starts_with('/')
        && !path.starts_with("//")
        && !path.contains('\\')
        && path.chars().all(|c| !c.is_control())
        && path.len() < 2_000;
    if is_own { path.to_owned() } else { "/".to_owned() }
}

/// A text escaped for a path or a query.
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
    fn a_path_to_another_site_becomes_the_inbox() {
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
