//! Parts of Ralph's end-to-end tests.
//!
//! | module | content |
//! | --- | --- |
//! | [`agent`] | the scripted ACP agent, a real process whose behaviour is written in the task's description |
//! | [`harness`] | real servers, coordinators, workers and repositories, private to a test |

pub mod agent;
pub mod harness;
