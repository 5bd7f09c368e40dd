//! A ticket says only that a pool has work; the claim decides which work (DESIGN 1.3).

use serde::{Deserialize, Serialize};

/// "There is work in this pool."
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    pub v: u16,
    pub pool: String,
}
