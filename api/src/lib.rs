//! Requests and answers of the HTTP API as JSON (SPEC 9.1). The coordinator and its clients use the same
//! structs, so that they can't drift apart.
//!
//! [`body`] has the bodies of requests and their answers, [`view`] the views of features, tasks, runs and
//! workers.

pub mod body;
pub mod view;
