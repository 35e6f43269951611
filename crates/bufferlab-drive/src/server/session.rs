//! A server during a run: it connects drivers, warms up through the gate, and runs windows between edges at which
//! drivers stand still.
//!
//! [`run`](super::run) decides the order of parts. This file knows no protocol: it asks through the trait [`Server`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bufferlab_workload::bundle::boxed;
use bufferlab_workload::client::{Client, ClientError, Value, Workload};
use bufferlab_workload::random::Random;
use bufferlab_workload::script::Sql;

use crate::driver::Driver;
use crate::drivers::{Drivers, Stretch, Stretched};
use crate::event::{Edge, Phase};
use crate::failure::{Failure, FailureKind};
use crate::finished::{Part, TypeLatency, latencies};
use crate::gate::GateEnd;
use crate::gate_feed::GateFeed;
use crate::job::{Limit, Pace, PhaseJob, Spacing, WarmUp};
use crate::quota::Quota;
use crate::watch::Watch;

/// Time between two checks for a window's end, besides the drivers' own.
const WINDOW_LOOK: Duration = Duration::from_millis(500);
/// A longer time limit is the same as none.
const LONGEST_S: f64 = 1e8;

/// The hint when the server is gone.
pub(crate) const SERVER_GONE_HINT: &str = "look at the end of the server's log: it says why it stopped";

/// Returns the moment at which a part that began at `begun` must be over.
#[must_use]
pub fn deadline(begun: Instant, limit: Limit) -> Instant {
    begun + Duration::from_secs_f64(limit.seconds.clamp(0.0, LONGEST_S))
}

/// The questions of a session to a server, over connections on which it measures no transaction.
pub trait Server {
    /// A connection on which the session measures transactions.
    type Client: Client + Send;

    /// Time between two polls of the warm-up gate.
    const GATE_LOOK: Duration;

    /// Returns the server's place, for messages.
    fn place(&self) -> String;

    /// Returns the demand misses since the server started, as far as it tells them; they never fall.
    ///
    /// # Errors
    /// When it does not answer.
    fn demand_misses(&mut self) -> Result<u64, Failure>;

    /// Returns the server's status text at an edge, if it has one.
    ///
    /// # Errors
    /// When it does not answer.
    fn status_text(&mut self) -> Result<Option<String>, Failure> {
        Ok(None)
    }

    /// Prepares a connection for the warm-up: the gate needs its counters soon after they change.
    fn watch_closely(&mut self, _client: &mut Self::Client) {}

    /// Makes the server publish the counters of a connection that stands still at an edge.
    ///
    /// # Errors
    /// The client's.
    fn settle(&mut self, _client: &mut Self::Client) -> Result<(), ClientError> {
        Ok(())
    }

    /// Executes a statement of a script's setup section.
    ///
    /// # Errors
    /// The server's message.
    fn set_up(&mut self, sql: &Sql, values: &[Value<'_>]) -> Result<(), String>;

    /// Returns a function that interrupts the present statements of the connections made last.
    fn interrupter(&self) -> Arc<dyn Fn() + Send + Sync>;

    /// Opens one connection for each workload. From now on [`Server::interrupter`] interrupts these.
    ///
    /// # Errors
    /// When the server refuses one, or a statement of the workload.
    fn connect(&mut self, workloads: &mut [Box<dyn Workload>]) -> Result<Vec<Self::Client>, Failure>;

    /// Fills the pool by the workload's own SQL; returns false when `cancelled` was set meanwhile.
    ///
    /// # Errors
    /// The server's.
    fn prefill(&mut self, workload: &dyn Workload, cancelled: &AtomicBool) -> Result<bool, Failure>;
}

/// The parts of a run, for any server.
#[derive(Clone, Copy)]
pub struct Course<'a> {
    /// The number of connections that drive it.
    pub connections: usize,
    /// Pages really in its buffer pool.
    pub frames: u64,
    /// The pace of transactions in the measured window.
    pub pace: &'a Pace,
    /// Further windows on the same warm database, after the measured one.
    pub phases: &'a [PhaseJob],
    /// The warm-up's cap.
    pub warm_up: WarmUp,
    /// The measured window.
    pub measure: Limit,
}

impl Course<'_> {
    /// Checks the parts before the minutes that lead to them.
    ///
    /// # Errors
    /// When a phase is wrong, or there is no connection.
    pub fn check(&self) -> Result<(), Failure> {
        for phase in self.phases {
            phase.check()?;
        }
        if self.connections == 0 {
            let (what, hint) = ("no connection drives the server", "use 1 or more");
            return Err(Failure::new(FailureKind::Usage, what, "connections", hint));
        }
        Ok(())
    }
}

/// A server, the parts of its run, and the watch that samples it.
pub struct Session<'a, S: Server> {
    /// The server.
    pub server: S,
    /// The parts of the run.
    pub course: Course<'a>,
    /// The watch that samples.
    pub watch: &'a Watch<'a>,
    /// The caller sets it to stop everything.
    pub cancelled: &'a AtomicBool,
    /// The processor time of all drivers' threads.
    pub cpu_ns: Arc<AtomicU64>,
}

impl<S: Server> Session<'_, S> {
    /// Returns true when the user has asked to stop.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Connects a driver for each workload, on the schedule of `pace`. Names of types begin with the phase's.
    ///
    /// # Errors
    /// As [`Server::connect`], or when the rate is out of range.
    pub fn connect(
        &mut self,
        mut workloads: Vec<Box<dyn Workload>>,
        pace: &Pace,
        seed: u64,
        phase: Option<&str>,
    ) -> Result<Drivers<S::Client>, Failure> {
        let count = workloads.len();
        let clients = self.server.connect(&mut workloads)?;
        let mut drivers = Vec::with_capacity(count);
        for (index, (client, workload)) in clients.into_iter().zip(workloads).enumerate() {
            let mut driver = Driver::new(client, workload);
            if let Some(phase) = phase {
                driver = driver.in_phase(phase);
            }
            drivers.push(on_schedule(driver, pace, seed, index, count)?);
        }
        Ok(Drivers::new(drivers, &self.server.place(), SERVER_GONE_HINT, Arc::clone(&self.cpu_ns)))
    }

    /// Fills the pool and drives it until the gate opens or the warm-up reaches its cap. Returns the ending, none when
    /// interrupted, and the misses that count towards filling.
    ///
    /// # Errors
    /// The server's.
    pub fn warm_up(
        &mut self,
        drivers: &mut Drivers<S::Client>,
        begun: Instant,
    ) -> Result<(Option<GateEnd>, u64), Failure> {
        let WarmUp { at_least, limit } = self.course.warm_up;
        let before = self.server.demand_misses()?;
        let filled = match drivers.each().next() {
            Some(driver) => self.server.prefill(driver.workload(), self.cancelled)?,
            None => true,
        };
        if !filled || drivers.prefill(self.cancelled)? == Stretched::Cancelled {
            return Ok((None, 0));
        }
        self.settle(drivers)?;
        let server = &mut self.server;
        drivers.with_clients(|client| {
            server.watch_closely(client);
            Ok(())
        })?;
        let filled = self.server.demand_misses()?;
        let mut feed = GateFeed::new(self.course.frames, at_least, filled);
        feed.prefill(filled - before);
        let interrupter = self.server.interrupter();
        let stretch = Stretch {
            quota: Quota::new(limit.transactions, drivers.count()),
            deadline: deadline(begun, limit),
            cancelled: self.cancelled,
            unstick: &*interrupter,
        };
        let mut end = None;
        let server = &mut self.server;
        let ended = drivers.run(&stretch, S::GATE_LOOK, &mut |transactions| {
            if feed.is_due(transactions) {
                end = feed.look(transactions, server.demand_misses()?);
            }
            Ok(end.is_some())
        })?;
        let unopened = if limit.transactions == 0 { GateEnd::Cold } else { GateEnd::Cap };
        let end = if ended == Stretched::Cancelled { None } else { end.or(Some(unopened)) };
        Ok((end, feed.misses()))
    }

    /// Runs one window between its two edges; the flag is false when interrupted. The clocks of schedules start with
    /// it.
    ///
    /// # Errors
    /// The server's.
    pub fn window(&mut self, drivers: &mut Drivers<S::Client>, limit: Limit) -> Result<(Part, bool), Failure> {
        let board = drivers.board();
        drivers.begin_window();
        self.settle(drivers)?;
        self.edge(Edge::Start)?;
        let (first, begun) = (board.transactions(), Instant::now());
        let quota = Quota::new(limit.transactions, drivers.count());
        let interrupter = self.server.interrupter();
        let stretch = Stretch {
            quota: if drivers.is_open() { quota.one_by_one() } else { quota },
            deadline: deadline(begun, limit),
            cancelled: self.cancelled,
            unstick: &*interrupter,
        };
        drivers.start_arrivals();
        let ended = drivers.run(&stretch, WINDOW_LOOK, &mut |_| Ok(false))?;
        let part = Part { transactions: board.transactions() - first, seconds: begun.elapsed().as_secs_f64() };
        if ended == Stretched::Whole {
            self.settle(drivers)?;
            self.edge(Edge::End)?;
        } else {
            // Interrupted connections may be gone, and with them those that sample. An interrupted window has no
            // results.
            let _ = self.edge(Edge::End);
        }
        Ok((part, ended == Stretched::Whole))
    }

    fn settle(&mut self, drivers: &mut Drivers<S::Client>) -> Result<(), Failure> {
        let server = &mut self.server;
        drivers.with_clients(|client| server.settle(client))
    }

    /// Samples everything at one moment, with the server's status text. Only edges ask for the text, because InnoDB's
    /// restarts its averages when a client reads it.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn edge(&mut self, edge: Edge) -> Result<(), Failure> {
        let server = &mut self.server;
        self.watch.edge(edge, &mut || server.status_text())
    }

    /// Runs one phase: its setup, untimed, then its window in a closed loop on all connections. The flag is false when
    /// interrupted.
    ///
    /// # Errors
    /// When the script is wrong, or the server's.
    pub fn phase(&mut self, phase: &PhaseJob) -> Result<(Part, Vec<TypeLatency>, bool), Failure> {
        let name = Phase::Extra(Arc::clone(&phase.name));
        self.watch.enter(name.clone(), None, phase.limit.transactions);
        let script = phase.script.parse()?;
        for setup in script.setup()? {
            self.server.set_up(setup.sql, &setup.values).map_err(|words| {
                let place = format!("{}:{}", script.source(), setup.sql.line);
                let hint = "this statement of the script failed at the server: try it in its own client";
                Failure::new(FailureKind::Usage, words, place, hint)
            })?;
            if self.is_cancelled() {
                return Ok((Part::default(), Vec::new(), false));
            }
        }
        let workloads = boxed(phase.script.workloads(self.course.connections)?);
        let mut drivers = self.connect(workloads, &Pace::Closed, phase.script.seed, Some(&phase.name))?;
        self.watch.enter(name, Some(drivers.board()), phase.limit.transactions);
        let (part, whole) = self.window(&mut drivers, phase.limit)?;
        Ok((part, latencies_of(&drivers), whole))
    }
}

/// Returns the latencies of all drivers' windows together.
pub fn latencies_of<C: Client + Send>(drivers: &Drivers<C>) -> Vec<TypeLatency> {
    let tallies = drivers.tallies();
    latencies(tallies.iter().map(|(name, tally)| (name.as_str(), tally)), drivers.is_open())
}

/// Makes the drivers and splits the schedule: each of n connections has separate arrivals at a rate of rate / n.
/// Poisson arrivals of n independent streams are Poisson arrivals together; constant ones take turns, so that they are
/// constant together. An arrival belongs to its connection and waits for it also while others are idle, as a user waits
/// for his own terminal.
fn on_schedule<C: Client>(
    driver: Driver<C>,
    pace: &Pace,
    seed: u64,
    index: usize,
    count: usize,
) -> Result<Driver<C>, Failure> {
    let Pace::Open { rate_per_s, spacing, patience } = *pace else { return Ok(driver) };
    pace.arrivals(seed)?;
    let own = Pace::Open { rate_per_s: rate_per_s / count as f64, spacing, patience };
    let seed = match count {
        1 => seed,
        _ => Random::stream(seed, "arrivals of a connection", &[index as u64]).bits(),
    };
    let turns_left = (count - 1 - index) as f64;
    let ahead_ns = if spacing == Spacing::Constant { turns_left * 1e9 / rate_per_s } else { 0.0 };
    Ok(match own.arrivals(seed)? {
        Some(arrivals) => driver.open_loop_ahead(arrivals, ahead_ns as u64),
        None => driver,
    })
}
