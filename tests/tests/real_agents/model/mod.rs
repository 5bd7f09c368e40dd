//! A model on loopback that does what the prompt says, behind the interfaces that the agents speak.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`script`] | the directives of a prompt, and what the model answers next: a decision |
//! | [`tools`] | which of an agent's tools does a step, and with which arguments |
//! | [`server`] | HTTP, the journal, and who waits for whom |
//! | [`anthropic`], [`chat`], [`gemini`], [`responses`] | reading and writing the interfaces |

mod anthropic;
mod chat;
mod gemini;
mod responses;
mod script;
mod server;
mod tools;

pub use server::Model;
