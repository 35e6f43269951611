//! An open database during a run: steps, windows and edges of any driver that the caller passes.
//!
//! `run` decides the order of parts. This file waits for arrivals, because it answers the sampler and a request to stop
//! meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use bufferlab_probe::Reading;
use bufferlab_workload::client::ClientError;

use super::client::SqliteClient;
use super::engine::Engine;
use super::job::Limit;
use crate::driver;
use crate::event::{Edge, Event, Phase, Sink};
use crate::failure::Failure;
use crate::finished::Part;
use crate::probes::Probes;
use crate::sampler::{Answer, Mailbox};

/// A driver on SQLite.
pub(super) type Driver = driver::Driver<SqliteClient>;

/// The outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stepped {
    /// A transaction has ended, or the driver dropped an arrival.
    Done,
    /// The driver began no transaction: the window's time is over.
    OutOfTime,
    /// The user asked to stop.
    Cancelled,
}

/// The engine, with its probes and its sampler's mailbox.
pub(super) struct Session<'a> {
    pub engine: Engine,
    pub mailbox: &'a Mailbox,
    pub probes: &'a Probes,
    pub sink: &'a dyn Sink,
    pub cancelled: &'a AtomicBool,
    pub seconds_now: &'a dyn Fn() -> f64,
    pub no_subject: Arc<str>,
    pub phase: Phase,
    /// Steps and transactions of the driver before the phase, and the most steps that it may take.
    phase_first: (u64, u64),
    phase_total: u64,
}

impl<'a> Session<'a> {
    pub fn new(
        engine: Engine,
        mailbox: &'a Mailbox,
        probes: &'a Probes,
        sink: &'a dyn Sink,
        cancelled: &'a AtomicBool,
        seconds_now: &'a dyn Fn() -> f64,
    ) -> Self {
        Session {
            engine,
            mailbox,
            probes,
            sink,
            cancelled,
            seconds_now,
            no_subject: Arc::from(""),
            phase: Phase::WarmUp,
            phase_first: (0, 0),
            phase_total: 0,
        }
    }

    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Begins a part of the run, of `total` steps at most.
    pub fn enter(&mut self, phase: Phase, driver: &Driver, total: u64) {
        self.phase_first = (driver.steps(), driver.transactions());
        self.phase_total = total;
        self.announce(phase);
    }

    /// Announces that a part of the run begins.
    pub fn announce(&mut self, phase: Phase) {
        self.phase = phase.clone();
        self.mailbox.enter(phase.clone());
        self.sink.send(Event::Phase { phase, t_s: (self.seconds_now)() });
    }

    pub fn steps_in_phase(&self, driver: &Driver) -> u64 {
        driver.steps() - self.phase_first.0
    }

    /// Returns the transactions of the driver since the phase began, and their time.
    pub fn part(&self, driver: &Driver, begun: Instant) -> Part {
        let transactions = driver.transactions() - self.phase_first.1;
        Part { transactions, seconds: begun.elapsed().as_secs_f64() }
    }

    /// Runs one window between its two edges; the flag is false when interrupted. The clock of an open loop starts with
    /// it.
    pub fn window(&mut self, driver: &mut Driver, limit: Limit) -> Result<(Part, bool), Failure> {
        driver.begin_window();
        self.edge(driver, Edge::Start);
        let begun = Instant::now();
        driver.start_arrivals();
        let whole = self.steps(driver, limit, begun)?;
        let part = self.part(driver, begun);
        self.edge(driver, Edge::End);
        Ok((part, whole))
    }

    fn steps(&mut self, driver: &mut Driver, limit: Limit, begun: Instant) -> Result<bool, Failure> {
        let is_over = || begun.elapsed().as_secs_f64() >= limit.seconds;
        for done in 0..limit.transactions {
            match self.step(driver, &is_over)? {
                Stepped::Done => {}
                Stepped::OutOfTime => break,
                Stepped::Cancelled => return Ok(false),
            }
            // The loop reads the clock rarely: the time limit is a safety net, not the rule.
            if (done % 64 == 63 || driver.was_long()) && is_over() {
                break;
            }
        }
        Ok(true)
    }

    /// Executes one transaction when it is due, and answers the sampler whenever it waits for an answer.
    pub fn step(&mut self, driver: &mut Driver, is_over: &dyn Fn() -> bool) -> Result<Stepped, Failure> {
        while driver.due_in().is_some() {
            driver.wait();
            self.answer_sampler(driver);
            if self.is_cancelled() {
                return Ok(Stepped::Cancelled);
            }
            if is_over() {
                return Ok(Stepped::OutOfTime);
            }
        }
        match driver.step() {
            Ok(()) => {}
            // The request to stop interrupted the statement: the engine has not failed.
            Err(_) if self.is_cancelled() => return Ok(Stepped::Cancelled),
            Err(error) => return Err(self.client_failure(&error)),
        }
        self.answer_sampler(driver);
        Ok(if self.is_cancelled() { Stepped::Cancelled } else { Stepped::Done })
    }

    /// Answers if the sampler waits; otherwise it costs one load of a flag.
    pub fn answer_sampler(&mut self, driver: &mut Driver) {
        if self.mailbox.is_requested() {
            let mut readings = Vec::with_capacity(128);
            self.sample(driver, &mut readings);
            let progress = (self.steps_in_phase(driver), self.phase_total);
            self.mailbox.answer(Answer { readings, phase: self.phase.clone(), progress });
        }
    }

    /// Returns the client's error, with the operating system's message where SQLite dropped it.
    pub fn client_failure(&self, error: &ClientError) -> Failure {
        let mut failure = Failure::from_client(error, self.engine.path());
        if let Some(cause) = self.engine.take_io_error() {
            failure.what = format!("{} ({cause})", failure.what);
        }
        failure
    }

    /// Samples all probes and the engine at one moment, while nothing runs.
    fn edge(&mut self, driver: &mut Driver, edge: Edge) {
        if edge == Edge::End {
            self.probes.at_edge(edge, &self.phase);
        }
        let t_s = (self.seconds_now)();
        let mut values = Vec::with_capacity(256);
        self.sample(driver, &mut values);
        self.probes.sample(&mut values);
        self.sink.send(Event::Sample { t_s, phase: self.phase.clone(), edge: Some(edge), values });
        if edge == Edge::Start {
            self.probes.at_edge(edge, &self.phase);
        }
    }

    fn sample(&mut self, driver: &mut Driver, out: &mut Vec<Reading>) {
        for (metric, count) in self.engine.counters() {
            out.push(Reading::counter("engine", metric, &self.no_subject, count as i64));
        }
        for (metric, value) in self.engine.gauges() {
            out.push(Reading::gauge("engine", metric, &self.no_subject, value as f64));
        }
        driver.sample(out);
    }
}
