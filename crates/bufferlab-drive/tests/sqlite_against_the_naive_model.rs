//! Compares SQLite with the naive database of the workload's own tests: both execute the same transactions, then every
//! row must be equal.
//!
//! The two share only the statements' names and the schema's column names. One is SQL on bufferlab's page pool and VFS,
//! with a pool far too small for the data; the other is plain maps.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

#[path = "../../bufferlab-workload/tests/support/model.rs"]
#[allow(dead_code, reason = "the workload's tests use the rest of it")]
mod model;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use bufferlab_drive::sqlite::DIALECT;
use bufferlab_drive::sqlite::client::SqliteClient;
use bufferlab_drive::sqlite::engine::Engine;
use bufferlab_drive::sqlite::knobs::{IoChoice, LockingMode, Pcache, SqliteKnobs, Synchronous};
use bufferlab_drive::sqlite::loader::{Load, load};
use bufferlab_drive::sqlite::pcache;
use bufferlab_model::PageSize;
use bufferlab_workload::client::Workload;
use bufferlab_workload::tpcc::population::TpccPopulation;
use bufferlab_workload::tpcc::schema::TableId;
use bufferlab_workload::tpcc::{TpccConfig, TpccDriver};
use model::{Database, Stored};
use rusqlite::types::ValueRef;

const WAREHOUSES: u32 = 2;
const TRANSACTIONS: usize = 2_300;

#[test]
fn every_output_and_every_row_is_the_naive_models() {
    // Install the page cache before any other code initialises SQLite. The pool is smaller than one warehouse's stock.
    pcache::install().unwrap();
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("differential.db");
    let config = TpccConfig::new(WAREHOUSES, 77, 5).unwrap();
    let page_size = PageSize::new(4096).unwrap();
    let job = Load { database: path.clone(), page_size, data: TpccPopulation::new(config).into(), generators: 2 };
    load(&job, &AtomicBool::new(false), &mut |_| {}).unwrap();
    let mut naive = Database::load(&config);
    assert_tables_are_equal(&path, &naive);

    let knobs = SqliteKnobs {
        page_size,
        pool_size_bytes: 300 * 4096,
        io_mode: IoChoice::Buffered,
        pcache: Pcache::Ours,
        synchronous: Synchronous::Off,
        wal_autocheckpoint_bytes: 1 << 20,
        locking_mode: LockingMode::Exclusive,
    };
    let engine = Engine::open(&path, &knobs).unwrap();
    let (mut on_sqlite, mut on_maps) = (TpccDriver::new(config, 0, 1).unwrap(), TpccDriver::new(config, 0, 1).unwrap());
    // SAFETY: the client is dropped before the engine is closed.
    let mut client = unsafe { SqliteClient::new(&engine, &DIALECT.statements(&mut on_sqlite).unwrap()).unwrap() };
    for number in 0..TRANSACTIONS {
        assert_eq!(on_sqlite.plan(), on_maps.plan());
        assert_eq!(on_sqlite.execute(&mut client), on_maps.execute(&mut naive), "transaction {number}");
        assert_eq!(on_sqlite.last_output(), on_maps.last_output(), "transaction {number}");
    }
    drop(client);
    engine.close().unwrap();
    assert_tables_are_equal(&path, &naive);
}

/// Checks that all tables are equal. Reads the closed file with an ordinary connection, in the order of the naive
/// database's keys.
fn assert_tables_are_equal(path: &Path, naive: &Database) {
    let connection = rusqlite::Connection::open(path).unwrap();
    for table in TableId::ALL {
        let order = match table.key_columns() {
            0 => "rowid".to_owned(),
            columns => (1..=columns).map(|column| column.to_string()).collect::<Vec<_>>().join(","),
        };
        let sql = format!("SELECT * FROM {} ORDER BY {order}", table.name());
        let mut statement = connection.prepare(&sql).unwrap();
        let columns = statement.column_count();
        let mut rows = statement.query([]).unwrap();
        let mut compared = 0;
        for expected in naive.table(table).values() {
            let row = rows.next().unwrap().unwrap_or_else(|| panic!("{} has only {compared} rows", table.name()));
            for (column, expected) in expected.iter().enumerate() {
                let same = match (row.get_ref(column).unwrap(), expected) {
                    (ValueRef::Null, Stored::Null) => true,
                    (ValueRef::Integer(found), Stored::Int(int)) => found == *int,
                    (ValueRef::Text(found), Stored::Text(text)) => found == text.as_bytes(),
                    _ => false,
                };
                assert!(same, "{} row {compared} column {column}: not {expected:?}", table.name());
            }
            assert_eq!(expected.len(), columns);
            compared += 1;
        }
        assert!(rows.next().unwrap().is_none(), "{} has more than {compared} rows", table.name());
        assert!(compared > 0);
    }
}
