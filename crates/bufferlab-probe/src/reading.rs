//! The one row every probe emits, and the trait of a probe.
//! Metric names are declared (unit, kind, meaning) in python/bufferlab/results/metrics.py; nothing is declared twice here.

use std::sync::Arc;

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
    /// A cumulative counter as the kernel gives it.
    pub fn counter(probe: &'static str, metric: &'static str, subject: &Arc<str>, count: i64) -> Self {
        Self { metric, subject: Arc::clone(subject), count: Some(count), value: None, reason: None, probe }
    }

    /// A level at this moment.
    pub fn gauge(probe: &'static str, metric: &'static str, subject: &Arc<str>, value: f64) -> Self {
        Self { metric, subject: Arc::clone(subject), count: None, value: Some(value), reason: None, probe }
    }

    /// A metric that this host cannot give, and why.
    pub fn missing(probe: &'static str, metric: &'static str, subject: &Arc<str>, reason: &Arc<str>) -> Self {
        Self { metric, subject: Arc::clone(subject), count: None, value: None, reason: Some(Arc::clone(reason)), probe }
    }
}

/// Something that watches. A sample never fails: what cannot be read is a reading with a reason.
pub trait Probe: Send {
    /// Name of the probe, as it stands in every reading.
    fn name(&self) -> &'static str;

    /// Appends one reading per metric and subject; `out` is not cleared.
    fn sample(&mut self, out: &mut Vec<Reading>);
}
