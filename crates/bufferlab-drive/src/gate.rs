//! The warm-up gate: decides online when a pool is warm, from counts alone.
//!
//! A pool smaller than what the workload touches is warm when it has been filled and turned over once: everything in
//! it was then chosen by the replacement policy under load. A pool larger than that never turns over; it is warm
//! when demand misses no longer move (what is left are compulsory misses of a growing database). Filling may happen
//! ahead of the transactions, by reading the tables once. Pure: no clock, no engine.

use serde::Serialize;

/// How a warm-up ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GateEnd {
    /// The pool was filled and every frame's worth of pages replaced once.
    PoolTurnover,
    /// Demand misses per transaction no longer move.
    FlatMisses,
    /// The limit of transactions or time was reached first: the measurement may not be steady.
    Cap,
    /// There is no pool to be warmed: a fixed stretch was run.
    Fixed,
    /// No warm-up was asked for: the window begins with the pool as it was opened.
    Cold,
}

/// Fewest windows that are compared, older half against newer half.
const MIN_WINDOWS: usize = 20;
/// The compared windows must have replaced this part of the pool ...
const REPLACED_PART: u64 = 16;
/// A change by less than this share of the level counts as flat.
const FLAT_SHARE: f64 = 0.05;

/// Watches the misses of a warm-up. Feed it after every window of equally many transactions.
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

    /// Takes the misses of reading tables into the pool before the first transaction: they fill it, and no more.
    pub fn prefill(&mut self, misses: u64) {
        self.misses += misses.min(self.frames);
    }

    /// Takes the demand misses of one more window; answers how the warm-up ended, if it has.
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

    /// Returns the latest windows that are long enough to show a trend, if there are enough of them.
    ///
    /// A trend shows as pages are replaced, so the span grows with the pool: it has replaced a sixteenth of the frames,
    /// or, where hardly anything is missed, it has as many transactions as there are frames.
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

/// The newer half differs from the older by no more than 5 % of the level, or than chance explains.
///
/// Counts of misses scatter like Poisson counts or more; one standard error of the difference is added to the
/// tolerance, so that a level of a few misses a window can be called flat at all.
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
