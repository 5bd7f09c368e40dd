//! Usage and shares of an instance's sessions, by dispatch. Heartbeats report the usage and bring the shares.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use ralph_shared::ids::DispatchId;
use ralph_shared::wire::{DispatchUsage, Granted, Usage};

use crate::session::Allowance;

#[derive(Debug, Default)]
pub struct Allowances(Mutex<HashMap<DispatchId, Arc<Allowance>>>);

impl Allowances {
    pub fn begin(&self, dispatch: DispatchId, allowance: Arc<Allowance>) {
        self.0.lock().insert(dispatch, allowance);
    }

    /// Removes a session whose report, with its usage, is spooled.
    pub fn end(&self, dispatch: DispatchId) {
        self.0.lock().remove(&dispatch);
    }

    /// Usage of running sessions, as far as it is known.
    pub fn used(&self) -> Vec<DispatchUsage> {
        let allowances = self.0.lock();
        let used = allowances.iter().map(|(&dispatch, allowance)| {
            let (usage, asks) = allowance.used();
            DispatchUsage {
                dispatch,
                usage,
                asks,
            }
        });
        used.filter(|used| used.usage != Usage::default()).collect()
    }

    pub fn grant(&self, shares: &[Granted]) {
        let allowances = self.0.lock();
        for granted in shares {
            if let Some(allowance) = allowances.get(&granted.dispatch) {
                allowance.grant(granted.share);
            }
        }
    }
}
