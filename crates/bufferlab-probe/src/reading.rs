//! The one row every probe emits, the table that some record, and the trait of a probe.
//! Metric names are declared (unit, kind, meaning) in python/bufferlab/results/metrics.py; nothing is declared twice here.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

/// One metric of one subject at one moment: a raw counter, a gauge, or a null with its reason.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// Name of the metric, with its unit at the end.
    pub metric: &'static str,
    /// What is measured: a whole disk, a core, a transaction type; empty where there is only one.
    pub subject: Arc<str>,
    /// Value of a cumulative counter.
    pub count: Option<i64>,
    /// Value of a gauge.
    pub value: Option<f64>,
    /// Why both values are missing.
    pub reason: Option<Arc<str>>,
    /// Name of the probe that read it.
    pub probe: &'static str,
}

impl Reading {
    /// Returns a cumulative counter as the kernel gives it.
    pub fn counter(probe: &'static str, metric: &'static str, subject: &Arc<str>, count: i64) -> Self {
        Self { metric, subject: Arc::clone(subject), count: Some(count), value: None, reason: None, probe }
    }

    /// Returns a level at this moment.
    pub fn gauge(probe: &'static str, metric: &'static str, subject: &Arc<str>, value: f64) -> Self {
        Self { metric, subject: Arc::clone(subject), count: None, value: Some(value), reason: None, probe }
    }

    /// Returns a metric that this host cannot give, and why.
    pub fn missing(probe: &'static str, metric: &'static str, subject: &Arc<str>, reason: &Arc<str>) -> Self {
        Self { metric, subject: Arc::clone(subject), count: None, value: None, reason: Some(Arc::clone(reason)), probe }
    }
}

/// A table that a probe has recorded over the measured window. Its rows lie in files.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Name of the probe.
    pub probe: &'static str,
    /// How it went, and where the files are.
    pub told: Value,
}

impl Table {
    /// A table of which this can be told. A text, if that cannot be written as JSON: why.
    pub fn new(probe: &'static str, told: &impl Serialize) -> Self {
        Self { probe, told: serde_json::to_value(told).unwrap_or_else(|error| Value::String(error.to_string())) }
    }
}

/// Something that watches. A sample never fails: what cannot be read is a reading with a reason.
///
/// A probe with a window records from [`begin`](Probe::begin) to [`end`](Probe::end). Each is called once at most, in this
/// order, while no transaction runs. A probe that is dropped without [`finish`](Probe::finish) leaves nothing behind.
pub trait Probe: Send {
    /// Name of the probe, as it stands in every reading.
    fn name(&self) -> &'static str;

    /// Appends one reading per metric and subject; `out` is not cleared.
    fn sample(&mut self, out: &mut Vec<Reading>);

    /// The measured window begins: everything else of its start edge has been done. Trouble is kept for the table.
    fn begin(&mut self) {}

    /// The measured window is over: nothing of its end edge has been done yet.
    fn end(&mut self) {}

    /// The run is over. The table of a probe with a window, also when the window was not reached.
    fn finish(self: Box<Self>) -> Option<Table> {
        None
    }
}
