//! Compares layouts with the shapes of loaded databases. Also checks two rules for all runs: every accessed page
//! exists, and equal seeds give equal runs.

mod open;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use bufferlab_generate::engine::Engine;
use bufferlab_generate::innodb::Innodb;
use bufferlab_generate::job::{Job, WarmUpAsked};
use bufferlab_generate::loaded::Loaded;
use bufferlab_generate::pools::{Counted, Object, Pools};
use bufferlab_generate::postgres::Postgres;
use bufferlab_generate::run::{Gate, Plan, Played, Run, RunError, run};
use bufferlab_generate::simulate::generate;
use bufferlab_generate::sqlite::Sqlite;
use bufferlab_model::trace::Access;
use bufferlab_sim::{Counts, Manager};
use bufferlab_workload::tpcc::TpccConfig;
use serde_json::{Value, json};

use open::Open;

const LOAD_SEED: u64 = 20_260_101;

fn config(warehouses: u32, seed: u64) -> TpccConfig {
    TpccConfig::new(warehouses, LOAD_SEED, seed).expect("the scale is valid")
}

fn innodb(warehouses: u32, page_bytes: u32) -> Vec<Object> {
    let loaded = Loaded::new(&config(warehouses, 1), &Innodb::records());
    Innodb::new(page_bytes, &loaded, 1000).objects().all().to_vec()
}

fn assert_pages(objects: &[Object], real: &[(&str, u32)], off: u32) {
    for &(name, pages) in real {
        let object = objects.iter().find(|object| object.name == name).expect("the object exists");
        assert!(object.pages.abs_diff(pages) <= off, "{name} has {} pages and not {pages}", object.pages);
    }
}

/// Leaves and interior pages of MySQL 5.7.22 with 4 warehouses, pages of 16 KiB, as in its run.json. The layout has a
/// few interior pages fewer, because the server also splits the first one.
#[test]
fn innodb_lays_four_warehouses_out_as_the_server_did() {
    let real = [
        ("customer", 4549 + 7),
        ("customer.customer_by_name", 293 + 1),
        ("district", 1),
        ("history", 494 + 1),
        ("item", 591 + 1),
        ("new_order", 61 + 1),
        ("order_line", 5144 + 8),
        ("orders", 302 + 1),
        ("orders.orders_by_customer", 130 + 1),
        ("stock", 8342 + 11),
        ("warehouse", 1),
    ];
    assert_pages(&innodb(4, 16384), &real, 2);
}

/// DATA_LENGTH and INDEX_LENGTH of MySQL 5.7.22's tables after the load, as in `bytes_loaded` of runs. The layout lacks
/// a few pages above the leaves, because the server also splits the first one.
#[test]
fn innodb_reserves_as_many_bytes_as_the_server_told() {
    let told = [
        (1, 16384, 93_880_320),
        (2, 16384, 172_867_584),
        (3, 16384, 253_706_240),
        (3, 8192, 260_227_072),
        (3, 4096, 272_359_424),
        (4, 16384, 331_382_784),
    ];
    for (warehouses, page_bytes, bytes) in told {
        let loaded = Loaded::new(&config(warehouses, 1), &Innodb::records());
        let missing = bytes - Innodb::new(page_bytes, &loaded, 1000).bytes().unwrap();
        assert!(missing < bytes / 1500, "{missing} bytes of {bytes} with pages of {page_bytes}");
    }
}

/// Leaves with 9 warehouses, of which the last five repeat the first four here.
#[test]
fn innodb_lays_nine_warehouses_out_within_a_fifth_of_a_per_cent() {
    let real = [
        ("customer", 10_239),
        ("customer.customer_by_name", 658),
        ("history", 1111),
        ("item", 591),
        ("new_order", 137),
        ("order_line", 11_570),
        ("orders", 679),
        ("orders.orders_by_customer", 291),
        ("stock", 18_769),
    ];
    assert_pages(&innodb(9, 16384), &real, 24);
}

/// Pages of SQLite 3.54.1 with 1 warehouse, pages of 4 KiB, as in the run.json of tests/fixtures/sweeps/traced.
#[test]
fn sqlite_lays_one_warehouse_out_page_for_page() {
    let loaded = Loaded::new(&config(1, 1), &Sqlite::records());
    let engine = Sqlite::new(4096, &loaded, 1000);
    let real = [
        ("item", 42 + 1973),
        ("warehouse", 1),
        ("district", 1),
        ("stock", 626 + 7593),
        ("customer", 543 + 3748),
        ("history", 1 + 341),
        ("orders", 3 + 219),
        ("new_order", 1 + 25),
        ("order_line", 67 + 4267),
        ("customer_by_name", 4 + 262),
        ("orders_by_customer", 1 + 94),
    ];
    assert_pages(engine.objects().all(), &real, 0);
}

/// Pages of SQLite 3.54.1 with 1 warehouse and small pages, by dbstat: rows of CUSTOMER, and of STOCK below
/// 2 KiB, have overflow pages (23,067 of 2 KiB, 130,000 of 1 KiB and 134,859 of 512 bytes).
#[test]
fn sqlite_lays_small_pages_out_page_for_page() {
    let names = [
        "item",
        "district",
        "stock",
        "customer",
        "history",
        "orders",
        "new_order",
        "order_line",
        "customer_by_name",
        "orders_by_customer",
    ];
    let loaded = Loaded::new(&config(1, 1), &Sqlite::records());
    for (page_bytes, real) in [
        (512, [15_750, 3, 111_252, 38_576, 2946, 1798, 205, 34_028, 2231, 782]),
        (1024, [7967, 1, 112_700, 33_811, 1409, 889, 102, 17_456, 1085, 384]),
        (2048, [4011, 1, 16_668, 27_843, 691, 444, 51, 8619, 535, 191]),
    ] {
        let engine = Sqlite::new(page_bytes, &loaded, 1000);
        let real: Vec<(&str, u32)> = names.into_iter().zip(real).collect();
        assert_pages(engine.objects().all(), &real, 0);
    }
}

/// Heaps and trees (root, interior, leaves) of PostgreSQL 17.2 with 4 warehouses, as in the `database.shape` of a run:
/// `bufferlab run buffer-size --engine postgres --server postgres-17 --warehouses 4`. Meta pages are not laid out.
#[test]
fn postgres_lays_four_warehouses_out_as_the_server_did() {
    let loaded = Loaded::new(&config(4, 1), &Postgres::records());
    let engine = Postgres::new(&loaded, 1000);
    let real = [
        ("customer", 8999),
        ("customer.customer_by_name", 1 + 6 + 812),
        ("customer.customer_pkey", 1 + 2 + 328),
        ("district", 1),
        ("history", 1177),
        ("item", 1300),
        ("item.item_pkey", 1 + 274),
        ("new_order", 160),
        ("new_order.new_order_pkey", 1 + 99),
        ("order_line", 13_639),
        ("order_line.order_line_pkey", 1 + 22 + 4599),
        ("orders", 883),
        ("orders.orders_by_customer", 1 + 2 + 460),
        ("orders.orders_pkey", 1 + 2 + 328),
        ("stock", 16_726),
        ("stock.stock_pkey", 1 + 4 + 1093),
        ("warehouse", 1),
    ];
    // Names differ in length, so the layout has one page more than the server above the leaves of their index.
    let (names, others): (Vec<_>, Vec<_>) = real.iter().partition(|one| one.0.ends_with("by_name"));
    assert_pages(engine.objects().all(), &names, 1);
    assert_pages(engine.objects().all(), &others, 0);
    // Three tenths of the bytes were 15,281 frames of that server (tests/fixtures/prediction/postgres-17-census.json).
    assert_eq!(engine.bytes().unwrap() * 3 / 10 / 8192, 15_281);
}

/// A pool that records which pages are accessed.
struct Witness {
    heard: Arc<Mutex<Vec<bool>>>,
}

impl Manager for Witness {
    fn get(&mut self, access: Access) {
        self.heard.lock().expect("nobody panicked")[access.page as usize] = true;
    }

    fn get_if_in_pool(&mut self, _access: Access) {}

    fn create(&mut self, access: Access) {
        self.get(access);
    }

    fn prefetch(&mut self, _access: Access) {}

    fn drop_page(&mut self, access: Access) {
        assert!(
            self.heard.lock().expect("nobody panicked")[access.page as usize],
            "page {} was never wanted",
            access.page
        );
    }

    fn counts(&self) -> Counts {
        Counts::default()
    }

    fn frames_used(&self) -> u32 {
        0
    }
}

/// Returns the plan of a run.
fn plan(connections: u32, prefill: bool, warm_up: u64, window: u64) -> Plan<'static> {
    Plan {
        connections,
        prefill,
        warm_up: WarmUpAsked::Transactions(warm_up),
        gates: Vec::new(),
        most_prefill_misses: u64::MAX,
        window,
        census: prefill,
        transaction_us: 2_500,
        one_window: false,
        watch: None,
    }
}

fn witnessed(engine: impl Engine + 'static, loaded: Loaded, connections: u32) -> (Run, Vec<bool>) {
    let heard = Arc::new(Mutex::new(vec![false; engine.objects().pages() as usize]));
    let pools = Pools::new(vec![Box::new(Witness { heard: heard.clone() })]);
    let plan = plan(connections, true, 200, 1500);
    let done = run(Box::new(engine), Played::Tpcc(loaded), plan, pools).expect("the driver and the generator agree");
    let heard = heard.lock().expect("nobody panicked").clone();
    (done, heard)
}

/// Checks that a run accessed only existing pages: a page beyond the last one would stop the witness, and a table that
/// does not grow may have no page beyond its loaded ones.
fn assert_pages_exist(done: &Run, heard: &[bool], fixed: &[&str]) {
    for object in &done.objects {
        let own = &heard[object.first_page as usize..(object.first_page + object.room) as usize];
        assert!(own.contains(&true), "{} was never touched", object.name);
        if fixed.contains(&object.name.as_str()) {
            assert_eq!(object.pages, object.room, "{}", object.name);
        }
    }
}

#[test]
fn every_page_that_is_touched_exists_and_a_prefill_touches_all() {
    let loaded = Loaded::new(&config(1, 3), &Innodb::records());
    let (done, heard) = witnessed(Innodb::new(16384, &loaded, 1700), loaded, 8);
    assert_pages_exist(&done, &heard, &["customer", "stock", "item"]);
    let stock = done.objects.iter().find(|object| object.name == "stock").unwrap();
    let interior = 3;
    let leaves = &heard[(stock.first_page + interior) as usize..(stock.first_page + stock.pages) as usize];
    assert!(leaves.iter().all(|&heard| heard));
    let loaded = Loaded::new(&config(1, 3), &Sqlite::records());
    let (done, heard) = witnessed(Sqlite::new(4096, &loaded, 1700), loaded, 1);
    assert_pages_exist(&done, &heard, &["item", "warehouse"]);
    let loaded = Loaded::new(&config(1, 3), &Postgres::records());
    let (done, heard) = witnessed(Postgres::new(&loaded, 1700), loaded, 8);
    let stock = done.objects.iter().find(|object| object.name == "stock").unwrap();
    assert!(heard[stock.first_page as usize..(stock.first_page + stock.pages) as usize].iter().all(|&heard| heard));
    assert!(heard[(stock.first_page + stock.pages) as usize], "rows move to new pages");
}

#[test]
fn a_run_that_outgrows_its_numbers_of_pages_is_no_run() {
    fn outgrown(engine: impl Engine + 'static, loaded: Loaded, connections: u32) {
        let heard = Arc::new(Mutex::new(vec![false; engine.objects().pages() as usize]));
        let pools = Pools::new(vec![Box::new(Witness { heard })]);
        let plan = plan(connections, false, 0, 100_000);
        let found = run(Box::new(engine), Played::Tpcc(loaded), plan, pools).map(|_| ());
        assert!(matches!(found, Err(RunError::Full(1000..))), "{found:?}");
    }
    let loaded = Loaded::new(&config(1, 1), &Innodb::records());
    outgrown(Innodb::new(16384, &loaded, 1), loaded, 8);
    let loaded = Loaded::new(&config(1, 1), &Sqlite::records());
    outgrown(Sqlite::new(4096, &loaded, 1), loaded, 1);
    let loaded = Loaded::new(&config(1, 1), &Postgres::records());
    outgrown(Postgres::new(&loaded, 1), loaded, 8);
}

fn job(changes: Value) -> Job {
    let mut job = json!({
        "engine": "innodb", "page_size_bytes": 16384, "connections": 4, "prefill": true,
        "workload": {"warehouses": 1, "load_seed": LOAD_SEED, "seed": 5},
        "pools": [{"model": "lru", "settings": {}, "frames": 800}, {"model": "lru", "settings": {}, "frames": 3000}],
        "warm_up": {"transactions": 300}, "window_transactions": 600, "census": true,
    });
    for (name, value) in changes.as_object().expect("changes are an object") {
        job[name] = value.clone();
    }
    serde_json::from_value(job).expect("it is a job")
}

fn done(changes: Value) -> Result<Run, String> {
    generate(&job(changes), &|_, _, _| Box::new(Open), None).map_err(|error| error.to_string())
}

/// Only New-Order reads ITEM, whose tree does not change. The tree has as many pages above the leaves as the server's.
#[test]
fn the_census_tells_the_level_of_pages_and_the_type_of_transactions() {
    for (engine, page_bytes, tree, above) in
        [("innodb", 16384, "item", 1.0), ("sqlite", 4096, "item", 42.0), ("postgres", 8192, "item.item_pkey", 1.0)]
    {
        let changes =
            json!({"engine": engine, "page_size_bytes": page_bytes, "connections": 1, "window_transactions": 2000});
        let run = done(changes).unwrap();
        for Counted { name, all, interior } in run.census.iter().filter(|one| !one.name.contains('(')) {
            let gets = all.gets_by_type.iter().sum::<u64>() as f64;
            assert!((gets / 2000.0 - all.gets_per_transaction).abs() < 1e-9, "{engine}: {name}");
            assert!(
                interior.distinct[2] <= all.distinct[2] && interior.gets_per_transaction <= all.gets_per_transaction
            );
            assert!(all.pages_by_type.iter().max().map(|&pages| pages as f64) <= all.distinct[2], "{engine}: {name}");
        }
        let item = run.census.iter().find(|counted| counted.name == tree).expect("the tree exists");
        let [new_order, others @ ..] = item.all.gets_by_type;
        assert!(new_order > 5000 && others == [0; 4], "{engine}: {item:?}");
        assert_eq!(item.interior.distinct[2], Some(above), "{engine}");
        assert_eq!(item.interior.pages_by_type[0] as f64, above, "{engine}");
    }
}

#[test]
fn equal_seeds_give_equal_runs_and_others_do_not() {
    let other = json!({"workload": {"warehouses": 1, "load_seed": LOAD_SEED, "seed": 6}});
    let (first, again, other) = (done(json!({})).unwrap(), done(json!({})).unwrap(), done(other).unwrap());
    assert_eq!(first, again);
    assert_ne!(first.pools, other.pools);
    assert!(first.pools[0].counts.misses > first.pools[1].counts.misses);
}

#[test]
fn a_pool_reads_the_same_alone_and_beside_others() {
    let alone = done(json!({"pools": [{"model": "lru", "settings": {}, "frames": 3000}]})).unwrap();
    assert_eq!(alone.pools[0], done(json!({})).unwrap().pools[1]);
}

#[test]
fn a_gate_ends_the_warm_up_of_its_own_pool() {
    let run = done(json!({"warm_up": {"gate_within": 2000}})).unwrap();
    assert!(run.pools.iter().all(|pool| pool.is_warm && pool.warm_up_transactions == 500), "{:?}", run.pools);
    assert!(run.pools.iter().all(|pool| pool.transactions == 600));
}

/// A gate that ends the warm-up at once, and remembers the misses of the prefill.
struct Hears(Rc<Cell<u64>>);

impl Gate for Hears {
    fn prefill(&mut self, misses: u64) {
        self.0.set(misses);
    }

    fn is_warm(&mut self, _misses: u64) -> bool {
        true
    }

    fn end(&self) -> Option<&'static str> {
        None
    }
}

#[test]
fn a_gate_hears_of_the_misses_that_a_server_counts_while_it_reads_all_tables() {
    let heard = |changes: Value| {
        let told = Rc::new(Cell::new(0));
        let gated = json!({"warm_up": {"gate_within": 500}, "window_transactions": 1, "census": false,
            "pools": [{"model": "lru", "settings": {}, "frames": 800}]});
        let mut asked = gated;
        changes.as_object().into_iter().flatten().for_each(|(name, value)| asked[name] = value.clone());
        generate(&job(asked), &|_, _, _| Box::new(Hears(Rc::clone(&told))), None).expect("it can be");
        told.get()
    };
    // Only these pages are misses: for each of eleven trees half an extent of single pages, and one area of 64 pages.
    // The other pages are read ahead.
    assert_eq!(heard(json!({})), 11 * (32 + 64));
    assert!(heard(json!({"engine": "postgres", "page_size_bytes": 8192})) > 10_000);
}

#[test]
fn pools_of_one_window_begin_it_with_the_first_ones_gate_and_measure_the_transactions_of_a_measured_run() {
    let run = done(json!({"warm_up": {"gate_within": 2000}, "one_window": true})).unwrap();
    assert!(run.pools.iter().all(|pool| pool.is_warm && pool.warm_up_transactions == 500), "{:?}", run.pools);
    assert_eq!(run.pools[0].gate, Some("open"));
    let after_as_many = done(json!({"warm_up": {"transactions": 500}})).unwrap();
    for (pool, fixed) in run.pools.iter().zip(&after_as_many.pools) {
        assert_eq!((pool.counts, pool.committed), (fixed.counts, fixed.committed));
    }
}

#[test]
fn every_transaction_of_a_window_is_counted_by_its_type() {
    for pool in done(json!({})).unwrap().pools {
        assert_eq!(pool.committed.iter().sum::<u64>() + pool.rolled_back.iter().sum::<u64>(), pool.transactions);
        assert_eq!(pool.committed[0] + pool.rolled_back[0], pool.new_orders);
        assert!(pool.rolled_back[0] > 0 && pool.rolled_back[1..] == [0; 4], "{:?}", pool.rolled_back);
    }
}

#[test]
fn without_a_pool_the_answer_is_the_loaded_database() {
    let innodb = done(json!({"pools": []})).unwrap();
    assert_eq!((innodb.pools.len(), innodb.census.len()), (0, 0));
    // One interior page of STOCK that MySQL 5.7.22 reported (tests/fixtures/prediction/measured) is missing.
    assert_eq!(innodb.database_bytes, Some(93_880_320 - 16384));
    let sqlite = done(json!({"engine": "sqlite", "page_size_bytes": 4096, "connections": 1, "pools": []})).unwrap();
    // The missing page is the second one of the schema (tests/fixtures/sweeps/before).
    assert_eq!(sqlite.database_bytes, Some(81_158_144 - 4096));
}

#[test]
fn a_slower_clock_makes_pages_young_that_a_fast_one_leaves_old() {
    let settings = json!({"old_blocks_pct": 37, "old_blocks_time": 1000, "lru_scan_depth": 100, "flush_neighbors": 1,
        "wakes_cleaner": true});
    let pool = |time: f64| json!({"model": "innodb57", "settings": settings, "frames": 800, "time": time});
    let run = done(json!({"pools": [pool(1.0), pool(0.01), pool(100.0)]})).unwrap();
    let [own, fast, slow] = [0, 1, 2].map(|place| run.pools[place].counts.made_young);
    assert!(fast < own && own < slow, "{fast}, {own}, {slow}");
}

#[test]
fn a_watch_hears_of_warm_up_and_window_and_stops_a_run() {
    let mut heard = Vec::new();
    let mut watch = |all, measured| {
        heard.push((all, measured));
        all < 600
    };
    let stopped = generate(&job(json!({})), &|_, _, _| Box::new(Open), Some(&mut watch));
    assert!(matches!(stopped, Err(RunError::Stopped)));
    assert_eq!(heard.first(), Some(&(0, None)));
    assert_eq!(heard.last(), Some(&(600, Some(300))));
}

#[test]
fn what_has_no_rules_is_refused_by_name() {
    let refused = |changes: Value| done(changes).unwrap_err();
    assert!(refused(json!({"engine": "oracle"})).contains("no rules are known for oracle"));
    assert!(refused(json!({"page_size_bytes": 32768})).contains("32768"));
    assert!(refused(json!({"page_size_bytes": 5000})).contains("5000"));
    assert!(refused(json!({"engine": "sqlite", "connections": 2})).contains("one connection"));
    let postgres = json!({"engine": "postgres", "page_size_bytes": 16384});
    assert!(refused(postgres).contains("postgres has no pages of 16384 bytes here, but of 8192"));
    assert!(refused(json!({"window_transactions": 0})).contains("a window"));
    assert!(refused(json!({"pools": [{"model": "lru", "settings": {}, "frames": 0}]})).contains("frames"));
    assert!(refused(json!({"pools": [{"model": "arc", "settings": {}, "frames": 9}]})).contains("no model arc"));
}

#[test]
fn transactions_of_innodb_take_the_rollback_segments_of_all_undo_tablespaces_in_turn() {
    for (engine, segments, tablespaces) in [("innodb", 96.0, 1.0), ("innodb80", 256.0, 2.0)] {
        let run = done(json!({"engine": engine, "connections": 8, "window_transactions": 2000})).unwrap();
        let pages = |name: &str| {
            let counted = run.census.iter().find(|counted| counted.name == name).expect("it is an object");
            counted.all.distinct[2].expect("the window has a stretch of 2,000 transactions")
        };
        // Each segment has a header; each tablespace has a header and an inode page, when a segment gets a page.
        let managing = pages("(system)") - segments;
        assert!(
            (0.0..=2.0 * tablespaces).contains(&managing),
            "{engine}: {managing} pages beside the segments' headers"
        );
        assert!(pages("(undo)") >= 2.0 * segments, "{engine}: a page of inserts and one of updates for each segment");
    }
}
