//! The session of a run with its server: it connects drivers, warms the pool up until the gate opens, and runs windows.
//! At the two edges of a window all drivers stand still. An engine inside this process counts as a server of one
//! connection, whose driver runs on this thread.
//!
//! [`run`](super::run) decides the order of parts. This file is the same for all protocols: it uses a server through
//! the trait [`Server`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bufferlab_workload::bundle::boxed;
use bufferlab_workload::client::{Client, ClientError, Workload};
use bufferlab_workload::random::Random;
use bufferlab_workload::script::SetupStatement;

use crate::driver::Driver;
use crate::drivers::{Drivers, Segment, SegmentEnd};
use crate::event::{Edge, Phase};
use crate::failure::{Failure, FailureKind};
use crate::finished::{Part, TypeLatency, latencies};
use crate::gate::{GateEnd, Window};
use crate::gate_feed::GateFeed;
use crate::job::{Limit, Pace, PhaseJob, Spacing, WarmUp};
use crate::quota::Quota;
use crate::sampler::{AtEdge, Sampler};
use crate::server::job::Run;

/// Time between two checks by the session whether the window is over. The drivers check this too.
const WINDOW_LOOK: Duration = Duration::from_millis(500);

/// The hint of a failure after which the server is gone.
pub(crate) const SERVER_GONE_HINT: &str = "look at the end of the server's log: it says why it stopped";

/// The operations that a session needs of a server. Except for transactions of a workload, a server in another process
/// executes them over separate connections.
pub trait Server: AtEdge {
    /// A connection on which the session measures transactions.
    type Client: Client + Send;
    /// The type of the job's data that describes the database.
    type Target: Sync;

    /// Time between two polls of the warm-up gate. A driver whose thread runs the engine polls the gate by itself.
    const GATE_LOOK: Duration = WINDOW_LOOK;
    /// The hint when a connection is lost.
    const LOST_HINT: &'static str = SERVER_GONE_HINT;

    /// Returns the server's place, for messages.
    fn place(&self) -> String;

    /// Returns the counts that the warm-up gate needs, since the server started and as far as it has published them.
    /// They never fall.
    ///
    /// # Errors
    /// When the server does not answer.
    fn counted(&mut self) -> Result<Window, Failure>;

    /// Prepares a connection for the warm-up: the gate needs the connection's counters soon after they change.
    fn watch_closely(&mut self, _client: &mut Self::Client) {}

    /// Makes the server publish the counters of a connection, which is idle at an edge of a window.
    ///
    /// # Errors
    /// The client's error.
    fn settle(&mut self, _client: &mut Self::Client) -> Result<(), ClientError> {
        Ok(())
    }

    /// Executes a statement of a script's setup section, which is at `place` in the script's file.
    ///
    /// # Errors
    /// The server's error.
    fn set_up(&mut self, setup: &SetupStatement<'_>, place: &str) -> Result<(), Failure>;

    /// Returns a function that interrupts the running statements of the connections that [`Server::connect`] opened
    /// last. The default does nothing, because an engine inside this process ends its statements by itself.
    fn interrupter(&self) -> Arc<dyn Fn() + Send + Sync> {
        Arc::new(|| {})
    }

    /// Opens one connection for each workload. From now on [`Server::interrupter`] interrupts these connections.
    ///
    /// # Errors
    /// When the server refuses a connection, or a statement of the workload.
    fn connect(&mut self, workloads: &mut [Box<dyn Workload>]) -> Result<Vec<Self::Client>, Failure>;

    /// Fills the pool by the workload's own SQL. Returns false when `cancelled` was set before the end.
    ///
    /// # Errors
    /// The server's error.
    fn prefill(&mut self, workload: &dyn Workload, cancelled: &AtomicBool) -> Result<bool, Failure>;
}

/// A run's session: its server, its job and its sampler.
pub struct Session<'a, S: Server> {
    /// The run's server.
    pub server: &'a mut S,
    /// The run's job.
    pub job: &'a Run<S::Target>,
    /// The sampler of the run.
    pub sampler: &'a Sampler<'a>,
    /// A flag that the caller sets to stop the run.
    pub cancelled: &'a AtomicBool,
    /// The processor time of all drivers' threads, in nanoseconds.
    pub cpu_ns: Arc<AtomicU64>,
}

impl<S: Server> Session<'_, S> {
    /// Returns true when the user has asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Connects a driver for each workload, on the schedule of `pace`. Names of transaction types begin with the name
    /// of the phase, if there is one.
    ///
    /// # Errors
    /// The errors of [`Server::connect`]; when the rate is out of range.
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
        Ok(Drivers::new(drivers, &self.server.place(), S::LOST_HINT, Arc::clone(&self.cpu_ns)))
    }

    /// Fills the pool, then runs transactions until the gate opens or the warm-up reaches its cap. Returns the
    /// warm-up's ending, none when the user stopped it, the number of misses that count towards filling the pool, and
    /// whether the cap ended a warm-up whose gate only waited.
    ///
    /// # Errors
    /// The server's error, or the first error of a driver.
    pub fn warm_up(
        &mut self,
        drivers: &mut Drivers<S::Client>,
        begun: Instant,
    ) -> Result<(Option<GateEnd>, u64, bool), Failure> {
        let WarmUp { patience, limit } = self.job.warm_up;
        // An engine inside this process began with an empty pool, so all pages that it has read so far filled the pool.
        let before = if self.server.inside().is_some() { Window::default() } else { self.server.counted()? };
        let filled = match drivers.each().next() {
            Some(driver) => self.server.prefill(driver.workload(), self.cancelled)?,
            None => true,
        };
        if !filled || drivers.prefill(self.cancelled, self.server.inside())? == SegmentEnd::Cancelled {
            return Ok((None, 0, false));
        }
        self.settle(drivers)?;
        let server = &mut self.server;
        drivers.with_clients(|client| {
            server.watch_closely(client);
            Ok(())
        })?;
        let filled = self.server.counted()?;
        let mut feed = GateFeed::new(self.job.frames, patience, filled);
        feed.prefill(filled.misses - before.misses);
        let ended = self.segment(drivers, limit, begun, Some(&mut feed))?;
        let unopened = if limit.transactions == 0 { GateEnd::Cold } else { feed.at_limit() };
        let end = if ended == SegmentEnd::Cancelled { None } else { feed.end().or(Some(unopened)) };
        let at_cap = feed.end().is_none() && end.is_some_and(|end| !matches!(end, GateEnd::Cap | GateEnd::Cold));
        Ok((end, feed.misses(), at_cap))
    }

    /// Runs all drivers from `begun` until they have reached the limit, the warm-up's gate opens, or the user asks to
    /// stop.
    fn segment(
        &mut self,
        drivers: &mut Drivers<S::Client>,
        limit: Limit,
        begun: Instant,
        mut feed: Option<&mut GateFeed>,
    ) -> Result<SegmentEnd, Failure> {
        let quota = Quota::new(limit.transactions, drivers.count());
        // In the warm-up the schedule of an open loop has not started.
        let on_schedule = drivers.is_open() && feed.is_none();
        let interrupter = self.server.interrupter();
        let segment = Segment {
            quota: if on_schedule { quota.one_by_one() } else { quota },
            deadline: begun + limit.time(),
            cancelled: self.cancelled,
            unstick: &*interrupter,
        };
        if let Some(inside) = self.server.inside() {
            return drivers.run_inline(&segment, inside, feed);
        }
        let server = &mut self.server;
        let look = if feed.is_some() { S::GATE_LOOK } else { WINDOW_LOOK };
        drivers.run(&segment, look, &mut |transactions| match &mut feed {
            Some(feed) if feed.is_due(transactions) => Ok(feed.look(transactions, server.counted()?).is_some()),
            _ => Ok(false),
        })
    }

    /// Runs one window between its two edges. Returns the window's transactions and seconds, and false when the user
    /// interrupted it. Schedules of arrivals start with the window.
    ///
    /// # Errors
    /// The server's error, or the first error of a driver.
    pub fn window(&mut self, drivers: &mut Drivers<S::Client>, limit: Limit) -> Result<(Part, bool), Failure> {
        let board = drivers.board();
        drivers.begin_window();
        self.settle(drivers)?;
        self.edge(Edge::Start)?;
        let (first, begun) = (board.transactions(), Instant::now());
        drivers.start_arrivals();
        let ended = self.segment(drivers, limit, begun, None)?;
        let part = Part { transactions: board.transactions() - first, seconds: begun.elapsed().as_secs_f64() };
        if ended == SegmentEnd::Whole {
            self.settle(drivers)?;
            self.edge(Edge::End)?;
        } else {
            // The interruption may have ended connections, also those of the sampler. An interrupted window has no
            // results.
            let _ = self.edge(Edge::End);
        }
        Ok((part, ended == SegmentEnd::Whole))
    }

    fn settle(&mut self, drivers: &mut Drivers<S::Client>) -> Result<(), Failure> {
        let server = &mut self.server;
        drivers.with_clients(|client| server.settle(client))
    }

    /// Samples everything at one moment, with the server's status text. Only edges ask for the text, because reading
    /// InnoDB's restarts the averages in it.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn edge(&mut self, edge: Edge) -> Result<(), Failure> {
        self.sampler.edge(edge, self.server)
    }

    /// Runs one phase: its script's setup statements, which no window measures, then its window in a closed loop on all
    /// connections. Returns the window's transactions and seconds, its latencies, and false when the user interrupted
    /// the phase.
    ///
    /// # Errors
    /// When the script has a mistake, or the server refuses a statement of its setup section; the errors of
    /// [`Session::connect`] and [`Session::window`].
    pub fn phase(&mut self, phase: &PhaseJob) -> Result<(Part, Vec<TypeLatency>, bool), Failure> {
        self.sampler.enter(Phase::Extra(Arc::clone(&phase.name)), None, phase.limit.transactions);
        let script = phase.script.parse()?;
        for setup in script.setup()? {
            let place = format!("{}:{}", script.source(), setup.sql.line);
            let executed = self.server.set_up(&setup, &place);
            if self.is_cancelled() {
                return Ok((Part::default(), Vec::new(), false));
            }
            executed?;
        }
        let workloads = boxed(phase.script.workloads(self.job.connections)?);
        let mut drivers = self.connect(workloads, &Pace::Closed, phase.script.seed, Some(&phase.name))?;
        self.sampler.drive(drivers.board());
        let (part, whole) = self.window(&mut drivers, phase.limit)?;
        Ok((part, latencies_of(&drivers), whole))
    }
}

/// Returns the failure of a statement in a script's setup section, with the server's own message.
pub(crate) fn refused(words: impl ToString, place: &str) -> Failure {
    let hint = "this statement of the script failed at the server: try it in its own client";
    Failure::new(FailureKind::Usage, words.to_string(), place, hint)
}

/// Returns the latencies of each transaction type in the window, of all drivers together.
pub fn latencies_of<C: Client + Send>(drivers: &Drivers<C>) -> Vec<TypeLatency> {
    let tallies = drivers.tallies();
    latencies(tallies.iter().map(|(name, tally)| (name.as_str(), tally)), drivers.is_open())
}

/// Puts one of `count` drivers on its part of the schedule: each connection has separate arrivals at `rate_per_s /
/// count`. Poisson arrivals of independent streams are Poisson arrivals together; constant arrivals take turns, so that
/// they are constant together. An arrival belongs to one connection, and waits for this connection even while others
/// are idle, as a user waits for a particular terminal.
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
