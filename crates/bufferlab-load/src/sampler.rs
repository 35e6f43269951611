//! The sampler thread: once a second it reads the host's probes and asks the driver for the engine's counters.
//!
//! Engine counters belong to the driver's thread, which looks at one flag after each transaction and answers there;
//! so nothing is shared on the hot path, and every row of engine counters is one moment between two transactions.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bufferlab_probe::{Probe, Reading};

use crate::event::{Event, Phase, Sink};

/// What the driver answers.
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
}

/// Locks a mutex whose holders never leave it half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Mailbox {
    /// True when the sampler waits for an answer. One relaxed load: this is asked after every transaction.
    #[inline]
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.requested.load(Ordering::Relaxed)
    }

    /// The driver's answer.
    pub fn answer(&self, answer: Answer) {
        self.requested.store(false, Ordering::Relaxed);
        *lock(&self.answer) = Some(answer);
        self.wake.notify_all();
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

/// The probes of the host, shared by the sampler and the driver at the edges.
pub struct HostProbes(Mutex<Vec<Box<dyn Probe>>>);

impl HostProbes {
    /// These probes.
    #[must_use]
    pub fn new(probes: Vec<Box<dyn Probe>>) -> Self {
        HostProbes(Mutex::new(probes))
    }

    /// Reads all of them.
    pub fn sample(&self, out: &mut Vec<Reading>) {
        for probe in lock(&self.0).iter_mut() {
            probe.sample(out);
        }
    }
}

/// Samples every `interval` until [`Mailbox::stop`]. Missed ticks are skipped, not made up for.
pub fn sample_until_stopped(
    mailbox: &Mailbox,
    probes: &HostProbes,
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
            let reason: Arc<str> = Arc::from("the driver was inside one transaction for the whole interval");
            values.push(Reading::missing("engine", "page_gets", &Arc::from(""), &reason));
            sink.send(Event::Sample { t_s, phase: Phase::Measure, edge: None, values });
        }
        tick += interval;
        while tick <= Instant::now() {
            tick += interval;
        }
    }
}
