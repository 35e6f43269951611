//! A pool that reports the reads, creations and evictions of its model, in the form of a server's trace of misses.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};

use bufferlab_generate::engine::Engine;
use bufferlab_generate::engine::TRANSACTION_US;
use bufferlab_generate::job::WarmUpAsked;
use bufferlab_generate::loaded::Loaded;
use bufferlab_generate::pools::Pools;
use bufferlab_generate::run::{Plan, Played, run};
use bufferlab_model::trace::{Access, Columns, Kind};
use bufferlab_sim::{Counts, Innodb57, Innodb1011, Manager, Model, Postgres};

/// A model that knows whether it holds a page.
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

/// A pool that reports its events. It finds evictions by checking for each page that it held before whether it still
/// holds the page. Some pools report only reads.
struct Emitting<M> {
    pool: M,
    tells_evictions: bool,
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
        if self.tells_evictions && after.evictions > before.evictions {
            let pool = &self.pool;
            let (held, mut left): (Vec<_>, Vec<_>) = self.held.iter().partition(|&&page| pool.holds(page));
            self.held = held;
            // The order within a batch of evictions is unknown: report the pages in the order of their last uses, the
            // oldest first.
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

/// The events of a pool, and the times of larger pools' reads.
pub struct Told {
    pub columns: Emitted,
    pub row_us: Vec<u64>,
    /// For each larger pool the time of each of its reads.
    pub larger_misses: Vec<Vec<u64>>,
}

/// Returns the settings of a model in these tests: a short free list, and `old_blocks_time` 0.
fn settings_of(name: &str) -> &'static str {
    match name {
        "innodb57" => {
            r#"{"old_blocks_pct": 37, "old_blocks_time": 0, "lru_scan_depth": 100, "flush_neighbors": 1,
            "wakes_cleaner": true}"#
        }
        "innodb1011" => r#"{"old_blocks_pct": 37, "old_blocks_time": 0, "lru_scan_depth": 100}"#,
        _ => r#"{"large_tables": [], "ring_buffers": 32}"#,
    }
}

/// Pools of several sizes, and the events of each.
struct Several {
    pools: Vec<Box<dyn Manager + Send>>,
    emitted: Vec<Arc<Mutex<Emitted>>>,
}

impl Several {
    fn new<M: Model + Holds + Send + 'static>(sizes: &[u32], pages: u32) -> Self {
        let settings: M::Settings = serde_json::from_str(settings_of(M::NAME)).expect("settings");
        let emitted: Vec<_> = sizes.iter().map(|_| Arc::new(Mutex::new(Emitted::default()))).collect();
        let pools = sizes.iter().zip(&emitted).map(|(&size, emitted)| {
            let pool = M::new(NonZeroU32::new(size).expect("a size"), pages, &settings);
            let (held, last_us) = (Vec::new(), vec![0; pages as usize]);
            let tells_evictions = size == sizes[0];
            Box::new(Emitting { pool, tells_evictions, held, last_us, emitted: emitted.clone() })
                as Box<dyn Manager + Send>
        });
        Several { pools: pools.collect(), emitted }
    }
}

/// Returns the events of the first pool, and the times of the others' reads.
fn told(emitted: &[Arc<Mutex<Emitted>>]) -> Told {
    let mut all = emitted.iter().map(|one| std::mem::take(&mut *one.lock().expect("one thread")));
    let columns = all.next().expect("the first pool");
    let reads = |one: Emitted| {
        let rows = one.row_us.iter().zip(&one.kind);
        rows.filter(|&(_, &kind)| kind == Kind::Read as u8).map(|(&at_us, _)| at_us).collect()
    };
    Told { row_us: columns.row_us.clone(), columns, larger_misses: all.map(reads).collect() }
}

/// Passes the accesses of TPC-C's transactions to pools of these sizes.
pub fn of_tpcc<M: Model + Holds + Send + 'static>(
    engine: Box<dyn Engine>,
    loaded: Loaded,
    sizes: &[u32],
    transactions: u64,
) -> Told {
    let plan = Plan {
        connections: 8,
        prefill: false,
        warm_up: WarmUpAsked::Transactions(0),
        gates: Vec::new(),
        most_prefill_misses: u64::MAX,
        window: transactions,
        census: false,
        transaction_us: TRANSACTION_US,
        one_window: true,
        watch: None,
    };
    let Several { pools, emitted } = Several::new::<M>(sizes, engine.objects().pages());
    drop(run(engine, Played::Tpcc(loaded), plan, Pools::new(pools)).expect("it runs"));
    told(&emitted)
}

/// Passes gets of pages, whose frequencies follow a power law, to pools of these sizes. A quarter of the gets take an
/// exclusive latch.
pub fn of_power_law<M: Model + Holds + Send + 'static>(pages: u32, power: f64, gets: u64, sizes: &[u32]) -> Told {
    let mut several = Several::new::<M>(sizes, pages);
    let mut random = 7_u64;
    let mut next = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as f64 / f64::from(1_u32 << 31)
    };
    let mut sums = vec![0.0; pages as usize];
    let mut sum = 0.0;
    for (rank, place) in (1..).zip(&mut sums) {
        sum += f64::from(rank).powf(-power);
        *place = sum;
    }
    for number in 0..gets {
        let drawn = next() * sum;
        let rank = sums.partition_point(|&below| below < drawn) as u32;
        // Pages of neighbouring ranks are not neighbours in the file.
        let page = (u64::from(rank) * 7919 % u64::from(pages)) as u32;
        let latch = if next() < 0.25 { 2 } else { 1 };
        let access = Access { page, thread: 0, latch, now_us: number * 12 };
        several.pools.iter_mut().for_each(|pool| pool.get(access));
    }
    told(&several.emitted)
}
