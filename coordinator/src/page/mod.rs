//! The page: what the API tells, to be read and acted on in a browser.
//!
//! It is rendered on the server from what the API's handlers read, and what it changes it asks of the API's own routes, so that roles,
//! refusals and the log of changes are the same. Its few scripts fetch a page again when the stream of events says that something
//! changed, follow transcripts, and move by keys; without them everything but that works.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `routes`, `site` | the routes; what each handler works with, how it asks the API |
//! | `crate::page::session::guard` | which hosts and origins may ask, and the headers of each answer |
//! | `crate::page::session::visitor`, `crate::page::session::login` | sessions of browsers |
//! | `sheet`, `words` | the frame of every page; texts, times and amounts as it shows them |
//! | `choice`, `act` | the commands that views name, as forms, and what becomes of them |
//! | `inbox`, `log`, `features`, `feature`, `task`, … | a page each |

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
