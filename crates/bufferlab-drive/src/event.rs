//! Messages of a run, in the form in which Python receives them.

use std::sync::Arc;

use bufferlab_probe::Reading;
use serde::{Serialize, Serializer};

/// Part of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Until the gate opens.
    #[default]
    WarmUp,
    /// The window from which results are made.
    Measure,
    /// A further window that the experiment names, after the main one.
    Extra(Arc<str>),
    /// Copying the WAL back and closing.
    Closing,
}

impl Phase {
    /// Returns the name that samples give it.
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

/// Edge of a measured window, sampled while the driver stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Edge {
    /// Before the first measured transaction.
    Start,
    /// After the last one.
    End,
}

impl Edge {
    /// Returns the edge with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "start" => Some(Edge::Start),
            "end" => Some(Edge::End),
            _ => None,
        }
    }
}

/// A message from a run or a load.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A phase has begun.
    Phase {
        /// Which.
        phase: Phase,
        /// Seconds since the run's clock was anchored.
        t_s: f64,
    },
    /// The progress of a phase.
    Progress {
        /// Which phase.
        phase: Phase,
        /// Transactions (or rows) done.
        done: u64,
        /// Transactions (or rows) of the whole phase; in the warm-up the cap, which a run rarely reaches.
        total: u64,
        /// Seconds since the run's clock was anchored.
        t_s: f64,
    },
    /// The readings of all probes at one moment.
    Sample {
        /// Seconds since the run's clock was anchored.
        t_s: f64,
        /// Which phase.
        phase: Phase,
        /// Set for the two samples that bound a measured window.
        edge: Option<Edge>,
        /// One row per metric and subject.
        values: Vec<Reading>,
    },
    /// The engine's status text.
    StatusText {
        /// Seconds since the run's clock was anchored: the same as those of its sample.
        t_s: f64,
        /// Which phase.
        phase: Phase,
        /// Set when it belongs to an edge.
        edge: Option<Edge>,
        /// The engine's words.
        text: String,
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
