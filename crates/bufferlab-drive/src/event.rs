//! Messages of a run, in the form in which Python receives them.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use bufferlab_probe::Reading;
use serde::{Serialize, Serializer};

/// A part of a run, as samples and messages name it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// The warm-up, until the gate opens.
    #[default]
    WarmUp,
    /// The window from which results are made.
    Measure,
    /// A further window after the measured one, with a name from the experiment.
    Extra(Arc<str>),
    /// The end of a run: SQLite copies the WAL back, and closes.
    Closing,
}

impl Phase {
    /// Returns the phase's name in samples.
    pub fn name(&self) -> &str {
        match self {
            Phase::WarmUp => "warm_up",
            Phase::Measure => "measure",
            Phase::Extra(name) => name,
            Phase::Closing => "closing",
        }
    }
}

impl Serialize for Phase {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// An edge of a measured window, which is sampled while all drivers stand still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Edge {
    /// Before the first measured transaction.
    Start,
    /// After the last measured transaction.
    End,
}

/// A message from a run or a load.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A phase has begun.
    Phase {
        /// The phase that has begun.
        phase: Phase,
        /// Seconds since the run's clock started.
        t_s: f64,
    },
    /// The progress of a phase.
    Progress {
        /// The current phase.
        phase: Phase,
        /// Steps of the phase so far: transactions ended and arrivals dropped; in a load, rows written.
        done: u64,
        /// The most steps of the phase, which a warm-up rarely reaches; in a load, the expected rows.
        total: u64,
        /// Seconds since the run's clock started.
        t_s: f64,
    },
    /// The readings of the drivers, the engine's counters and all probes at one moment.
    Sample {
        /// Seconds since the run's clock started.
        t_s: f64,
        /// The current phase.
        phase: Phase,
        /// The edge of a window at which the sample was taken; none for a sample at another moment.
        edge: Option<Edge>,
        /// The sample's readings, one for each metric and subject.
        values: Vec<Reading>,
    },
    /// The engine's status text at an edge of a window, such as that of InnoDB's monitor.
    StatusText {
        /// Seconds since the run's clock started, the same number as in the sample at this edge of the window.
        t_s: f64,
        /// The current phase.
        phase: Phase,
        /// The edge of a window at which the text was read; none at another moment.
        edge: Option<Edge>,
        /// The status text as the engine wrote it.
        text: String,
    },
    /// A sign of life during work that sends nothing else. The parent process treats a silent worker as dead.
    Alive {
        /// A short description of the work.
        phase: &'static str,
        /// Seconds since the work began.
        t_s: f64,
    },
}

/// A receiver of events. The driver's thread and the sampler's call it.
pub trait Sink: Sync {
    /// Takes one event.
    fn send(&self, event: Event);
}

impl<F: Fn(Event) + Sync> Sink for F {
    fn send(&self, event: Event) {
        self(event);
    }
}

/// Does `work` on this thread while another thread sends a sign of life every `interval`. Returns the result of `work`.
pub fn with_signs_of_life<T>(sink: &dyn Sink, phase: &'static str, interval: Duration, work: impl FnOnce() -> T) -> T {
    let (works, ended) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let begun = Instant::now();
            while ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                sink.send(Event::Alive { phase, t_s: begun.elapsed().as_secs_f64() });
            }
        });
        let done = work();
        // The end of the work, also by a panic, drops the channel and so ends the other thread at once.
        drop(works);
        done
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn work_that_takes_long_gives_signs_of_life_until_it_ends() {
        let seen = Mutex::new(Vec::new());
        let sink = |event: Event| seen.lock().unwrap().push(serde_json::to_value(event).unwrap());
        let second = Duration::from_secs(1);
        let begun = Instant::now();
        assert_eq!(with_signs_of_life(&sink, "waiting", second * 60, || 7), 7);
        assert!(begun.elapsed() < second * 30 && seen.lock().unwrap().is_empty());
        let enough = || seen.lock().unwrap().len() >= 3;
        with_signs_of_life(&sink, "keeping the page trace", second / 1000, || {
            while !enough() {
                assert!(begun.elapsed() < second * 60, "there is no sign of life");
                std::thread::yield_now();
            }
        });
        let seen = seen.into_inner().unwrap();
        assert!(seen.iter().all(|sign| sign["event"] == "alive" && sign["phase"] == "keeping the page trace"));
        assert!(seen.is_sorted_by_key(|sign| sign["t_s"].as_f64().unwrap()));
    }
}
