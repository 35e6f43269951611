//! Divides a warm-up into windows of equally many transactions for the gate, which decides whether the pool is warm.
//! The input comes from polls of the numbers of transactions and misses so far.
//!
//! It spreads the misses between two polls evenly over their transactions. This is exact if a poll comes at the end of
//! every window. Otherwise it matters little, because the gate compares sums over many windows. This file uses no clock
//! and no engine.

use crate::gate::{Gate, GateEnd, Patience, Window};

/// The number of transactions in one window of a warm-up. At the end of each window the gate decides whether the
/// warm-up ends.
pub const GATE_WINDOW: u64 = 500;

/// A warm-up's gate, and the counts at the last poll.
pub struct GateFeed {
    gate: Gate,
    /// Transactions ended since the warm-up began, and the engine's demand misses, both at the last poll.
    last: (u64, u64),
    /// Demand misses of the engine up to the end of the last whole window.
    fed: u64,
    /// Pages that the pool had dropped up to the end of the last whole window.
    dropped: u64,
    end: Option<GateEnd>,
}

impl GateFeed {
    /// Makes a warm-up's gate for a pool of `frames` frames. No transaction has ended yet, and the engine's counts are
    /// `counted`.
    pub fn new(frames: u64, patience: Patience, counted: Window) -> Self {
        let Window { misses, dropped } = counted;
        let gate = Gate::new(frames, GATE_WINDOW, patience);
        GateFeed { gate, last: (0, misses), fed: misses, dropped, end: None }
    }

    /// Notes the misses of the prefill, which the engine counted before the first poll.
    pub fn prefill(&mut self, misses: u64) {
        self.gate.prefill(misses);
    }

    /// Returns true when a poll after this number of transactions would complete a window.
    pub fn is_due(&self, transactions: u64) -> bool {
        transactions / GATE_WINDOW > self.last.0 / GATE_WINDOW
    }

    /// Processes a poll: `transactions` transactions have ended since the beginning, and the engine's counts are now
    /// `counted`. Returns the reason why the warm-up ends, if it now ends.
    pub fn look(&mut self, transactions: u64, counted: Window) -> Option<GateEnd> {
        let (from, from_misses) = self.last;
        let (steps, grown) =
            (u128::from(transactions.saturating_sub(from)), u128::from(counted.misses.saturating_sub(from_misses)));
        let mut end = (from / GATE_WINDOW + 1) * GATE_WINDOW;
        while self.end.is_none() && end <= transactions {
            let until = from_misses + (grown * u128::from(end - from) / steps) as u64;
            // The drops since the last poll all count in one window. That is exact, because an engine that drops pages
            // is polled at the end of every window.
            let dropped = counted.dropped.saturating_sub(self.dropped);
            self.end = self.gate.window(Window { misses: until - self.fed, dropped });
            (self.fed, self.dropped) = (until, counted.dropped);
            end += GATE_WINDOW;
        }
        self.last = (from.max(transactions), from_misses.max(counted.misses));
        self.end
    }

    /// Returns the reason why the warm-up ended, if a poll has ended it.
    pub fn end(&self) -> Option<GateEnd> {
        self.end
    }

    /// Returns the reason why a warm-up ended that reached its limit before the gate opened.
    pub fn at_limit(&self) -> GateEnd {
        self.gate.at_limit()
    }

    /// Returns the number of demand misses that count towards filling and turnover of the pool. These are the
    /// prefill's, at most one for each frame, and those of the warm-up's whole windows.
    pub fn misses(&self) -> u64 {
        self.gate.misses()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of transactions after which a warm-up's gate opens, and the reason why it opens. The run has
    /// `misses(transactions)` misses, and a poll every `step` transactions.
    fn opens(frames: u64, step: u64, misses: impl Fn(u64) -> u64) -> (u64, GateEnd) {
        let mut feed = GateFeed::new(frames, Patience::default(), Window::of(misses(0)));
        (1..100_000)
            .map(|look| look * step)
            .find_map(|at| Some((at, feed.look(at, Window::of(misses(at)))?)))
            .expect("it opens")
    }

    #[test]
    fn looks_of_any_distance_open_the_gate_at_the_same_time() {
        let falling = |at: u64| 7_000 + (40_000.0 * (1.0 - (-(at as f64) / 8_000.0).exp())) as u64 + at / 12;
        let (exact, end) = opens(30_000, GATE_WINDOW, falling);
        for step in [1, 77, 499, 501, 2_300] {
            let (at, other) = opens(30_000, step, falling);
            assert_eq!(other, end);
            assert!(at.abs_diff(exact) <= 2_300 + exact / 10, "opened at {at}, with a look each window at {exact}");
        }
    }

    #[test]
    fn no_miss_is_lost_or_counted_twice() {
        let mut feed = GateFeed::new(1_000_000, Patience::default(), Window::of(50));
        for (transactions, misses) in [(3, 60), (499, 61), (500, 90), (4_700, 1_050), (4_700, 1_050), (5_000, 1_100)] {
            assert_eq!(feed.look(transactions, Window::of(misses)), None);
        }
        assert_eq!(feed.misses(), 1_050);
    }

    #[test]
    fn a_pool_far_larger_than_what_is_touched_is_warm_once_reads_have_ended() {
        // Two warehouses in 1 GiB: the reads end after 3,000 transactions, and the next 20 windows have none.
        let ends = |at: u64| 11_360 + at.min(3_000) / 500;
        for step in [1, 77, 2_300] {
            let (at, end) = opens(65_536, step, ends);
            assert_eq!(end, GateEnd::NoNewPages);
            assert!((12_500..15_500).contains(&at), "opened at {at}");
        }
    }

    #[test]
    fn filling_and_turning_over_counts_what_was_prefilled() {
        let mut feed = GateFeed::new(1_000, Patience::default(), Window::of(5_000));
        feed.prefill(4_000);
        assert_eq!(feed.look(400, Window::of(5_999)), None);
        assert_eq!(feed.look(500, Window::of(6_000)), Some(GateEnd::PoolTurnover));
    }
}
