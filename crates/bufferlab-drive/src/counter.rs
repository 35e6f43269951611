//! A counter with one writer and any number of readers.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter without locked instructions. Its only writer loads and stores, and readers may see a value that is a
/// moment old.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `amount` to the counter. Only one thread may write a counter.
    pub fn add(&self, amount: u64) {
        self.0.store(self.0.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
    }

    /// Replaces the counter's value, for a counter that is a gauge.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Returns the counter's value as its writer stored it last.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
