//! Connections over which no whole request came yet. Each address has a few of them, and when it opens more, its oldest is closed: so
//! whoever opens thousands and sends half a request over each takes no place from others, and a new request is always heard.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// Of one address, at most.
const OF_ONE_ADDRESS: usize = 64;
/// Of all addresses.
const OF_ALL: usize = 256;

/// All of them, the oldest first.
#[derive(Debug, Clone, Default)]
pub struct Unheard(Arc<Mutex<VecDeque<(IpAddr, CancellationToken)>>>);

/// One of them, until its first request came or it ended.
#[derive(Debug)]
pub struct Silent {
    all: Unheard,
    closed: CancellationToken,
}

impl Unheard {
    /// Takes a new connection in, and closes the oldest one of those that are too many.
    pub fn opened(&self, from: IpAddr) -> Silent {
        let closed = CancellationToken::new();
        let mut all = self.lock();
        let of_one = all.iter().filter(|(address, _)| *address == from).count();
        let oldest = if of_one >= OF_ONE_ADDRESS {
            all.iter().position(|(address, _)| *address == from)
        } else {
            (all.len() >= OF_ALL).then_some(0)
        };
        if let Some((_, oldest)) = oldest.and_then(|at| all.remove(at)) {
            oldest.cancel();
        }
        all.push_back((from, closed.clone()));
        drop(all);
        Silent {
            all: self.clone(),
            closed,
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(IpAddr, CancellationToken)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Silent {
    /// Cancelled once the connection has to be closed.
    pub fn closed(&self) -> CancellationToken {
        self.closed.clone()
    }

    /// A request came: the connection is closed for others no more.
    pub fn heard(&self) {
        self.all.lock().retain(|(_, closed)| *closed != self.closed);
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        self.heard();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    fn open(silent: &[Silent]) -> usize {
        silent.iter().filter(|one| !one.closed.is_cancelled()).count()
    }

    #[test]
    fn of_one_address_the_oldest_are_closed() {
        let all = Unheard::default();
        let other = all.opened(IpAddr::from([10, 0, 0, 2]));
        let mut silent: Vec<Silent> = (0..OF_ONE_ADDRESS + 3).map(|_| all.opened(ONE)).collect();
        assert!(silent[..3].iter().all(|one| one.closed.is_cancelled()));
        assert_eq!(open(&silent), OF_ONE_ADDRESS);
        assert!(!other.closed.is_cancelled());
        silent[3].heard();
        silent.push(all.opened(ONE));
        assert_eq!(open(&silent), OF_ONE_ADDRESS + 1, "one that was heard stays");
        drop((silent, other));
        assert!(all.lock().is_empty());
    }

    #[test]
    fn of_all_addresses_the_oldest_are_closed() {
        let all = Unheard::default();
        let address = |n: usize| IpAddr::from((n as u128).to_be_bytes());
        let silent: Vec<Silent> = (0..OF_ALL + 5).map(|n| all.opened(address(n))).collect();
        assert_eq!(open(&silent), OF_ALL);
        assert!(silent[..5].iter().all(|one| one.closed.is_cancelled()));
    }
}
