//! A model on loopback that follows the directives of the prompt, behind the APIs that the agents use.
//!
//! | module | content |
//! | --- | --- |
//! | [`script`] | the directives of a prompt, and the choice of the model's next answer |
//! | [`tools`] | the agent's tool for a step, and its arguments |
//! | [`server`] | HTTP, the journal, and sessions that wait for each other |
//! | [`anthropic`], [`chat`], [`gemini`], [`responses`] | reading and writing the APIs |

mod anthropic;
mod chat;
mod gemini;
mod responses;
mod script;
mod server;
mod tools;

pub use server::Model;
