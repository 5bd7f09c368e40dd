//! Connections without a complete request so far. When all slots are taken, the coordinator closes older ones
//! of the address that has the most. So a client that opens thousands of unfinished requests takes no slot
//! from others.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// Address and start of a connection, and a token that closes it.
type OpenRequest = (IpAddr, Instant, CancellationToken);

/// All connections without a complete request, the oldest first.
#[derive(Debug, Clone, Default)]
pub struct SlowRequests(Arc<Mutex<VecDeque<OpenRequest>>>);

/// A connection until its first request or its end.
#[derive(Debug)]
pub struct SlowRequest {
    all: SlowRequests,
    closed: CancellationToken,
}

impl SlowRequests {
    /// Adds a new connection.
    pub fn opened(&self, from: IpAddr) -> SlowRequest {
        let closed = CancellationToken::new();
        self.0.lock().push_back((from, Instant::now(), closed.clone()));
        SlowRequest {
            all: self.clone(),
            closed,
        }
    }

    /// Closes the connections of the address that has the most, if they are older than `than`.
    pub fn close_older(&self, than: Duration) {
        let mut all = self.0.lock();
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for (address, ..) in all.iter() {
            *counts.entry(*address).or_default() += 1;
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        let Some((most, _)) = most else { return };
        all.retain(|(address, since, closed)| {
            let close = *address == most && since.elapsed() >= than;
            if close {
                closed.cancel();
            }
            !close
        });
    }
}

impl SlowRequest {
    /// Cancelled once the connection must close.
    pub fn closed(&self) -> CancellationToken {
        self.closed.clone()
    }

    /// Keeps the connection from being closed for others, since its request arrived.
    pub fn arrived(&self) {
        self.all.0.lock().retain(|(_, _, closed)| *closed != self.closed);
    }
}

impl Drop for SlowRequest {
    fn drop(&mut self) {
        self.arrived();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    fn open(slow: &[SlowRequest]) -> usize {
        slow.iter().filter(|one| !one.closed.is_cancelled()).count()
    }

    #[test]
    fn older_connections_of_the_address_with_the_most_are_closed() {
        let all = SlowRequests::default();
        all.close_older(Duration::ZERO);
        let other = all.opened(IpAddr::from([10, 0, 0, 2]));
        let slow: Vec<SlowRequest> = (0..5).map(|_| all.opened(ONE)).collect();
        slow[0].arrived();
        all.close_older(Duration::from_secs(60));
        assert_eq!(open(&slow), 5, "they are new");
        all.close_older(Duration::ZERO);
        assert_eq!(open(&slow), 1, "the one with a request stays");
        assert!(!other.closed.is_cancelled());
        drop((slow, other));
        assert!(all.0.lock().is_empty());
    }
}
