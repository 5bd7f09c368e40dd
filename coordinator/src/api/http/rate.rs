//! Rate limits: each token has a bucket of requests that refills steadily. Every coordinator counts
//! separately.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Seconds in which a full bucket refills.
const BURST_SECONDS: f64 = 4.0;
/// Most buckets. Only valid tokens get one.
const MAX_BUCKETS: usize = 10_000;

/// The buckets of tokens with recent requests.
#[derive(Debug, Clone)]
pub struct Rates {
    per_second: f64,
    buckets: Arc<Mutex<HashMap<String, Bucket>>>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl Bucket {
    fn refilled(self, per_second: f64, now: Instant) -> Self {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        Self {
            left: (self.left + passed * per_second).min(per_second * BURST_SECONDS),
            at: now,
        }
    }
}

impl Rates {
    /// Allows each token `per_second` requests a second on average; 0 means no limit.
    pub fn new(per_second: u32) -> Self {
        Self {
            per_second: f64::from(per_second),
            buckets: Arc::default(),
        }
    }

    /// Takes one request out of a token's bucket.
    ///
    /// # Errors
    /// When the bucket is empty: the time until it has a request again.
    pub fn take(&self, token: &str, now: Instant) -> Result<(), Duration> {
        if self.per_second == 0.0 {
            return Ok(());
        }
        let full = Bucket {
            left: self.per_second * BURST_SECONDS,
            at: now,
        };
        let mut buckets = self.buckets.lock();
        if buckets.len() >= MAX_BUCKETS && !buckets.contains_key(token) {
            buckets.retain(|_, bucket| bucket.refilled(self.per_second, now).left < full.left);
            if buckets.len() >= MAX_BUCKETS {
                buckets.clear();
            }
        }
        let bucket = buckets.entry(token.to_owned()).or_insert(full);
        *bucket = bucket.refilled(self.per_second, now);
        if bucket.left < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - bucket.left) / self.per_second));
        }
        bucket.left -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_empties_and_refills_steadily_up_to_its_size() {
        let rates = Rates::new(2);
        let begin = Instant::now();
        let at = |ms: u64| begin + Duration::from_millis(ms);
        for _ in 0..8 {
            assert_eq!(rates.take("a", at(0)), Ok(()));
        }
        assert_eq!(rates.take("a", at(0)), Err(Duration::from_millis(500)));
        assert_eq!(
            rates.take("b", at(0)),
            Ok(()),
            "tokens don't take from each other"
        );
        assert_eq!(rates.take("a", at(500)), Ok(()));
        assert_eq!(rates.take("a", at(500)), Err(Duration::from_millis(500)));
        for _ in 0..8 {
            assert_eq!(rates.take("a", at(60_000)), Ok(()));
        }
        assert!(
            rates.take("a", at(60_000)).is_err(),
            "an idle minute allows no larger burst"
        );
    }

    #[test]
    fn zero_means_no_limit() {
        let (rates, now) = (Rates::new(0), Instant::now());
        assert!((0..10_000).all(|_| rates.take("a", now).is_ok()));
        assert!(rates.buckets.lock().is_empty());
    }

    #[test]
    fn the_number_of_buckets_is_bounded() {
        let (rates, now) = (Rates::new(1), Instant::now());
        for n in 0..3 * MAX_BUCKETS {
            assert_eq!(rates.take(&n.to_string(), now), Ok(()));
        }
        assert!(rates.buckets.lock().len() <= MAX_BUCKETS);
    }
}
