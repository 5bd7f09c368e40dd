//! What the HTTP API is asked and answers, as JSON (SPEC 9.1): the coordinator and its clients read and write the same structs,
//! so that the two can't drift apart.
//!
//! [`body`] has requests and what they are answered with, [`view`] what is shown of features, tasks, runs and workers.

pub mod body;
pub mod view;
