//! A run on a MySQL or MariaDB server as Python writes it, and its conversion into the core's types.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use bufferlab_load::job::{Limit, Pace};
use bufferlab_load::mysql::client::Sending;
use bufferlab_load::mysql::job::{Counted, Load, ProgramJob, Run};
use bufferlab_load::mysql::target::Target;
use bufferlab_load::mysql::version::Flavour;
use bufferlab_load::probes::Asked;
use pyo3::prelude::*;
use serde::Deserialize;

use crate::jobs::{Measure, Pacing, Phase, WarmUp, Workload, choice, parse, unusable};

/// Another program that drives the server.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Program {
    argv: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    kind_of_transaction: String,
}

impl Program {
    fn typed(&self) -> PyResult<ProgramJob> {
        let name = &self.kind_of_transaction;
        Ok(ProgramJob {
            argv: self.argv.clone(),
            env: self.env.clone().into_iter().collect(),
            counted: choice("kind_of_transaction", name, Counted::from_name(name))?,
        })
    }
}

/// Servers are ours unless said otherwise.
fn ours() -> bool {
    true
}

/// A run on a server.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MysqlRunJob {
    target: Target,
    flavour: String,
    /// As Python knows it; the server is asked itself.
    #[serde(rename = "version", default)]
    _version: Option<String>,
    #[serde(default)]
    server_pid: Option<u32>,
    #[serde(default)]
    datadir: Option<PathBuf>,
    #[serde(default = "ours")]
    may_change_settings: bool,
    connections: usize,
    statements: String,
    frames: u64,
    /// May be left out when a program makes the transactions.
    #[serde(default)]
    workload: Option<Workload>,
    #[serde(rename = "load", default)]
    pacing: Option<Pacing>,
    #[serde(default)]
    phases: Vec<Phase>,
    warm_up: WarmUp,
    measure: Measure,
    sample_interval_ms: u64,
    #[serde(default)]
    probes: Asked,
    #[serde(default)]
    program: Option<Program>,
}

impl MysqlRunJob {
    /// Reads a job; unknown fields are errors.
    pub fn parse(json: &str) -> PyResult<Self> {
        parse(json)
    }

    /// The job in the core's types.
    pub fn typed(&self) -> PyResult<Run> {
        let load = match (&self.program, &self.workload) {
            (Some(program), _) => Load::Program(program.typed()?),
            (None, Some(workload)) => Load::Workload(workload.typed()?),
            (None, None) => return Err(unusable("neither a workload nor a program is named".to_owned(), "job")),
        };
        let pace = self.pacing.as_ref().map_or(Ok(Pace::Closed), Pacing::typed)?;
        if self.program.is_some() && pace != Pace::Closed {
            let what = "a rate is given, and a program that makes the transactions keeps its own";
            return Err(unusable(what.to_owned(), "load"));
        }
        let seed = self.workload.as_ref().map_or(0, Workload::seed);
        Ok(Run {
            target: self.target.clone(),
            flavour: choice("flavour", &self.flavour, Flavour::from_name(&self.flavour))?,
            server_pid: self.server_pid,
            datadir: self.datadir.clone(),
            may_change_settings: self.may_change_settings,
            connections: self.connections,
            sending: choice("statements", &self.statements, Sending::from_name(&self.statements))?,
            frames: self.frames,
            load,
            pace,
            phases: self.phases.iter().map(|phase| phase.typed(seed)).collect(),
            warm_up: self.warm_up.in_core(),
            measure: Limit { transactions: self.measure.transactions, seconds: self.measure.max_seconds },
            sample_interval: Duration::from_millis(self.sample_interval_ms.max(10)),
            probes: self.probes.clone(),
        })
    }
}
