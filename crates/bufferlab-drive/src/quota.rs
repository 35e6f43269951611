//! A fixed number of transactions that drivers share. Each driver claims a few transactions at a time, and single ones
//! towards the end. So the total is exact, and no driver still has many claimed transactions while the others are idle.

use std::sync::atomic::{AtomicU64, Ordering};

/// Most transactions that a driver claims at once: a few milliseconds of a server's work.
const LARGEST_CLAIM: u64 = 32;
/// A claim has at most a fourth of a driver's equal share of the transactions that are left, but at least one.
const PART: u64 = 4;

/// The number of transactions that drivers may still begin.
#[derive(Debug)]
pub struct Quota {
    left: AtomicU64,
    drivers: u64,
    largest: u64,
}

impl Quota {
    /// Makes a quota of `total` transactions for `drivers` drivers.
    pub fn new(total: u64, drivers: usize) -> Self {
        Quota { left: AtomicU64::new(total), drivers: drivers.max(1) as u64, largest: LARGEST_CLAIM }
    }

    /// Limits claims to one transaction. In an open loop the driver whose arrival is due first must get the next
    /// transaction, so no driver may hold several claimed ones while it waits.
    #[must_use]
    pub fn one_by_one(mut self) -> Self {
        self.largest = 1;
        self
    }

    /// Claims some transactions and returns their number, zero when none are left. The caller must begin all of them,
    /// unless the run stops.
    pub fn claim(&self) -> u64 {
        let mut left = self.left.load(Ordering::Relaxed);
        loop {
            let claim = (left / (PART * self.drivers)).clamp(1, self.largest).min(left);
            let taken = self.left.compare_exchange_weak(left, left - claim, Ordering::Relaxed, Ordering::Relaxed);
            match taken {
                Ok(_) => return claim,
                Err(now) => left = now,
            }
        }
    }

    /// Claims all transactions for the only driver, and returns their number.
    pub fn claim_all(&self) -> u64 {
        self.left.swap(0, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_transaction_is_claimed_once_and_the_last_ones_singly() {
        for (total, drivers) in [(0, 1), (1, 8), (7, 2), (1_000, 3), (100_000, 8)] {
            let quota = Quota::new(total, drivers);
            let claims: Vec<u64> = std::iter::from_fn(|| Some(quota.claim()).filter(|&claim| claim > 0)).collect();
            assert_eq!(claims.iter().sum::<u64>(), total);
            assert!(claims.iter().all(|&claim| claim <= LARGEST_CLAIM));
            assert!(claims.iter().rev().take(drivers).all(|&claim| claim == 1), "{claims:?}");
        }
    }

    #[test]
    fn threads_share_it_without_loss() {
        let quota = Quota::new(100_003, 4);
        let claimed: u64 = std::thread::scope(|scope| {
            let mine = || std::iter::from_fn(|| Some(quota.claim()).filter(|&claim| claim > 0)).sum::<u64>();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(mine)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no thread panics")).sum()
        });
        assert_eq!(claimed, 100_003);
    }
}
