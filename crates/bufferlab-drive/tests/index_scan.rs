//! Tests of Q1 on SQLite: both plans give the right answer and are the named plans, and every mistake is an error with
//! a clear message.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bufferlab_drive::event::{Edge, Event};
use bufferlab_drive::failure::{Failure, FailureKind};
use bufferlab_drive::finished::Finished;
use bufferlab_drive::gate::GateEnd;
use bufferlab_drive::job::{Limit, Pace};
use bufferlab_drive::probes::Asked;
use bufferlab_drive::server::Sending;
use bufferlab_drive::server::job::Run;
use bufferlab_drive::sqlite::knobs::{Database, IoChoice, LockingMode, Pcache, SqliteKnobs, Synchronous};
use bufferlab_drive::sqlite::loader::{Load, load};
use bufferlab_drive::sqlite::run::run;
use bufferlab_model::PageSize;
use bufferlab_workload::findings::Findings;
use bufferlab_workload::index_scan::{IndexScanPopulation, ScaleFactor, TableSet};
use bufferlab_workload::plan::Plan;
use rusqlite::Connection;
use serde_json::json;

const PAGE_BYTES: u64 = 8_192;

fn scale() -> ScaleFactor {
    ScaleFactor::new(0.01).unwrap()
}

fn loaded(directory: &Path) -> PathBuf {
    let database = directory.join("lineitem.db");
    let data = IndexScanPopulation::new(scale(), TableSet::LineItem).into();
    let job = Load { database: database.clone(), page_size: PageSize::new(PAGE_BYTES).unwrap(), data, generators: 3 };
    let loaded = load(&job, &AtomicBool::new(false), &mut |_| {}).unwrap();
    assert_eq!(loaded.tables, [("lineitem".to_owned(), 60_175)]);
    database
}

fn job(database: &Path, plan: Plan, transactions: u64) -> Run<Database> {
    let workload = json!({
        "name": "index_scan", "scale_factor": 0.01, "tables": "lineitem", "seed": 1, "plan": plan.name(),
        "ship_from": "1993-01-01", "ship_until": "1998-09-03",
    });
    let knobs = SqliteKnobs {
        page_size: PageSize::new(PAGE_BYTES).unwrap(),
        pool_size_bytes: 100 * PAGE_BYTES,
        io_mode: IoChoice::Buffered,
        pcache: Pcache::Stock,
        synchronous: Synchronous::Off,
        wal_autocheckpoint_bytes: 1 << 20,
        locking_mode: LockingMode::Exclusive,
    };
    Run {
        target: Database { path: database.to_owned(), knobs },
        server_pid: None,
        datadir: None,
        may_change_settings: true,
        connections: 1,
        sending: Sending::Spec,
        frames: knobs.pool_frames(),
        storage_engine: None,
        program: None,
        workload: Some(serde_json::from_value(workload).unwrap()),
        pace: Pace::Closed,
        phases: Vec::new(),
        warm_up: Limit { transactions: 0, seconds: 60.0 }.into(),
        measure: Limit { transactions, seconds: 600.0 },
        sample_interval: Duration::from_millis(20),
        probes: Asked::default(),
    }
}

/// The samples of the window: the number of those between its edges, and the pages read between its edges.
#[derive(Default)]
struct Seen {
    inside: Vec<Vec<bufferlab_probe::Reading>>,
    pages_read: i64,
}

fn played(job: &Run<Database>, cancelled: &AtomicBool) -> (Result<Finished, Failure>, Seen) {
    let seen = Mutex::new(Seen::default());
    let sink = |event: Event| {
        let Event::Sample { edge, values, phase, .. } = event else { return };
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        let sign = match edge {
            Some(Edge::Start) => -1,
            Some(Edge::End) => 1,
            None if phase.name() == "measure" => return seen.inside.push(values),
            None => return,
        };
        let read = values.iter().find(|reading| reading.metric == "pages_read").and_then(|reading| reading.count);
        seen.pages_read += sign * read.unwrap_or(0);
    };
    let outcome = run(job, &sink, cancelled);
    (outcome, seen.into_inner().unwrap_or_else(PoisonError::into_inner))
}

#[test]
fn both_plans_give_the_right_answer_and_read_what_they_must() {
    let directory = tempfile::tempdir().unwrap();
    let database = loaded(directory.path());
    let pages = std::fs::metadata(&database).unwrap().len() as i64 / PAGE_BYTES as i64;
    let rows: i64 = Connection::open(&database)
        .unwrap()
        .query_row("SELECT count(*) FROM lineitem WHERE l_shipdate BETWEEN 8401 AND 10471", [], |row| row.get(0))
        .unwrap();
    let mut read = Vec::new();
    for (plan, words) in [
        (Plan::IndexScan, "SEARCH lineitem USING INDEX lineitem_by_shipdate (l_shipdate>? AND l_shipdate<?)"),
        (Plan::Sequential, "SCAN lineitem"),
    ] {
        let (finished, seen) = played(&job(&database, plan, 2), &AtomicBool::new(false));
        let finished = finished.unwrap();
        assert_eq!((finished.warm_up.gate, finished.measured.transactions), (Some(GateEnd::Cold), 2));
        assert_eq!((finished.warm_up.part.transactions, finished.interrupted), (0, false));
        let Findings { facts, counts, .. } = finished.findings;
        let plan_text = facts["plan_text"].as_str().unwrap_or_default();
        assert_eq!((&facts["plan"], &facts["rows_in_range"]), (&json!(plan.name()), &json!(rows)));
        assert_eq!(counts["answers_checked"], 2);
        assert!(plan_text.lines().any(|line| line == words), "{plan_text}");
        read.push(seen.pages_read / 2);
    }
    // Rows of a range of dates lie anywhere in the table. With the index scan nearly every row costs the read of a
    // page; the sequential scan reads each page once.
    let (by_index, whole) = (read[0], read[1]);
    assert!((pages * 6 / 10..pages).contains(&whole), "{whole} of {pages} pages");
    assert!(by_index > 7 * rows / 10, "{by_index} pages for {rows} rows");
}

#[test]
fn the_host_is_sampled_while_one_statement_runs() {
    let directory = tempfile::tempdir().unwrap();
    let database = loaded(directory.path());
    let mut job = job(&database, Plan::IndexScan, 1);
    job.sample_interval = Duration::from_millis(10);
    let (finished, seen) = played(&job, &AtomicBool::new(false));
    finished.unwrap();
    let alone = |metric: &str| {
        let told = |values: &&Vec<bufferlab_probe::Reading>| {
            values.iter().any(|reading| reading.metric == metric && reading.count.is_some())
        };
        seen.inside.iter().filter(told).count()
    };
    let held = seen.inside.iter().filter(|values| values.iter().any(|reading| reading.reason.is_some())).count();
    assert!(held > 0, "the driver was inside its statement in none of {} samples", seen.inside.len());
    assert_eq!((alone("cpu_idle_us"), alone("process_user_us")), (seen.inside.len(), seen.inside.len()));
}

#[test]
fn a_window_ends_by_its_time_and_a_query_in_its_middle_when_it_is_told_to() {
    let directory = tempfile::tempdir().unwrap();
    let database = loaded(directory.path());
    let mut limited = job(&database, Plan::IndexScan, 1_000_000);
    limited.measure.seconds = 0.05;
    let (finished, _) = played(&limited, &AtomicBool::new(false));
    let finished = finished.unwrap();
    assert!(!finished.interrupted);
    assert!((1..20).contains(&finished.measured.transactions), "{:?}", finished.measured);
    let cancelled = AtomicBool::new(false);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            cancelled.store(true, Ordering::Relaxed);
        });
        let (finished, _) = played(&job(&database, Plan::IndexScan, 1_000_000), &cancelled);
        assert!(finished.unwrap().interrupted);
    });
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_plan_that_cannot_be_is_an_error_that_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let database = loaded(directory.path());
    let refused = |plan| played(&job(&database, plan, 1), &AtomicBool::new(false)).0.map(|_| ()).unwrap_err();
    let bitmap = refused(Plan::Bitmap);
    assert_eq!(bitmap.kind, FailureKind::Usage);
    assert!(bitmap.what.contains("bitmap") && bitmap.what.contains("SQLite"), "{bitmap}");
    let change = |sql: &str| {
        let connection = Connection::open(&database).unwrap();
        connection.execute_batch(sql).unwrap();
        connection.close().unwrap();
    };
    change("DROP INDEX lineitem_by_shipdate");
    let without = refused(Plan::IndexScan);
    assert!(without.what.contains("lineitem_by_shipdate"), "{without}");
    // The index's name is not enough: this index cannot be searched for a range of dates.
    change("CREATE INDEX lineitem_by_shipdate ON lineitem (l_partkey)");
    let other = refused(Plan::IndexScan);
    assert!(other.what.contains("asks for plan = index_scan") && other.what.contains("SCAN"), "{other}");
}

#[test]
fn a_wrong_answer_fails_the_run() {
    let directory = tempfile::tempdir().unwrap();
    let database = loaded(directory.path());
    let connection = Connection::open(&database).unwrap();
    let sql = "UPDATE lineitem SET l_tax = l_tax + 1 WHERE l_orderkey = \
               (SELECT l_orderkey FROM lineitem WHERE l_shipdate > 9000 LIMIT 1) AND l_linenumber = 1";
    assert_eq!(connection.execute(sql, []).unwrap(), 1);
    connection.close().unwrap();
    let failure = played(&job(&database, Plan::Sequential, 1), &AtomicBool::new(false)).0.map(|_| ()).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Data, "{failure}");
    assert!(failure.what.contains("sum_charge in millionths"), "{failure}");
}
