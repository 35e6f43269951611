//! Runs the only driver of an engine that runs inside the driver's thread, as SQLite does. The calling thread is the
//! driver's thread.
//!
//! After each transaction the driver loads one flag. If the sampler has asked, the driver writes the engine's counters
//! and its tallies to the scoreboard. So threads share nothing on the hot path, and all counters of a sample are of one
//! moment between two transactions. The driver polls the gate exactly at the end of each of the gate's windows, so runs
//! with equal seeds have warm-ups of equally many transactions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use bufferlab_workload::client::{Client, ClientError};

use super::{Drivers, Scoreboard, Segment, SegmentEnd};
use crate::driver::Driver;
use crate::failure::Failure;
use crate::gate_feed::{GATE_WINDOW, GateFeed};
use crate::pacing::{Clock, wake_on_time};
use crate::sampler::Inside;

/// Transactions between two readings of the clock, unless one of them is long. This is enough because a segment rarely
/// ends by its time limit.
const CLOCK_LOOK: u64 = 64;
/// The place of the only driver on the scoreboard.
const ONLY: usize = 0;

/// Answers the sampler's requests for the driver, while the driver is on the scoreboard.
pub(super) struct Answers<'a> {
    board: &'a Scoreboard,
    inside: &'a mut dyn Inside,
    answered: u64,
}

impl Answers<'_> {
    /// Answers the sampler if it has asked; otherwise costs one load of a flag.
    #[inline]
    pub(super) fn give<C: Client, K: Clock>(&mut self, driver: &mut Driver<C, K>) {
        let question = self.board.asked.load(Ordering::Relaxed);
        if question != self.answered {
            self.answered = question;
            let mut engine = Vec::with_capacity(64);
            self.inside.counters(&mut engine);
            self.board.tell(ONLY, Some(question), driver, engine);
        }
    }
}

impl<C: Client + Send, K: Clock + Send> Drivers<C, K> {
    /// Runs the only driver on this thread until the segment is over or the warm-up's gate opens.
    ///
    /// # Errors
    /// The driver's error.
    pub fn run_inline(
        &mut self,
        segment: &Segment<'_>,
        inside: &mut dyn Inside,
        feed: Option<&mut GateFeed>,
    ) -> Result<SegmentEnd, Failure> {
        self.inline(segment.cancelled, inside, |driver, answers| steps(segment, driver, answers, feed))
    }

    /// Puts the driver on the scoreboard, calls `drive` with it, and returns the segment's ending.
    pub(super) fn inline(
        &mut self,
        cancelled: &AtomicBool,
        inside: &mut dyn Inside,
        drive: impl FnOnce(&mut Driver<C, K>, &mut Answers<'_>) -> Result<(), ClientError>,
    ) -> Result<SegmentEnd, Failure> {
        let board = Arc::clone(&self.board);
        let mut answers = Answers { board: &board, inside, answered: board.enter() };
        let driver = &mut self.drivers[ONLY];
        let outcome = drive(driver, &mut answers);
        if outcome.is_ok() {
            answers.give(driver);
        }
        // Do not read the engine's counters here: reading them accesses pages, and only samples may do so.
        board.tell(ONLY, None, driver, Vec::new());
        self.ended(outcome.err(), cancelled)
    }
}

/// Executes transactions until their number or the time is used up, the warm-up's gate opens, or the user asks to stop.
fn steps<C: Client, K: Clock>(
    segment: &Segment<'_>,
    driver: &mut Driver<C, K>,
    answers: &mut Answers<'_>,
    mut feed: Option<&mut GateFeed>,
) -> Result<(), ClientError> {
    if driver.is_open() {
        wake_on_time();
    }
    let is_cancelled = || segment.cancelled.load(Ordering::Relaxed);
    let is_late = || Instant::now() >= segment.deadline;
    let total = segment.quota.claim_all();
    for done in 1..=total {
        while driver.due_in().is_some() {
            driver.wait();
            answers.give(driver);
            if is_cancelled() || is_late() {
                return Ok(());
            }
        }
        driver.step()?;
        answers.give(driver);
        // A warm-up that has used up its transactions has reached its cap; do not poll the gate then.
        if is_cancelled() || done == total {
            break;
        }
        if done % GATE_WINDOW == 0
            && let Some(feed) = &mut feed
            && feed.look(done, answers.inside.counted()).is_some()
        {
            break;
        }
        if (done % CLOCK_LOOK == 0 || driver.was_long()) && is_late() {
            break;
        }
    }
    Ok(())
}
