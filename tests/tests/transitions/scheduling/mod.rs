//! Order, start times and concurrency of tasks.

pub(crate) mod ageing;
pub(crate) mod concurrency_keys;
pub(crate) mod deadlines;
pub(crate) mod order;
pub(crate) mod path_holds;
pub(crate) mod paused;
pub(crate) mod runs;
pub(crate) mod schedules;
pub(crate) mod slots;
pub(crate) mod tickets;
