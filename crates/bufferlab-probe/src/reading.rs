//! The reading, which is the row that every probe emits; the table that some probes record; and the trait of a probe.
//! python/bufferlab/results/metrics.py declares the names of metrics (unit, kind, meaning); this file repeats none.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

/// One metric of one subject at one moment: a raw counter, a gauge, or a null with its reason. The fields are columns
/// of samples.parquet; the event that reports a sample has the same names.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reading {
    /// Name of the metric, with its unit at the end.
    pub metric: &'static str,
    /// The measured subject: a whole disk, a core, a transaction type; empty if there is only one.
    pub subject: Arc<str>,
    /// Value of a cumulative counter; none for a gauge, or with a reason.
    pub count: Option<i64>,
    /// Value of a gauge; none for a counter, or with a reason.
    pub value: Option<f64>,
    /// The reason why both values are missing.
    pub reason: Option<Arc<str>>,
    /// Name of the probe that read it.
    pub probe: &'static str,
}

impl Reading {
    /// Returns a reading of a cumulative counter, as the kernel gives it.
    pub fn counter(probe: &'static str, metric: &'static str, subject: &Arc<str>, count: i64) -> Self {
        Self { metric, subject: Arc::clone(subject), count: Some(count), value: None, reason: None, probe }
    }

    /// Returns a reading of a gauge: a level at this moment.
    pub fn gauge(probe: &'static str, metric: &'static str, subject: &Arc<str>, value: f64) -> Self {
        Self { metric, subject: Arc::clone(subject), count: None, value: Some(value), reason: None, probe }
    }

    /// Returns a reading of a counter, or without a value, with the reason.
    pub fn counter_or(
        probe: &'static str,
        metric: &'static str,
        subject: &Arc<str>,
        count: Result<i64, Arc<str>>,
    ) -> Self {
        count.map_or_else(
            |reason| Self::missing(probe, metric, subject, &reason),
            |count| Self::counter(probe, metric, subject, count),
        )
    }

    /// Returns a reading of a gauge, or without a value, with the reason.
    pub fn gauge_or(
        probe: &'static str,
        metric: &'static str,
        subject: &Arc<str>,
        value: Result<f64, Arc<str>>,
    ) -> Self {
        value.map_or_else(
            |reason| Self::missing(probe, metric, subject, &reason),
            |value| Self::gauge(probe, metric, subject, value),
        )
    }

    /// Returns a reading without a value, for a metric that this host cannot give, with the reason.
    pub fn missing(probe: &'static str, metric: &'static str, subject: &Arc<str>, reason: &Arc<str>) -> Self {
        Self { metric, subject: Arc::clone(subject), count: None, value: None, reason: Some(Arc::clone(reason)), probe }
    }
}

/// A table that a probe has recorded over the measured window. Its rows lie in files.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Name of the probe that recorded the table.
    pub probe: &'static str,
    /// The result of the recording, and the places of the files.
    pub told: Value,
}

impl Table {
    /// Makes a table of this result. If JSON cannot hold it, the table has the error instead.
    pub fn new(probe: &'static str, told: &impl Serialize) -> Self {
        Self { probe, told: serde_json::to_value(told).unwrap_or_else(|error| Value::String(error.to_string())) }
    }

    /// Adds the fields of `more`, which were not known when the probe ended.
    pub fn add(&mut self, more: &impl Serialize) {
        if let (Value::Object(told), Value::Object(more)) = (&mut self.told, Self::new(self.probe, more).told) {
            told.extend(more);
        }
    }
}

/// A probe. A sample never fails: a value that it cannot read is a reading with a reason.
///
/// A probe with a window records from [`begin`](Probe::begin) to [`end`](Probe::end). The caller calls each once at
/// most, in this order, while no transaction runs. Dropping a probe without [`finish`](Probe::finish) leaves nothing
/// behind.
pub trait Probe: Send {
    /// Returns the name of the probe, which every reading contains.
    fn name(&self) -> &'static str;

    /// Appends one reading per metric and subject, and does not clear `out`.
    fn sample(&mut self, out: &mut Vec<Reading>);

    /// Announces, before the engine's counters are read, that the next sample is at an edge of the window.
    fn before_edge(&mut self) {}

    /// Begins recording at the start of the measured window, after all other work of its start edge. Keeps an error for
    /// the table.
    fn begin(&mut self) {}

    /// Ends recording at the end of the measured window, before all other work of its end edge.
    fn end(&mut self) {}

    /// Ends the probe when the run is over. Returns the table of a probe with a window, also when the run did not reach
    /// the window.
    fn finish(self: Box<Self>) -> Option<Table> {
        None
    }
}
