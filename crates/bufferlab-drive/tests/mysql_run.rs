//! Tests of runs on a real MySQL or MariaDB server: they compare the drivers' counts with the server's, and check how
//! runs end.
//!
//! The tests need a server without other clients. BUFFERLAB_TEST_MYSQL_SOCKET names the server's socket,
//! BUFFERLAB_TEST_MYSQL_USER and _PASSWORD an account that may do anything (by default root without a password).
//! Without a socket the tests do nothing. They take turns, because they compare counters of the whole server.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bufferlab_drive::event::{Edge, Event};
use bufferlab_drive::failure::{Failure, FailureKind};
use bufferlab_drive::finished::Finished;
use bufferlab_drive::job::{Limit, Pace, PhaseJob, ScriptJob, WorkloadJob};
use bufferlab_drive::mysql::client::Sending;
use bufferlab_drive::mysql::control::Control;
use bufferlab_drive::mysql::run::run;
use bufferlab_drive::probes::Asked;
use bufferlab_drive::server::job::{Counted, ProgramJob, Run};
use bufferlab_drive::server::target::{Place, Target};
use bufferlab_probe::Reading;
use serde_json::json;

const DATABASE: &str = "bufferlab_test_run";
const ROWS: u32 = 4_096;

static TURN: Mutex<()> = Mutex::new(());

fn target(database: &str) -> Option<Target> {
    let socket = std::env::var("BUFFERLAB_TEST_MYSQL_SOCKET").ok()?;
    Some(Target {
        place: Place::Socket(socket),
        user: std::env::var("BUFFERLAB_TEST_MYSQL_USER").unwrap_or_else(|_| "root".to_owned()),
        password: std::env::var("BUFFERLAB_TEST_MYSQL_PASSWORD").unwrap_or_default(),
        database: database.to_owned(),
        security: None,
    })
}

/// Calls `test` with a server that has a table of rows, one test at a time; does nothing without a server.
fn with_server(test: impl FnOnce(&Target)) {
    let Some(server) = target("information_schema") else { return };
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut control = Control::open(&server).expect("the server is there");
    let mut execute = |sql: &str| control.execute("preparing a test", sql).expect("it is allowed");
    execute(&format!("DROP DATABASE IF EXISTS {DATABASE}"));
    execute(&format!("CREATE DATABASE {DATABASE}"));
    execute(&format!("USE {DATABASE}"));
    execute("CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL, pad CHAR(200) NOT NULL) ENGINE = InnoDB");
    execute("INSERT INTO t VALUES (1, 0, REPEAT('x', 200))");
    let mut rows = 1;
    while rows < ROWS {
        execute(&format!("INSERT INTO t SELECT id + {rows}, n, pad FROM t"));
        rows *= 2;
    }
    test(&target(DATABASE).expect("there was one"));
    // Connect again, because the test may have ended every connection.
    let mut control = Control::open(&server).expect("the server is still there");
    control.execute("cleaning up", &format!("DROP DATABASE {DATABASE}")).expect("it is allowed");
}

fn workload(ScriptJob { source, text, seed, .. }: ScriptJob) -> WorkloadJob {
    let job = json!({ "name": "script", "source": source, "text": text, "seed": seed, "variables": {} });
    serde_json::from_value(job).expect("a workload")
}

fn script(text: &str) -> ScriptJob {
    ScriptJob { source: "test.sql".to_owned(), text: text.to_owned(), seed: 5, variables: [].into() }
}

const UPDATES: &str = "-- transaction: update\n\\set id random(1, 4096)\nBEGIN;\nUPDATE t SET n = n + 1 WHERE id = :id;\nCOMMIT;\n-- transaction: undone\n\\set id random(1, 4096)\nBEGIN;\nUPDATE t SET n = n + 1 WHERE id = :id;\nROLLBACK;\n";

fn job(target: &Target, text: &str, transactions: u64) -> Run {
    Run {
        target: target.clone(),
        server_pid: None,
        datadir: None,
        may_change_settings: true,
        connections: 4,
        sending: Sending::Spec,
        frames: 512,
        storage_engine: None,
        workload: Some(workload(script(text))),
        program: None,
        pace: Pace::Closed,
        phases: Vec::new(),
        warm_up: Limit { transactions: 1_000, seconds: 60.0 }.into(),
        measure: Limit { transactions, seconds: 60.0 },
        sample_interval: Duration::from_millis(50),
        probes: Asked::default(),
    }
}

/// The readings at one edge of a window, by metric and subject.
type Values = BTreeMap<(String, String), Reading>;

#[derive(Default)]
struct Seen {
    edges: Vec<(String, Edge, Values)>,
    samples: usize,
    texts: Vec<String>,
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
            Event::StatusText { text, .. } => seen.texts.push(text),
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

#[test]
fn what_the_drivers_count_is_what_the_server_counts() {
    with_server(|target| {
        let scan = "-- transaction: scan\n\\set from random(1, 3000)\nSELECT pad FROM t WHERE id BETWEEN :from AND :from + 99;\n";
        let mut job = job(target, UPDATES, 3_001);
        job.phases = vec![PhaseJob {
            name: "range_scan".into(),
            script: script(scan),
            limit: Limit { transactions: 203, seconds: 60.0 },
        }];
        let (finished, seen) = played(&job, &AtomicBool::new(false));
        let finished = finished.expect("nothing fails");
        assert!(!finished.interrupted);
        assert_eq!(finished.measured.transactions, 3_001);
        let grown = |metric, subject| seen.grown("measure", metric, subject).expect("every server has it");
        let committed = grown("transactions_committed", "update");
        let rolled_back = grown("transactions_rolled_back", "undone");
        assert_eq!(committed + rolled_back, 3_001);
        assert_eq!((grown("com_commit", ""), grown("com_rollback", "")), (committed, rolled_back));
        assert!(grown("questions", "") >= 3 * 3_001);
        assert!(grown("page_gets", "") >= 3_001, "each update looks at a page");
        if let Some(updated) = seen.grown("measure", "innodb_rows_updated", "") {
            assert_eq!(updated, 3_001, "those undone were updated too");
        }
        assert!(grown("innodb_os_log_written", "") > 0);
        // The latencies of a transaction type are those of all drivers together.
        let service: u64 = finished.latencies.iter().filter(|latency| latency.time == "service").map(records).sum();
        assert_eq!(service, 3_001 + 203);
        assert_eq!(seen.grown("range_scan", "rows_returned", "range_scan.scan"), Some(20_300));
        assert_eq!(finished.phases[0].part.transactions, 203);
        assert_eq!(seen.texts.len(), 4);
        assert!(seen.texts.iter().all(|text| text.contains("BUFFER POOL AND MEMORY")));
        check_rows(&seen);
        check_victims(&seen);
    });
}

fn records(latency: &bufferlab_drive::finished::TypeLatency) -> u64 {
    latency.buckets.iter().map(|bucket| bucket.2).sum()
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
        let metrics = values.values().filter(|row| row.metric.starts_with("innodb_metric_"));
        assert_eq!(metrics.clone().count(), 29);
        assert!(metrics.filter(|row| row.count.is_some()).count() >= 17, "most metrics exist on every version");
    }
}

/// Checks that the counts of all ways to get a free page add up to the searches for one, if the server has these
/// counters.
fn check_victims(seen: &Seen) {
    let grown = |metric: &str| seen.grown("measure", metric, "");
    let metric = |name: &str| grown(&format!("innodb_metric_buffer_lru_{name}"));
    let (Some(searches), Some(loops), Some(failed), Some(waits)) = (
        metric("get_free_search"),
        metric("get_free_loops"),
        metric("single_flush_failure_count"),
        grown("innodb_buffer_pool_wait_free"),
    ) else {
        return;
    };
    let (free_list, lru_scan, single_page) = (searches - loops + failed, loops - waits, waits - failed);
    assert!(free_list >= 0 && lru_scan >= 0 && single_page >= 0, "{free_list} {lru_scan} {single_page}");
    assert_eq!(free_list + lru_scan + single_page, searches);
}

#[test]
fn a_cancelled_run_ends_although_its_statements_are_asleep() {
    with_server(|target| {
        let job = job(target, "-- transaction: slow\nSELECT SLEEP(60);\n", 10);
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

#[test]
fn a_lost_connection_is_the_runs_failure_and_names_the_server() {
    with_server(|target| {
        let mut job = job(target, UPDATES, u64::MAX);
        job.warm_up.limit.transactions = u64::MAX;
        job.frames = u64::MAX / 2;
        let (outcome, _) = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(700));
                let mut control = Control::open(target).expect("the server is there");
                let own = control.id().to_string();
                for (id, _) in control.pairs("listing connections", "SELECT ID, USER FROM information_schema.PROCESSLIST WHERE USER <> 'system user' AND COMMAND <> 'Daemon'").expect("it answers") {
                    if id != own {
                        // Some connections may have ended meanwhile.
                        let _ = control.execute("killing", &format!("KILL CONNECTION {id}"));
                    }
                }
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

#[test]
fn another_program_is_counted_by_the_server_and_stopped() {
    with_server(|target| {
        let Ok(mysql) = std::env::var("BUFFERLAB_TEST_MYSQL_CLIENT") else { return };
        let socket = target.place();
        let forever = format!(
            "while :; do for i in $(seq 500); do echo \"BEGIN; UPDATE t SET n = n + 1 WHERE id = $i; COMMIT;\"; done; done | {mysql} --user={} --socket={socket} {DATABASE}",
            target.user
        );
        let mut job = job(target, UPDATES, 900);
        job.program = Some(ProgramJob {
            argv: ["sh", "-c", &forever].map(str::to_owned).to_vec(),
            env: vec![("MYSQL_PWD".to_owned(), target.password.clone())],
            counted: Counted::Commits,
        });
        let (finished, seen) = played(&job, &AtomicBool::new(false));
        let finished = finished.expect("nothing fails");
        assert!(finished.measured.transactions >= 900);
        let committed = seen.grown("measure", "transactions_committed", "program");
        assert_eq!(committed, seen.grown("measure", "com_commit", ""));
        assert!(committed >= Some(900));
        assert!(finished.latencies.is_empty());
    });
}
