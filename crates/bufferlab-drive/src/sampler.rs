//! The sampler thread: once a second it reads the host's probes and asks the driver for the engine's counters.
//!
//! Engine counters belong to the driver's thread, which looks at one flag after each transaction and answers there;
//! so nothing is shared on the hot path, and every row of engine counters is one moment between two transactions.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bufferlab_probe::Reading;

use crate::event::{Event, Phase, Sink};
use crate::probes::Probes;

/// The driver's answer to the sampler.
#[derive(Debug)]
pub struct Answer {
    /// Its readings.
    pub readings: Vec<Reading>,
    /// The phase it is in.
    pub phase: Phase,
    /// Transactions done in the phase, and of how many.
    pub progress: (u64, u64),
}

/// The mailbox between the sampler and the driver.
#[derive(Default)]
pub struct Mailbox {
    requested: AtomicBool,
    stopped: AtomicBool,
    answer: Mutex<Option<Answer>>,
    wake: Condvar,
    /// The phase of samples that the driver does not answer.
    phase: Mutex<Phase>,
}

/// Locks a mutex whose holders never leave it half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Mailbox {
    /// Returns true when the sampler waits for an answer. One relaxed load, since the driver asks after every
    /// transaction.
    #[inline]
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.requested.load(Ordering::Relaxed)
    }

    /// Gives the driver's answer to the sampler.
    pub fn answer(&self, answer: Answer) {
        self.requested.store(false, Ordering::Relaxed);
        *lock(&self.answer) = Some(answer);
        self.wake.notify_all();
    }

    /// Tells the sampler that the driver enters a phase. Call it before a long statement, not after it.
    pub fn enter(&self, phase: Phase) {
        *lock(&self.phase) = phase;
    }

    /// Ends the sampler thread at once.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        drop(lock(&self.answer));
        self.wake.notify_all();
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Waits until `deadline` or the end; true when stopped.
    fn sleep_until(&self, deadline: Instant) -> bool {
        let mut guard = lock(&self.answer);
        while !self.is_stopped() {
            let Some(left) = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) else {
                return false;
            };
            guard = self.wake.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Asks the driver and waits for its answer until `deadline`.
    fn ask(&self, deadline: Instant) -> Option<Answer> {
        let mut guard = lock(&self.answer);
        *guard = None;
        self.requested.store(true, Ordering::Relaxed);
        loop {
            if let Some(answer) = guard.take() {
                return Some(answer);
            }
            let left = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
            if self.is_stopped() {
                return None;
            }
            guard = self.wake.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Samples every `interval` until [`Mailbox::stop`]. Skips missed ticks.
pub fn sample_until_stopped(
    mailbox: &Mailbox,
    probes: &Probes,
    interval: Duration,
    seconds_now: &dyn Fn() -> f64,
    sink: &dyn Sink,
) {
    let mut tick = Instant::now() + interval;
    while !mailbox.sleep_until(tick) {
        let t_s = seconds_now();
        let mut values = Vec::with_capacity(256);
        probes.sample(&mut values);
        // A transaction can hold the driver for long; the row then says so instead of waiting for ever.
        if let Some(answer) = mailbox.ask(tick + interval.mul_f64(0.9)) {
            values.extend(answer.readings);
            let (done, total) = answer.progress;
            sink.send(Event::Progress { phase: answer.phase.clone(), done, total, t_s });
            sink.send(Event::Sample { t_s, phase: answer.phase, edge: None, values });
        } else if !mailbox.is_stopped() {
            let reason: Arc<str> =
                Arc::from("the driver was inside one statement or transaction for the whole interval");
            values.push(Reading::missing("engine", "page_gets", &Arc::from(""), &reason));
            let phase = lock(&mailbox.phase).clone();
            sink.send(Event::Sample { t_s, phase, edge: None, values });
        }
        tick += interval;
        while tick <= Instant::now() {
            tick += interval;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the phase of each sample taken meanwhile, and whether the engine's counters are missing in it.
    fn samples(driver: impl FnOnce(&Mailbox)) -> Vec<(String, bool)> {
        let (mailbox, probes) = (Mailbox::default(), Probes::default());
        let seen: Mutex<Vec<(String, bool)>> = Mutex::default();
        let sink = |event: Event| {
            if let Event::Sample { phase, values, .. } = event {
                let missing = values.iter().any(|reading| reading.reason.is_some());
                lock(&seen).push((phase.name().to_owned(), missing));
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| sample_until_stopped(&mailbox, &probes, Duration::from_millis(20), &|| 0.0, &sink));
            driver(&mailbox);
            mailbox.stop();
        });
        seen.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    #[test]
    fn a_driver_that_does_not_answer_is_sampled_in_the_phase_it_is_in() {
        let seen = samples(|mailbox| {
            mailbox.enter(Phase::Extra(Arc::from("range_scan")));
            std::thread::sleep(Duration::from_millis(150));
        });
        assert!(!seen.is_empty());
        assert!(seen.iter().all(|sample| *sample == ("range_scan".to_owned(), true)), "{seen:?}");
    }

    #[test]
    fn a_driver_that_answers_is_sampled_in_the_phase_it_says() {
        let seen = samples(|mailbox| {
            let end = Instant::now() + Duration::from_millis(150);
            while Instant::now() < end {
                if mailbox.is_requested() {
                    mailbox.answer(Answer { readings: Vec::new(), phase: Phase::Measure, progress: (0, 0) });
                }
                std::thread::yield_now();
            }
        });
        assert!(seen.iter().any(|sample| *sample == ("measure".to_owned(), false)), "{seen:?}");
    }
}
