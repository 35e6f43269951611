//! Samples a run: the sampler's thread once a second, and the run itself at the edges.
//!
//! A sample asks the drivers for their tallies, reads the engine's counters over a separate connection, and reads the
//! host's probes. An engine inside the driver's own thread has no such connection: its driver answers with the engine's
//! counters, too. Only one thread samples at a time, so samples are not mixed, and are sent in the order of their
//! times.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bufferlab_probe::{Reading, Table};

use crate::event::{Edge, Event, Phase, Sink};
use crate::failure::Failure;
use crate::gate::Window;
use crate::lock;
use crate::probes::Probes;

/// A reader of the engine's own counters.
pub trait EngineCounters: Send {
    /// Appends the values of all counters to `out`.
    ///
    /// # Errors
    /// When the engine does not answer.
    fn read(&mut self, out: &mut Vec<Reading>) -> Result<(), Failure>;
}

/// Drivers that run together and answer with their tallies.
pub trait Telling: Send + Sync {
    /// Returns the steps of all drivers so far: transactions ended, and arrivals dropped.
    fn steps(&self) -> u64;

    /// Asks all drivers for their tallies and appends their rows. If the engine runs inside a driver's thread, its rows
    /// come first. For a driver that has not answered by `deadline`, uses its previous tallies.
    fn sample(&self, deadline: Instant, out: &mut Vec<Reading>);
}

/// An engine that runs inside the thread of its only driver: no other thread can read its counters.
pub trait Inside {
    /// Appends the engine's counters. Reading them may access pages.
    fn counters(&mut self, out: &mut Vec<Reading>);

    /// Returns the counts for the warm-up's gate, since the engine opened its database.
    fn counted(&mut self) -> Window;
}

/// The parts of an engine that a sample at an edge of a window reads, on the thread of the run.
pub trait AtEdge {
    /// Returns the engine, if it runs inside the thread that drives it.
    fn inside(&mut self) -> Option<&mut dyn Inside> {
        None
    }

    /// Returns the engine's status text at an edge of a window, if it has one.
    ///
    /// # Errors
    /// When the engine does not answer.
    fn status_text(&mut self) -> Result<Option<String>, Failure> {
        Ok(None)
    }
}

/// An engine without further parts to read at edges.
impl AtEdge for () {}

/// The present part of the run: its phase, its drivers and the number of their steps.
#[derive(Clone, Default)]
struct Stage {
    phase: Phase,
    /// The most steps that the drivers take in the part: transactions ended and arrivals dropped. The next field,
    /// `first`, is the number of steps that they took before the part.
    total: u64,
    first: u64,
    board: Option<Arc<dyn Telling>>,
}

/// The sampler of a run: the drivers' scoreboard, the engine's counters and the host's probes, and the receiver of
/// samples.
pub struct Sampler<'a> {
    stage: Mutex<Stage>,
    engine: Mutex<Option<Box<dyn EngineCounters>>>,
    probes: Probes,
    sink: &'a dyn Sink,
    seconds_now: &'a (dyn Fn() -> f64 + Sync),
    stopped: AtomicBool,
    wake: Condvar,
}

/// The name of the probe in the rows of engines' counters.
const ENGINE: &str = "engine";

/// Returns the row of a sample that has no counters of the engine.
fn unread(reason: &str) -> Reading {
    Reading::missing(ENGINE, "page_gets", &Arc::from(""), &Arc::from(reason))
}

impl<'a> Sampler<'a> {
    /// Makes a sampler of these readers. Without `engine`, the driver reports the engine's counters with its tallies.
    pub fn new(
        engine: Option<Box<dyn EngineCounters>>,
        probes: Probes,
        sink: &'a dyn Sink,
        seconds_now: &'a (dyn Fn() -> f64 + Sync),
    ) -> Self {
        Sampler {
            stage: Mutex::default(),
            engine: Mutex::new(engine),
            probes,
            sink,
            seconds_now,
            stopped: AtomicBool::new(false),
            wake: Condvar::new(),
        }
    }

    /// Begins a part of the run, in which the drivers of `board` take at most `total` steps.
    pub fn enter(&self, phase: Phase, board: Option<Arc<dyn Telling>>, total: u64) {
        // Wait until a sample that has begun is complete, because it belongs to the previous part.
        let _turn = lock(&self.engine);
        let first = board.as_ref().map_or(0, |board| board.steps());
        *lock(&self.stage) = Stage { phase: phase.clone(), total, first, board };
        self.sink.send(Event::Phase { phase, t_s: (self.seconds_now)() });
    }

    /// Sets the drivers of the current part, if they were not connected yet when the part began.
    pub fn drive(&self, board: Arc<dyn Telling>) {
        let _turn = lock(&self.engine);
        let mut stage = lock(&self.stage);
        stage.first = board.steps();
        stage.board = Some(board);
    }

    /// Samples everything at an edge of a window, while the drivers stand still. Then sends the status text that
    /// `asked` returns.
    ///
    /// # Errors
    /// When the engine does not answer: an edge needs its counters.
    pub fn edge(&self, edge: Edge, asked: &mut dyn AtEdge) -> Result<(), Failure> {
        let mut engine = lock(&self.engine);
        let stage = lock(&self.stage).clone();
        if edge == Edge::End {
            self.probes.at_edge(edge, &stage.phase);
        }
        let t_s = (self.seconds_now)();
        let mut values = Vec::with_capacity(512);
        self.probes.before_edge();
        if let Some(engine) = &mut *engine {
            engine.read(&mut values)?;
        }
        if let Some(inside) = asked.inside() {
            inside.counters(&mut values);
        }
        if let Some(board) = &stage.board {
            board.sample(Instant::now(), &mut values);
        }
        self.probes.sample(&mut values);
        self.sink.send(Event::Sample { t_s, phase: stage.phase.clone(), edge: Some(edge), values });
        if let Some(text) = asked.status_text()? {
            self.sink.send(Event::StatusText { t_s, phase: stage.phase.clone(), edge: Some(edge), text });
        }
        if edge == Edge::Start {
            self.probes.at_edge(edge, &stage.phase);
        }
        Ok(())
    }

    /// Samples every `interval` until [`Sampler::stop`]. If a sample takes longer than `interval`, it skips the moments
    /// that it has missed.
    pub fn sample_until_stopped(&self, interval: Duration) {
        let mut tick = Instant::now() + interval;
        while !self.sleep_until(tick) {
            self.sample(tick, interval);
            tick += interval;
            while tick <= Instant::now() {
                tick += interval;
            }
        }
    }

    fn sample(&self, tick: Instant, interval: Duration) {
        let mut engine = lock(&self.engine);
        let stage = lock(&self.stage).clone();
        let t_s = (self.seconds_now)();
        let mut values = Vec::with_capacity(512);
        if let Some(Err(failure)) = engine.as_mut().map(|engine| engine.read(&mut values)) {
            // The run itself reports the error. This sample only has the reason why it has no counters.
            values.clear();
            values.push(unread(&failure.to_string()));
        }
        // Read the probes before asking the drivers. A driver inside a long statement answers late or never, and
        // the host's counters belong to the same moment as the engine's.
        self.probes.sample(&mut values);
        let (first, mut done) = (values.len(), 0);
        if let Some(board) = &stage.board {
            // A driver that also reports the engine's counters gets more time to answer: without its answer the sample
            // has no counters.
            let patience = if engine.is_some() { 0.5 } else { 0.9 };
            board.sample(tick + interval.mul_f64(patience), &mut values);
            done = board.steps() - stage.first;
        }
        if engine.is_none() && !values[first..].iter().any(|row| row.probe == ENGINE) {
            // A long transaction can keep the driver from answering. The sample then has a row with this reason,
            // instead of waiting for ever.
            values.truncate(first);
            values.push(unread("the driver was inside one statement or transaction for the whole interval"));
        }
        self.sink.send(Event::Progress { phase: stage.phase.clone(), done, total: stage.total, t_s });
        self.sink.send(Event::Sample { t_s, phase: stage.phase, edge: None, values });
    }

    /// Returns the tables that probes have recorded. Call it when the run is over.
    #[must_use]
    pub fn finish(self) -> Vec<Table> {
        self.probes.finish()
    }

    /// Ends the sampler's thread at once.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        drop(lock(&self.stage));
        self.wake.notify_all();
    }

    /// Waits until `deadline` or [`Sampler::stop`]. Returns true when the sampler is stopped.
    fn sleep_until(&self, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        let goes_on = |_: &mut Stage| !self.stopped.load(Ordering::Relaxed);
        drop(self.wake.wait_timeout_while(lock(&self.stage), left, goes_on).unwrap_or_else(PoisonError::into_inner));
        self.stopped.load(Ordering::Relaxed)
    }
}

/// A guard that ends the sampler's thread when it is dropped, also after a failure of the run.
pub struct StopOnDrop<'a, 'b>(pub &'a Sampler<'b>);

impl Drop for StopOnDrop<'_, '_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::FailureKind;

    struct Counting(i64);

    impl EngineCounters for Counting {
        fn read(&mut self, out: &mut Vec<Reading>) -> Result<(), Failure> {
            self.0 += 1;
            if self.0 == 3 {
                return Err(Failure::new(FailureKind::Io, "no answer", "here", "wait"));
            }
            out.push(Reading::counter("engine", "page_gets", &Arc::from(""), self.0));
            Ok(())
        }
    }

    struct Words;

    impl AtEdge for Words {
        fn status_text(&mut self) -> Result<Option<String>, Failure> {
            Ok(Some("words".to_owned()))
        }
    }

    #[test]
    fn samples_leave_in_order_and_one_without_counters_says_why() {
        let seen = Mutex::new(Vec::new());
        let texts = Mutex::new(0);
        let sink = |event: Event| match event {
            Event::Sample { edge, values, .. } => {
                lock(&seen).push((edge, values[0].count, values[0].reason.is_some()));
            }
            Event::StatusText { .. } => *lock(&texts) += 1,
            _ => {}
        };
        let sampler = Sampler::new(Some(Box::new(Counting(0))), Probes::default(), &sink, &|| 0.0);
        sampler.enter(Phase::Measure, None, 10);
        sampler.edge(Edge::Start, &mut Words).expect("it answers");
        std::thread::scope(|scope| {
            let _stop = StopOnDrop(&sampler);
            scope.spawn(|| sampler.sample_until_stopped(Duration::from_millis(10)));
            while lock(&seen).len() < 4 {
                std::thread::yield_now();
            }
        });
        let seen = lock(&seen).clone();
        assert_eq!(
            seen[..4],
            [(Some(Edge::Start), Some(1), false), (None, Some(2), false), (None, None, true), (None, Some(4), false),]
        );
        assert_eq!(*lock(&texts), 1);
    }

    #[test]
    fn an_edge_without_counters_is_a_failure() {
        let sampler = Sampler::new(Some(Box::new(Counting(2))), Probes::default(), &|_| {}, &|| 0.0);
        sampler.edge(Edge::Start, &mut ()).expect_err("the engine does not answer");
    }
}
