//! Connections without a whole request so far. When all slots are taken, those of the address with the most
//! of them are closed after a moment. So a client that opens thousands of half-finished requests takes no
//! slot from others.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

/// Its address, its start, and a token that closes it.
type OpenRequest = (IpAddr, Instant, CancellationToken);

/// All of them, the oldest first.
#[derive(Debug, Clone, Default)]
pub struct Unheard(Arc<Mutex<VecDeque<OpenRequest>>>);

/// Such a connection, until its first request or its end.
#[derive(Debug)]
pub struct Silent {
    all: Unheard,
    closed: CancellationToken,
}

impl Unheard {
    /// Takes a new connection in.
    pub fn opened(&self, from: IpAddr) -> Silent {
        let closed = CancellationToken::new();
        self.lock().push_back((from, Instant::now(), closed.clone()));
        Silent {
            all: self.clone(),
            closed,
        }
    }

    /// Closes those of the address with the most of them, if they are older than this.
    pub fn close_older(&self, than: Duration) {
        let mut all = self.lock();
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for (address, ..) in all.iter() {
            *counts.entry(*address).or_default() += 1;
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        let Some((most, _)) = most else { return };
        all.retain(|(address, since, closed)| {
            let goes = *address == most && since.elapsed() >= than;
            if goes {
                closed.cancel();
            }
            !goes
        });
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<OpenRequest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Silent {
    /// Cancelled once the connection has to be closed.
    pub fn closed(&self) -> CancellationToken {
        self.closed.clone()
    }

    /// A request arrived, so the connection is no longer closed for others.
    pub fn heard(&self) {
        self.all.lock().retain(|(_, _, closed)| *closed != self.closed);
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
    fn those_of_the_address_that_has_most_are_closed() {
        let all = Unheard::default();
        all.close_older(Duration::ZERO);
        let other = all.opened(IpAddr::from([10, 0, 0, 2]));
        let silent: Vec<Silent> = (0..5).map(|_| all.opened(ONE)).collect();
        silent[0].heard();
        all.close_older(Duration::from_secs(60));
        assert_eq!(open(&silent), 5, "they are new");
        all.close_older(Duration::ZERO);
        assert_eq!(open(&silent), 1, "one that was heard stays");
        assert!(!other.closed.is_cancelled());
        drop((silent, other));
        assert!(all.lock().is_empty());
    }
}
