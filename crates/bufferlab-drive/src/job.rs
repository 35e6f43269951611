//! The part of a run's job that does not depend on the engine: the workload, its pace, its phases, and their limits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bufferlab_workload::BUNDLES;
use bufferlab_workload::bundle::{Bundle, Refused, read};
use bufferlab_workload::client::Workload;
pub use bufferlab_workload::script::ScriptJob;
use bufferlab_workload::script::{ScriptError, ScriptWorkload};
use serde::{Deserialize, Deserializer, de};
use serde_json::{Map, Value};

pub use crate::arrivals::Spacing;
use crate::arrivals::{Arrivals, OpenLoop, RATE_RANGE_PER_S};
use crate::data::Data;
use crate::failure::{Failure, FailureKind};
use crate::gate::Patience;

/// A limit of a part of a run, by count and by time. The part ends when it reaches one of them.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Limit {
    /// The most transactions of any type.
    #[serde(alias = "max_transactions")]
    pub transactions: u64,
    /// The most wall time in seconds.
    #[serde(rename = "max_seconds")]
    pub seconds: f64,
}

/// The longest time limit in seconds, some three years: a longer one is cut to this.
const LONGEST_S: f64 = 1e8;

impl Limit {
    /// Returns the wall time after which the part ends.
    #[must_use]
    pub fn time(self) -> Duration {
        Duration::from_secs_f64(self.seconds.clamp(0.0, LONGEST_S))
    }
}

/// The warm-up of a run. It lasts until the gate opens, but at most until `limit`.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct WarmUp {
    /// The conditions for which the warm-up's gate waits before it may open.
    #[serde(flatten)]
    pub patience: Patience,
    /// The limit at which the run ends a warm-up whose gate has not opened.
    #[serde(flatten)]
    pub limit: Limit,
}

impl From<Limit> for WarmUp {
    fn from(limit: Limit) -> Self {
        WarmUp { patience: Patience::default(), limit }
    }
}

/// A workload's name, and its parameters, which the code of the workload parses.
#[derive(Clone, Debug, Deserialize)]
pub struct WorkloadJob {
    name: String,
    #[serde(flatten)]
    parameters: Map<String, Value>,
}

impl From<Refused> for Failure {
    fn from(Refused { what, place, hint }: Refused) -> Self {
        Failure::new(FailureKind::Usage, what, place, hint)
    }
}

impl From<ScriptError> for Failure {
    fn from(error: ScriptError) -> Self {
        Refused::from(error).into()
    }
}

impl WorkloadJob {
    /// Returns the seed of the run, which also decides the arrivals of an open loop; zero for a job without a seed.
    pub fn seed(&self) -> u64 {
        self.parameters.get("seed").and_then(Value::as_u64).unwrap_or_default()
    }

    /// Returns a [`Workload`] for each connection's driver.
    ///
    /// # Errors
    /// When no workload has this name, or it cannot run with its parameters.
    pub fn drivers(&self, connections: usize) -> Result<Vec<Box<dyn Workload>>, Failure> {
        Ok((self.bundle()?.drivers)(self.parameters.clone().into(), connections)?)
    }

    /// Returns the data that the workload loads. A script loads the tables of the workload that it names as `data`, if
    /// any, and then executes its setup section.
    ///
    /// # Errors
    /// When no workload has this name, or it cannot load data with its parameters.
    pub fn data(&self) -> Result<Data, Failure> {
        let mut parameters = self.parameters.clone();
        if let Some(tables) = self.bundle()?.tables {
            return Ok(Data { tables: Some(tables(parameters.into())?), setup: None });
        }
        let below: Option<WorkloadJob> = read(parameters.remove("data").unwrap_or_default())?;
        let tables = below.map(|below| below.data()).transpose()?.and_then(|data| data.tables);
        Ok(Data { tables, setup: Some(read::<ScriptJob>(parameters.into())?.parse()?) })
    }

    fn bundle(&self) -> Result<&'static Bundle, Refused> {
        static KNOWN: [Bundle; BUNDLES.len()] = BUNDLES;
        let unknown = || Refused::parameters(format!("there is no workload {:?}", self.name));
        KNOWN.iter().find(|bundle| bundle.name == self.name).ok_or_else(unknown)
    }
}

/// The pace at which transactions begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(tag = "mode", rename_all = "snake_case", deny_unknown_fields)]
pub enum Pace {
    /// Each transaction begins when its predecessor has ended.
    #[default]
    Closed,
    /// Each transaction begins at a time of an arrival process, whether or not the engine keeps up.
    Open {
        /// Arrivals per second.
        rate_per_s: f64,
        /// The distribution of the gaps between arrivals.
        #[serde(rename = "arrivals")]
        spacing: Spacing,
        /// The longest wait of an arrival; the driver drops one that has waited longer.
        #[serde(rename = "patience_s", deserialize_with = "seconds")]
        patience: Duration,
    },
}

impl Pace {
    /// Returns the schedule of an open loop; none for a closed loop.
    ///
    /// # Errors
    /// When the rate is out of [`RATE_RANGE_PER_S`].
    pub fn arrivals(&self, seed: u64) -> Result<Option<Arrivals>, Failure> {
        let Pace::Open { rate_per_s, spacing, patience } = *self else { return Ok(None) };
        let patience_ns = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
        let schedule = Arrivals::new(&OpenLoop { rate_per_s, spacing, patience_ns, seed });
        let refused = || {
            let (slowest, fastest) = (RATE_RANGE_PER_S.start(), RATE_RANGE_PER_S.end());
            let hint = format!("choose a rate from {slowest} to {fastest} transactions per second");
            Failure::new(FailureKind::Usage, format!("rate = {rate_per_s} per second is out of range"), "rate", hint)
        };
        schedule.map(Some).ok_or_else(refused)
    }
}

/// A further window after the measured one: it executes a script in a closed loop.
#[derive(Clone, Debug, Deserialize)]
pub struct PhaseJob {
    /// The name of the phase in samples.
    pub name: Arc<str>,
    /// The script that the phase executes.
    #[serde(flatten)]
    pub script: ScriptJob,
    /// The limit of the phase.
    #[serde(flatten)]
    pub limit: Limit,
}

impl PhaseJob {
    /// Checks the phase when the run begins, minutes before it executes the phase. A phase's name must differ from the
    /// names of the parts that every run has.
    ///
    /// # Errors
    /// When the phase's name is not allowed, or its script has a mistake, an expression without a value or no
    /// transaction.
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

/// Reads a JSON object and returns its pairs in the order of their names.
pub(crate) fn pairs<'de, D: Deserializer<'de>, V: Deserialize<'de>>(json: D) -> Result<Vec<(String, V)>, D::Error> {
    Ok(BTreeMap::deserialize(json)?.into_iter().collect())
}

/// Reads the time between two samples, in milliseconds; returns at least 10 ms.
pub(crate) fn sample_interval<'de, D: Deserializer<'de>>(json: D) -> Result<Duration, D::Error> {
    Ok(Duration::from_millis(u64::deserialize(json)?.max(10)))
}

fn seconds<'de, D: Deserializer<'de>>(json: D) -> Result<Duration, D::Error> {
    let seconds = f64::deserialize(json)?;
    let whole = Duration::try_from_secs_f64(seconds).ok().filter(|_| seconds > 0.0);
    whole.ok_or_else(|| de::Error::custom(format!("{seconds} s is not a positive time")))
}
