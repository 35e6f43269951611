//! A bundle describes a workload by two functions: they make its tables and its drivers from the fields of a job.
//!
//! The list of all bundles is [`BUNDLES`](crate::BUNDLES). The engines' dialects have the SQL, in folders with the
//! bundle's name.

use std::fmt::Display;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::client::Workload;
use crate::population::Population;
use crate::script::ScriptError;

/// A function that makes the initial database of a load job.
pub type MakeTables = fn(Value) -> Result<Box<dyn Population>, Refused>;
/// A function that makes a [`Workload`] for each connection of a run job.
pub type MakeDrivers = fn(Value, usize) -> Result<Vec<Box<dyn Workload>>, Refused>;

/// A workload that jobs can name.
pub struct Bundle {
    /// The workload's name in jobs, which is also the name of its folders of SQL.
    pub name: &'static str,
    /// Makes the workload's initial database; none if the workload uses the data of another workload.
    pub tables: Option<MakeTables>,
    /// Makes a [`Workload`] for each connection.
    pub drivers: MakeDrivers,
}

/// The reason why a workload cannot load data or run with the parameters of a job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Refused {
    /// The reason in words, for a message.
    pub what: String,
    /// The part of the job, or the line of the script.
    pub place: String,
    /// What to try.
    pub hint: String,
}

impl Refused {
    /// Makes the refusal of a workload's parameters.
    pub fn parameters(error: impl Display) -> Self {
        Refused::at("workload", error, "see `bufferlab list workloads`")
    }

    /// Makes the refusal of a part of a job.
    pub fn at(place: &str, what: impl Display, hint: &str) -> Self {
        Refused { what: what.to_string(), place: place.to_owned(), hint: hint.to_owned() }
    }
}

impl From<ScriptError> for Refused {
    fn from(error: ScriptError) -> Self {
        Refused { place: error.place(), what: error.what, hint: error.hint }
    }
}

/// Reads the fields of a job.
///
/// # Errors
/// When a field is missing, unknown or of another type.
pub fn read<T: DeserializeOwned>(job: Value) -> Result<T, Refused> {
    serde_json::from_value(job)
        .map_err(|error| Refused::at("job", error, "see `bufferlab list workloads` for what is possible"))
}

/// Boxes each driver of a workload.
pub fn boxed<W: Workload + 'static>(drivers: impl IntoIterator<Item = W>) -> Vec<Box<dyn Workload>> {
    drivers.into_iter().map(|driver| Box::new(driver) as Box<dyn Workload>).collect()
}
