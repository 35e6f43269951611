//! What can be loaded into SQLite: a workload's population under its schema, a script's setup section, or one after
//! the other.

use std::fmt::Write;

use bufferlab_workload::client::Value;
use bufferlab_workload::hot_rows::HotRowsPopulation;
use bufferlab_workload::index_scan::{IndexScanPopulation, TableSet};
use bufferlab_workload::population::Population;
use bufferlab_workload::script::Script;
use bufferlab_workload::tpcc::TpccConfig;
use bufferlab_workload::tpcc::population::TpccPopulation;
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Map, Value as Json};

use crate::failure::Failure;
use crate::job::ScriptJob;

/// The tables of one workload, of some scale and seed.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum Tables {
    /// TPC-C's nine.
    Tpcc(TpccConfig),
    /// Sysbench's one.
    HotRows(HotRowsPopulation),
    /// TPC-H's, all or LINEITEM alone.
    IndexScan(IndexScanPopulation),
}

/// Versions of everything that decides a loaded file beside its schema, scale, seed and page size: the population and
/// the order and manner of writing it. Raise one when any of them changes, or cached databases will be taken for new.
const TPCC_LOADER_VERSION: u32 = 1;
const HOT_ROWS_LOADER_VERSION: u32 = 1;
const INDEX_SCAN_LOADER_VERSION: u32 = 1;
const SETUP_LOADER_VERSION: u32 = 1;

impl Tables {
    /// Tables and indexes, as SQLite spells them.
    #[must_use]
    pub fn schema_sql(&self) -> &'static str {
        match self {
            Tables::Tpcc(_) => include_str!("../../dialects/sqlite/tpcc/schema.sql"),
            Tables::HotRows(_) => include_str!("../../dialects/sqlite/hot_rows/schema.sql"),
            Tables::IndexScan(population) => match population.table_set() {
                TableSet::LineItem => include_str!("../../dialects/sqlite/index_scan/schema.sql"),
                TableSet::All => concat!(
                    include_str!("../../dialects/sqlite/index_scan/others.sql"),
                    include_str!("../../dialects/sqlite/index_scan/schema.sql")
                ),
            },
        }
    }

    fn loader_version(&self) -> u32 {
        match self {
            Tables::Tpcc(_) => TPCC_LOADER_VERSION,
            Tables::HotRows(_) => HOT_ROWS_LOADER_VERSION,
            Tables::IndexScan(_) => INDEX_SCAN_LOADER_VERSION,
        }
    }

    /// The rows.
    #[must_use]
    pub fn population(&self) -> Box<dyn Population> {
        match self {
            Tables::Tpcc(config) => Box::new(TpccPopulation::new(*config)),
            Tables::HotRows(population) => Box::new(*population),
            Tables::IndexScan(population) => Box::new(*population),
        }
    }
}

/// Everything a database holds after its load.
#[derive(Clone, Debug)]
pub struct Data {
    /// Loaded first.
    pub tables: Option<Tables>,
    /// A script whose setup section is executed then.
    pub setup: Option<Script>,
}

impl From<Tables> for Data {
    fn from(tables: Tables) -> Self {
        Data { tables: Some(tables), setup: None }
    }
}

impl<'de> Deserialize<'de> for Data {
    /// A workload's tables; or, of the workload `script`, its text and the tables that it finds (`data`).
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        let mut asked = Map::deserialize(json)?;
        if asked.get("name") != Some(&Json::from("script")) {
            return Tables::deserialize(Json::from(asked)).map(Data::from).map_err(de::Error::custom);
        }
        let tables = Option::deserialize(asked.remove("data").unwrap_or_default()).map_err(de::Error::custom)?;
        let script = ScriptJob::deserialize(Json::from(asked)).map_err(de::Error::custom)?;
        Ok(Data { tables, setup: Some(script.parse().map_err(de::Error::custom)?) })
    }
}

/// What decides a loaded file beside scale, seed and page size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Recipe {
    /// Tables and indexes, and the statements of the setup section with their values.
    pub schema_sql: String,
    /// Everything else.
    pub loader_version: u32,
}

impl Data {
    /// What decides the file.
    ///
    /// # Errors
    /// When a variable of the setup section has no value.
    pub fn recipe(&self) -> Result<Recipe, Failure> {
        let mut schema_sql = self.tables.as_ref().map_or("", Tables::schema_sql).to_owned();
        let mut loader_version = self.tables.as_ref().map_or(0, Tables::loader_version);
        if let Some(script) = &self.setup {
            // Versions of the two parts in one number: neither can stand for a change of the other.
            loader_version += 1_000 * SETUP_LOADER_VERSION;
            for statement in script.setup()? {
                let values = &statement.values;
                // A string takes whatever is written to it.
                let _ = writeln!(schema_sql, "{};", statement.sql.text(|index| literal(values[index])));
            }
        }
        Ok(Recipe { schema_sql, loader_version })
    }
}

fn literal(value: Value<'_>) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Int(int) => int.to_string(),
        Value::Real(real) => format!("{real:?}"),
        Value::Text(text) => format!("'{}'", text.replace('\'', "''")),
    }
}
