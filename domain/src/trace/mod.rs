//! What became of attempts, as traces (DESIGN 8): built from what is stored, once an attempt's dispatch has ended.
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
//! Every id follows from the ids of what it is about: so a trace can be told by any coordinator, piece by piece and again, and comes
//! to the same. A session's agent is told its place with its prompt, for spans of its own ([`Parent`]).
//!
//! | module | what it does |
//! | --- | --- |
//! | `ids` | names of traces and spans |
//! | `span` | what a span says |
//! | `dispatch` | the spans of one dispatch |
//! | `session` | what an agent did, from its transcript |
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
