//! Loading into MySQL and MariaDB: the job as Python writes it.

use bufferlab_load::mysql::loader::Load;
use bufferlab_load::mysql::schema::recipe;
use bufferlab_load::mysql::target::Target;
use pyo3::prelude::*;
use serde::Deserialize;

use crate::error::to_python;
use crate::jobs::{LoadWorkload, parse};
use crate::outcome::LoadRecipe;

/// A bulk load into a server.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MysqlLoadJob {
    target: Target,
    /// The loader asks the server what it can do; which server it is decides nothing here.
    #[serde(rename = "flavour")]
    _flavour: String,
    #[serde(rename = "version")]
    _version: String,
    workload: LoadWorkload,
    threads: usize,
}

impl MysqlLoadJob {
    /// Reads a job; unknown fields are errors.
    pub fn parse(json: &str) -> PyResult<Self> {
        parse(json)
    }

    /// The job in the core's types.
    pub fn typed(&self) -> PyResult<Load> {
        Ok(Load { target: self.target.clone(), data: self.workload.typed()?, threads: self.threads, form: None })
    }
}

/// What decides loaded data of this workload beside scale, seed and page size.
pub fn mysql_recipe(workload_json: &str) -> PyResult<LoadRecipe> {
    let data = parse::<LoadWorkload>(workload_json)?.typed()?;
    let recipe = recipe(&data).map_err(to_python)?;
    Ok(LoadRecipe { schema_sql: recipe.schema_sql, loader_version: recipe.loader_version })
}
