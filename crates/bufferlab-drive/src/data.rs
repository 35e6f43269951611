//! What a load makes: a workload's tables, a script's setup section, or one after the other.

use std::fmt::Write;

use bufferlab_workload::population::Population;
use bufferlab_workload::script::Script;
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::dialect::Dialect;
use crate::failure::Failure;
use crate::job::WorkloadJob;
use crate::schema::table_schemas;

/// Raise it when the manner of executing a setup section changes, or cached data will be taken for new.
const SETUP_VERSION: u32 = 1;

/// Everything a database holds after its load.
pub struct Data {
    /// Loaded first.
    pub tables: Option<Box<dyn Population>>,
    /// A script whose setup section is executed then.
    pub setup: Option<Script>,
}

impl<P: Population + 'static> From<P> for Data {
    fn from(tables: P) -> Self {
        Data { tables: Some(Box::new(tables)), setup: None }
    }
}

impl<'de> Deserialize<'de> for Data {
    /// What a workload loads.
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        WorkloadJob::deserialize(json)?.data().map_err(de::Error::custom)
    }
}

/// What decides loaded data besides scale, seed and page size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Recipe {
    /// Tables and indexes, and the statements of the setup section with their values.
    pub schema_sql: String,
    /// Everything else.
    pub loader_version: u32,
}

impl Data {
    /// What decides the data, in a dialect.
    ///
    /// # Errors
    /// When the dialect lacks a table, or a variable of the setup section has no value.
    pub fn recipe(&self, dialect: &Dialect) -> Result<Recipe, Failure> {
        let (mut schema_sql, mut loader_version) = (String::new(), 0);
        // A string takes whatever is written to it.
        if let Some(tables) = &self.tables {
            loader_version = tables.version();
            for table in table_schemas(dialect, &**tables)? {
                let _ = writeln!(schema_sql, "{};", [&[table.create], &table.indexes[..]].concat().join(";\n"));
            }
        }
        if let Some(script) = &self.setup {
            // Versions of the two parts in one number: neither can stand for a change of the other.
            loader_version += 1_000 * SETUP_VERSION;
            for statement in script.setup()? {
                let values = &statement.values;
                let _ = writeln!(schema_sql, "{};", statement.sql.text(|index| (dialect.literal)(values[index])));
            }
        }
        Ok(Recipe { schema_sql, loader_version })
    }
}
