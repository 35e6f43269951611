//! Measures the speed of the code around SQLite: a load, transactions and single selects with all data in memory, the
//! driver without the engine, and the recorder of latencies.
//!
//! `cargo bench -p bufferlab-drive` runs the full size and prints medians; `cargo test` runs a small size that only
//! checks the results. The bench checks the result of everything that it times, so that it does not time a wrong
//! answer.

#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark may stop at the first surprise")]

use std::collections::VecDeque;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use bufferlab_drive::driver::Driver;
use bufferlab_drive::latency::Latency;
use bufferlab_drive::sqlite::DIALECT;
use bufferlab_drive::sqlite::client::SqliteClient;
use bufferlab_drive::sqlite::engine::Engine;
use bufferlab_drive::sqlite::knobs::{IoChoice, LockingMode, Pcache, SqliteKnobs, Synchronous};
use bufferlab_drive::sqlite::loader::{Load, load};
use bufferlab_drive::sqlite::pcache;
use bufferlab_model::PageSize;
use bufferlab_workload::client::{Batch, Client, ClientError, Value};
use bufferlab_workload::hot_rows::{HotRowsConfig, HotRowsDriver, HotRowsPopulation, Layout};
use bufferlab_workload::tpcc::population::TpccPopulation;
use bufferlab_workload::tpcc::statements::STATEMENTS;
use bufferlab_workload::tpcc::{TpccConfig, TpccDriver};

struct Size {
    warehouses: u32,
    warm_up: u64,
    transactions: u64,
    /// Rows of sysbench's table, and (`selects`) the number of selects of one row.
    rows: u32,
    selects: u64,
    records: u64,
    repetitions: usize,
}

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    let size = if full {
        Size {
            warehouses: 4,
            warm_up: 5_000,
            transactions: 20_000,
            rows: 400_000,
            selects: 1_000_000,
            records: 20_000_000,
            repetitions: 5,
        }
    } else {
        Size {
            warehouses: 1,
            warm_up: 200,
            transactions: 500,
            rows: 5_000,
            selects: 2_000,
            records: 100_000,
            repetitions: 1,
        }
    };
    // Install the page cache first: the load initialises SQLite, and after that SQLite accepts no other page cache.
    pcache::install().unwrap();
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let database = directory.path().join("bench.db");
    let loads: Vec<f64> = (0..size.repetitions).map(|_| load_once(&database, &size)).collect();
    let runs: Vec<(f64, f64)> = (0..size.repetitions as u64).map(|seed| run_once(&database, &size, seed)).collect();
    let table = directory.path().join("hot.db");
    let hot_loads: Vec<f64> = (0..size.repetitions).map(|_| load_table_once(&table, &size)).collect();
    let selects: Vec<f64> = (0..size.repetitions as u64).map(|seed| select_us(&table, &size, seed)).collect();
    let recorder: Vec<f64> = (0..size.repetitions).map(|_| record_ns(size.records)).collect();
    if full {
        let (rates, overheads): (Vec<f64>, Vec<f64>) = runs.into_iter().unzip();
        println!("median [lowest, highest] of {} repetitions, {} warehouses", size.repetitions, size.warehouses);
        report("load", &loads, "rows/s");
        report("transactions in memory", &rates, "transactions/s");
        report("driver without engine", &overheads, "us/transaction");
        report("load of sysbench's table", &hot_loads, "rows/s");
        report("selects in memory", &selects, "us/select");
        report("recorder", &recorder, "ns/record");
    }
}

fn report(what: &str, values: &[f64], unit: &str) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, middle, high) = (sorted[0], sorted[sorted.len() / 2], sorted[sorted.len() - 1]);
    println!("{what:<24} {middle:>12.2} [{low:.2}, {high:.2}] {unit}");
}

fn remove(database: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(PathBuf::from(format!("{}{suffix}", database.display())));
    }
}

fn load_table_once(database: &Path, size: &Size) -> f64 {
    remove(database);
    let data = HotRowsPopulation::new(size.rows, 1).unwrap().into();
    let job = Load { database: database.to_owned(), page_size: PageSize::new(4096).unwrap(), data, generators: 1 };
    let loaded = load(&job, &AtomicBool::new(false), &mut |_| {}).unwrap();
    assert_eq!(loaded.rows, u64::from(size.rows));
    loaded.rows as f64 / loaded.seconds
}

/// Returns the microseconds for one select of a random row from a table that is completely in the pool.
fn select_us(database: &Path, size: &Size, run_seed: u64) -> f64 {
    let config = HotRowsConfig {
        rows: size.rows,
        run_seed,
        hot_rows: size.rows,
        layout: Layout::Scattered,
        zipf: 0.0,
        update_percent: 0,
    };
    let engine = Engine::open(database, &knobs()).unwrap();
    let mut workload = HotRowsDriver::new(&config).unwrap();
    // SAFETY: the client is dropped with the driver, before the engine is closed.
    let client = unsafe { SqliteClient::new(&engine, &DIALECT.statements(&mut workload).unwrap()).unwrap() };
    let mut driver = Driver::new(client, Box::new(workload));
    while driver.prefill_step().unwrap() {}
    let begun = Instant::now();
    (0..size.selects).for_each(|_| driver.step().unwrap());
    let elapsed_us = begun.elapsed().as_secs_f64() * 1e6;
    assert_eq!(driver.into_client().rows_returned(), u64::from(size.rows) + size.selects, "each found its row");
    engine.close().unwrap();
    elapsed_us / size.selects as f64
}

/// Returns settings with which all data fits the pool, and no transaction waits for the disk.
fn knobs() -> SqliteKnobs {
    SqliteKnobs {
        page_size: PageSize::new(4096).unwrap(),
        pool_size_bytes: 400_000 * 4096,
        io_mode: IoChoice::Buffered,
        pcache: Pcache::Ours,
        synchronous: Synchronous::Off,
        wal_autocheckpoint_bytes: 4 << 20,
        locking_mode: LockingMode::Normal,
    }
}

fn load_once(database: &Path, size: &Size) -> f64 {
    remove(database);
    let job = Load {
        database: database.to_owned(),
        page_size: PageSize::new(4096).unwrap(),
        data: TpccPopulation::new(TpccConfig::new(size.warehouses, 1, 0).unwrap()).into(),
        generators: 1,
    };
    let loaded = load(&job, &AtomicBool::new(false), &mut |_| {}).unwrap();
    let fixed_rows = u64::from(size.warehouses) * (100_000 + 30_000 * 3 + 9_000 + 11) + 100_000;
    let lines = loaded.tables.iter().find(|(table, _)| *table == "order_line").unwrap().1;
    assert_eq!(loaded.rows - lines, fixed_rows, "cardinalities of clause 4.3.3.1");
    loaded.rows as f64 / loaded.seconds
}

/// Returns transactions per second with the whole database in the pool, and microseconds per transaction without the
/// engine.
fn run_once(database: &Path, size: &Size, seed: u64) -> (f64, f64) {
    let config = TpccConfig::new(size.warehouses, 1, seed).unwrap();
    let engine = Engine::open(database, &knobs()).unwrap();
    let mut workload = TpccDriver::new(config, 0, 1).unwrap();
    for (_, sql) in DIALECT.prefill(&workload) {
        assert!(engine.execute_script_unless(&AtomicBool::new(false), &sql).unwrap());
    }
    // SAFETY: the client is dropped with the driver, before the engine is closed.
    let client = unsafe { SqliteClient::new(&engine, &DIALECT.statements(&mut workload).unwrap()).unwrap() };
    let recording = Recording { inner: Some(client), answers: VecDeque::new(), keep: false };
    let mut driver = Driver::new(recording, Box::new(workload));
    (0..size.warm_up).for_each(|_| driver.step().unwrap());
    let begun = Instant::now();
    (0..size.transactions).for_each(|_| driver.step().unwrap());
    let rate = size.transactions as f64 / begun.elapsed().as_secs_f64();
    assert_eq!(driver.transactions(), size.warm_up + size.transactions);
    drop(driver);
    let overhead = overhead_us(&engine, config, size);
    engine.close().unwrap();
    (rate, overhead)
}

/// Runs the same inputs twice: first on the engine, keeping every answer, then with the answers from memory. Returns
/// the microseconds per transaction of the second time.
fn overhead_us(engine: &Engine, config: TpccConfig, size: &Size) -> f64 {
    let count = size.transactions.min(5_000);
    let fresh = TpccConfig::new(config.warehouses(), config.load_seed(), config.run_seed() + 1_000).unwrap();
    let mut workload = TpccDriver::new(fresh, 0, 1).unwrap();
    // SAFETY: the client is dropped at the end of this function, while the engine is open.
    let client = unsafe { SqliteClient::new(engine, &DIALECT.statements(&mut workload).unwrap()).unwrap() };
    let mut live =
        Driver::new(Recording { inner: Some(client), answers: VecDeque::new(), keep: true }, Box::new(workload));
    (0..count).for_each(|_| live.step().unwrap());
    let answers = live.into_client().answers;
    let replay = Recording { inner: None, answers, keep: false };
    let mut replayed = Driver::new(replay, Box::new(TpccDriver::new(fresh, 0, 1).unwrap()));
    let begun = Instant::now();
    (0..count).for_each(|_| replayed.step().unwrap());
    let elapsed_us = begun.elapsed().as_secs_f64() * 1e6;
    assert!(replayed.into_client().answers.is_empty(), "the replay asked for exactly what was recorded");
    elapsed_us / count as f64
}

/// The answer to a batch: for each call the numbers of rows returned and of rows written, and all values in order.
struct Answer {
    calls: Vec<(usize, u64)>,
    values: Vec<Owned>,
}

enum Owned {
    Null,
    Int(i64),
    Real(f64),
    Text(String),
}

/// A client that records an engine's answers, or returns recorded answers without an engine.
struct Recording {
    inner: Option<SqliteClient>,
    answers: VecDeque<Answer>,
    keep: bool,
}

impl Client for Recording {
    fn begin(&mut self, read_only: bool) -> Result<(), ClientError> {
        self.inner.as_mut().map_or(Ok(()), |client| client.begin(read_only))
    }
    fn commit(&mut self) -> Result<(), ClientError> {
        self.inner.as_mut().map_or(Ok(()), Client::commit)
    }
    fn rollback(&mut self) -> Result<(), ClientError> {
        self.inner.as_mut().map_or(Ok(()), Client::rollback)
    }
    fn execute(&mut self, batch: &mut Batch) -> Result<(), ClientError> {
        let Some(client) = &mut self.inner else {
            replay(batch, &self.answers.pop_front().unwrap());
            return Ok(());
        };
        client.execute(batch)?;
        if self.keep {
            self.answers.push_back(keep(batch));
        }
        Ok(())
    }
    fn rows_returned(&self) -> u64 {
        self.inner.as_ref().map_or(0, Client::rows_returned)
    }
}

fn columns_of(batch: &Batch, call: usize) -> usize {
    STATEMENTS[usize::from(batch.statement(call).0)].columns
}

fn keep(batch: &Batch) -> Answer {
    let mut answer = Answer { calls: Vec::new(), values: Vec::new() };
    for call in 0..batch.len() {
        let columns = columns_of(batch, call);
        answer.calls.push((batch.rows(call), batch.affected(call)));
        for row in 0..batch.rows(call) {
            for column in 0..columns {
                answer.values.push(match batch.value(call, columns, row, column) {
                    Value::Null => Owned::Null,
                    Value::Int(int) => Owned::Int(int),
                    Value::Real(real) => Owned::Real(real),
                    Value::Text(text) => Owned::Text(text.to_owned()),
                });
            }
        }
    }
    answer
}

fn replay(batch: &mut Batch, answer: &Answer) {
    let mut values = answer.values.iter();
    for (call, &(rows, affected)) in answer.calls.iter().enumerate() {
        let columns = columns_of(batch, call);
        batch.begin_rows(call);
        for _ in 0..rows {
            for value in values.by_ref().take(columns) {
                batch.push_column(match value {
                    Owned::Null => Value::Null,
                    Owned::Int(int) => Value::Int(*int),
                    Owned::Real(real) => Value::Real(*real),
                    Owned::Text(text) => Value::Text(text),
                });
            }
            batch.end_row(call);
        }
        batch.set_affected(call, affected);
    }
}

/// Returns the nanoseconds for recording one latency, as a mean over latencies that spread from 1 us to 1 s.
fn record_ns(records: u64) -> f64 {
    let mut recorder = Latency::default();
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let begun = Instant::now();
    for _ in 0..records {
        // The generator (Xorshift) is timed together with the recorder; it is cheap, but its time is a part of the
        // result.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        recorder.record(black_box(1_000 + (state >> 40) * (state & 63)));
    }
    let elapsed_ns = begun.elapsed().as_nanos() as f64;
    assert_eq!(recorder.count(), records);
    elapsed_ns / records as f64
}
