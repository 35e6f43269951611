//! One run on SQLite: open, warm up through the gate, measure a fixed number of transactions, close.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use bufferlab_probe::{CpuProbe, DeviceProbe, DriverThread, MemoryProbe, ProcessProbe, Reading, clock};
use bufferlab_workload::client::ClientError;
use bufferlab_workload::hot_rows::HotRowsDriver;
use bufferlab_workload::tpcc::TpccDriver;

use super::client::SqliteClient;
use super::engine::{Actual, Engine};
use super::job::{Pace, Run, WorkloadJob};
use super::workloads::{Findings, SqliteWorkload};
use crate::dialect;
use crate::driver::Driver;
use crate::event::{Edge, Event, Phase, Sink};
use crate::failure::{Failure, FailureKind};
use crate::gate::{Gate, GateEnd};
use crate::recorder::Bucket;
use crate::sampler::{Answer, HostProbes, Mailbox, sample_until_stopped};

/// Transactions between two looks of the gate.
const GATE_WINDOW: u64 = 500;

/// A part of a run that is over.
#[derive(Clone, Copy, Debug, Default)]
pub struct Part {
    /// Transactions of any type.
    pub transactions: u64,
    /// Wall time.
    pub seconds: f64,
}

/// Latencies of one transaction type.
#[derive(Clone, Debug)]
pub struct TypeLatency {
    /// The type.
    pub transaction_type: String,
    /// `service` or `queue`.
    pub time: &'static str,
    /// All buckets with records.
    pub buckets: Vec<Bucket>,
    /// Exact maximum, if anything was recorded.
    pub max_ns: Option<u64>,
    /// Exact mean, if anything was recorded.
    pub mean_ns: Option<f64>,
}

/// What a run came to, beside the samples it has sent.
pub struct Finished {
    /// True when it was stopped before its time.
    pub interrupted: bool,
    /// Settings as read back.
    pub actual: Vec<(&'static str, Actual)>,
    /// How the warm-up ended; none when it was interrupted.
    pub gate: Option<GateEnd>,
    /// Demand misses during the warm-up.
    pub warm_up_misses: u64,
    /// The warm-up.
    pub warm_up: Part,
    /// The measured window.
    pub measured: Part,
    /// Latencies of the measured window.
    pub latencies: Vec<TypeLatency>,
    /// What the workload tells of itself.
    pub findings: Findings,
    /// When the run's clock was started.
    pub clock: clock::Anchor,
}

/// Executes a run.
///
/// # Errors
/// Whatever opening, executing or closing meets. Being cancelled is no error: see [`Finished::interrupted`].
pub fn run(job: &Run, sink: &dyn Sink, cancelled: &AtomicBool) -> Result<Finished, Failure> {
    refuse_what_is_not_built(job)?;
    match &job.workload {
        WorkloadJob::Tpcc(config) => {
            let workload = TpccDriver::new(*config, 0, 1).map_err(|error| {
                Failure::new(FailureKind::Usage, error.to_string(), "workload", "choose another number of warehouses")
            })?;
            run_workload(job, workload, sink, cancelled)
        }
        WorkloadJob::HotRows(config) => {
            let workload = HotRowsDriver::new(config).map_err(|error| {
                Failure::new(FailureKind::Usage, error.to_string(), "workload", "see `bufferlab list workloads`")
            })?;
            run_workload(job, workload, sink, cancelled)
        }
        WorkloadJob::Script(script) => Err(not_built("scripts as workloads", &script.source)),
    }
}

// The wiring of open loop, phases and scripts replaces these two functions.
fn refuse_what_is_not_built(job: &Run) -> Result<(), Failure> {
    if job.pace != Pace::Closed {
        return Err(not_built("an open loop", "load"));
    }
    job.phases.first().map_or(Ok(()), |phase| Err(not_built("a further phase", &phase.name)))
}

fn not_built(what: &str, place: &str) -> Failure {
    Failure::new(FailureKind::Usage, format!("{what} cannot be run yet"), place, "leave it out of the experiment")
}

fn run_workload<W: SqliteWorkload>(
    job: &Run,
    workload: W,
    sink: &dyn Sink,
    cancelled: &AtomicBool,
) -> Result<Finished, Failure> {
    let anchor = clock::Anchor::now();
    let start_ns = anchor.monotonic_ns;
    let seconds_now = move || (clock::monotonic_ns() - start_ns) as f64 / 1e9;
    let engine = Engine::open(&job.database, &job.knobs)?;
    let actual = engine.actual(&job.knobs)?;
    // SAFETY: the session drops its driver, and with it the client, before it closes the engine.
    let client = unsafe { SqliteClient::new(&engine, &workload.statements()?)? };
    let probes = HostProbes::new(vec![
        Box::new(DeviceProbe::for_path(&job.database)),
        Box::new(CpuProbe::new()),
        Box::new(MemoryProbe::new()),
        Box::new(ProcessProbe::new().with_driver(DriverThread::current())),
    ]);
    let mailbox = Mailbox::default();
    let mut session = Session {
        job,
        driver: Driver::new(client, workload),
        engine,
        no_subject: Arc::from(""),
        mailbox: &mailbox,
        probes: &probes,
        sink,
        cancelled,
        seconds_now: &seconds_now,
        phase: Phase::WarmUp,
        phase_first: 0,
        phase_total: 0,
    };
    let measured = std::thread::scope(|scope| {
        let _stop = StopOnDrop(&mailbox);
        scope.spawn(|| sample_until_stopped(&mailbox, &probes, job.sample_interval, &seconds_now, sink));
        session.warm_up_and_measure()
    })?;
    let latencies = session.latencies();
    let findings = session.driver.workload().findings();
    session.enter(Phase::Closing, 0);
    session.close()?;
    Ok(Finished {
        interrupted: measured.interrupted,
        actual,
        gate: measured.gate,
        warm_up_misses: measured.warm_up_misses,
        warm_up: measured.warm_up,
        measured: measured.window,
        latencies,
        findings,
        clock: anchor,
    })
}

/// Ends the sampler also when the driver fails.
struct StopOnDrop<'a>(&'a Mailbox);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

#[derive(Default)]
struct Measured {
    interrupted: bool,
    gate: Option<GateEnd>,
    warm_up_misses: u64,
    warm_up: Part,
    window: Part,
}

struct Session<'a, W: SqliteWorkload> {
    job: &'a Run,
    driver: Driver<SqliteClient, W>,
    engine: Engine,
    no_subject: Arc<str>,
    mailbox: &'a Mailbox,
    probes: &'a HostProbes,
    sink: &'a dyn Sink,
    cancelled: &'a AtomicBool,
    seconds_now: &'a dyn Fn() -> f64,
    phase: Phase,
    /// Transactions that were done when the phase began, and how many it may take.
    phase_first: u64,
    phase_total: u64,
}

impl<W: SqliteWorkload> Session<'_, W> {
    fn warm_up_and_measure(&mut self) -> Result<Measured, Failure> {
        let mut measured = Measured::default();
        self.enter(Phase::WarmUp, self.job.warm_up.transactions);
        let begun = Instant::now();
        let mut gate = Gate::new(self.job.knobs.pool_frames, GATE_WINDOW);
        measured.gate = self.warm_up(&mut gate, begun)?;
        measured.warm_up_misses = gate.misses();
        measured.warm_up = self.part(begun);
        if measured.gate.is_none() {
            measured.interrupted = true;
            return Ok(measured);
        }
        self.enter(Phase::Measure, self.job.measure.transactions);
        self.driver.restart_latencies();
        self.edge(Edge::Start);
        let begun = Instant::now();
        measured.interrupted = !self.measure(begun)?;
        measured.window = self.part(begun);
        self.edge(Edge::End);
        Ok(measured)
    }

    /// Runs until the gate opens or the cap is reached; none when interrupted.
    fn warm_up(&mut self, gate: &mut Gate, begun: Instant) -> Result<Option<GateEnd>, Failure> {
        let limit = self.job.warm_up;
        if !self.prefill()? {
            return Ok(None);
        }
        let mut misses = self.engine.demand_misses();
        gate.prefill(misses);
        loop {
            for _ in 0..GATE_WINDOW {
                if !self.step()? {
                    return Ok(None);
                }
            }
            let now = self.engine.demand_misses();
            if let Some(end) = gate.window(now - misses) {
                return Ok(Some(end));
            }
            misses = now;
            if self.done_in_phase() >= limit.transactions || begun.elapsed().as_secs_f64() >= limit.seconds {
                return Ok(Some(GateEnd::Cap));
            }
        }
    }

    /// Fills the pool as the workload wants it, before anything is counted; false when interrupted.
    fn prefill(&mut self) -> Result<bool, Failure> {
        for (_, sql) in dialect::sections(self.driver.workload().prefill_sql()) {
            if !self.engine.execute_script_unless(self.cancelled, &sql)? {
                return Ok(false);
            }
        }
        loop {
            let more = self.driver.prefill_step().map_err(|error| self.client_failure(&error))?;
            self.answer_sampler();
            if self.cancelled.load(Ordering::Relaxed) {
                return Ok(false);
            }
            if !more {
                return Ok(true);
            }
        }
    }

    /// Runs the measured window; false when interrupted.
    fn measure(&mut self, begun: Instant) -> Result<bool, Failure> {
        let limit = self.job.measure;
        for done in 0..limit.transactions {
            if !self.step()? {
                return Ok(false);
            }
            // The clock is looked at now and then: the time limit is a safety net, not the rule.
            if done % 64 == 63 && begun.elapsed().as_secs_f64() >= limit.seconds {
                break;
            }
        }
        Ok(true)
    }

    /// One transaction, and an answer to the sampler if it waits for one; false when asked to stop.
    fn step(&mut self) -> Result<bool, Failure> {
        self.driver.step().map_err(|error| self.client_failure(&error))?;
        self.answer_sampler();
        Ok(!self.cancelled.load(Ordering::Relaxed))
    }

    /// Looks at one flag, and answers when the sampler waits.
    fn answer_sampler(&mut self) {
        if self.mailbox.is_requested() {
            let mut readings = Vec::with_capacity(128);
            self.sample_engine(&mut readings);
            let progress = (self.done_in_phase(), self.phase_total);
            self.mailbox.answer(Answer { readings, phase: self.phase.clone(), progress });
        }
    }

    /// The client's error with the operating system's words, where SQLite swallowed them.
    fn client_failure(&self, error: &ClientError) -> Failure {
        let mut failure = Failure::from_client(error, self.engine.path());
        if let Some(cause) = self.engine.take_io_error() {
            failure.what = format!("{} ({cause})", failure.what);
        }
        failure
    }

    fn enter(&mut self, phase: Phase, total: u64) {
        self.phase = phase.clone();
        self.phase_first = self.driver.transactions();
        self.phase_total = total;
        self.sink.send(Event::Phase { phase, t_s: (self.seconds_now)() });
    }

    fn done_in_phase(&self) -> u64 {
        self.driver.transactions() - self.phase_first
    }

    fn part(&self, begun: Instant) -> Part {
        Part { transactions: self.done_in_phase(), seconds: begun.elapsed().as_secs_f64() }
    }

    /// All probes and the engine at one moment, while nothing runs.
    fn edge(&mut self, edge: Edge) {
        let t_s = (self.seconds_now)();
        let mut values = Vec::with_capacity(256);
        self.sample_engine(&mut values);
        self.probes.sample(&mut values);
        self.sink.send(Event::Sample { t_s, phase: self.phase.clone(), edge: Some(edge), values });
    }

    fn sample_engine(&mut self, out: &mut Vec<Reading>) {
        for (metric, count) in self.engine.counters() {
            out.push(Reading::counter("engine", metric, &self.no_subject, count as i64));
        }
        for (metric, value) in self.engine.gauges() {
            out.push(Reading::gauge("engine", metric, &self.no_subject, value as f64));
        }
        self.driver.sample(out);
    }

    fn latencies(&self) -> Vec<TypeLatency> {
        let mut latencies = Vec::new();
        for (transaction_type, tally) in self.driver.tallies() {
            for (time, latency) in [("service", &tally.service), ("queue", &tally.queue)] {
                latencies.push(TypeLatency {
                    transaction_type: transaction_type.to_owned(),
                    time,
                    buckets: latency.buckets(),
                    max_ns: latency.max_ns(),
                    mean_ns: latency.mean_ns(),
                });
            }
        }
        latencies
    }

    /// Closes the database, which copies the WAL back: the file is then complete for a second client.
    fn close(self) -> Result<(), Failure> {
        let Session { driver, engine, .. } = self;
        drop(driver);
        engine.close()
    }
}
