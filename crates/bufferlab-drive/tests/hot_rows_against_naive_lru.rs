//! Compares the misses of real runs with those of a naive LRU list over the same pages. The pages of each row come from
//! the database's file, and the rows that a run reads from the workload's stream of ids.
//!
//! The simulation shares only the stream of ids with the run, and no code of the pool, of SQLite or of dbstat.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

#[path = "support/btree.rs"]
#[allow(dead_code, reason = "another test uses the rest of it")]
mod btree;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bufferlab_drive::event::{Edge, Event};
use bufferlab_drive::job::{Limit, Pace};
use bufferlab_drive::probes::Asked;
use bufferlab_drive::server::Sending;
use bufferlab_drive::server::job::Run;
use bufferlab_drive::sqlite::knobs::{Database, IoChoice, LockingMode, Pcache, SqliteKnobs, Synchronous};
use bufferlab_drive::sqlite::loader::{Load, load};
use bufferlab_drive::sqlite::pcache;
use bufferlab_drive::sqlite::run::run;
use bufferlab_model::PageSize;
use bufferlab_workload::client::{Batch, Client, ClientError, Value, Workload};
use bufferlab_workload::hot_rows::{HotRowsConfig, HotRowsDriver, HotRowsPopulation, Layout};
use rusqlite::Connection;
use serde_json::json;

const ROWS: u32 = 60_000;
const TRANSACTIONS: u64 = 20_000;

/// The simplest LRU list: it records the last use of each page, and searches for the oldest.
struct NaiveLru {
    frames: usize,
    last_use: HashMap<u32, u64>,
    by_last_use: BTreeMap<u64, u32>,
    now: u64,
    misses: u64,
}

impl NaiveLru {
    fn new(frames: u64) -> Self {
        NaiveLru { frames: frames as usize, last_use: HashMap::new(), by_last_use: BTreeMap::new(), now: 0, misses: 0 }
    }

    fn get(&mut self, page: u32) {
        self.now += 1;
        match self.last_use.insert(page, self.now) {
            Some(before) => {
                self.by_last_use.remove(&before);
            }
            None => self.misses += 1,
        }
        self.by_last_use.insert(self.now, page);
        if self.last_use.len() > self.frames {
            let (_, oldest) = self.by_last_use.pop_first().unwrap();
            self.last_use.remove(&oldest);
        }
    }
}

/// A client that records the reads of the prefill, and answers each with one row.
#[derive(Default)]
struct Listener(Vec<i64>);

impl Client for Listener {
    fn begin(&mut self, _read_only: bool) -> Result<(), ClientError> {
        Ok(())
    }

    fn commit(&mut self) -> Result<(), ClientError> {
        Ok(())
    }

    fn rollback(&mut self) -> Result<(), ClientError> {
        Ok(())
    }

    fn execute(&mut self, batch: &mut Batch) -> Result<(), ClientError> {
        for call in 0..batch.len() {
            let Value::Int(id) = batch.param(call, 0) else { panic!("an id is an integer") };
            self.0.push(id);
            batch.begin_rows(call);
            batch.push_column(Value::Null);
            batch.end_row(call);
        }
        Ok(())
    }

    fn rows_returned(&self) -> u64 {
        self.0.len() as u64
    }
}

/// Returns the growth of the engine's counters in the window, and the number of transactions before it.
fn measured(
    database: &Path,
    page_size: PageSize,
    config: HotRowsConfig,
    pool_frames: u64,
) -> (HashMap<&'static str, i64>, u64) {
    let HotRowsConfig { rows, run_seed, hot_rows, layout, zipf, update_percent } = config;
    let workload = json!({
        "name": "hot_rows", "rows": rows, "load_seed": 42, "seed": run_seed, "hot_rows": hot_rows, "zipf": zipf,
        "layout": if layout == Layout::Scattered { "scattered" } else { "clustered" }, "update_percent": update_percent,
    });
    let knobs = SqliteKnobs {
        page_size,
        pool_size_bytes: pool_frames * u64::from(page_size.bytes()),
        io_mode: IoChoice::Buffered,
        pcache: Pcache::Ours,
        synchronous: Synchronous::Normal,
        wal_autocheckpoint_bytes: 1 << 20,
        locking_mode: LockingMode::Exclusive,
    };
    let job = Run {
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
        warm_up: Limit { transactions: 100_000, seconds: 60.0 }.into(),
        measure: Limit { transactions: TRANSACTIONS, seconds: 60.0 },
        sample_interval: Duration::from_secs(1),
        probes: Asked::default(),
    };
    let growth: Mutex<HashMap<&'static str, i64>> = Mutex::default();
    let sink = |event: Event| {
        let Event::Sample { edge: Some(edge), values, .. } = event else { return };
        let sign = if edge == Edge::Start { -1 } else { 1 };
        for reading in values.iter().filter(|reading| reading.probe == "engine") {
            *growth.lock().unwrap().entry(reading.metric).or_default() += sign * reading.count.unwrap_or(0);
        }
    };
    let finished = run(&job, &sink, &AtomicBool::new(false)).unwrap();
    assert_eq!((finished.interrupted, finished.measured.transactions), (false, TRANSACTIONS));
    (growth.into_inner().unwrap(), finished.warm_up.part.transactions)
}

/// Returns the number of misses that the naive list has in the window, after the reads of the prefill and the warm-up.
fn simulated(paths: &BTreeMap<i64, Vec<u32>>, config: &HotRowsConfig, frames: u64, warm_up: u64) -> u64 {
    let (mut lru, mut driver, mut pass) =
        (NaiveLru::new(frames), HotRowsDriver::new(config).unwrap(), Listener::default());
    // A select gets the pages from the root to the leaf, and holds the file's first page until its end.
    let read = |id: i64, lru: &mut NaiveLru| {
        paths[&id].iter().for_each(|&page| lru.get(page));
        lru.get(1);
    };
    while driver.prefill_step(&mut pass).unwrap() {}
    pass.0.iter().for_each(|&id| read(id, &mut lru));
    for done in 0..warm_up + TRANSACTIONS {
        if done == warm_up {
            driver.begin_window();
            lru.misses = 0;
        }
        driver.plan();
        read(driver.planned().unwrap().1.into(), &mut lru);
    }
    lru.misses
}

#[test]
fn pages_read_by_hot_row_runs_are_those_a_naive_lru_list_misses() {
    // Install the page cache before any other code initialises SQLite.
    pcache::install().unwrap();
    for page_bytes in [4_096, 16_384] {
        compare_with_pages_of(PageSize::new(page_bytes).unwrap());
    }
}

fn compare_with_pages_of(page_size: PageSize) {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let database = directory.path().join("hot.db");
    let data = HotRowsPopulation::new(ROWS, 42).unwrap().into();
    let job = Load { database: database.clone(), page_size, data, generators: 2 };
    load(&job, &AtomicBool::new(false), &mut |_| {}).unwrap();
    let connection = Connection::open(&database).unwrap();
    let sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'sbtest1'";
    let root: u32 = connection.query_row(sql, [], |row| row.get(0)).unwrap();
    connection.close().unwrap();
    let paths = btree::File::open(&database).path_of_row(root);
    assert_eq!(paths.len(), ROWS as usize);

    let base = HotRowsConfig {
        rows: ROWS,
        run_seed: 5,
        hot_rows: 2_000,
        layout: Layout::Scattered,
        zipf: 0.0,
        update_percent: 0,
    };
    let frames = 300 * 4_096 / u64::from(page_size.bytes());
    let cases = [
        base,
        HotRowsConfig { hot_rows: 330, ..base },
        HotRowsConfig { zipf: 0.9, ..base },
        HotRowsConfig { layout: Layout::Clustered, hot_rows: 8_000, ..base },
        HotRowsConfig { layout: Layout::Clustered, hot_rows: 5_000, ..base },
    ];
    for config in cases {
        let (growth, warm_up) = measured(&database, page_size, config, frames);
        let expected = simulated(&paths, &config, frames, warm_up);
        let (read, missed) = (growth["pages_read"], growth["demand_misses"]);
        // The counts are exactly equal. The run writes no row, so every miss is a read of the file.
        assert_eq!((read, missed), (expected as i64, expected as i64), "{config:?} with {frames} frames");
        assert_eq!(expected > 0, config.hot_rows != 5_000, "of these, only 5,000 neighbours fit");
    }
}
