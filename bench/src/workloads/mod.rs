//! What is measured, a module a question. Each runs once and adds one value to each of its figures.

mod crash;
mod dag;
mod drain;
mod flood;
mod front;
mod idle;
mod landing;
mod latency;
mod limits;
mod memory;
mod memory_fill;
mod memory_text;
mod next;
mod session;
mod sessions;
mod stream;
mod submit;
mod turns;
mod workspace;

pub use crash::{restarted, vanished};
pub use dag::dag;
pub use drain::drain;
pub use flood::flood;
pub use front::front;
pub use idle::idle;
pub use landing::landing;
pub use latency::latency;
pub use limits::limits;
pub use memory::memory;
pub use next::next;
pub use session::session;
pub use sessions::sessions;
pub use stream::stream;
pub use submit::submit;
pub use turns::turns;
pub use workspace::workspace;
