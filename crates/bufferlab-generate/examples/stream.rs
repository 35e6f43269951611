//! Writes the page accesses of a job to a file for libCacheSim: `stream FILE < JOB`. It takes jobs of InnoDB with
//! TPC-C, and simulates the whole database. It ignores the job's pools and prefill; the window begins with the first
//! transaction. Prints the number of records, and how many of them are gets; the others are creations of pages.
//!
//! A record of oracleGeneral has 24 bytes, little-endian: u32 seconds, u64 object, u32 bytes, i64 number of the record
//! that accesses the object next. That number is -1 here, because it is not known yet; LRU does not need it.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::{Arc, Mutex};

use bufferlab_generate::innodb::Innodb;
use bufferlab_generate::job::{Job, WarmUpAsked, Workload};
use bufferlab_generate::loaded::Loaded;
use bufferlab_generate::pools::Pools;
use bufferlab_generate::run::{Plan, Played, run};
use bufferlab_model::trace::Access;
use bufferlab_sim::{Counts, Manager};

/// A pool that writes its accesses, and counts neither misses nor frames.
struct Writer {
    file: BufWriter<File>,
    state: Arc<Mutex<State>>,
}

/// The writer's counts, which the example prints at the end.
#[derive(Default)]
struct State {
    records: u64,
    gets: u64,
    failure: Option<std::io::Error>,
}

impl Writer {
    fn write(&mut self, access: Access) {
        let mut record = [0; 24];
        record[..4].copy_from_slice(&((access.now_us / 1_000_000) as u32).to_le_bytes());
        record[4..12].copy_from_slice(&u64::from(access.page).to_le_bytes());
        record[12..16].copy_from_slice(&1_u32.to_le_bytes());
        record[16..].copy_from_slice(&(-1_i64).to_le_bytes());
        let done = self.file.write_all(&record);
        if let Ok(mut state) = self.state.lock() {
            state.records += 1;
            state.failure = state.failure.take().or(done.err());
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let done = self.file.flush();
        if let Ok(mut state) = self.state.lock() {
            state.failure = state.failure.take().or(done.err());
        }
    }
}

impl Manager for Writer {
    fn get(&mut self, access: Access) {
        self.write(access);
        if let Ok(mut state) = self.state.lock() {
            state.gets += 1;
        }
    }

    fn get_if_in_pool(&mut self, _access: Access) {}

    fn create(&mut self, access: Access) {
        self.write(access);
    }

    fn prefetch(&mut self, _access: Access) {}

    fn drop_page(&mut self, _access: Access) {}

    fn counts(&self) -> Counts {
        Counts::default()
    }

    fn frames_used(&self) -> u32 {
        0
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("stream FILE < JOB")?;
    let job: Job = serde_json::from_reader(std::io::stdin())?;
    let ("innodb", Workload::Tpcc(config)) = (job.engine.as_str(), job.workload) else {
        return Err("only TPC-C on innodb is written".into());
    };
    let state = Arc::new(Mutex::new(State::default()));
    let writer = Writer { file: BufWriter::new(File::create(path)?), state: state.clone() };
    let plan = Plan {
        connections: job.connections,
        prefill: false,
        warm_up: WarmUpAsked::Transactions(0),
        gates: Vec::new(),
        most_prefill_misses: u64::MAX,
        window: job.window_transactions,
        census: false,
        transaction_us: job.workload.transaction_us(),
        one_window: false,
        watch: None,
    };
    let loaded = Loaded::new(&config, &Innodb::records());
    let engine = Box::new(Innodb::new(job.page_size_bytes, &loaded, job.window_transactions));
    let pools = Pools::new(vec![Box::new(writer) as Box<dyn Manager + Send>]);
    drop(run(engine, Played::Tpcc(loaded), plan, pools)?);
    let mut state = state.lock().map_err(|_| "the writer panicked")?;
    if let Some(failure) = state.failure.take() {
        return Err(failure.into());
    }
    println!("[{}, {}]", state.records, state.gets);
    Ok(())
}
