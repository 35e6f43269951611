//! A server while it is driven: connects drivers, warms up through the gate, runs windows between standing edges.
//!
//! Says nothing of what is run in which order, which is `run`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bufferlab_workload::client::Workload;
use bufferlab_workload::random::Random;
use bufferlab_workload::script::ScriptWorkload;

use super::client::MysqlClient;
use super::connection::{connect, no_socket};
use super::control::Killer;
use super::counters::DemandMisses;
use super::error::SERVER_GONE_HINT;
use super::job::Run;
use super::line::{Line, Lines};
use super::prefill;
use super::workloads::MysqlWorkload;
use crate::driver::Driver;
use crate::drivers::{Drivers, Stretch, Stretched};
use crate::event::{Edge, Phase};
use crate::failure::{Failure, FailureKind};
use crate::finished::{Part, TypeLatency, latencies};
use crate::gate::GateEnd;
use crate::gate_feed::GateFeed;
use crate::job::{Limit, Pace, PhaseJob, ScriptJob};
use crate::quota::Quota;
use crate::watch::Watch;

/// How often the gate is looked at: a query of a few hundred microseconds at the server.
const GATE_LOOK: Duration = Duration::from_millis(60);
/// How often a window's end is looked for beside what the drivers tell.
const WINDOW_LOOK: Duration = Duration::from_millis(500);
/// Longer limits of time are as good as none.
const LONGEST_S: f64 = 1e8;

/// The drivers of one workload on a server.
pub(super) type MysqlDrivers<W> = Drivers<MysqlClient, W>;

/// The moment at which a part that began then must be over.
pub(super) fn deadline(begun: Instant, limit: Limit) -> Instant {
    begun + Duration::from_secs_f64(limit.seconds.clamp(0.0, LONGEST_S))
}

/// A server, and everything that watches it.
pub(super) struct Session<'a> {
    pub job: &'a Run,
    pub watch: &'a Watch<'a>,
    pub misses: DemandMisses,
    pub killer: Killer<'a>,
    pub lines: &'a Lines,
    pub cancelled: &'a AtomicBool,
    pub cpu_ns: Arc<AtomicU64>,
}

impl Session<'_> {
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// One connection for each workload, on the schedule of `pace`; names of types begin with the phase's.
    pub fn connect<W: MysqlWorkload + Send>(
        &self,
        workloads: Vec<W>,
        pace: &Pace,
        seed: u64,
        phase: Option<&str>,
    ) -> Result<MysqlDrivers<W>, Failure> {
        let target = &self.job.target;
        let count = workloads.len();
        let mut ids = Vec::with_capacity(count);
        let mut drivers = Vec::with_capacity(count);
        for (index, workload) in workloads.into_iter().enumerate() {
            let conn = connect(target)?;
            let held = Line::of(&conn).and_then(|line| self.lines.hold(&line));
            held.map_err(|error| no_socket(&error, &target.place()))?;
            let client = MysqlClient::of_workload(conn, &workload, self.job.sending)?;
            ids.push(client.connection_id());
            let mut driver = Driver::new(client, workload);
            if let Some(phase) = phase {
                driver = driver.in_phase(phase);
            }
            drivers.push(on_schedule(driver, pace, seed, index, count)?);
        }
        self.killer.set(ids);
        Ok(Drivers::new(drivers, &target.place(), SERVER_GONE_HINT, Arc::clone(&self.cpu_ns)))
    }

    /// Fills the pool and drives it until the gate opens or the cap is reached; no end when interrupted. Also the misses that
    /// count towards filling.
    pub fn warm_up<W: MysqlWorkload + Send>(
        &mut self,
        drivers: &mut MysqlDrivers<W>,
        begun: Instant,
    ) -> Result<(Option<GateEnd>, u64), Failure> {
        let limit = self.job.warm_up;
        let before = self.misses.read()?;
        let sql = drivers.each().next().map_or("", |driver| driver.workload().prefill_sql());
        if !prefill::run(&self.job.target, sql, self.job.may_change_settings, self.lines, self.cancelled)?
            || drivers.prefill(self.cancelled)? == Stretched::Cancelled
        {
            return Ok((None, 0));
        }
        let filled = self.misses.read()?;
        let mut feed = GateFeed::new(self.job.frames, filled);
        feed.prefill(filled - before);
        let stretch = Stretch {
            quota: Quota::new(limit.transactions, drivers.count()),
            deadline: deadline(begun, limit),
            cancelled: self.cancelled,
            unstick: &|| self.killer.kill(),
        };
        let mut end = None;
        let misses = &mut self.misses;
        let ended = drivers.run(&stretch, GATE_LOOK, &mut |transactions| {
            if feed.is_due(transactions) {
                end = feed.look(transactions, misses.read()?);
            }
            Ok(end.is_some())
        })?;
        let end = if ended == Stretched::Cancelled { None } else { end.or(Some(GateEnd::Cap)) };
        Ok((end, feed.misses()))
    }

    /// One window between its two edges; false when interrupted. The clocks of schedules start with it.
    pub fn window<W: Workload + Send>(
        &mut self,
        drivers: &mut MysqlDrivers<W>,
        limit: Limit,
    ) -> Result<(Part, bool), Failure> {
        let board = drivers.board();
        drivers.begin_window();
        self.edge(Edge::Start)?;
        let (first, begun) = (board.transactions(), Instant::now());
        let quota = Quota::new(limit.transactions, drivers.count());
        let stretch = Stretch {
            quota: if drivers.is_open() { quota.one_by_one() } else { quota },
            deadline: deadline(begun, limit),
            cancelled: self.cancelled,
            unstick: &|| self.killer.kill(),
        };
        drivers.start_arrivals();
        let ended = drivers.run(&stretch, WINDOW_LOOK, &mut |_| Ok(false))?;
        let part = Part { transactions: board.transactions() - first, seconds: begun.elapsed().as_secs_f64() };
        self.edge(Edge::End)?;
        Ok((part, ended == Stretched::Whole))
    }

    /// Everything at one moment, with InnoDB's own words: they are read here alone, because reading them restarts the
    /// averages they hold.
    pub fn edge(&mut self, edge: Edge) -> Result<(), Failure> {
        let control = self.misses.control();
        self.watch.edge(edge, &mut || match control.innodb_status() {
            Ok(text) => Ok(Some(text)),
            Err(failure) if failure.kind == FailureKind::Io => Err(failure),
            // An account without the right to read it: the counters tell most of it too.
            Err(_) => Ok(None),
        })
    }

    /// One phase: its setup, untimed, then its window in a closed loop on all connections; false when interrupted.
    pub fn phase(&mut self, phase: &PhaseJob) -> Result<(Part, Vec<TypeLatency>, bool), Failure> {
        let name = Phase::Extra(Arc::clone(&phase.name));
        self.watch.enter(name.clone(), None, phase.limit.transactions);
        let script = phase.script.parse()?;
        for setup in script.setup()? {
            let place = format!("{}:{}", script.source(), setup.sql.line);
            let values = setup.values.iter().map(|&value| super::client::to_param(value)).collect();
            let control = self.misses.control();
            control.execute_with(&setup.sql.text(|_| "?".to_owned()), values).map_err(|error| {
                let hint = "this statement of the script failed at the server: try it in its own client";
                Failure::new(FailureKind::Usage, error.to_string(), place, hint)
            })?;
            if self.is_cancelled() {
                return Ok((Part::default(), Vec::new(), false));
            }
        }
        let workloads = scripts(&phase.script, self.job.connections)?;
        let mut drivers = self.connect(workloads, &Pace::Closed, phase.script.seed, Some(&phase.name))?;
        self.watch.enter(name, Some(drivers.board()), phase.limit.transactions);
        let (part, whole) = self.window(&mut drivers, phase.limit)?;
        Ok((part, latencies_of(&drivers), whole))
    }
}

/// Latencies of all drivers' windows together.
pub(super) fn latencies_of<W: Workload + Send>(drivers: &MysqlDrivers<W>) -> Vec<TypeLatency> {
    let tallies = drivers.tallies();
    latencies(tallies.iter().map(|(name, tally)| (name.as_str(), tally)), drivers.is_open())
}

/// The same script for each connection, each with random variables of its own. One connection has the script's seed.
pub(super) fn scripts(job: &ScriptJob, connections: usize) -> Result<Vec<ScriptWorkload>, Failure> {
    let script = job.parse()?;
    let seed = |index: usize| match index {
        0 => job.seed,
        _ => Random::stream(job.seed, "script of a connection", &[index as u64]).bits(),
    };
    (0..connections).map(|index| Ok(ScriptWorkload::new(script.clone(), seed(index))?)).collect()
}

/// The schedule is split: each of n connections has arrivals of its own at a rate of rate / n. Poisson arrivals of n
/// independent streams are Poisson arrivals together; constant ones take turns, so that they are constant together. An
/// arrival belongs to its connection and waits for it also while others are idle, as a user waits for his own terminal.
fn on_schedule<W: Workload>(
    driver: Driver<MysqlClient, W>,
    pace: &Pace,
    seed: u64,
    index: usize,
    count: usize,
) -> Result<Driver<MysqlClient, W>, Failure> {
    let Pace::Open { rate_per_s, spacing, patience } = *pace else { return Ok(driver) };
    pace.arrivals(seed)?;
    let own = Pace::Open { rate_per_s: rate_per_s / count as f64, spacing, patience };
    let seed = match count {
        1 => seed,
        _ => Random::stream(seed, "arrivals of a connection", &[index as u64]).bits(),
    };
    let turns_left = (count - 1 - index) as f64;
    let ahead_ns = if spacing == crate::job::Spacing::Constant { turns_left * 1e9 / rate_per_s } else { 0.0 };
    Ok(match own.arrivals(seed)? {
        Some(arrivals) => driver.open_loop_ahead(arrivals, ahead_ns as u64),
        None => driver,
    })
}
