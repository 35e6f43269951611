//! Compares simulations of parts of a database with simulations of all of it, and the choice of pages with a naive
//! choice.

mod open;

use bufferlab_generate::job::Job;
use bufferlab_generate::job::Name;
use bufferlab_generate::page_shares::{RUN, Shares};
use bufferlab_generate::pools::Pools;
use bufferlab_generate::run::{PoolRun, Run, RunError};
use bufferlab_generate::simulate::generate;
use bufferlab_sim::{MODELS, OneIn};
use proptest::prelude::*;
use serde_json::{Value, json};

use open::Open;

const LOAD_SEED: u64 = 20_260_101;
const DEPTH_100: &str = r#"{"old_blocks_pct": 37, "old_blocks_time": 0, "lru_scan_depth": 100, "flush_neighbors": 1, "wakes_cleaner": true}"#;

proptest! {
    #[test]
    fn each_page_is_of_one_share_and_each_share_has_one_run_of_a_block(one_in in 1u32..70, blocks in 1u32..50) {
        let shares = Shares::new(one_in);
        // The naive choice keeps a list of the pages of each share. A page's number in the share is its position in the
        // list.
        let mut lists = vec![Vec::new(); one_in as usize];
        for page in 0..one_in * blocks * RUN {
            let (share, number) = shares.of(page);
            prop_assert_eq!(number as usize, lists[share as usize].len());
            lists[share as usize].push(page);
        }
        for list in lists {
            prop_assert_eq!(list.len() as u32, shares.pages(one_in * blocks * RUN));
            for (block, run) in (0..).zip(list.chunks(RUN as usize)) {
                prop_assert_eq!(run[0] / RUN / one_in, block);
                prop_assert!((run[0]..run[0] + RUN).eq(run.iter().copied()) && run[0] % RUN == 0);
            }
        }
    }

    #[test]
    fn frames_and_pages_of_all_shares_add_up(one_in in 1u32..1000, frames: u32, pages in 0u32..100_000) {
        let shares = Shares::new(one_in);
        let frames_of = |share| u64::from(shares.frames(share, frames));
        prop_assert_eq!((0..one_in).map(frames_of).sum::<u64>(), u64::from(frames));
        prop_assert!((0..one_in).all(|share| frames_of(share).abs_diff(frames_of(0)) <= 1));
        let own = (0..pages).map(|page| shares.of(page)).filter(|&(share, _)| share == one_in / 2);
        prop_assert!(own.into_iter().all(|(_, number)| number < shares.pages(pages)));
        prop_assert!(shares.pages(pages) * one_in < pages + one_in * RUN);
    }

    #[test]
    fn pools_of_all_shares_hear_what_managers_hear_that_are_given_their_pages(
        one_in in 1u32..6,
        gets in prop::collection::vec(0u32..200, 0..600),
    ) {
        let lru = MODELS.iter().find(|entry| entry.name == "lru").unwrap();
        let shares = Shares::new(one_in);
        let make = |share| (lru.make)("{}", shares.frames(share, 100), shares.pages(200), OneIn::ONE).unwrap();
        let mut pools = Pools::of_shares((0..one_in).map(|share| (shares, share, vec![make(share)])).collect());
        gets.iter().for_each(|&page| pools.get(page, 0));
        for share in 0..one_in {
            let mut alone = Pools::new(vec![make(share)]);
            let own = gets.iter().map(|&page| shares.of(page)).filter(|&(of, _)| of == share);
            own.for_each(|(_, number)| alone.get(number, 0));
            prop_assert_eq!(pools.counts(share as usize), alone.counts(0));
        }
    }
}

#[test]
fn a_share_has_as_many_runs_of_any_place_of_a_block_and_few_neighbours() {
    let (one_in, blocks) = (8u32, 80_000);
    let shares = Shares::new(one_in);
    let mut places = vec![0u32; one_in as usize];
    let mut neighbours = 0;
    let mut last = None;
    for run in 0..one_in * blocks {
        if shares.of(run * RUN).0 == 3 {
            places[(run % one_in) as usize] += 1;
            neighbours += u32::from(last == Some(run.wrapping_sub(1)));
            last = Some(run);
        }
    }
    // The share has 10,000 runs of each place, with a standard deviation of 94. For two consecutive blocks it has
    // neighbouring runs in one case of 64.
    assert!(places.iter().all(|count| (9_600..10_400).contains(count)), "{places:?}");
    assert!((1_100..1_400).contains(&neighbours), "{neighbours}");
}

fn job(warehouses: u32, changes: Value) -> Job {
    let settings: Value = serde_json::from_str(DEPTH_100).expect("it is JSON");
    let pool = |frames: u32| json!({"model": "innodb57", "settings": settings, "frames": frames});
    let mut job = json!({
        "engine": "innodb", "page_size_bytes": 16384, "connections": 8, "prefill": false,
        "workload": {"warehouses": warehouses, "load_seed": LOAD_SEED, "seed": 5},
        "pools": [pool(warehouses * 500), pool(warehouses * 1500)],
        "warm_up": {"transactions": warehouses * 1000}, "window_transactions": 4000, "census": false,
    });
    for (name, value) in changes.as_object().expect("changes are an object") {
        job[name] = value.clone();
    }
    serde_json::from_value(job).expect("it is a job")
}

fn done(job: &Job) -> Result<Run, String> {
    generate(job, &|_, _, _| Box::new(Open), None).map_err(|error| error.to_string())
}

#[test]
fn one_page_in_one_is_the_exact_run() {
    let exact = done(&job(1, json!({}))).unwrap();
    let asked = done(&job(1, json!({"one_in": 1, "simulated_warehouses": 1}))).unwrap();
    assert_eq!(exact, asked);
    assert_eq!((exact.way.name, exact.way.warehouses, exact.way.one_in), (Name::Exact, 1, 1));
    assert!(exact.pools.iter().all(|pool| pool.error.is_none()));
}

/// Compares a simulation of one page in four with one of all pages. The errors that it reported were 3 to 6 %.
#[test]
fn one_page_in_four_reads_what_all_pages_read() {
    let exact = done(&job(4, json!({}))).unwrap();
    let sampled = done(&job(4, json!({"one_in": 4}))).unwrap();
    assert_eq!((sampled.way.name, sampled.way.one_in), (Name::Sampled, 4));
    assert_eq!(sampled.objects, exact.objects);
    for (sampled, exact) in sampled.pools.iter().zip(&exact.pools) {
        // The server gets a bitmap page for each page that it reads. The number of reads is only estimated, so the test
        // compares the other gets.
        let without_bitmaps = |pool: &PoolRun| pool.gets - pool.counts.misses;
        assert_eq!(without_bitmaps(sampled), without_bitmaps(exact));
        assert_eq!((sampled.transactions, sampled.new_orders), (4000, exact.new_orders));
        let off = sampled.counts.misses as f64 / exact.counts.misses as f64 - 1.0;
        let told = sampled.error.expect("something is missed");
        assert!(off.abs() <= told && told < 0.15, "{off} told {told}");
        assert!(sampled.frames_used.abs_diff(exact.frames_used) <= exact.frames_used / 50 + 4);
    }
}

#[test]
fn pools_that_want_all_pages_change_nothing_for_the_others() {
    let with_old_pages = |changes: Value| {
        let mut asked = job(2, changes);
        let mut pool = asked.pools[1].clone();
        pool.if_exact = true;
        pool.settings["flush_age"] = json!([[0, 20_000]]);
        asked.pools.push(pool);
        asked
    };
    // A sample leaves out the pool that is asked for only if the simulation is exact.
    for (changes, pools) in [(json!({}), 3), (json!({"one_in": 4}), 2)] {
        let (plain, more) = (done(&job(2, changes.clone())).unwrap(), done(&with_old_pages(changes)).unwrap());
        assert_eq!((more.pools.len(), more.way), (pools, plain.way));
        assert_eq!(more.pools[..2], plain.pools[..]);
        assert!(more.pools[2..].iter().all(|pool| pool.counts.flush_list_writes > 0));
    }
}

#[test]
fn fewer_warehouses_stand_for_more_than_an_engine_can_number() {
    let pool = json!([{"model": "sqlite", "settings": {}, "frames": 1_000_000}]);
    let changes = json!({"engine": "sqlite", "page_size_bytes": 65536, "connections": 1, "pools": pool,
        "warm_up": {"transactions": 5000}, "window_transactions": 300, "simulated_warehouses": 2});
    let run = done(&job(200, changes.clone())).unwrap();
    assert_eq!((run.way.name, run.way.warehouses), (Name::ForMore, 2));
    // The windows of three seeds add up. The window is not shortened, because it is short.
    assert_eq!((run.pools[0].transactions, run.pools[0].warm_up_transactions), (900, 5000));
    let one = done(&job(1, {
        let mut one = changes;
        one["simulated_warehouses"] = Value::Null;
        one
    }))
    .unwrap();
    let pages = |run: &Run, name: &str| run.objects.iter().find(|object| object.name == name).unwrap().pages;
    assert_eq!(pages(&run, "item"), pages(&one, "item"));
    assert!(pages(&run, "stock").abs_diff(200 * pages(&one, "stock")) <= 400);
}

#[test]
fn a_watch_hears_of_all_simulations_as_of_one_run_and_stops_them() {
    let job = job(4, json!({"simulated_warehouses": 2, "warm_up": {"transactions": 1000}}));
    let watched = |until: u64| {
        let mut heard = Vec::new();
        let mut watch = |all: u64, measured: Option<u64>| {
            heard.push((all, measured));
            measured < Some(until)
        };
        let ended = generate(&job, &|_, _, _| Box::new(Open), Some(&mut watch));
        (ended, heard)
    };
    let (ended, heard) = watched(u64::MAX);
    assert!(ended.is_ok());
    assert!(heard.iter().map(|(all, _)| all).is_sorted() && heard.iter().map(|(_, measured)| measured).is_sorted());
    assert_eq!(heard.first(), Some(&(0, None)));
    // Three simulations have 500 transactions before a window of 3,000, and one of half the warehouses has 250 before
    // it. The last calls of the watch come after 3,400 and 3,200 transactions.
    let (all, measured) = *heard.last().unwrap();
    assert!(all == 13_400 && (3_950..4_000).contains(&measured.unwrap()), "{all} {measured:?}");
    assert_eq!(heard.iter().filter(|(_, measured)| measured.is_none()).count(), 5);
    let (ended, heard) = watched(3_500);
    assert!(matches!(ended, Err(RunError::Stopped)));
    assert!(heard.last().unwrap().1.is_some_and(|measured| (3_500..3_600).contains(&measured)));
}

#[test]
fn a_part_tells_bytes_types_and_turnovers_of_all() {
    let exact = done(&job(4, json!({}))).unwrap();
    let before = |pool: &PoolRun| {
        let counts = &pool.counts;
        let inside = counts.misses + counts.prefetch_reads + counts.creates - counts.ring_reuses;
        (pool.brought_in_since_start - inside) as f64
    };
    // With two of four warehouses only the larger pool is compared: the smaller keeps half of its frames for ITEM.
    for (asked, pools, off) in [(json!({"simulated_warehouses": 2}), 1.., 0.25), (json!({"one_in": 4}), 0.., 0.1)] {
        let part = done(&job(4, asked.clone())).unwrap();
        let [own, all] = [&part, &exact].map(|run| run.database_bytes.unwrap() as f64);
        assert!((own / all - 1.0).abs() < 0.01, "{asked}: {own} for {all}");
        for (pool, exact) in part.pools[pools.clone()].iter().zip(&exact.pools[pools]) {
            let told = pool.committed.iter().chain(&pool.rolled_back).sum::<u64>();
            assert!(told.abs_diff(pool.transactions) <= 3 && pool.rolled_back[1..].iter().all(|&count| count == 0));
            assert!(pool.new_orders.abs_diff(pool.committed[0] + pool.rolled_back[0]) <= 1);
            let (own, all) = (before(pool), before(exact));
            assert!((own / all - 1.0).abs() < off, "{asked}: {own} pages before the window for {all}");
        }
    }
}

#[test]
fn shares_have_gates_one_window_and_a_clock_as_a_whole_pool_has() {
    let settings = json!({"old_blocks_pct": 37, "old_blocks_time": 1000, "lru_scan_depth": 100, "flush_neighbors": 1,
        "wakes_cleaner": true});
    let pool = |time: f64| json!({"model": "innodb57", "settings": settings, "frames": 2000, "time": time});
    let pools = json!([pool(1.0), pool(0.01), pool(100.0)]);
    let warm_up = json!({"gate_within": 4000});
    let run = done(&job(2, json!({"one_in": 4, "pools": pools, "warm_up": warm_up, "one_window": true}))).unwrap();
    assert!(run.pools.iter().all(|pool| pool.is_warm && pool.warm_up_transactions == 500), "{:?}", run.pools);
    assert_eq!(run.pools[0].gate, Some("open"));
    let [own, fast, slow] = [0, 1, 2].map(|place| run.pools[place].counts.made_young);
    assert!(fast < own && own < slow, "{fast}, {own}, {slow}");
}

#[test]
fn postgres_is_simulated_by_a_part_too() {
    let pool = json!([{"model": "postgres", "settings": {"large_tables": [], "ring_buffers": 32}, "frames": 16_000}]);
    let changes = |one_in: u32| {
        json!({"engine": "postgres", "page_size_bytes": 8192, "pools": pool, "one_in": one_in,
            "warm_up": {"transactions": 4000}})
    };
    let [exact, sampled] = [1, 4].map(|one_in| done(&job(2, changes(one_in))).unwrap());
    let off = sampled.pools[0].counts.misses as f64 / exact.pools[0].counts.misses as f64 - 1.0;
    let told = sampled.pools[0].error.expect("something is missed");
    assert!(off.abs() <= told && told < 0.15, "{off} told {told}");
    assert_eq!(sampled.database_bytes, exact.database_bytes);
}

#[test]
fn the_way_is_chosen_by_what_fits_into_memory() {
    let way = |warehouses: u32, changes: Value, limits| {
        let way = bufferlab_generate::scale::choose(&job(warehouses, changes), &limits);
        way.map(|way| (way.name, way.warehouses, way.one_in)).map_err(|error| error.to_string())
    };
    let limits = |warehouses| bufferlab_generate::job::Limits {
        warehouses,
        layout_bytes: 200_000,
        transaction_bytes: 40,
        shared_pages: 600,
    };
    assert_eq!(way(20, json!({}), limits(102)), Ok((Name::Exact, 20, 1)));
    assert_eq!(way(103, json!({}), limits(102)), Ok((Name::ForMore, 100, 1)));
    assert_eq!(way(400, json!({}), limits(40_000)), Ok((Name::Exact, 400, 1)));
    assert_eq!(way(100_000, json!({}), limits(40_000)), Ok((Name::ForMore, 100, 1)));
    let grows = bufferlab_generate::job::Limits { transaction_bytes: 600, ..limits(40_000) };
    let long = way(10_000, json!({"window_transactions": 2_000_000}), grows);
    assert_eq!(long, Ok((Name::ForMore, 100, 1)), "a part has a part of the window");
    let many = |frames: u32, count: usize| json!({"pools": vec![json!({"model": "lru", "settings": {}, "frames": frames}); count]});
    let small = way(10_000, many(100_000, 1), limits(40_000));
    assert_eq!(small, Ok((Name::ForMore, 800, 1)), "so that the pool has 4,096 frames");
    assert_eq!(way(100, many(100_000, 100), limits(40_000)), Ok((Name::Sampled, 100, 16)));
    assert_eq!(way(10_000, many(10_000_000, 100), limits(40_000)), Ok((Name::Sampled, 100, 16)));
    let refused = |warehouses, changes| way(warehouses, changes, limits(40_000)).unwrap_err();
    assert!(refused(10_000, many(10_000, 100)).contains("ask for fewer pools"));
    assert!(refused(10, json!({"simulated_warehouses": 11})).contains("2 to 10"));
    assert!(refused(10, json!({"simulated_warehouses": 1})).contains("2 to 10"), "half of it would be none");
    for (name, value) in [("warm_up", json!({"gate_within": u64::MAX})), ("window_transactions", json!(u64::MAX))] {
        let endless = job(1, json!({ name: value }));
        assert!(done(&endless).unwrap_err().contains("at most 100000000 transactions"), "{name}");
    }
    assert!(refused(50_000, json!({"one_in": 100})).contains("at most 40000"));
    assert!(refused(10, json!({"one_in": 1000})).contains("64 frames"));
    assert!(refused(10_000, json!({"one_in": 1})).contains("take about"));
}
