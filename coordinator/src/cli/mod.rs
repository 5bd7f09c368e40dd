//! The command line (SPEC 9.1), a file a noun. Everything but `serve`, `up`, `migrate` and `doctor` talks to the HTTP API.
//!
//! Standard output is for results, standard error for progress and messages. Exit codes are those of SPEC 3.5: 0, 1 for a
//! failure, 2 for wrong usage, and the outcome's code where a command waited for a run.

mod agents;
mod args;
mod branch;
mod checked_out;
mod client;
mod completions;
mod config;
mod confirm;
mod context;
mod cost;
mod counted;
mod diff;
mod doctor;
mod documents;
mod down;
mod duration;
mod editor;
mod endpoint;
mod estimate;
mod feature;
mod feature_chat;
mod feature_edit;
mod feature_page;
mod feature_text;
mod git;
mod hook;
mod init;
mod inside;
mod local_time;
mod logs;
mod man;
mod memory;
mod moment;
mod output;
mod pager;
mod paint;
mod precedence;
mod prune;
mod reach;
mod replace;
mod review;
mod run;
mod schedule;
mod schema;
mod screen;
mod serve;
mod spent;
mod sse;
mod start;
mod status;
mod submit;
mod table;
mod task;
mod task_deps;
mod task_edit;
mod task_page;
mod task_tree;
mod token;
mod transcript;
mod up;
mod wait;
mod worker;

pub use start::main;
