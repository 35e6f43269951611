//! The bundle of users' scripts, and the fields of their jobs. A script has no population: its setup section makes the
//! tables that it needs.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{NAME, Number, Script, ScriptError, ScriptWorkload};
use crate::bundle::{Bundle, boxed, read};
use crate::random::Random;

/// The bundle of users' scripts: no tables, and a [`ScriptWorkload`] for each connection.
pub const BUNDLE: Bundle = Bundle {
    name: NAME,
    tables: None,
    drivers: |job, connections| {
        let job: ScriptJob = read(job)?;
        Ok(boxed(job.workloads(connections)?))
    },
};

/// A script's text and its predefined variables.
#[derive(Clone, Debug, Deserialize)]
pub struct ScriptJob {
    /// Name of the script's file, for messages.
    pub source: String,
    /// The script's text.
    pub text: String,
    /// Seed of the script's random variables. A setup section does not use it.
    #[serde(default)]
    pub seed: u64,
    /// Values of the script's predefined variables, by name.
    pub variables: BTreeMap<String, Number>,
}

impl ScriptJob {
    /// Reads the script.
    ///
    /// # Errors
    /// When the script has a mistake.
    pub fn parse(&self) -> Result<Script, ScriptError> {
        let variables: Vec<(String, Number)> = self.variables.clone().into_iter().collect();
        Script::parse(&self.source, &self.text, &variables)
    }

    /// Returns a workload for each connection, all with the same script and each with separate random variables. The
    /// first connection has the job's seed.
    ///
    /// # Errors
    /// When the script has a mistake, or no transaction.
    pub fn workloads(&self, connections: usize) -> Result<Vec<ScriptWorkload>, ScriptError> {
        let script = self.parse()?;
        let seed = |index: usize| match index {
            0 => self.seed,
            _ => Random::stream(self.seed, "script of a connection", &[index as u64]).bits(),
        };
        (0..connections).map(|index| ScriptWorkload::new(script.clone(), seed(index))).collect()
    }
}
