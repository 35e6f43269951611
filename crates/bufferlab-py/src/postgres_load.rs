//! Loading into PostgreSQL: the job as Python writes it.

use bufferlab_load::postgres::loader::Load;
use bufferlab_load::postgres::schema::recipe;
use bufferlab_load::postgres::target::Target;
use pyo3::prelude::*;
use serde::Deserialize;

use crate::error::to_python;
use crate::jobs::{LoadWorkload, parse};
use crate::outcome::LoadRecipe;

/// A bulk load into a server.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PostgresLoadJob {
    target: Target,
    #[serde(rename = "version", default)]
    _version: Option<String>,
    workload: LoadWorkload,
    threads: usize,
}

impl PostgresLoadJob {
    /// Reads a job; unknown fields are errors.
    pub fn parse(json: &str) -> PyResult<Self> {
        parse(json)
    }

    /// The job in the core's types.
    pub fn typed(&self) -> PyResult<Load> {
        Ok(Load { target: self.target.clone(), data: self.workload.typed()?, threads: self.threads })
    }
}

/// What decides loaded data of this workload beside scale, seed and page size.
pub fn postgres_recipe(workload_json: &str) -> PyResult<LoadRecipe> {
    let data = parse::<LoadWorkload>(workload_json)?.typed()?;
    let recipe = recipe(&data).map_err(to_python)?;
    Ok(LoadRecipe { schema_sql: recipe.schema_sql, loader_version: recipe.loader_version })
}
