//! Traces of attempts (DESIGN 8), built from stored rows once an attempt's dispatch has ended.
//!
//! ```text
//! run's trace:      feature ─┬─ parser (work)     ──link──►  attempt's trace
//!                            └─ parser (integrate) ─link──►
//!
//! attempt's trace:  work parser ─┬─ wait
//!                                ├─ prepare
//!                                ├─ invoke_agent ─┬─ execute_tool …
//!                                │                └─ …
//!                                ├─ hand in
//!                                ├─ verify parser ─── …
//!                                └─ integrate parser ─── …
//! ```
//!
//! Every id follows from the ids of its subject. So any coordinator can send a trace, piece by piece and
//! repeatedly, with the same result. A session's agent gets its place in the trace with its prompt, for spans
//! of its own ([`Parent`]).
//!
//! | module | what it does |
//! | --- | --- |
//! | `ids` | ids of traces and spans |
//! | `span` | the content of a span |
//! | `dispatch` | the spans of one dispatch |
//! | `session` | the actions of an agent, from its transcript |
//! | `run` | a run's own span |

mod dispatch;
mod ids;
mod run;
mod session;
mod span;

pub use dispatch::{DispatchFacts, of_dispatch};
pub use ids::{Parent, SpanId, TraceId};
pub use run::{RunFacts, of_run};
pub use span::{Moment, Span, Value};
