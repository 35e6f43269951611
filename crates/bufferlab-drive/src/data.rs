//! The data that a load makes: a workload's tables, the data of a script's setup section, or both.

use std::fmt::Write;

use bufferlab_workload::population::Population;
use bufferlab_workload::script::Script;
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::dialect::Dialect;
use crate::failure::Failure;
use crate::job::WorkloadJob;
use crate::schema::table_schemas;

/// The version of the code that executes setup sections. Raise it when that code makes other data: the cache of
/// databases reuses data of the same version.
const SETUP_VERSION: u32 = 1;

/// The data that a database holds after its load.
pub struct Data {
    /// The tables that the load makes first.
    pub tables: Option<Box<dyn Population>>,
    /// The script whose setup section the load executes after that.
    pub setup: Option<Script>,
}

impl<P: Population + 'static> From<P> for Data {
    fn from(tables: P) -> Self {
        Data { tables: Some(Box::new(tables)), setup: None }
    }
}

impl<'de> Deserialize<'de> for Data {
    /// Reads a workload's job and returns the data that it loads.
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        WorkloadJob::deserialize(json)?.data().map_err(de::Error::custom)
    }
}

/// The recipe of loaded data: everything that determines the data, except scale, seed and page size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Recipe {
    /// The SQL of tables and indexes, and the statements of the setup section with their values.
    pub schema_sql: String,
    /// The version of all other code that determines the data, such as the generator of rows.
    pub loader_version: u32,
}

impl Data {
    /// Returns the recipe of the data in a dialect.
    ///
    /// # Errors
    /// When the dialect has no schema of the workload or lacks a table of it, or an expression of the setup section has
    /// no value.
    pub fn recipe(&self, dialect: &Dialect) -> Result<Recipe, Failure> {
        let (mut schema_sql, mut loader_version) = (String::new(), 0);
        // Writing to a string cannot fail.
        if let Some(tables) = &self.tables {
            loader_version = tables.version();
            for table in table_schemas(dialect, &**tables)? {
                let _ = writeln!(schema_sql, "{};", [&[table.create], &table.indexes[..]].concat().join(";\n"));
            }
        }
        if let Some(script) = &self.setup {
            // One number holds both versions, that of the tables and that of the setup section, so that changes of the
            // two never give the same number.
            loader_version += 1_000 * SETUP_VERSION;
            for statement in script.setup()? {
                let values = &statement.values;
                let _ = writeln!(schema_sql, "{};", statement.sql.text(|index| (dialect.literal)(values[index])));
            }
        }
        Ok(Recipe { schema_sql, loader_version })
    }
}
