//! The statements that make a workload's tables and indexes, in a dialect.
//!
//! A workload's `schema.sql` has the statements for its tables, in any order, and for SQLite also for their indexes.
//! The statements for indexes on servers are in `indexes.sql`. A load makes only the tables of its population.

use bufferlab_workload::population::{ColumnKind, Population};

use crate::dialect::{Dialect, statements};
use crate::failure::{Failure, FailureKind};

/// The statements that make one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSchema {
    /// The table's name.
    pub name: &'static str,
    /// The kind of each column of the table, in order.
    pub columns: Vec<ColumnKind>,
    /// The statement that makes the table.
    pub create: String,
    /// The statements that the load executes after it has written the rows: they build the primary key, if the dialect
    /// builds keys last, and the indexes.
    pub indexes: Vec<String>,
}

/// Returns the statements for the population's tables, in the population's order.
///
/// # Errors
/// When the dialect has no schema of the population's workload, or lacks a table of the population.
pub fn table_schemas(dialect: &Dialect, population: &dyn Population) -> Result<Vec<TableSchema>, Failure> {
    let (file, mut text) = dialect.required(population.workload(), "schema.sql")?;
    text.extend(dialect.file(population.workload(), "indexes.sql").map(|(_, indexes)| indexes));
    let all: Vec<String> = statements(&text).collect();
    let tables = population.tables().into_iter().map(|table| {
        let name = table.name;
        let created = all.iter().find(|sql| sql.starts_with(&format!("CREATE TABLE {name} (")));
        let mut create = created.cloned().ok_or_else(|| {
            let what = format!("the table {name} has no SQL in this dialect");
            Failure::new(FailureKind::Internal, what, &file, "please report this")
        })?;
        let key = if dialect.keys_last { take_key(&mut create) } else { None };
        let own = [format!("ALTER TABLE {name} "), format!(" ON {name} ")];
        let indexes = all.iter().filter(|sql| own.iter().any(|words| sql.contains(words))).cloned();
        let indexes = key.map(|key| format!("ALTER TABLE {name} ADD {key}")).into_iter().chain(indexes).collect();
        Ok(TableSchema { name, columns: table.columns, create, indexes })
    });
    tables.collect()
}

/// Removes the primary key from a CREATE TABLE, and returns it.
fn take_key(create: &mut String) -> Option<String> {
    let begin = create.find(",\n  PRIMARY KEY (")?;
    let end = begin + create[begin..].find("\n)")?;
    let key = create[begin + 1..end].trim().to_owned();
    create.replace_range(begin..end, "");
    Some(key)
}

#[cfg(test)]
mod tests {
    use bufferlab_workload::hot_rows::HotRowsPopulation;
    use bufferlab_workload::index_scan::{IndexScanPopulation, ScaleFactor, Table, TableSet};
    use bufferlab_workload::tpcc::TpccConfig;
    use bufferlab_workload::tpcc::population::TpccPopulation;
    use bufferlab_workload::tpcc::schema::TableId;

    use super::*;
    use crate::{mysql, postgres, sqlite};

    const DIALECTS: [&Dialect; 3] = [&mysql::DIALECT, &postgres::DIALECT, &sqlite::DIALECT];

    fn populations() -> [Box<dyn Population>; 4] {
        let scale_factor = ScaleFactor::new(0.01).expect("the scale is valid");
        [
            Box::new(TpccPopulation::new(TpccConfig::new(1, 1, 0).expect("the scale is valid"))),
            Box::new(HotRowsPopulation::new(10, 1).expect("the scale is valid")),
            Box::new(IndexScanPopulation::new(scale_factor, TableSet::LineItem)),
            Box::new(IndexScanPopulation::new(scale_factor, TableSet::All)),
        ]
    }

    fn schemas(dialect: &Dialect, population: &dyn Population) -> Vec<TableSchema> {
        table_schemas(dialect, population).expect("the dialect has its tables")
    }

    fn columns(schema: &TableSchema) -> Vec<&str> {
        let lines = schema.create.lines().filter_map(|line| line.strip_prefix("  "));
        lines.filter(|line| !line.starts_with("PRIMARY KEY")).filter_map(|line| line.split(' ').next()).collect()
    }

    #[test]
    fn every_table_has_its_columns_in_the_dialects_order_and_its_indexes() {
        // There are five indexes: customers by name, orders by customer, k, and ship dates twice. If keys are built
        // last, the primary keys of all tables but history are added.
        for (dialect, expected) in DIALECTS.into_iter().zip([5, 5 + 8 + 1 + 1 + 8, 5]) {
            let mut indexes = 0;
            for population in populations() {
                for schema in schemas(dialect, &*population) {
                    assert_eq!(columns(&schema).len(), schema.columns.len(), "{} {}", dialect.engine, schema.name);
                    indexes += schema.indexes.len();
                }
            }
            assert_eq!(indexes, expected, "{}", dialect.engine);
        }
    }

    #[test]
    fn columns_have_the_names_of_the_workload() {
        let [tpcc, _, _, tpch] = populations();
        for dialect in DIALECTS {
            for (schema, table) in schemas(dialect, &*tpcc).iter().zip(TableId::ALL) {
                let expected: Vec<&str> = table.columns().iter().map(|column| column.name).collect();
                assert_eq!(columns(schema), expected, "{}", dialect.engine);
            }
            for (schema, table) in schemas(dialect, &*tpch).iter().zip(Table::ALL) {
                let expected: Vec<&str> = table.columns().iter().map(|column| column.name).collect();
                assert_eq!(columns(schema), expected, "{}", dialect.engine);
            }
        }
    }

    #[test]
    fn a_primary_key_is_built_after_the_rows_where_the_dialect_wants_it_so() {
        let [_, hot_rows, ..] = populations();
        let [mysql, postgres, _] = DIALECTS.map(|dialect| schemas(dialect, &*hot_rows).swap_remove(0));
        assert!(mysql.create.contains("PRIMARY KEY (id)") && mysql.indexes.len() == 1, "{mysql:?}");
        assert!(!postgres.create.contains("PRIMARY KEY") && postgres.create.ends_with("''\n)"), "{postgres:?}");
        assert_eq!(postgres.indexes, ["ALTER TABLE sbtest1 ADD PRIMARY KEY (id)", "CREATE INDEX k_1 ON sbtest1 (k)"]);
    }
}
