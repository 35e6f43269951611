//! The gate at the end of a warm-up. It decides during the run, only from counts, when a pool is warm, and then
//! "opens".
//!
//! A pool smaller than the set of touched pages is warm when reads have filled it and replaced every page once. The
//! replacement policy has then chosen each page under load. In a larger pool reads become too rare to replace every
//! page. It is warm when demand misses per transaction no longer change; the remaining misses are compulsory misses of
//! a growing database. A pool that is larger than the touched pages is warm when reads bring no new page. A prefill,
//! which reads the tables once, may fill the pool ahead of the transactions. This file uses no clock and no engine.
//!
//! While a pool fills, each miss is the first get of a page, and misses fall to the level at which the pool is full
//! (Denning and Schwartz, "Properties of the working-set model", 1972). Once it is full, they fall further while the
//! pages of the server's start leave it. Both falls may be too slow for the gate to see. So a job can ask the gate to
//! wait for a pool that reads will turn over soon.

use serde::{Deserialize, Serialize};

/// The reason why a warm-up ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GateEnd {
    /// Reads filled the pool, and then replaced as many pages as it has frames.
    PoolTurnover,
    /// Demand misses per transaction no longer change.
    FlatMisses,
    /// The pool holds every page that the workload touches: reads bring no page that the pool has not held before.
    NoNewPages,
    /// The warm-up reached its limit of transactions or time first: the measurement may not be steady.
    Cap,
    /// The run has no pool to warm: its warm-up had only a limit.
    Fixed,
    /// The job asked for no warm-up: the window begins with the pool as it is when the engine has opened.
    Cold,
}

impl GateEnd {
    /// Returns the reason's name in run.json.
    pub fn name(self) -> &'static str {
        match self {
            GateEnd::PoolTurnover => "pool_turnover",
            GateEnd::FlatMisses => "flat_misses",
            GateEnd::NoNewPages => "no_new_pages",
            GateEnd::Cap => "cap",
            GateEnd::Fixed => "fixed",
            GateEnd::Cold => "cold",
        }
    }
}

/// The conditions for which a warm-up's gate waits before it may open.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct Patience {
    /// The least number of transactions before the gate may open, for workloads in which more than the pool must become
    /// warm.
    #[serde(rename = "min_transactions", default)]
    pub at_least: u64,
    /// If misses were first flat after N transactions, the gate waits for a turnover that comes, at the present rate of
    /// misses, before the end of `turnover_within` * N transactions. With zero or one it does not wait.
    #[serde(default)]
    pub turnover_within: u64,
    /// The least number of transactions before the gate may open, because updates move rows until then. If the warm-up
    /// reaches its limit before this number, it ends for the gate's earlier reason; with `at_least` it does not.
    #[serde(default)]
    pub settle_transactions: u64,
}

/// The least number of windows that the warm-up's gate compares, the older half with the newer half.
const MIN_WINDOWS: usize = 20;
/// The compared windows must have replaced a sixteenth of the pool, or have as many transactions as it has frames.
const REPLACED_PART: u64 = 16;
/// Misses count as flat if they change by at most this fraction of their level.
const FLAT_SHARE: f64 = 0.05;

/// The counts of one window, that is, of equally many transactions of a warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Demand misses in the window.
    pub misses: u64,
    /// Pages that the pool dropped because their content was no longer valid, as after a rollback in `SQLite`. Their
    /// next gets are misses in a pool of any size.
    pub dropped: u64,
}

impl Window {
    /// Returns a window with this number of misses, for an engine that drops no pages.
    pub fn of(misses: u64) -> Self {
        Window { misses, dropped: 0 }
    }
}

/// The gate of one warm-up. Feed it the counts of every window, each of equally many transactions.
#[derive(Debug)]
pub struct Gate {
    frames: u64,
    window_transactions: u64,
    patience: Patience,
    misses: u64,
    /// The counts of every window so far, oldest first.
    windows: Vec<Window>,
    /// The number of windows after which misses were first flat; none before that.
    first_flat: Option<usize>,
    /// The latest reason for which the gate would have opened, had it not waited for turnover or updates.
    reason: Option<GateEnd>,
}

impl Gate {
    /// Makes a warm-up's gate for a pool of `frames` frames. The gate takes counts every `window_transactions`
    /// transactions.
    pub fn new(frames: u64, window_transactions: u64, patience: Patience) -> Self {
        assert!(window_transactions > 0, "a window of the gate has transactions");
        let windows = Vec::new();
        Gate { frames, window_transactions, patience, misses: 0, windows, first_flat: None, reason: None }
    }

    /// Notes the misses of the prefill, which reads tables before the first transaction. They fill the pool, and belong
    /// to no window.
    pub fn prefill(&mut self, misses: u64) {
        assert!(self.windows.is_empty(), "tables are read before the first of {} windows", self.windows.len());
        self.misses += misses.min(self.frames);
    }

    /// Takes the counts of one more window. Returns the reason why the warm-up ends, if it now ends.
    pub fn window(&mut self, window: Window) -> Option<GateEnd> {
        self.misses += window.misses;
        self.windows.push(window);
        let end = self.end()?;
        if end == GateEnd::FlatMisses {
            self.first_flat.get_or_insert(self.windows.len());
        }
        if self.transactions() < self.patience.at_least {
            return None;
        }
        self.reason = Some(end);
        let waits = end == GateEnd::FlatMisses && self.turns_over_soon();
        (!waits && self.transactions() >= self.patience.settle_transactions).then_some(end)
    }

    /// Returns the reason for which a warm-up at its limit ends: the latest for which the gate would have opened, had it
    /// not waited for turnover or updates, or else the limit. Misses may have changed again since.
    pub fn at_limit(&self) -> GateEnd {
        self.reason.unwrap_or(GateEnd::Cap)
    }

    /// Returns the number of transactions in all windows so far.
    fn transactions(&self) -> u64 {
        self.windows.len() as u64 * self.window_transactions
    }

    /// Returns the reason for which the windows so far would end the warm-up; none if they would not.
    fn end(&self) -> Option<GateEnd> {
        // Each miss takes a frame: the first `frames` of them fill the pool, the next turn it over.
        if self.misses >= 2 * self.frames {
            return Some(GateEnd::PoolTurnover);
        }
        if self.last_span().is_some_and(is_flat) {
            return Some(GateEnd::FlatMisses);
        }
        self.brought_no_new_page().then_some(GateEnd::NoNewPages)
    }

    /// Returns true when the misses of the latest span turn the pool over within the time that the gate waits.
    fn turns_over_soon(&self) -> bool {
        let missing = (2 * self.frames).saturating_sub(self.misses);
        let within = self.patience.turnover_within.saturating_mul(self.first_flat.unwrap_or_default() as u64);
        let left = within.saturating_sub(self.windows.len() as u64);
        self.last_span().is_some_and(|span| sums(span).0 as f64 / span.len() as f64 * left as f64 >= missing as f64)
    }

    /// Returns the number of demand misses that count towards filling and turnover of the pool. These are the
    /// prefill's, at most one for each frame, and those of the warm-up's whole windows.
    pub fn misses(&self) -> u64 {
        self.misses
    }

    /// Returns the latest windows, as many as are needed to see a trend; none while there are too few.
    ///
    /// A trend becomes visible as pages are replaced, so a larger pool needs a longer span. In the span misses have
    /// replaced a sixteenth of the frames, or, if misses are rare, as many transactions have ended as there are frames.
    fn last_span(&self) -> Option<&[Window]> {
        let mut replaced = 0;
        for (length, window) in (1..).zip(self.windows.iter().rev()) {
            replaced += window.misses;
            let long =
                REPLACED_PART * replaced >= self.frames || length as u64 * self.window_transactions >= self.frames;
            if length >= MIN_WINDOWS && length % 2 == 0 && long {
                return Some(&self.windows[self.windows.len() - length..]);
            }
        }
        None
    }

    /// Returns true when reads in the latest 20 windows brought no pages but those that the pool had dropped itself.
    ///
    /// Such a pool shows no trend, however large it is, so the number of windows need not grow with it. Pages that the
    /// workload creates take frames, but no read. The tolerance is one standard error of the counts, because a page may
    /// be dropped before these windows and read in them. It allows one stray read.
    fn brought_no_new_page(&self) -> bool {
        let Some(first) = self.windows.len().checked_sub(MIN_WINDOWS) else {
            return false;
        };
        let (misses, dropped) = sums(&self.windows[first..]);
        misses.saturating_sub(dropped) as f64 <= ((misses + dropped) as f64).sqrt()
    }
}

/// Returns the sums of the misses and of the dropped pages of some windows.
fn sums(windows: &[Window]) -> (u64, u64) {
    windows.iter().fold((0, 0), |(misses, dropped), window| (misses + window.misses, dropped + window.dropped))
}

/// Returns true when the misses of the newer half of the windows differ from those of the older half by at most 5 % or
/// by no more than chance.
///
/// Counts of misses scatter like Poisson counts or more. The tolerance includes one standard error of the difference,
/// so that also a level of a few misses per window can be flat.
fn is_flat(windows: &[Window]) -> bool {
    assert!(
        windows.len() >= MIN_WINDOWS && windows.len().is_multiple_of(2),
        "{} windows have no halves",
        windows.len()
    );
    let (older, newer) = windows.split_at(windows.len() / 2);
    let ((older, _), (newer, _)) = (sums(older), sums(newer));
    let noise = ((older + newer) as f64).sqrt();
    older.abs_diff(newer) as f64 <= FLAT_SHARE * newer as f64 + noise
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end_of(frames: u64, misses: impl IntoIterator<Item = u64>) -> Option<(usize, GateEnd)> {
        let mut gate = Gate::new(frames, 500, Patience::default());
        misses.into_iter().enumerate().find_map(|(window, misses)| Some((window, gate.window(Window::of(misses))?)))
    }

    #[test]
    fn a_small_pool_is_warm_after_it_was_filled_and_turned_over() {
        // The misses fall steeply, so that the turnover ends the warm-up and not flat misses.
        assert_eq!(end_of(1000, (0..100).map(|k| 1000 - 100 * k)), Some((2, GateEnd::PoolTurnover)));
    }

    #[test]
    fn a_pool_that_never_fills_is_warm_when_misses_stop_falling() {
        let exponential = (0..).map(|k| (2000.0 * (-f64::from(k) / 8.0).exp()) as u64 + 40);
        let (window, end) = end_of(30_000, exponential.take(500)).expect("it ends");
        assert_eq!(end, GateEnd::FlatMisses);
        // After five time constants 0.7 % of the transient is left: 14 misses of 2000, on a level of 40.
        assert!((40..120).contains(&window), "ended at window {window}");
    }

    #[test]
    fn a_pool_that_reads_turn_over_soon_is_waited_for_if_asked() {
        // Misses that fall by 2 % in twenty windows look flat after twenty windows. At that moment almost three quarters of the
        // 7,500 frames are empty.
        let slow = |k: i32| (100.0 * (-f64::from(k) / 1000.0).exp()) as u64;
        let ends = |turnover_within, frames| {
            let mut gate = Gate::new(frames, 500, Patience { turnover_within, ..Patience::default() });
            (0..400).find_map(|k| Some((k, gate.window(Window::of(slow(k)))?)))
        };
        assert_eq!(ends(0, 7_500), Some((19, GateEnd::FlatMisses)));
        assert_eq!(ends(7, 7_500), Some((19, GateEnd::FlatMisses)));
        assert_eq!(ends(16, 7_500), Some((163, GateEnd::PoolTurnover)));
        // With 15,000 frames the gate first waits, but misses fall until the turnover can no longer come in time.
        let (window, end) = ends(16, 15_000).expect("it ends");
        assert_eq!(end, GateEnd::FlatMisses);
        assert!((20..320).contains(&window), "ended at window {window}");
    }

    #[test]
    fn a_limit_reached_while_it_waits_for_the_turnover_is_no_cap() {
        let mut gate = Gate::new(7_500, 500, Patience { turnover_within: 16, ..Patience::default() });
        assert_eq!(gate.at_limit(), GateEnd::Cap);
        (0..20).for_each(|_| assert_eq!(gate.window(Window::of(100)), None));
        assert_eq!(gate.at_limit(), GateEnd::FlatMisses);
    }

    #[test]
    fn a_longest_wait_counts_from_the_first_flat_misses_and_not_from_the_least_warm_up() {
        let patience = Patience { at_least: 50_000, turnover_within: 2, ..Patience::default() };
        let mut gate = Gate::new(20_000, 500, patience);
        // Flat after 20 windows: the wait ends after 40, and only `at_least` keeps the gate shut for 100.
        let end = (1..).find_map(|window| Some((window, gate.window(Window::of(100))?)));
        assert_eq!(end, Some((100, GateEnd::FlatMisses)));
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
        let mut gate = Gate::new(1000, 500, Patience::default());
        gate.prefill(50_000);
        assert_eq!(gate.window(Window::of(999)), None);
        assert_eq!(gate.window(Window::of(1)), Some(GateEnd::PoolTurnover));
    }

    #[test]
    fn a_pool_that_holds_everything_is_warm_when_reads_have_brought_nothing_for_twenty_windows() {
        let misses = [5, 3].into_iter().chain([0; 200]);
        // At any size of the pool, the gate opens once the two windows with misses have left the span.
        assert_eq!(end_of(30_000, misses.clone()), Some((21, GateEnd::NoNewPages)));
        assert_eq!(end_of(30_000_000, misses), Some((21, GateEnd::NoNewPages)));
    }

    #[test]
    fn one_stray_read_in_twenty_windows_does_not_keep_it_shut_and_one_in_ten_does() {
        let every = |windows: u64| (0..200).map(move |k| u64::from(k % windows == 3));
        assert_eq!(end_of(30_000_000, every(20)), Some((19, GateEnd::NoNewPages)));
        assert_eq!(end_of(30_000_000, every(10)), None);
    }

    #[test]
    fn reads_of_pages_that_the_pool_dropped_itself_bring_nothing_new() {
        let end = |dropped: u64| {
            let mut gate = Gate::new(30_000_000, 500, Patience::default());
            (0..200).find_map(|window| Some((window, gate.window(Window { misses: 40, dropped })?)))
        };
        assert_eq!(end(40), Some((19, GateEnd::NoNewPages)));
        // In each window the pool drops 30 pages, so ten of the 40 misses bring other pages.
        assert_eq!(end(30), None);
    }

    proptest::proptest! {
        #[test]
        fn it_opens_in_the_window_in_which_a_slow_reckoning_says_so(
            frames in 1_u64..200_000,
            at_least in 0_u64..40_000,
            turnover_within in 0_u64..10,
            settle_transactions in 0_u64..40_000,
            counts in proptest::collection::vec((0_u64..60, 0_u64..60), 1..120),
        ) {
            let patience = Patience { at_least, turnover_within, settle_transactions };
            let mut gate = Gate::new(frames, 500, patience);
            for (count, &(misses, dropped)) in (1..).zip(&counts) {
                let end = gate.window(Window { misses, dropped });
                assert_eq!(end, naive(frames, patience, &counts[..count]), "in window {count}");
                if end.is_some() {
                    break;
                }
            }
        }
    }

    /// Returns the mean misses of a window in the span that would show a trend; none if the span shows one.
    fn flat_level(frames: u64, windows: &[(u64, u64)]) -> Option<f64> {
        let misses = |from: usize, to: usize| windows[from..to].iter().map(|&(misses, _)| misses).sum::<u64>();
        let count = windows.len();
        let shows_a_trend =
            |&length: &usize| 16 * misses(count - length, count) >= frames || length as u64 * 500 >= frames;
        let length = (20..=count).step_by(2).find(shows_a_trend)?;
        let (older, newer) = (misses(count - length, count - length / 2), misses(count - length / 2, count));
        let is_flat = (older as f64 - newer as f64).abs() <= 0.05 * newer as f64 + ((older + newer) as f64).sqrt();
        is_flat.then(|| (older + newer) as f64 / length as f64)
    }

    /// Applies the gate's rules as the comments above state them, each over all windows so far.
    fn naive(frames: u64, patience: Patience, windows: &[(u64, u64)]) -> Option<GateEnd> {
        let end = without_waiting(frames, windows)?;
        let count = windows.len();
        let read = windows.iter().map(|&(misses, _)| misses).sum::<u64>();
        if let (GateEnd::FlatMisses, Some(level)) = (end, flat_level(frames, windows)) {
            let is_flat = |&some: &usize| without_waiting(frames, &windows[..some]) == Some(GateEnd::FlatMisses);
            let first = (1..=count).find(is_flat)? as u64;
            // The same expression as the gate's, since numbers of two roundings may differ where both are equal.
            let left = (patience.turnover_within * first).saturating_sub(count as u64);
            if level * left as f64 >= (2 * frames - read) as f64 {
                return None;
            }
        }
        (count as u64 * 500 >= patience.settle_transactions.max(patience.at_least)).then_some(end)
    }

    fn without_waiting(frames: u64, windows: &[(u64, u64)]) -> Option<GateEnd> {
        let count = windows.len();
        if windows.iter().map(|&(misses, _)| misses).sum::<u64>() >= 2 * frames {
            return Some(GateEnd::PoolTurnover);
        }
        if flat_level(frames, windows).is_some() {
            return Some(GateEnd::FlatMisses);
        }
        let span = &windows[count.checked_sub(20)?..];
        let (read, dropped) = span.iter().fold((0, 0), |(read, dropped), window| (read + window.0, dropped + window.1));
        (read as f64 - dropped as f64 <= f64::from((read + dropped) as u32).sqrt()).then_some(GateEnd::NoNewPages)
    }

    #[test]
    fn updates_are_waited_for_unless_the_limit_comes_first() {
        let mut gate = Gate::new(1_000, 500, Patience { settle_transactions: 2_000, ..Patience::default() });
        let ends: Vec<_> = std::iter::repeat_n(Window::of(1_000), 3).map(|window| gate.window(window)).collect();
        assert_eq!(ends, [None, None, None]);
        assert_eq!(gate.at_limit(), GateEnd::PoolTurnover);
        assert_eq!(gate.window(Window::of(1_000)), Some(GateEnd::PoolTurnover));
    }

    #[test]
    fn it_stays_shut_for_as_long_as_it_is_told() {
        let mut gate = Gate::new(100, 500, Patience { at_least: 2_000, ..Patience::default() });
        let ends: Vec<_> = std::iter::repeat_n(Window::of(500), 5).map(|window| gate.window(window)).collect();
        assert_eq!(ends, [None, None, None, Some(GateEnd::PoolTurnover), Some(GateEnd::PoolTurnover)]);
    }
}
