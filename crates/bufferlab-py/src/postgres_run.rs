//! A run on a PostgreSQL server as Python writes it, and its conversion into the core's types.

use std::path::PathBuf;
use std::time::Duration;

use bufferlab_load::job::{Limit, Pace};
use bufferlab_load::postgres::job::Run;
use bufferlab_load::postgres::target::Target;
use bufferlab_load::probes::Asked;
use bufferlab_load::server::Sending;
use pyo3::prelude::*;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::jobs::{Measure, Pacing, Phase, WarmUp, Workload, choice, parse, unusable};

/// A run on a server.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PostgresRunJob {
    target: Target,
    /// As Python knows it; the server is asked itself.
    #[serde(rename = "version", default)]
    _version: Option<String>,
    #[serde(default)]
    server_pid: Option<u32>,
    #[serde(default)]
    datadir: Option<PathBuf>,
    connections: usize,
    statements: String,
    frames: u64,
    workload: Workload,
    #[serde(rename = "load", default)]
    pacing: Option<Pacing>,
    #[serde(default)]
    phases: Vec<Phase>,
    warm_up: WarmUp,
    measure: Measure,
    sample_interval_ms: u64,
    #[serde(default)]
    probes: Asked,
    /// Must be absent or null.
    #[serde(default)]
    program: Option<IgnoredAny>,
}

impl PostgresRunJob {
    /// Reads a job; unknown fields are errors.
    pub fn parse(json: &str) -> PyResult<Self> {
        parse(json)
    }

    /// The job in the core's types.
    pub fn typed(&self) -> PyResult<Run> {
        if self.program.is_some() {
            return Err(unusable("no other program drives PostgreSQL".to_owned(), "program"));
        }
        Ok(Run {
            target: self.target.clone(),
            server_pid: self.server_pid,
            datadir: self.datadir.clone(),
            connections: self.connections,
            sending: choice("statements", &self.statements, Sending::from_name(&self.statements))?,
            frames: self.frames,
            workload: self.workload.typed()?,
            pace: self.pacing.as_ref().map_or(Ok(Pace::Closed), Pacing::typed)?,
            phases: self.phases.iter().map(|phase| phase.typed(self.workload.seed())).collect(),
            warm_up: self.warm_up.in_core(),
            measure: Limit { transactions: self.measure.transactions, seconds: self.measure.max_seconds },
            sample_interval: Duration::from_millis(self.sample_interval_ms.max(10)),
            probes: self.probes.clone(),
        })
    }
}
