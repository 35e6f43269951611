//! What is loaded into PostgreSQL: the tables of a workload as it spells them, and what decides the result.

use std::fmt::Write;

use bufferlab_workload::client::Value;
use bufferlab_workload::index_scan::TableSet;
use bufferlab_workload::tpcc::TpccConfig;
use bufferlab_workload::tpcc::schema::{ColumnKind, TableId};

use crate::dialect::statements;
use crate::failure::{Failure, FailureKind};
use crate::sqlite::data::{Data, Recipe, Tables};

/// Versions of everything that decides loaded data beside its schema, scale, seed and page size: the population and the
/// order and manner of writing it. Raise one when any of them changes, or cached data will be taken for new.
const TPCC_LOADER_VERSION: u32 = 1;
const HOT_ROWS_LOADER_VERSION: u32 = 1;
const INDEX_SCAN_LOADER_VERSION: u32 = 1;
const SETUP_LOADER_VERSION: u32 = 1;

/// Warehouse numbers are SMALLINT.
const MAX_WAREHOUSES: u32 = 32_767;

/// The statements that make one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSchema {
    /// Its name.
    pub name: &'static str,
    /// How each of its columns is written.
    pub columns: Vec<ColumnKind>,
    /// Builds its primary key and its other indexes, once the rows are there.
    pub indexes: Vec<String>,
}

/// CREATE TABLE for every table.
#[must_use]
pub fn tables_sql(tables: &Tables) -> &'static str {
    match tables {
        Tables::Tpcc(_) => include_str!("../../dialects/postgres/tpcc/schema.sql"),
        Tables::HotRows(_) => include_str!("../../dialects/postgres/hot_rows/schema.sql"),
        Tables::IndexScan(population) => match population.table_set() {
            TableSet::LineItem => include_str!("../../dialects/postgres/index_scan/schema.sql"),
            TableSet::All => concat!(
                include_str!("../../dialects/postgres/index_scan/others.sql"),
                include_str!("../../dialects/postgres/index_scan/schema.sql")
            ),
        },
    }
}

fn indexes_sql(tables: &Tables) -> &'static str {
    match tables {
        Tables::Tpcc(_) => include_str!("../../dialects/postgres/tpcc/indexes.sql"),
        Tables::HotRows(_) => include_str!("../../dialects/postgres/hot_rows/indexes.sql"),
        Tables::IndexScan(population) => match population.table_set() {
            TableSet::LineItem => include_str!("../../dialects/postgres/index_scan/indexes.sql"),
            TableSet::All => concat!(
                include_str!("../../dialects/postgres/index_scan/others_indexes.sql"),
                include_str!("../../dialects/postgres/index_scan/indexes.sql")
            ),
        },
    }
}

/// The tables in the order of the population's.
#[must_use]
pub fn table_schemas(tables: &Tables) -> Vec<TableSchema> {
    let indexes: Vec<String> = statements(indexes_sql(tables)).collect();
    let of = |name: &'static str, columns: Vec<ColumnKind>| {
        let own = [format!("ALTER TABLE {name} "), format!(" ON {name} ")];
        let is_own = |sql: &&String| own.iter().any(|words| sql.contains(words));
        TableSchema { name, columns, indexes: indexes.iter().filter(is_own).cloned().collect() }
    };
    match tables {
        Tables::Tpcc(_) => TableId::ALL
            .iter()
            .map(|table| of(table.name(), table.columns().iter().map(|column| column.kind).collect()))
            .collect(),
        Tables::HotRows(_) => {
            let texts = [120, 60].map(|max_chars| ColumnKind::Text { max_chars });
            vec![of("sbtest1", vec![ColumnKind::Integer, ColumnKind::Integer, texts[0], texts[1]])]
        }
        Tables::IndexScan(population) => {
            let tables = population.table_set().tables().iter();
            tables.map(|table| of(table.name(), table.columns().iter().map(|&(_, kind)| kind).collect())).collect()
        }
    }
}

/// Refuses a scale that the columns cannot hold.
///
/// # Errors
/// As a usage failure that names the most warehouses there may be.
pub fn check_scale(tables: &Tables) -> Result<(), Failure> {
    match tables {
        Tables::Tpcc(config) if TpccConfig::warehouses(config) > MAX_WAREHOUSES => {
            let what = format!("{} warehouses do not fit into SMALLINT", config.warehouses());
            Err(Failure::new(FailureKind::Usage, what, "warehouses", format!("use at most {MAX_WAREHOUSES}")))
        }
        _ => Ok(()),
    }
}

/// What decides loaded data beside scale, seed and page size.
///
/// # Errors
/// When a variable of the setup section has no value.
pub fn recipe(data: &Data) -> Result<Recipe, Failure> {
    let (mut schema_sql, mut loader_version) = (String::new(), 0);
    if let Some(tables) = &data.tables {
        schema_sql = format!("{}\n{}", tables_sql(tables), indexes_sql(tables));
        loader_version = match tables {
            Tables::Tpcc(_) => TPCC_LOADER_VERSION,
            Tables::HotRows(_) => HOT_ROWS_LOADER_VERSION,
            Tables::IndexScan(_) => INDEX_SCAN_LOADER_VERSION,
        };
    }
    if let Some(script) = &data.setup {
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

/// A value as a literal of SQL with standard strings. A negative number stands in parentheses: behind a minus its own would
/// begin a comment.
#[must_use]
pub fn literal(value: Value<'_>) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Int(int) if int < 0 => format!("({int})"),
        Value::Int(int) => int.to_string(),
        Value::Real(real) if real < 0.0 => format!("({real:?})"),
        Value::Real(real) => format!("{real:?}"),
        Value::Text(text) => format!("'{}'", text.replace('\'', "''")),
    }
}

#[cfg(test)]
mod tests {
    use bufferlab_workload::hot_rows::HotRowsPopulation;
    use bufferlab_workload::index_scan::{IndexScanPopulation, ScaleFactor};

    use super::*;

    #[test]
    fn every_table_has_its_columns_in_the_dialects_order_and_its_indexes() {
        let hot_rows = HotRowsPopulation::new(10, 1).expect("the scale is valid");
        let tpcc = TpccConfig::new(1, 1, 0).expect("the scale is valid");
        let mut indexes = 0;
        let scale_factor = ScaleFactor::new(0.01).expect("the scale is valid");
        let tpch = |tables| Tables::IndexScan(IndexScanPopulation::new(scale_factor, tables));
        for tables in [Tables::Tpcc(tpcc), Tables::HotRows(hot_rows), tpch(TableSet::LineItem), tpch(TableSet::All)] {
            let created: Vec<String> = statements(tables_sql(&tables)).collect();
            let schemas = table_schemas(&tables);
            assert_eq!(created.len(), schemas.len());
            for (sql, schema) in created.iter().zip(&schemas) {
                assert!(sql.contains(&format!("CREATE TABLE {} (", schema.name)), "{sql}");
                let columns = sql.lines().filter(|line| line.starts_with("  "));
                assert_eq!(columns.count(), schema.columns.len(), "{}", schema.name);
                indexes += schema.indexes.len();
            }
        }
        let tpch = 2 + 9;
        assert_eq!(indexes, 9 + 3 + tpch, "primary keys of all but history, names, orders by customer, k, ship dates");
    }

    #[test]
    fn tpcc_columns_have_the_names_of_the_workload() {
        let tpcc = Tables::Tpcc(TpccConfig::new(1, 1, 0).expect("the scale is valid"));
        for (sql, table) in statements(tables_sql(&tpcc)).zip(TableId::ALL) {
            let names: Vec<&str> = sql.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).collect();
            let expected: Vec<&str> = table.columns().iter().map(|column| column.name).collect();
            assert_eq!(names, expected);
        }
    }

    #[test]
    fn literals_cannot_end_early_or_begin_a_comment() {
        assert_eq!(literal(Value::Text("a'b\\")), "'a''b\\'");
        assert_eq!(format!("1-{}", literal(Value::Int(-5))), "1-(-5)");
        assert_eq!(literal(Value::Real(2.0)), "2.0");
    }
}
