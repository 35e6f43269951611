//! A pool that tells the reads, creations and evictions of its model, as a server's trace of misses has them.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};

use bufferlab_generate::engine::Engine;
use bufferlab_generate::loaded::Loaded;
use bufferlab_generate::pools::Pools;
use bufferlab_generate::run::{Plan, TRANSACTION_US, WarmUp, run};
use bufferlab_model::trace::{Access, Columns, Kind};
use bufferlab_sim::{Counts, Innodb57, Innodb1011, Manager, Model, Postgres};

/// A model that tells whether it holds a page.
pub trait Holds: Manager {
    fn holds(&self, page: u32) -> bool;
}

macro_rules! holds {
    ($($pool:ty),*) => { $(impl Holds for $pool { fn holds(&self, page: u32) -> bool { self.has(page) } })* };
}
holds!(Innodb57, Innodb1011, Postgres);

/// The columns of a trace of misses.
#[derive(Default)]
pub struct Emitted {
    pub page: Vec<u32>,
    pub kind: Vec<u8>,
    pub latch: Vec<u8>,
    pub thread: Vec<u16>,
    pub delta_us: Vec<u32>,
    row_us: Vec<u64>,
}

impl Emitted {
    pub fn columns(&self) -> Columns<'_> {
        let Emitted { page, kind, latch, thread, delta_us, .. } = self;
        Columns { page, kind, latch, thread, delta_us }
    }

    fn tell(&mut self, page: u32, kind: Kind, access: Access) {
        let last_us = self.row_us.last().copied().unwrap_or(0);
        self.page.push(page);
        self.kind.push(kind as u8);
        self.latch.push(0);
        self.thread.push(access.thread);
        self.delta_us.push((access.now_us - last_us) as u32);
        self.row_us.push(access.now_us);
    }
}

/// A pool that tells what it does. It finds the pages that left by asking for all that it had.
struct Emitting<M> {
    pool: M,
    held: Vec<u32>,
    last_us: Vec<u64>,
    emitted: Arc<Mutex<Emitted>>,
}

impl<M: Holds> Emitting<M> {
    fn around(&mut self, kind: Kind, access: Access) {
        let before = self.pool.counts();
        self.pool.hear(kind, access);
        let after = self.pool.counts();
        self.last_us[access.page as usize] = access.now_us;
        let mut emitted = self.emitted.lock().expect("one thread");
        if after.evictions > before.evictions {
            let pool = &self.pool;
            let (held, mut left): (Vec<_>, Vec<_>) = self.held.iter().partition(|&&page| pool.holds(page));
            self.held = held;
            // The order within one batch is not known: the page that was wanted longest ago is first.
            left.sort_by_key(|&page: &u32| self.last_us[page as usize]);
            left.into_iter().for_each(|page| emitted.tell(page, Kind::Evict, access));
        }
        let reads = |counts: Counts| counts.misses + counts.prefetch_reads;
        if reads(after) > reads(before) {
            emitted.tell(access.page, Kind::Read, access);
            self.held.push(access.page);
        } else if kind == Kind::Create {
            emitted.tell(access.page, Kind::Create, access);
            if after.creates > before.creates {
                self.held.push(access.page);
            }
        }
    }
}

impl<M: Holds> Manager for Emitting<M> {
    fn get(&mut self, access: Access) {
        self.around(Kind::Get, access);
    }

    fn get_if_in_pool(&mut self, access: Access) {
        self.around(Kind::GetIfInPool, access);
    }

    fn create(&mut self, access: Access) {
        self.around(Kind::Create, access);
    }

    fn prefetch(&mut self, access: Access) {
        self.around(Kind::Prefetch, access);
    }

    fn drop_page(&mut self, access: Access) {
        self.around(Kind::Drop, access);
    }

    fn counts(&self) -> Counts {
        self.pool.counts()
    }

    fn frames_used(&self) -> u32 {
        self.pool.frames_used()
    }
}

/// What a pool told, and when larger pools read.
pub struct Told {
    pub columns: Emitted,
    pub row_us: Vec<u64>,
    /// For each larger pool the time of each of its reads.
    pub larger_misses: Vec<Vec<u64>>,
}

/// Returns the settings that the tests play a model with: a short free list, and no clock in the list.
pub fn settings_of(name: &str) -> String {
    let of = |text: &str| text.to_owned();
    match name {
        "innodb57" => of(r#"{"old_blocks_pct": 37, "old_blocks_time": 0, "lru_scan_depth": 100, "flush_neighbors": 1,
            "wakes_cleaner": true}"#),
        "innodb1011" => of(r#"{"old_blocks_pct": 37, "old_blocks_time": 0, "lru_scan_depth": 100}"#),
        _ => of(r#"{"large_tables": [], "ring_buffers": 32}"#),
    }
}

/// Plays transactions to a pool of `frames` and to larger ones.
pub fn played<M: Model + Holds + Send + 'static>(
    engine: impl Engine,
    loaded: Loaded,
    frames: u32,
    larger: &[u32],
    settings: &str,
    transactions: u64,
) -> Told {
    let settings: M::Settings = serde_json::from_str(settings).expect("settings");
    let all: Vec<_> = (0..=larger.len()).map(|_| Arc::new(Mutex::new(Emitted::default()))).collect();
    let plan = Plan {
        connections: 8,
        prefill: false,
        warm_up: WarmUp::Transactions(0),
        window: transactions,
        census: false,
        transaction_us: TRANSACTION_US,
        one_window: true,
        watch: None,
    };
    let sizes = std::iter::once(&frames).chain(larger);
    let pools = |pages: u32| {
        let emitting = sizes.zip(&all).map(|(&size, emitted)| {
            let pool = M::new(NonZeroU32::new(size).expect("a size"), pages, &settings);
            let emitted = emitted.clone();
            Box::new(Emitting { pool, held: Vec::new(), last_us: vec![0; pages as usize], emitted })
                as Box<dyn Manager + Send>
        });
        Ok(Pools::new(emitting.collect()))
    };
    drop(run(engine, loaded, plan, Box::new(pools)).expect("it runs"));
    let mut told = all.iter().map(|emitted| std::mem::take(&mut *emitted.lock().expect("one thread")));
    let columns = told.next().expect("the first pool");
    let reads = |one: Emitted| {
        let rows = one.row_us.iter().zip(&one.kind);
        rows.filter(|&(_, &kind)| kind == Kind::Read as u8).map(|(&at_us, _)| at_us).collect()
    };
    let larger_misses = told.map(reads).collect();
    Told { row_us: columns.row_us.clone(), columns, larger_misses }
}
