//! Tests of the shape of loaded databases against counts by SQL and against a walk over the raw pages.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

#[path = "support/btree.rs"]
#[allow(dead_code, reason = "another test uses the rest of it")]
mod btree;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use bufferlab_drive::data::Data;
use bufferlab_drive::failure::FailureKind;
use bufferlab_drive::sqlite::loader::{Load, load};
use bufferlab_drive::sqlite::shape::{Shape, TreeKind, shape};
use bufferlab_model::PageSize;
use bufferlab_workload::hot_rows::HotRowsPopulation;
use bufferlab_workload::tpcc::TpccConfig;
use bufferlab_workload::tpcc::population::TpccPopulation;
use rusqlite::Connection;

fn loaded(directory: &Path, tables: impl Into<Data>, page_bytes: u64) -> std::path::PathBuf {
    let database = directory.join(format!("{page_bytes}.db"));
    let page_size = PageSize::new(page_bytes).unwrap();
    let job = Load { database: database.clone(), page_size, data: tables.into(), generators: 2 };
    load(&job, &AtomicBool::new(false), &mut |_| {}).unwrap();
    database
}

/// Checks every figure of the shape that can also be computed in another way. Returns the shape.
fn check(database: &Path) -> Shape {
    let shape = shape(database).unwrap();
    let file = btree::File::open(database);
    let connection = Connection::open(database).unwrap();
    let roots = "SELECT name, tbl_name, rootpage FROM sqlite_schema WHERE rootpage > 0 ORDER BY rowid";
    let mut statement = connection.prepare(roots).unwrap();
    let roots = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    let roots: Vec<(String, String, u32)> = roots.map(Result::unwrap).collect();
    assert_eq!(shape.pages, file.pages() as u64);
    assert_eq!(shape.trees.len(), roots.len());
    let mut pages = 0;
    for (tree, (name, table, root)) in shape.trees.iter().zip(&roots) {
        assert_eq!((&tree.name, &tree.table), (name, table));
        let walked = file.tree(*root);
        let height = walked.iter().map(|page| page.level).max().unwrap() + 1;
        let levels: Vec<u64> =
            (0..height).map(|level| walked.iter().filter(|page| page.level == level).count() as u64).collect();
        assert_eq!(tree.level_pages, levels, "{name}");
        let leaves = walked.iter().filter(|page| page.is_leaf).count() as u64;
        assert_eq!((tree.leaf_pages, tree.interior_pages), (leaves, walked.len() as u64 - leaves), "{name}");
        let index = if tree.kind == TreeKind::Index { format!("INDEXED BY {name}") } else { "NOT INDEXED".to_owned() };
        let sql = format!("SELECT count(*) FROM {table} {index}");
        let rows: i64 = connection.query_row(&sql, [], |row| row.get(0)).unwrap();
        assert_eq!(tree.rows, rows as u64, "{name}");
        let capacity = (walked.len() as u64 + tree.overflow_pages) * shape.page_size_bytes;
        assert!(tree.payload_bytes + tree.unused_bytes < capacity, "{name}");
        assert!(tree.payload_bytes > tree.rows, "{name} has fewer bytes than rows");
        pages += walked.len() as u64 + tree.overflow_pages;
    }
    // One more page is the root of the catalogue. The catalogues of these tests fit into it, except with the smallest
    // pages.
    assert!(pages + shape.free_pages < shape.pages);
    if shape.page_size_bytes >= 8_192 {
        assert_eq!(pages + shape.free_pages + 1, shape.pages);
    }
    shape
}

#[test]
fn sysbenchs_table_has_the_shape_that_its_pages_have() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for page_bytes in [512, 1_024, 4_096, 65_536] {
        let tables = HotRowsPopulation::new(30_000, 42).unwrap();
        let shape = check(&loaded(directory.path(), tables, page_bytes));
        let names: Vec<_> = shape.trees.iter().map(|tree| (tree.name.as_str(), tree.kind, tree.rows)).collect();
        assert_eq!(names, [("sbtest1", TreeKind::Table, 30_000), ("k_1", TreeKind::Index, 30_000)]);
        assert_eq!(shape.page_size_bytes, page_bytes);
    }
}

#[test]
fn tables_kept_by_their_key_count_the_rows_on_their_interior_pages_too() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let shape = check(&loaded(directory.path(), TpccPopulation::new(TpccConfig::new(1, 42, 0).unwrap()), 16_384));
    let stock = shape.trees.iter().find(|tree| tree.name == "stock").unwrap();
    assert_eq!((stock.kind, stock.rows), (TreeKind::Table, 100_000));
    assert!(stock.interior_pages > 0);
}

#[test]
fn rows_too_long_for_a_page_and_free_pages_are_counted() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let database = directory.path().join("long.db");
    let connection = Connection::open(&database).unwrap();
    let sql = "PRAGMA page_size=8192; CREATE TABLE long(id INTEGER PRIMARY KEY, v BLOB); CREATE TABLE gone(v BLOB);
               WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50)
               INSERT INTO long SELECT i, randomblob(20000) FROM n;
               INSERT INTO gone SELECT v FROM long; DROP TABLE gone;";
    connection.execute_batch(sql).unwrap();
    connection.close().unwrap();
    let shape = check(&database);
    // A row of 20,000 bytes fills at least two overflow pages, in addition to its part on the leaf.
    assert_eq!((shape.trees[0].rows, shape.trees[0].overflow_pages), (50, 100));
    assert!(shape.free_pages >= 100, "{}", shape.free_pages);
}

#[test]
fn a_file_that_is_no_database_is_named() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let place = directory.path().join("text.db");
    assert_eq!(shape(&place).unwrap_err().kind, FailureKind::Environment);
    std::fs::write(&place, "not a database, though longer than a header ".repeat(50)).unwrap();
    let failure = shape(&place).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Data);
    assert!(failure.place.ends_with("text.db"), "{failure}");
}
