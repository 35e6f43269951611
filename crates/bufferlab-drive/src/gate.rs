//! The warm-up gate: it decides during the run when a pool is warm, from counts alone.
//!
//! A pool smaller than the pages that the workload touches is warm when reads have filled it and replaced every page
//! once: the replacement policy then chose each page under load. A larger pool never turns over. It is warm when demand
//! misses no longer change; the rest are compulsory misses of a growing database. A prefill, which reads the tables
//! once, may fill the pool ahead of the transactions. Pure: no clock, no engine.

use serde::Serialize;

/// The ending of a warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GateEnd {
    /// The pool was filled and every frame's worth of pages replaced once.
    PoolTurnover,
    /// Demand misses per transaction no longer change.
    FlatMisses,
    /// The warm-up reached its limit of transactions or time first: the measurement may not be steady.
    Cap,
    /// There is no pool to warm: the run did a fixed stretch.
    Fixed,
    /// The job asked for no warm-up: the window begins with the pool as opened.
    Cold,
}

/// The gate compares at least so many windows, the older half with the newer half.
const MIN_WINDOWS: usize = 20;
/// The compared windows must have replaced this part of the pool ...
const REPLACED_PART: u64 = 16;
/// A change by less than this share of the level is flat.
const FLAT_SHARE: f64 = 0.05;

/// The gate of one warm-up. Feed it the misses of every window, each of equally many transactions.
#[derive(Debug)]
pub struct Gate {
    frames: u64,
    window_transactions: u64,
    at_least: u64,
    misses: u64,
    /// Misses of every window, oldest first.
    windows: Vec<u64>,
}

impl Gate {
    /// Makes a gate for a pool of `frames`, fed every `window_transactions`, that stays shut for `at_least`
    /// transactions.
    #[must_use]
    pub fn new(frames: u64, window_transactions: u64, at_least: u64) -> Self {
        Gate { frames, window_transactions, at_least, misses: 0, windows: Vec::new() }
    }

    /// Takes the misses of reading tables before the first transaction. They fill the pool, and count for no window.
    pub fn prefill(&mut self, misses: u64) {
        self.misses += misses.min(self.frames);
    }

    /// Takes the demand misses of one more window; returns the ending of the warm-up if it has ended.
    pub fn window(&mut self, misses: u64) -> Option<GateEnd> {
        self.misses += misses;
        self.windows.push(misses);
        if (self.windows.len() as u64) * self.window_transactions < self.at_least {
            return None;
        }
        // Each miss takes a frame: the first `frames` of them fill the pool, the next turn it over.
        if self.misses >= 2 * self.frames {
            return Some(GateEnd::PoolTurnover);
        }
        self.last_span().is_some_and(is_flat).then_some(GateEnd::FlatMisses)
    }

    /// Returns the number of misses so far that count towards filling and turnover.
    #[must_use]
    pub fn misses(&self) -> u64 {
        self.misses
    }

    /// Returns as many of the latest windows as show a trend, if there are enough.
    ///
    /// A trend shows as pages are replaced, so the span grows with the pool. It has replaced a sixteenth of the frames,
    /// or, where misses are rare, it has as many transactions as there are frames.
    fn last_span(&self) -> Option<&[u64]> {
        let mut replaced = 0;
        for (length, &misses) in (1..).zip(self.windows.iter().rev()) {
            replaced += misses;
            let long =
                REPLACED_PART * replaced >= self.frames || length as u64 * self.window_transactions >= self.frames;
            if length >= MIN_WINDOWS && length % 2 == 0 && long {
                return Some(&self.windows[self.windows.len() - length..]);
            }
        }
        None
    }
}

/// Returns true when the newer half differs from the older by at most 5 % of the level, or by no more than chance
/// explains.
///
/// Counts of misses scatter like Poisson counts or more. The tolerance includes one standard error of the difference,
/// so that a level of a few misses a window can be flat at all.
fn is_flat(windows: &[u64]) -> bool {
    let (older, newer) = windows.split_at(windows.len() / 2);
    let (older, newer) = (older.iter().sum::<u64>(), newer.iter().sum::<u64>());
    let noise = ((older + newer) as f64).sqrt();
    older.abs_diff(newer) as f64 <= FLAT_SHARE * newer as f64 + noise
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end_of(frames: u64, misses: impl IntoIterator<Item = u64>) -> Option<(usize, GateEnd)> {
        let mut gate = Gate::new(frames, 500, 0);
        misses.into_iter().enumerate().find_map(|(window, misses)| Some((window, gate.window(misses)?)))
    }

    #[test]
    fn a_small_pool_is_warm_after_it_was_filled_and_turned_over() {
        // A steep fall, so that it is the turnover that ends it.
        assert_eq!(end_of(1000, (0..100).map(|k| 1000 - 100 * k)), Some((2, GateEnd::PoolTurnover)));
    }

    #[test]
    fn a_pool_that_never_fills_is_warm_when_misses_stop_falling() {
        let exponential = (0..).map(|k| (2000.0 * (-f64::from(k) / 8.0).exp()) as u64 + 40);
        let (window, end) = end_of(30_000, exponential.take(500)).expect("it ends");
        assert_eq!(end, GateEnd::FlatMisses);
        // After five time constants 0.7 % of the transient is left: 14 of 2000 beside a level of 40.
        assert!((40..120).contains(&window), "ended at window {window}");
    }

    #[test]
    fn a_larger_pool_is_watched_for_longer() {
        // The same relative drift, spread over ten times as many transactions.
        let drifting = |slowness: f64| (0..).map(move |k| (100.0 - 40.0 * (-f64::from(k) / slowness).exp()) as u64);
        let (small, _) = end_of(30_000, drifting(10.0).take(1000)).expect("it ends");
        let (large, _) = end_of(300_000, drifting(100.0).take(1000)).expect("it ends");
        assert!(large > 5 * small, "{large} windows against {small}");
    }

    #[test]
    fn steadily_falling_misses_are_not_flat() {
        assert_eq!(end_of(1_000_000, (0..80).map(|k| 10_000 - 120 * k)), None);
    }

    #[test]
    fn rising_misses_are_not_flat() {
        assert_eq!(end_of(1_000_000, (0..60).map(|k| 1_000 + 240 * k)), None);
    }

    #[test]
    fn a_pool_that_was_filled_before_still_has_to_turn_over_once() {
        let mut gate = Gate::new(1000, 500, 0);
        gate.prefill(50_000);
        assert_eq!(gate.window(999), None);
        assert_eq!(gate.window(1), Some(GateEnd::PoolTurnover));
    }

    #[test]
    fn a_pool_that_holds_everything_is_warm_when_nothing_has_been_missed_for_long() {
        let misses = [5, 3].into_iter().chain([0; 100]);
        // 30,000 transactions are 60 windows, and the two that missed must have left them.
        assert_eq!(end_of(30_000, misses), Some((61, GateEnd::FlatMisses)));
    }

    #[test]
    fn it_stays_shut_for_as_long_as_it_is_told() {
        let mut gate = Gate::new(100, 500, 2_000);
        let ends: Vec<_> = std::iter::repeat_n(500, 5).map(|misses| gate.window(misses)).collect();
        assert_eq!(ends, [None, None, None, Some(GateEnd::PoolTurnover), Some(GateEnd::PoolTurnover)]);
    }
}
