//! Tests of databases that a script's setup section makes, without a workload's tables or after their load.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use bufferlab_drive::data::Data;
use bufferlab_drive::failure::{Failure, FailureKind};
use bufferlab_drive::loaded::Loaded;
use bufferlab_drive::sqlite::DIALECT;
use bufferlab_drive::sqlite::loader::{Load, load};
use bufferlab_model::PageSize;
use bufferlab_workload::hot_rows::HotRowsPopulation;
use bufferlab_workload::script::{Number, Script};
use rusqlite::Connection;
use tempfile::TempDir;

const OWN_TABLE: &str = "-- setup
CREATE TABLE \"own \"\"table\"(id INTEGER PRIMARY KEY, v TEXT NOT NULL);
\\set some random(1, 1000000)
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :rows)
INSERT INTO \"own \"\"table\" SELECT i, 'a;b ' || :some || ' ' || i FROM n;
-- transaction: read
SELECT 1;
";

struct Place {
    directory: TempDir,
}

impl Place {
    fn new() -> Self {
        Place { directory: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn load(&self, name: &str, data: Data, cancelled: bool) -> Result<Loaded, Failure> {
        let page_size = PageSize::new(8_192).unwrap();
        let job = Load { database: self.path(name), page_size, data, generators: 2 };
        load(&job, &AtomicBool::new(cancelled), &mut |_| {})
    }
}

fn script(text: &str, rows: i64) -> Script {
    Script::parse("own.sql", text, &[("rows".to_owned(), Number::Int(rows))]).unwrap()
}

fn setup_of(text: &str) -> Data {
    Data { tables: None, setup: Some(script(text, 500)) }
}

fn sbtest() -> HotRowsPopulation {
    HotRowsPopulation::new(3_000, 42).unwrap()
}

fn one<T: rusqlite::types::FromSql>(path: &Path, sql: &str) -> T {
    Connection::open(path).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn a_setup_section_alone_makes_the_database_with_the_page_size_that_was_asked() {
    let place = Place::new();
    let loaded = place.load("own.db", setup_of(OWN_TABLE), false).unwrap();
    assert_eq!((loaded.rows, loaded.tables), (500, vec![("own \"table".to_owned(), 500)]));
    let path = place.path("own.db");
    assert_eq!(loaded.bytes, std::fs::metadata(&path).unwrap().len());
    assert_eq!(one::<i64>(&path, "PRAGMA page_size"), 8_192);
    assert_eq!(one::<String>(&path, "PRAGMA journal_mode"), "wal");
    assert_eq!(one::<String>(&path, "PRAGMA quick_check"), "ok");
    assert_eq!(one::<i64>(&path, "SELECT count(DISTINCT substr(v, 1, instr(v, ' ') + 4)) FROM \"own \"\"table\""), 1);
}

#[test]
fn a_setup_section_finds_the_tables_it_asked_for_and_may_change_them() {
    let text = "-- setup\nCREATE INDEX by_c ON sbtest1(c); CREATE TABLE copy AS SELECT * FROM sbtest1 WHERE id <= 10;
                DELETE FROM sbtest1 WHERE id > 2000;\n-- transaction: read\nSELECT 1;\n";
    let place = Place::new();
    let data = Data { tables: Some(Box::new(sbtest())), setup: Some(script(text, 500)) };
    let loaded = place.load("both.db", data, false).unwrap();
    let tables = vec![("sbtest1".to_owned(), 2_000), ("copy".to_owned(), 10)];
    assert_eq!((loaded.rows, loaded.tables), (2_010, tables));
    assert_eq!(one::<String>(&place.path("both.db"), "PRAGMA integrity_check"), "ok");
}

#[test]
fn the_same_text_and_variables_give_the_same_file() {
    let place = Place::new();
    let bytes = |name: &str| {
        place.load(name, setup_of(OWN_TABLE), false).unwrap();
        std::fs::read(place.path(name)).unwrap()
    };
    assert!(bytes("one.db") == bytes("two.db"), "two loads of one script differ");
}

#[test]
fn the_recipe_follows_what_decides_the_file_and_nothing_else() {
    let recipe = |data: Data| data.recipe(&DIALECT).unwrap();
    let base = recipe(setup_of(OWN_TABLE));
    assert_eq!(base, recipe(setup_of(&OWN_TABLE.replace("SELECT 1;", "SELECT 2;"))), "transactions decide nothing");
    assert_ne!(base, recipe(setup_of(&OWN_TABLE.replace("'a;b '", "'a;c '"))));
    assert_ne!(base, recipe(Data { tables: None, setup: Some(script(OWN_TABLE, 501)) }), "its variables do");
    assert_ne!(base, recipe(Data { tables: Some(Box::new(sbtest())), ..setup_of(OWN_TABLE) }));
    let tables = recipe(sbtest().into());
    assert_eq!(tables.loader_version, 1);
    assert!(
        tables.schema_sql.starts_with("CREATE TABLE sbtest1 (\n") && tables.schema_sql.contains("CREATE INDEX k_1 ")
    );
}

#[test]
fn statements_that_fail_halfway_or_roll_back_leave_a_sound_database() {
    let text = "-- setup
CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT UNIQUE); INSERT INTO t VALUES(1, 'x');
INSERT OR IGNORE INTO t SELECT value, 'v' || (value % 40) FROM generate;
BEGIN; DELETE FROM t; ROLLBACK;
-- transaction: read
SELECT 1;
"
    .replace(
        "generate",
        "(WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n LIMIT 900) SELECT * FROM n)",
    );
    let place = Place::new();
    let loaded = place.load("rolled.db", setup_of(&text), false).unwrap();
    assert_eq!(loaded.tables, [("t".to_owned(), 41)]);
    assert_eq!(one::<String>(&place.path("rolled.db"), "PRAGMA integrity_check"), "ok");
}

#[test]
fn a_statement_that_fails_is_named_by_its_line() {
    let text = "-- setup\nCREATE TABLE t(v);\n\nINSERT INTO t VALUES(1, 2);\n-- transaction: read\nSELECT 1;\n";
    let failure = Place::new().load("bad.db", setup_of(text), false).unwrap_err();
    assert_eq!((failure.kind, failure.place.as_str()), (FailureKind::Usage, "own.sql:4"));
    assert!(failure.what.contains("2 values"), "{failure}");
}

#[test]
fn a_transaction_that_setup_leaves_open_is_refused() {
    let text = "-- setup\nBEGIN; CREATE TABLE t(v);\n-- transaction: read\nSELECT 1;\n";
    // The reader of scripts may refuse the script before the loader does.
    let Ok(script) = Script::parse("own.sql", text, &[]) else { return };
    let data = Data { tables: None, setup: Some(script) };
    let failure = Place::new().load("open.db", data, false).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Usage);
    assert!(failure.what.contains("transaction"), "{failure}");
}

#[test]
fn a_setup_section_is_stopped_within_a_statement() {
    let text = "-- setup
CREATE TABLE t AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n WHERE i < 0;
-- transaction: read\nSELECT 1;\n";
    let failure = Place::new().load("endless.db", setup_of(text), true).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Interrupted);
}
