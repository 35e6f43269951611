//! One run on SQLite: open, warm up through the gate, measure a fixed number of transactions, close.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bufferlab_probe::{CpuProbe, DeviceProbe, DriverThread, MemoryProbe, ProcessProbe, Reading, clock};
use bufferlab_workload::tpcc::random::NuRandConstants;
use bufferlab_workload::tpcc::statements::STATEMENTS;
use bufferlab_workload::tpcc::{InputCounts, TpccConfig, TpccDriver};

use super::client::SqliteClient;
use super::engine::{Actual, Engine};
use super::knobs::SqliteKnobs;
use crate::dialect;
use crate::driver::Driver;
use crate::event::{Edge, Event, Phase, Sink};
use crate::failure::{Failure, FailureKind};
use crate::gate::{Gate, GateEnd};
use crate::recorder::Bucket;
use crate::sampler::{Answer, HostProbes, Mailbox, sample_until_stopped};

/// The workload's statements as SQLite spells them.
pub const STATEMENTS_SQL: &str = include_str!("../../dialects/sqlite/tpcc/statements.sql");
/// Where those are, for messages.
pub const STATEMENTS_FILE: &str = "dialects/sqlite/tpcc/statements.sql";

/// Reads that fill the pool before the first transaction.
pub const PREFILL_SQL: &str = include_str!("../../dialects/sqlite/tpcc/prefill.sql");

/// Transactions between two looks of the gate.
const GATE_WINDOW: u64 = 500;

/// An end by count and by time, whichever comes first.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// Transactions of any type.
    pub transactions: u64,
    /// Wall time.
    pub seconds: f64,
}

/// What to run.
pub struct Run {
    /// A loaded database that this run may change.
    pub database: PathBuf,
    /// Settings.
    pub knobs: SqliteKnobs,
    /// Scale and seeds.
    pub config: TpccConfig,
    /// The warm-up's cap.
    pub warm_up: Limit,
    /// The measured window.
    pub measure: Limit,
    /// Distance of two samples.
    pub sample_interval: Duration,
}

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
    /// Orders delivered since the load: (warehouse, district, orders), for consistency condition 11.
    pub delivered_orders: Vec<(u32, u32, u64)>,
    /// The constants of NURand that the workload drew from its seeds (2.1.6.1).
    pub constants: NuRandConstants,
    /// What the workload drew, over warm-up and window.
    pub inputs: InputCounts,
    /// When the run's clock was started.
    pub clock: clock::Anchor,
}

/// Executes a run.
///
/// # Errors
/// Whatever opening, executing or closing meets. Being cancelled is no error: see [`Finished::interrupted`].
pub fn run(job: &Run, sink: &dyn Sink, cancelled: &AtomicBool) -> Result<Finished, Failure> {
    let anchor = clock::Anchor::now();
    let start_ns = anchor.monotonic_ns;
    let seconds_now = move || (clock::monotonic_ns() - start_ns) as f64 / 1e9;
    let engine = Engine::open(&job.database, &job.knobs)?;
    let actual = engine.actual(&job.knobs)?;
    // SAFETY: the session drops its driver, and with it the client, before it closes the engine.
    let client = unsafe { SqliteClient::new(&engine, STATEMENTS_FILE, STATEMENTS_SQL, STATEMENTS)? };
    let workload = TpccDriver::new(job.config, 0, 1).map_err(|error| {
        Failure::new(FailureKind::Usage, error.to_string(), "workload", "choose another number of warehouses")
    })?;
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
    let delivered_orders = delivered_orders(session.driver.workload());
    let (constants, inputs) = (*session.driver.workload().constants(), *session.driver.workload().input_counts());
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
        delivered_orders,
        constants,
        inputs,
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

fn delivered_orders(workload: &TpccDriver) -> Vec<(u32, u32, u64)> {
    let by_district = workload.delivered_orders().iter().zip(0u32..);
    by_district.map(|(&orders, index)| (index / 10 + 1, index % 10 + 1, orders)).collect()
}

#[derive(Default)]
struct Measured {
    interrupted: bool,
    gate: Option<GateEnd>,
    warm_up_misses: u64,
    warm_up: Part,
    window: Part,
}

struct Session<'a> {
    job: &'a Run,
    driver: Driver<SqliteClient, TpccDriver>,
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

impl Session<'_> {
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
        for (_, sql) in dialect::sections(PREFILL_SQL) {
            if !self.engine.execute_script_unless(self.cancelled, &sql)? {
                return Ok(None);
            }
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
        if let Err(error) = self.driver.step() {
            let mut failure = Failure::from_client(&error, self.engine.path());
            if let Some(cause) = self.engine.take_io_error() {
                failure.what = format!("{} ({cause})", failure.what);
            }
            return Err(failure);
        }
        if self.mailbox.is_requested() {
            let mut readings = Vec::with_capacity(128);
            self.sample_engine(&mut readings);
            let progress = (self.done_in_phase(), self.phase_total);
            self.mailbox.answer(Answer { readings, phase: self.phase, progress });
        }
        Ok(!self.cancelled.load(Ordering::Relaxed))
    }

    fn enter(&mut self, phase: Phase, total: u64) {
        self.phase = phase;
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
        self.sink.send(Event::Sample { t_s, phase: Phase::Measure, edge: Some(edge), values });
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
