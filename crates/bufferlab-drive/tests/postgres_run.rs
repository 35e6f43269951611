//! Tests of runs on a real PostgreSQL server: they compare the drivers' counts with the server's, and check how runs
//! end.
//!
//! The tests need a server without other clients: see `support/postgres_server.rs`. Without a server they do nothing.
//! The tests take turns, because they compare counters of the whole server.

#[path = "support/postgres_server.rs"]
mod server;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bufferlab_drive::event::{Edge, Event};
use bufferlab_drive::failure::{Failure, FailureKind};
use bufferlab_drive::finished::Finished;
use bufferlab_drive::job::{Limit, Pace, PhaseJob, ScriptJob, WorkloadJob};
use bufferlab_drive::postgres::control::Control;
use bufferlab_drive::postgres::run::run;
use bufferlab_drive::probes::Asked;
use bufferlab_drive::server::Sending;
use bufferlab_drive::server::job::Run;
use bufferlab_drive::server::target::Target;
use bufferlab_probe::Reading;
use bufferlab_workload::tpcc::TpccConfig;
use bufferlab_workload::tpcc::population::TpccPopulation;
use serde_json::json;

use server::{create_database, drop_database, loaded, one, target, wait_until_left};

const ROWS: u32 = 4_096;

static TURN: Mutex<()> = Mutex::new(());

/// Calls `test` with a server that has a table of rows, one test at a time; does nothing without a server.
fn with_server(test: impl FnOnce(&Target)) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(target) = target("run") else { return };
    create_database(&target);
    let mut control = Control::open(&target).expect("the server is there");
    let sql = format!(
        "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, pad char(200) NOT NULL); \
         INSERT INTO t SELECT i, 0, repeat('x', 200) FROM generate_series(1, {ROWS}) AS i"
    );
    control.execute("preparing a test", &sql).expect("it is allowed");
    control.execute("preparing a test", "VACUUM ANALYZE t").expect("it is allowed");
    drop(control);
    wait_until_left(&target);
    test(&target);
    drop_database(&target);
}

fn workload(ScriptJob { source, text, seed, .. }: ScriptJob) -> WorkloadJob {
    let job = json!({ "name": "script", "source": source, "text": text, "seed": seed, "variables": {} });
    serde_json::from_value(job).expect("a workload")
}

fn script(text: &str) -> ScriptJob {
    ScriptJob { source: "test.sql".to_owned(), text: text.to_owned(), seed: 5, variables: [].into() }
}

const UPDATES: &str = "-- transaction: update\n\\set id random(1, 4096)\nBEGIN;\nUPDATE t SET n = n + 1 WHERE id = :id;\nCOMMIT;\n-- transaction: undone\n\\set id random(1, 4096)\nBEGIN;\nUPDATE t SET n = n + 1 WHERE id = :id;\nROLLBACK;\n";

fn job(target: &Target, workload: WorkloadJob, transactions: u64) -> Run {
    Run {
        target: target.clone(),
        server_pid: None,
        datadir: None,
        may_change_settings: true,
        connections: 4,
        sending: Sending::Spec,
        frames: 512,
        storage_engine: None,
        workload: Some(workload),
        program: None,
        pace: Pace::Closed,
        phases: Vec::new(),
        warm_up: Limit { transactions: 1_000, seconds: 60.0 }.into(),
        measure: Limit { transactions, seconds: 60.0 },
        sample_interval: Duration::from_millis(50),
        probes: Asked::default(),
    }
}

fn updates(target: &Target, transactions: u64) -> Run {
    job(target, workload(script(UPDATES)), transactions)
}

/// The readings at one edge of a window, by metric and subject.
type Values = BTreeMap<(String, String), Reading>;

#[derive(Default)]
struct Seen {
    edges: Vec<(String, Edge, Values)>,
    samples: usize,
}

fn played(job: &Run, cancelled: &AtomicBool) -> (Result<Finished, Failure>, Seen) {
    let seen = Mutex::new(Seen::default());
    let sink = |event: Event| {
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Sample { phase, edge: Some(edge), values, .. } => {
                let key = |row: &Reading| (row.metric.to_owned(), row.subject.to_string());
                let count = values.len();
                let values: Values = values.into_iter().map(|row| (key(&row), row)).collect();
                assert_eq!(values.len(), count, "a metric stands twice in a sample");
                seen.edges.push((phase.name().to_owned(), edge, values));
            }
            Event::Sample { .. } => seen.samples += 1,
            _ => {}
        }
    };
    let outcome = run(job, &sink, cancelled);
    (outcome, seen.into_inner().unwrap_or_else(PoisonError::into_inner))
}

impl Seen {
    /// Returns the growth of a counter in a window; none if the server lacks the counter.
    fn grown(&self, phase: &str, metric: &str, subject: &str) -> Option<i64> {
        let at = |wanted| {
            let (_, _, values) =
                self.edges.iter().find(|(of, edge, _)| of == phase && *edge == wanted).expect("the edge was sampled");
            let row = values.get(&(metric.to_owned(), subject.to_owned()));
            row.unwrap_or_else(|| panic!("{metric} of {subject:?} was not emitted")).count
        };
        Some(at(Edge::End)? - at(Edge::Start)?)
    }
}

fn records(latency: &bufferlab_drive::finished::TypeLatency) -> u64 {
    latency.buckets.iter().map(|bucket| bucket.2).sum()
}

#[test]
fn what_the_drivers_count_is_what_the_server_counts() {
    with_server(|target| {
        let scan = "-- setup\nUPDATE t SET n = 0 WHERE id = 1;\n-- transaction: scan\n\\set from random(1, 3000)\nSELECT pad FROM t WHERE id BETWEEN :from AND :from + 99;\n";
        let mut job = updates(target, 3_001);
        job.phases = vec![PhaseJob {
            name: "range_scan".into(),
            script: script(scan),
            limit: Limit { transactions: 203, seconds: 60.0 },
        }];
        let (finished, seen) = played(&job, &AtomicBool::new(false));
        let finished = finished.expect("nothing fails");
        assert!(!finished.interrupted);
        assert_eq!(finished.measured.transactions, 3_001);
        let grown = |metric: &str, subject: &str| seen.grown("measure", metric, subject).expect("every server has it");
        let committed = grown("transactions_committed", "update");
        let rolled_back = grown("transactions_rolled_back", "undone");
        assert_eq!(committed + rolled_back, 3_001);
        let server = ["xact_commit", "xact_rollback"].map(|name| grown(&format!("postgres_database_{name}"), ""));
        assert_eq!(server, [committed, rolled_back]);
        assert_eq!(grown("postgres_database_tup_updated", ""), 3_001, "those undone were updated too");
        assert!(grown("page_gets", "") >= 2 * 3_001, "each update walks the index and looks at a page");
        let parts = ["heap_blks_read", "heap_blks_hit", "idx_blks_read", "idx_blks_hit"];
        let of_tables: i64 = parts.iter().map(|name| grown(&format!("postgres_statio_{name}"), "")).sum();
        let gets = of_tables - grown("postgres_growth_pages", "");
        assert_eq!(gets, grown("page_gets", ""), "nothing but the table is read in the window");
        assert!(grown("postgres_wal_bytes", "") > 0 && grown("postgres_wal_records", "") >= 3_001);
        if let Some(hits) = seen.grown("measure", "postgres_io_normal_hits", "") {
            assert_eq!(hits + grown("demand_misses", ""), grown("page_gets", ""));
        }
        // The latencies of a transaction type are those of all drivers together.
        let service: u64 = finished.latencies.iter().filter(|latency| latency.time == "service").map(records).sum();
        assert_eq!(service, 3_001 + 203);
        assert_eq!(seen.grown("range_scan", "rows_returned", "range_scan.scan"), Some(20_300));
        assert_eq!(seen.grown("range_scan", "postgres_database_xact_commit", ""), Some(203));
        assert_eq!(finished.phases[0].part.transactions, 203);
        assert!(seen.samples > 0);
        check_rows(&seen);
    });
}

/// By itself the server does not publish the commits of a connection that scans no table.
#[test]
fn transactions_that_read_no_table_are_counted_too() {
    with_server(|target| {
        let asleep = script("-- transaction: asleep\nSELECT pg_sleep(0.01);\n");
        let (finished, seen) = played(&job(target, workload(asleep), 40), &AtomicBool::new(false));
        assert!(!finished.expect("nothing fails").interrupted);
        let grown = |metric: &str, subject: &str| seen.grown("measure", metric, subject);
        assert_eq!(grown("transactions_committed", "asleep"), Some(40));
        assert_eq!(grown("postgres_database_xact_commit", ""), Some(40));
        assert_eq!(grown("page_gets", ""), Some(0));
    });
}

/// Checks that every row is a value or a null with a reason, and that both edges have the same metrics of the engine.
fn check_rows(seen: &Seen) {
    let engine =
        |values: &Values| values.values().filter(|row| row.probe == "engine").map(|row| row.metric).collect::<Vec<_>>();
    for (phase, _, values) in &seen.edges {
        for row in values.values() {
            let filled = [row.count.is_some(), row.value.is_some(), row.reason.is_some()];
            assert_eq!(filled.iter().filter(|is| **is).count(), 1, "{phase}: {row:?}");
        }
        assert_eq!(engine(values), engine(&seen.edges[0].2));
        let missing: Vec<&Reading> =
            values.values().filter(|row| row.probe == "engine" && row.reason.is_some()).collect();
        let is_old = |told: &str| told.contains("from PostgreSQL 1") || told.contains("pg_buffercache");
        assert!(missing.iter().all(|row| row.reason.as_deref().is_some_and(is_old)), "{missing:?}");
    }
}

/// Runs TPC-C with several connections, with `spec` and with `batched`: totals are exact, and the pool is filled before
/// the warm-up.
#[test]
fn a_tpcc_run_commits_what_the_server_commits() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(target) = target("tpcc_run") else { return };
    let config = TpccConfig::new(1, 7, 3).expect("the scale is valid");
    loaded(&target, TpccPopulation::new(config));
    let mut control = Control::open(&target).expect("the server is there");
    control.execute("analyzing", "VACUUM ANALYZE").expect("it is allowed");
    drop(control);
    for sending in [Sending::Batched, Sending::Spec] {
        wait_until_left(&target);
        let tpcc = json!({ "name": "tpcc", "warehouses": 1, "load_seed": 7, "seed": 3 });
        let mut job = job(&target, serde_json::from_value(tpcc).expect("a workload"), 1_501);
        job.sending = sending;
        job.connections = 3;
        let (finished, seen) = played(&job, &AtomicBool::new(false));
        let finished = finished.expect("nothing fails");
        assert_eq!(finished.measured.transactions, 1_501);
        let types = ["new_order", "payment", "order_status", "delivery", "stock_level"];
        let sum = |metric: &str| -> i64 {
            types.iter().map(|name| seen.grown("measure", metric, name).expect("the drivers have it")).sum()
        };
        let (committed, rolled_back) = (sum("transactions_committed"), sum("transactions_rolled_back"));
        let retries = sum("transaction_retries");
        assert_eq!(committed + rolled_back, 1_501);
        let grown = |metric: &str| seen.grown("measure", metric, "").expect("every server has it");
        assert_eq!(grown("postgres_database_xact_commit"), committed);
        assert_eq!(grown("postgres_database_xact_rollback"), rolled_back + retries);
        assert_eq!(finished.engine_version, one(&target, "SHOW server_version"));
        assert!(finished.warm_up.misses > 0);
    }
    drop_database(&target);
}

#[test]
fn a_cancelled_run_ends_although_its_statements_are_asleep() {
    with_server(|target| {
        let slow = script("-- transaction: slow\nSELECT pg_sleep(60);\n");
        let job = job(target, workload(slow), 10);
        let cancelled = AtomicBool::new(false);
        let begun = Instant::now();
        let (finished, _) = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(500));
                cancelled.store(true, Ordering::Relaxed);
            });
            played(&job, &cancelled)
        });
        assert!(finished.expect("being cancelled is no error").interrupted);
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    });
}

/// Stopped processes, which continue when this value is dropped.
struct Frozen(Vec<libc::pid_t>);

impl Frozen {
    /// Stops the server: the process that accepts connections, and the processes that serve connections.
    fn server(target: &Target) -> Self {
        let mut control = Control::open(target).expect("the server is there");
        let rows =
            control.rows("listing processes", "SELECT pid FROM pg_stat_activity WHERE datname = current_database()");
        let pids = rows.expect("it answers").into_iter().filter_map(|row| row[0].as_deref()?.parse().ok());
        let mut pids: Vec<libc::pid_t> = pids.collect();
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pids[0])).expect("the server runs on this host");
        let parent = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)?.parse().ok());
        pids.insert(0, parent.expect("every process has one"));
        let frozen = Frozen(pids);
        frozen.signal(libc::SIGSTOP);
        frozen
    }

    fn signal(&self, signal: libc::c_int) {
        for &pid in &self.0 {
            // SAFETY: the call sends a signal to a process of the test's server.
            unsafe { libc::kill(pid, signal) };
        }
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        self.signal(libc::SIGCONT);
    }
}

#[test]
fn a_cancelled_run_ends_although_the_server_is_frozen() {
    with_server(|target| {
        let mut job = updates(target, u64::MAX);
        job.warm_up.limit.transactions = 300;
        let cancelled = AtomicBool::new(false);
        let (outcome, seconds) = std::thread::scope(|scope| {
            let freezer = scope.spawn(|| {
                std::thread::sleep(Duration::from_secs(2));
                let frozen = Frozen::server(target);
                std::thread::sleep(Duration::from_millis(500));
                cancelled.store(true, Ordering::Relaxed);
                (frozen, Instant::now())
            });
            let (outcome, _) = played(&job, &cancelled);
            let (_frozen, since) = freezer.join().expect("it may stop them");
            (outcome, since.elapsed().as_secs())
        });
        assert!(outcome.expect("being cancelled is no error").interrupted);
        assert!(seconds < 30, "it took {seconds} s");
    });
}

#[test]
fn a_lost_connection_is_the_runs_failure_and_names_the_server() {
    with_server(|target| {
        let mut job = updates(target, u64::MAX);
        job.warm_up.limit.transactions = u64::MAX;
        job.frames = u64::MAX / 2;
        let (outcome, _) = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(700));
                let mut control = Control::open(target).expect("the server is there");
                let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                    WHERE datname = current_database() AND pid <> pg_backend_pid()";
                control.execute("ending connections", end).expect("it is allowed");
            });
            let begun = Instant::now();
            let outcome = played(&job, &AtomicBool::new(false));
            assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
            outcome
        });
        let failure = outcome.expect_err("a run without its server fails");
        assert_eq!(failure.kind, FailureKind::Io, "{failure}");
        assert_eq!(failure.place, target.place());
    });
}
