//! Several drivers, with a thread and a connection each. They run together for a part of a run (a segment), and then
//! are idle (they "stand still").
//!
//! When a segment begins and ends, every driver is between two transactions. A segment starts the drivers' threads and
//! waits until they have ended, so that no transaction is under way at the edges of a window. Meanwhile the drivers
//! share three things: the quota from which they claim transactions, a flag that ends the segment, and the scoreboard
//! to which they write their tallies when asked. The first failure ends the segment for all. An engine that runs inside
//! the thread of its only driver needs no other thread: see `inline`.

mod inline;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bufferlab_probe::{DriverThread, Reading};
use bufferlab_workload::client::{Client, ClientError};

use crate::counter::Counter;
use crate::driver::{Driver, Tally};
use crate::failure::Failure;
use crate::lock;
use crate::pacing::{Clock, Monotonic, wake_on_time};
use crate::quota::Quota;
use crate::sample_rows::Merged;
use crate::sampler::{Inside, Telling};

/// Time that drivers get to end their transaction after a request to stop. Then the segment interrupts their
/// statements.
const UNSTICK_AFTER: Duration = Duration::from_secs(2);

/// The scoreboard to which drivers write their tallies. It has the number of the sampler's last request for tallies
/// (its "question").
pub struct Scoreboard {
    asked: AtomicU64,
    steps: Vec<Counter>,
    transactions: Vec<Counter>,
    told: Mutex<Told>,
    changed: Condvar,
    cpu_ns: Arc<AtomicU64>,
}

struct Told {
    merged: Merged,
    /// The number of the last question that each driver has answered; none while the driver stands still.
    answered: Vec<Option<u64>>,
    /// The last answer of a driver whose thread runs the engine: the engine's counters and the driver's tallies, both
    /// of one moment. Other drivers leave it empty.
    answer: Vec<Reading>,
}

impl Scoreboard {
    fn new(subjects: &[Arc<str>], drivers: usize, is_open: bool, cpu_ns: Arc<AtomicU64>) -> Self {
        let counters = || std::iter::repeat_with(Counter::default).take(drivers).collect();
        let merged = Merged::new(subjects, drivers, is_open);
        Scoreboard {
            asked: AtomicU64::new(0),
            steps: counters(),
            transactions: counters(),
            told: Mutex::new(Told { merged, answered: vec![None; drivers], answer: Vec::new() }),
            changed: Condvar::new(),
            cpu_ns,
        }
    }

    /// Returns the number of transactions that all drivers have ended since they were made.
    pub fn transactions(&self) -> u64 {
        self.transactions.iter().map(Counter::get).sum()
    }

    /// Puts all drivers on the scoreboard. Returns the number of the last question, which they need not answer.
    fn enter(&self) -> u64 {
        let mut told = lock(&self.told);
        let asked = self.asked.load(Ordering::Relaxed);
        told.answered.fill(Some(asked));
        asked
    }

    /// Stores the driver's numbers of steps and of transactions, which other threads poll.
    fn count<C: Client, K: Clock>(&self, index: usize, driver: &Driver<C, K>) {
        self.steps[index].set(driver.steps());
        self.transactions[index].set(driver.transactions());
    }

    /// Writes the driver's tallies to the scoreboard as its answer to `question`. If the engine runs in the driver's
    /// thread, `engine` has its counters, and the answer contains both.
    fn tell<C: Client, K: Clock>(
        &self,
        index: usize,
        question: Option<u64>,
        driver: &mut Driver<C, K>,
        mut engine: Vec<Reading>,
    ) {
        self.count(index, driver);
        let mut told = lock(&self.told);
        driver.hand_over(index, &mut told.merged);
        told.answered[index] = question;
        if !engine.is_empty() {
            told.merged.sample(&mut engine);
            told.answer = engine;
        }
        drop(told);
        self.changed.notify_all();
    }
}

impl Telling for Scoreboard {
    fn steps(&self) -> u64 {
        self.steps.iter().map(Counter::get).sum()
    }

    fn sample(&self, deadline: Instant, out: &mut Vec<Reading>) {
        let mut told = lock(&self.told);
        // Discard a late answer to an earlier request for counts.
        told.answer.clear();
        let question = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        let patience = deadline.saturating_duration_since(Instant::now());
        let is_late = |told: &mut Told| told.answered.iter().flatten().any(|&answer| answer < question);
        told = self.changed.wait_timeout_while(told, patience, is_late).unwrap_or_else(PoisonError::into_inner).0;
        if told.answer.is_empty() {
            told.merged.sample(out);
        } else {
            out.append(&mut told.answer);
        }
    }
}

/// The reason why a segment ended without a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentEnd {
    /// The segment reached its end: its quota is used up, its time is over, or the caller needs no more transactions.
    Whole,
    /// The caller asked to stop.
    Cancelled,
}

/// The limits of a segment, in which drivers run until they stand still again: transactions, time, and a request to
/// stop.
pub struct Segment<'a> {
    /// The transactions that the drivers may still begin in the segment.
    pub quota: Quota,
    /// Drivers begin no transaction after this moment.
    pub deadline: Instant,
    /// A flag that the caller sets to stop the run.
    pub cancelled: &'a AtomicBool,
    /// A function that interrupts the statements of all drivers. The segment calls it every two seconds while they do
    /// not end by themselves.
    pub unstick: &'a (dyn Fn() + Sync),
}

/// The state that the threads of a segment share.
struct Shared<'a> {
    segment: &'a Segment<'a>,
    board: &'a Scoreboard,
    halt: AtomicBool,
    failed: Mutex<Option<ClientError>>,
}

impl Shared<'_> {
    fn is_over(&self) -> bool {
        self.halt.load(Ordering::Relaxed) || self.segment.cancelled.load(Ordering::Relaxed)
    }

    fn running(&self) -> bool {
        lock(&self.board.told).answered.iter().any(Option::is_some)
    }
}

/// The drivers of one workload.
pub struct Drivers<C: Client, K: Clock = Monotonic> {
    drivers: Vec<Driver<C, K>>,
    board: Arc<Scoreboard>,
    place: String,
    lost_hint: &'static str,
}

impl<C: Client + Send, K: Clock + Send> Drivers<C, K> {
    /// Makes a group of the drivers of one workload. `place` names their engine in messages, `lost_hint` is the advice
    /// when the engine is gone. The drivers' threads add their processor time to `cpu_ns`.
    ///
    /// # Panics
    /// Without any driver.
    pub fn new(drivers: Vec<Driver<C, K>>, place: &str, lost_hint: &'static str, cpu_ns: Arc<AtomicU64>) -> Self {
        assert!(!drivers.is_empty(), "a run has at least one driver");
        let board = Scoreboard::new(drivers[0].subjects(), drivers.len(), drivers[0].is_open(), cpu_ns);
        Drivers { drivers, board: Arc::new(board), place: place.to_owned(), lost_hint }
    }

    /// Returns the failure of the run after a driver's error. If a private server has died, the run reports how its
    /// process ended (python/bufferlab/engines/servers/private_server.py), and this failure is only among the causes.
    fn failure(&self, error: &ClientError) -> Failure {
        Failure::from_client(error, &self.place, self.lost_hint)
    }

    /// Returns the scoreboard to which the drivers write their tallies.
    pub fn board(&self) -> Arc<Scoreboard> {
        Arc::clone(&self.board)
    }

    /// Returns the drivers. Call it only while they are idle.
    pub fn each(&self) -> impl Iterator<Item = &Driver<C, K>> {
        self.drivers.iter()
    }

    /// Calls `each` with every driver's client, one after the other, while the drivers are idle.
    ///
    /// # Errors
    /// The error of the first client that fails.
    pub fn with_clients(&mut self, mut each: impl FnMut(&mut C) -> Result<(), ClientError>) -> Result<(), Failure> {
        let done = self.drivers.iter_mut().try_for_each(|driver| each(driver.client_mut()));
        done.map_err(|error| self.failure(&error))
    }

    /// Returns true in an open loop, in which transactions arrive on a schedule.
    pub fn is_open(&self) -> bool {
        self.drivers[0].is_open()
    }

    /// Returns the number of drivers.
    pub fn count(&self) -> usize {
        self.drivers.len()
    }

    /// Returns the tally of each transaction type with the type's name, summed over all drivers.
    pub fn tallies(&self) -> Vec<(String, Tally)> {
        let mut all: Vec<(String, Tally)> = Vec::new();
        for driver in &self.drivers {
            for (index, (name, tally)) in driver.tallies().enumerate() {
                match all.get_mut(index) {
                    Some((_, sum)) => sum.merge(tally),
                    None => all.push((name.to_owned(), tally.clone())),
                }
            }
        }
        all
    }

    /// Begins the measured window of every driver.
    pub fn begin_window(&mut self) {
        for driver in &mut self.drivers {
            driver.begin_window();
        }
        lock(&self.board.told).merged.begin_window();
    }

    /// Starts the clock of every schedule, if there are schedules.
    pub fn start_arrivals(&mut self) {
        for driver in &mut self.drivers {
            driver.start_arrivals();
        }
    }

    /// Executes the reads that the workload does before the warm-up, driver by driver and step by step. If the engine
    /// runs in the driver's thread, the driver answers the sampler after each step.
    ///
    /// # Errors
    /// The client's error.
    pub fn prefill(&mut self, cancelled: &AtomicBool, inside: Option<&mut dyn Inside>) -> Result<SegmentEnd, Failure> {
        if let Some(inside) = inside {
            return self.inline(cancelled, inside, |driver, answers| {
                prefill(driver, cancelled, &mut |driver| answers.give(driver))
            });
        }
        let outcome = self.drivers.iter_mut().try_for_each(|driver| prefill(driver, cancelled, &mut |_| {}));
        self.ended(outcome.err(), cancelled)
    }

    /// Runs all drivers until the segment is over. Every `interval` the calling thread passes the number of ended
    /// transactions to `enough`, which returns true to end the segment.
    ///
    /// # Errors
    /// The first error of any driver, else the error of `enough`. All drivers have ended when this returns.
    pub fn run(
        &mut self,
        segment: &Segment<'_>,
        interval: Duration,
        enough: &mut dyn FnMut(u64) -> Result<bool, Failure>,
    ) -> Result<SegmentEnd, Failure> {
        let board = Arc::clone(&self.board);
        let shared = Shared { segment, board: &board, halt: AtomicBool::new(false), failed: Mutex::new(None) };
        board.enter();
        let (watched, panicked) = std::thread::scope(|scope| {
            let threads: Vec<_> = self
                .drivers
                .iter_mut()
                .enumerate()
                .map(|(index, driver)| {
                    scope.spawn({
                        let shared = &shared;
                        move || drive(index, driver, shared)
                    })
                })
                .collect();
            let watched = watch(&shared, interval, enough);
            let ended: Vec<_> = threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
            (watched, ended.into_iter().find_map(Result::err))
        });
        if let Some(panic) = panicked {
            std::panic::resume_unwind(panic);
        }
        let failed = lock(&shared.failed).take();
        if failed.is_none() {
            watched?;
        }
        self.ended(failed, segment.cancelled)
    }

    /// Returns why a segment ended, or the failure of a driver in it.
    fn ended(&self, failed: Option<ClientError>, cancelled: &AtomicBool) -> Result<SegmentEnd, Failure> {
        match failed {
            // The request to stop interrupted a statement: the engine has not failed.
            _ if cancelled.load(Ordering::Relaxed) => Ok(SegmentEnd::Cancelled),
            Some(error) => Err(self.failure(&error)),
            None => Ok(SegmentEnd::Whole),
        }
    }
}

/// Executes a driver's prefill until its end, or until `cancelled` is set; calls `after` after each step.
fn prefill<C: Client, K: Clock>(
    driver: &mut Driver<C, K>,
    cancelled: &AtomicBool,
    after: &mut dyn FnMut(&mut Driver<C, K>),
) -> Result<(), ClientError> {
    while !cancelled.load(Ordering::Relaxed) && driver.prefill_step()? {
        after(driver);
    }
    Ok(())
}

/// Calls `enough` every `interval` until it returns true, then makes sure that every driver ends. It runs on the
/// calling thread.
fn watch(
    shared: &Shared<'_>,
    interval: Duration,
    enough: &mut dyn FnMut(u64) -> Result<bool, Failure>,
) -> Result<(), Failure> {
    let mut outcome = Ok(());
    let mut next = Instant::now() + interval;
    let (mut over_since, mut has_enough) = (None, false);
    while shared.running() {
        wait(shared.board, if shared.is_over() { Instant::now() + Duration::from_millis(50) } else { next });
        if shared.is_over() {
            // If the caller only needs no more transactions, as at a window's end, let the running transactions end.
            // Interrupting a transaction would fail the run.
            let must_stop = shared.segment.cancelled.load(Ordering::Relaxed) || lock(&shared.failed).is_some();
            if has_enough && !must_stop {
                continue;
            }
            let since = *over_since.get_or_insert_with(Instant::now);
            if since.elapsed() > UNSTICK_AFTER {
                (shared.segment.unstick)();
                over_since = Some(Instant::now());
            }
        } else if Instant::now() >= next {
            match enough(shared.board.transactions()) {
                Ok(false) => {}
                Ok(true) => {
                    has_enough = true;
                    shared.halt.store(true, Ordering::Relaxed);
                }
                Err(failure) => {
                    outcome = Err(failure);
                    shared.halt.store(true, Ordering::Relaxed);
                }
            }
            next = Instant::now() + interval;
        }
    }
    outcome
}

/// Waits until a driver writes to the scoreboard, or until the moment `until`.
fn wait(board: &Scoreboard, until: Instant) {
    let told = lock(&board.told);
    if told.answered.iter().any(Option::is_some) {
        let left = until.saturating_duration_since(Instant::now());
        drop(board.changed.wait_timeout(told, left).unwrap_or_else(PoisonError::into_inner));
    }
}

/// A guard of a driver's thread. When the thread ends, the guard takes the driver off the board; if the thread
/// panicked, it ends the segment for all drivers.
struct Leaving<'a> {
    shared: &'a Shared<'a>,
    index: usize,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared.halt.store(true, Ordering::Relaxed);
        }
        lock(&self.shared.board.told).answered[self.index] = None;
        self.shared.board.changed.notify_all();
    }
}

/// Runs one driver until the segment is over. It is the body of the driver's thread.
fn drive<C: Client, K: Clock>(index: usize, driver: &mut Driver<C, K>, shared: &Shared<'_>) {
    let leaving = Leaving { shared, index };
    if driver.is_open() {
        wake_on_time();
    }
    let thread = DriverThread::current();
    let mut cpu_ns = thread.cpu_ns().unwrap_or(0);
    let board = shared.board;
    let mut add_cpu = || {
        let now_ns = thread.cpu_ns().unwrap_or(cpu_ns);
        board.cpu_ns.fetch_add(now_ns - cpu_ns, Ordering::Relaxed);
        cpu_ns = now_ns;
    };
    let (mut claimed, mut answered) = (0, board.asked.load(Ordering::Relaxed));
    while !shared.is_over() {
        let question = board.asked.load(Ordering::Relaxed);
        if question != answered {
            answered = question;
            add_cpu();
            board.tell(index, Some(question), driver, Vec::new());
        }
        if Instant::now() >= shared.segment.deadline {
            break;
        }
        if driver.due_in().is_some() {
            driver.wait();
            continue;
        }
        if claimed == 0 {
            claimed = shared.segment.quota.claim();
        }
        if claimed == 0 {
            break;
        }
        claimed -= 1;
        if let Err(error) = driver.step() {
            lock(&shared.failed).get_or_insert(error);
            shared.halt.store(true, Ordering::Relaxed);
            driver.abandon();
            break;
        }
        board.count(index, driver);
    }
    add_cpu();
    board.tell(index, Some(answered), driver, Vec::new());
    drop(leaving);
}

#[cfg(test)]
#[path = "drivers/tests.rs"]
mod tests;
