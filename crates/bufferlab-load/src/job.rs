//! What every run is told, whatever the engine: the workload, its pace, its phases, and where parts of it end.

use std::sync::Arc;
use std::time::Duration;

use bufferlab_workload::hot_rows::HotRowsConfig;
use bufferlab_workload::index_scan::IndexScanConfig;
use bufferlab_workload::script::{Number, Script, ScriptError, ScriptWorkload};
use bufferlab_workload::tpcc::TpccConfig;

pub use crate::arrivals::Spacing;
use crate::arrivals::{Arrivals, OpenLoop, RATE_RANGE_PER_S};
use crate::failure::{Failure, FailureKind};

/// An end by count and by time, whichever comes first.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// Transactions of any type.
    pub transactions: u64,
    /// Wall time.
    pub seconds: f64,
}

/// How a run is warmed up: until the gate opens, within two bounds.
#[derive(Clone, Copy, Debug)]
pub struct WarmUp {
    /// Transactions before which the gate stays shut: where the pool is not all that must be warm.
    pub at_least: u64,
    /// When it is given up.
    pub limit: Limit,
}

impl From<Limit> for WarmUp {
    fn from(limit: Limit) -> Self {
        WarmUp { at_least: 0, limit }
    }
}

/// A workload with its parameters.
#[derive(Clone, Debug)]
pub enum WorkloadJob {
    /// TPC-C.
    Tpcc(TpccConfig),
    /// Selects of hot rows.
    HotRows(HotRowsConfig),
    /// TPC-H's Q1 over a range of dates.
    IndexScan(IndexScanConfig),
    /// A user's own script.
    Script(ScriptJob),
}

/// A script's text and what it may refer to.
#[derive(Clone, Debug)]
pub struct ScriptJob {
    /// Name of its file, for messages.
    pub source: String,
    /// The text.
    pub text: String,
    /// Seed of its random variables.
    pub seed: u64,
    /// Predefined variables.
    pub variables: Vec<(String, Number)>,
}

impl From<ScriptError> for Failure {
    fn from(error: ScriptError) -> Self {
        let place = error.place();
        Failure::new(FailureKind::Usage, error.what, place, error.hint)
    }
}

impl ScriptJob {
    /// Reads the script.
    ///
    /// # Errors
    /// What is wrong with it, as a usage failure that names its line.
    pub fn parse(&self) -> Result<Script, Failure> {
        Ok(Script::parse(&self.source, &self.text, &self.variables)?)
    }
}

/// When transactions are begun.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Each when its predecessor has ended.
    Closed,
    /// At the times of an arrival process, whether or not the engine keeps up.
    Open {
        /// Arrivals per second.
        rate_per_s: f64,
        /// Their distances.
        spacing: Spacing,
        /// How long an arrival waits before it is dropped.
        patience: Duration,
    },
}

impl Pace {
    /// The schedule that is asked for; none for a closed loop.
    ///
    /// # Errors
    /// A rate that cannot be driven.
    pub fn arrivals(&self, seed: u64) -> Result<Option<Arrivals>, Failure> {
        let Pace::Open { rate_per_s, spacing, patience } = *self else { return Ok(None) };
        let patience_ns = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
        let schedule = Arrivals::new(&OpenLoop { rate_per_s, spacing, patience_ns, seed });
        let refused = || {
            let (slowest, fastest) = (RATE_RANGE_PER_S.start(), RATE_RANGE_PER_S.end());
            let hint = format!("choose a rate from {slowest} to {fastest} transactions per second");
            Failure::new(
                FailureKind::Usage,
                format!("a rate of {rate_per_s} per second cannot be driven"),
                "rate",
                hint,
            )
        };
        schedule.map(Some).ok_or_else(refused)
    }
}

/// A window of its own after the measured one: a script, in a closed loop.
#[derive(Clone, Debug)]
pub struct PhaseJob {
    /// The name its samples carry.
    pub name: Arc<str>,
    /// What it executes.
    pub script: ScriptJob,
    /// Its end.
    pub limit: Limit,
}

impl PhaseJob {
    /// A phase that cannot run should be known before the minutes that lead to it. Its name must be told from the parts
    /// that every run has, and from types of transactions.
    ///
    /// # Errors
    /// What is wrong with its name or its script.
    pub fn check(&self) -> Result<(), Failure> {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let taken = ["warm_up", "measure", "closing"].contains(&&*self.name);
        if taken || self.name.is_empty() || !self.name.chars().all(is_plain) {
            let what = format!("{:?} is no name for a phase", self.name);
            let hint = "use small letters, digits and _, and none of warm_up, measure, closing";
            return Err(Failure::new(FailureKind::Usage, what, "phases", hint));
        }
        let script = self.script.parse()?;
        script.check()?;
        ScriptWorkload::new(script, 0)?;
        Ok(())
    }
}
