//! The page: the API's views and commands in a browser.
//!
//! The server renders it from data of the API's handlers. Changes go through the API's own routes, so that
//! roles, refusals and the log of changes are the same. Its script fetches a page again when the stream of
//! events reports a change, follows transcripts, and handles keys; everything else works without it.
//!
//! | file | content |
//! | --- | --- |
//! | `routes`, `site` | the routes; the handlers' context and their requests to the API |
//! | `crate::page::session::guard` | the allowed hosts and origins, and the headers of each answer |
//! | `crate::page::session::visitor`, `crate::page::session::login` | sessions of browsers |
//! | `sheet`, `words` | the frame of every page; texts, times and amounts |
//! | `choice`, `act` | the commands of views as forms, and their execution |
//! | `inbox`, `log`, `features`, `feature`, `task`, … | one page each |

mod act;
mod assets;
mod choice;
mod confirmations;
mod diff;
mod feature;
mod features;
pub mod graph;
mod inbox;
mod landed;
mod live;
mod log;
mod memory;
mod prompt;
mod routes;
pub mod session;
mod settings;
mod sheet;
mod site;
mod task;
mod transcript;
mod words;
mod workers;

pub use routes::routes;
