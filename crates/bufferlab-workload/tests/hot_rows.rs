//! Tests of the workload hot_rows against exact distributions, against a slow model of its table, and against itself.

mod support;

use std::collections::{BTreeMap, BTreeSet};

use bufferlab_workload::client::{Batch, Client, ClientError, Outcome, Value, Workload};
use bufferlab_workload::hot_rows::{
    HotRowsConfig, HotRowsDriver, HotRowsPopulation, HotSet, Layout, MAX_ROWS, STATEMENTS, TABLE,
};
use bufferlab_workload::population::{Population, RowBlock};
use support::checksum;
use support::statistics::{SIGNIFICANCE, chi_square_p_value, standard_errors};

const CONFIG: HotRowsConfig =
    HotRowsConfig { rows: 20_000, run_seed: 7, hot_rows: 500, layout: Layout::Scattered, zipf: 0.0, update_percent: 0 };

/// The table as plain maps, with a log of the calls.
#[derive(Default)]
struct Table {
    c_of: BTreeMap<u32, String>,
    read: Vec<u32>,
    updated: Vec<u32>,
    transactions_begun: u32,
    rows_returned: u64,
}

impl Table {
    fn load(config: &HotRowsConfig) -> Self {
        let (population, mut block, mut table) = (population(config.rows, 42), RowBlock::new(), Table::default());
        for partition in 0..population.partitions() {
            population.generate(partition, &mut block);
            for row in 0..block.rows() {
                table.c_of.insert(int(&block, row, 0) as u32, text(&block, row, 2).to_owned());
            }
        }
        table
    }
}

impl Client for Table {
    fn begin(&mut self, _read_only: bool) -> Result<(), ClientError> {
        self.transactions_begun += 1;
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
            let name = STATEMENTS[usize::from(batch.statement(call).0)].name.as_ref();
            match (name, batch.param(call, 0)) {
                ("read_c", Value::Int(id)) => {
                    batch.begin_rows(call);
                    self.read.push(id as u32);
                    if let Some(c) = self.c_of.get(&(id as u32)) {
                        batch.push_column(Value::Text(c));
                        batch.end_row(call);
                        self.rows_returned += 1;
                    }
                }
                ("update_c", Value::Text(c)) => {
                    let Value::Int(id) = batch.param(call, 1) else { panic!("an id is an integer") };
                    let c = c.to_owned();
                    self.updated.push(id as u32);
                    let old = self.c_of.get_mut(&(id as u32)).map(|old| *old = c);
                    batch.set_affected(call, u64::from(old.is_some()));
                }
                other => panic!("not a call of this workload: {other:?}"),
            }
        }
        Ok(())
    }

    fn rows_returned(&self) -> u64 {
        self.rows_returned
    }
}

fn population(rows: u32, load_seed: u64) -> HotRowsPopulation {
    HotRowsPopulation::new(rows, load_seed).expect("the scale is valid")
}

fn int(block: &RowBlock, row: usize, column: usize) -> i64 {
    match block.value(row, column) {
        Value::Int(int) => int,
        other => panic!("{other:?} is no integer"),
    }
}

fn text(block: &RowBlock, row: usize, column: usize) -> &str {
    match block.value(row, column) {
        Value::Text(text) => text,
        other => panic!("{other:?} is no text"),
    }
}

fn ids(config: &HotRowsConfig) -> Vec<u32> {
    let set = HotSet::new(config);
    (0..set.len()).map(|rank| set.id(rank)).collect()
}

fn driver(config: &HotRowsConfig) -> HotRowsDriver {
    HotRowsDriver::new(config).expect("the configuration is valid")
}

#[test]
fn the_table_has_every_id_once_in_key_order_and_values_of_sysbenchs_form() {
    let population = population(CONFIG.rows, 42);
    assert_eq!((population.tables().len(), population.tables()[0].name), (1, TABLE));
    let (mut block, mut next_id, mut k_seen) = (RowBlock::new(), 1, vec![0_u64; 20]);
    for partition in 0..population.partitions() {
        population.generate(partition, &mut block);
        for row in 0..block.rows() {
            assert_eq!(int(&block, row, 0), next_id);
            next_id += 1;
            let k = int(&block, row, 1);
            k_seen[(k - 1) as usize / 1_000] += 1;
            assert_eq!((text(&block, row, 2).len(), text(&block, row, 3).len()), (119, 59));
        }
    }
    assert_eq!(next_id - 1, i64::from(CONFIG.rows));
    assert!(chi_square_p_value(&k_seen, &[0.05; 20]) > SIGNIFICANCE, "{k_seen:?}");
}

#[test]
fn the_same_load_seed_gives_the_same_rows_whatever_is_generated_before() {
    let all = |order: Vec<usize>, load_seed| {
        let population = population(CONFIG.rows, load_seed);
        let mut rows = BTreeMap::new();
        let mut block = RowBlock::new();
        for partition in order {
            population.generate(partition, &mut block);
            for row in 0..block.rows() {
                let values = (int(&block, row, 1), text(&block, row, 2).to_owned(), text(&block, row, 3).to_owned());
                rows.insert(int(&block, row, 0), values);
            }
        }
        rows
    };
    let forward = all(vec![0, 1, 2, 3], 42);
    assert_eq!(forward, all(vec![3, 1, 0, 2], 42));
    let other = all(vec![0, 1, 2, 3], 43);
    assert!(forward.iter().zip(&other).all(|(one, other)| one.1 != other.1), "two seeds share a row");
}

#[test]
fn the_population_of_seed_42_is_the_one_that_was_recorded() {
    let (table, mut block) = (population(CONFIG.rows, 42), RowBlock::new());
    let sums = (0..table.partitions()).map(|partition| {
        table.generate(partition, &mut block);
        checksum::rows(&block)
    });
    let found = format!("{TABLE} {:016x}\n", checksum::combine(sums));
    let golden = include_str!("golden/hot-rows-20000-rows-seed-42.txt");
    assert_eq!(found, golden, "a changed population makes every recorded result incomparable");
}

#[test]
fn a_smaller_scattered_set_is_the_beginning_of_a_larger_one() {
    let large = ids(&HotRowsConfig { hot_rows: CONFIG.rows, ..CONFIG });
    for hot_rows in [1, 2, 500, 1_000, 19_999] {
        assert_eq!(ids(&HotRowsConfig { hot_rows, ..CONFIG }), large[..hot_rows as usize]);
    }
    let distinct: BTreeSet<u32> = large.iter().copied().collect();
    assert_eq!((distinct.len(), distinct.first(), distinct.last()), (20_000, Some(&1), Some(&20_000)));
}

#[test]
fn clustered_rows_are_neighbours_inside_the_table_and_nested() {
    for run_seed in 0..200 {
        let config = |hot_rows| HotRowsConfig { hot_rows, run_seed, layout: Layout::Clustered, ..CONFIG };
        let mut inner = ids(&config(1));
        for hot_rows in [10, 5_000, 20_000] {
            let outer = ids(&config(hot_rows));
            assert!(outer.windows(2).all(|two| two[1] == two[0] + 1));
            assert!(outer[0] >= 1 && outer[outer.len() - 1] <= CONFIG.rows);
            assert!(outer[0] <= inner[0] && inner[inner.len() - 1] <= outer[outer.len() - 1], "not nested");
            inner = outer;
        }
    }
}

#[test]
fn scattered_sets_touch_as_many_pages_as_random_sets_do() {
    // The table has P = 1,000 pages of 20 rows. Let q be the probability that the set touches no row of a given page,
    // and q2 that it touches no row of two given pages (hypergeometric distribution). Then the number of touched pages
    // has the mean P (1-q), and the variance P q(1-q) + P(P-1)(q2 - q^2).
    let (rows, held, hot_rows) = (20_000_u32, 20_u32, 500_u32);
    let log_choose = |n: u32, k: u32| (0..k).map(|i| f64::from(n - i).ln() - f64::from(k - i).ln()).sum::<f64>();
    let none = |excluded: u32| (log_choose(rows - excluded, hot_rows) - log_choose(rows, hot_rows)).exp();
    let pages = f64::from(rows / held);
    let (one, two) = (none(held), none(2 * held));
    let mean = pages * (1.0 - one);
    let variance = pages * one * (1.0 - one) + pages * (pages - 1.0) * (two - one * one);
    let counts: Vec<f64> = (0..400)
        .map(|run_seed| {
            let set = ids(&HotRowsConfig { run_seed, ..CONFIG });
            set.iter().map(|id| (id - 1) / held).collect::<BTreeSet<_>>().len() as f64
        })
        .collect();
    let found = counts.iter().sum::<f64>() / 400.0;
    assert!((found - mean).abs() < 3.5 * (variance / 400.0).sqrt(), "{found} pages; a random set touches {mean}");
    let spread = counts.iter().map(|count| (count - found).powi(2)).sum::<f64>() / 399.0;
    assert!((0.75..1.33).contains(&(spread / variance)), "variance {spread}; a random set has {variance}");
}

#[test]
fn another_run_seed_gives_another_set_and_every_row_is_as_likely() {
    let mut chosen = vec![0_u64; 20];
    for run_seed in 0..200 {
        for id in ids(&HotRowsConfig { run_seed, ..CONFIG }) {
            chosen[(id - 1) as usize / 1_000] += 1;
        }
    }
    assert!(chi_square_p_value(&chosen, &[0.05; 20]) > SIGNIFICANCE, "{chosen:?}");
}

#[test]
fn ranks_are_read_as_often_as_zipfs_law_says() {
    for (zipf, run_seed) in [(0.0, 1), (0.6, 2), (1.0, 3), (1.4, 4), (3.0, 5)] {
        let config = HotRowsConfig { zipf, run_seed, ..CONFIG };
        let rank_of: BTreeMap<u32, usize> = ids(&config).into_iter().zip(0..).collect();
        let mut driver = driver(&config);
        let mut observed = vec![0_u64; 500];
        for _ in 0..200_000 {
            driver.plan();
            let (_, id) = driver.planned().expect("it was planned");
            observed[rank_of[&id]] += 1;
        }
        let weights: Vec<f64> = (1..=500).map(|rank| f64::from(rank).powf(-zipf)).collect();
        let all: f64 = weights.iter().sum();
        let exact: Vec<f64> = weights.iter().map(|weight| weight / all).collect();
        assert!(chi_square_p_value(&observed, &exact) > SIGNIFICANCE, "exponent {zipf}");
    }
}

#[test]
fn every_transaction_finds_its_row_and_updates_leave_their_text() {
    let config = HotRowsConfig { update_percent: 30, zipf: 0.9, ..CONFIG };
    let (mut table, untouched, mut driver) = (Table::load(&config), Table::load(&config), driver(&config));
    for _ in 0..20_000 {
        driver.plan();
        assert_eq!(driver.execute(&mut table), Ok(Outcome::Committed));
    }
    let hot: BTreeSet<u32> = ids(&config).into_iter().collect();
    assert!(table.read.iter().chain(&table.updated).all(|id| hot.contains(id)), "a cold row was used");
    let errors = standard_errors(table.updated.len() as u64, 20_000, 0.3);
    assert!(errors.abs() < 3.5, "{} of 20,000 are updates", table.updated.len());
    assert_eq!((table.read.len() + table.updated.len(), table.transactions_begun), (20_000, 0));
    let updated: BTreeSet<u32> = table.updated.iter().copied().collect();
    for (id, c) in &table.c_of {
        assert_eq!(c != &untouched.c_of[id], updated.contains(id), "row {id}");
        assert_eq!(c.len(), 119);
    }
}

#[test]
fn the_first_pass_reads_each_hot_row_once_and_in_no_order() {
    for layout in [Layout::Scattered, Layout::Clustered] {
        let config = HotRowsConfig { layout, ..CONFIG };
        let (mut table, mut driver) = (Table::load(&config), driver(&config));
        while driver.prefill_step(&mut table).expect("every row is there") {}
        let in_rank_order = ids(&config);
        assert_ne!(table.read, in_rank_order);
        let rising = table.read.windows(2).filter(|two| two[0] < two[1]).count();
        assert!((200..300).contains(&rising), "{rising} of 499 steps go up");
        let read: BTreeSet<u32> = table.read.iter().copied().collect();
        assert_eq!((table.read.len(), read), (500, in_rank_order.into_iter().collect()));
        assert_eq!(driver.prefill_step(&mut table), Ok(false), "the pass is done once");
        assert_eq!(table.read.len(), 500);
    }
}

#[test]
fn a_row_that_is_missing_is_reported_and_not_passed_over() {
    let (mut table, mut driver) = (Table::load(&CONFIG), driver(&CONFIG));
    table.c_of.clear();
    driver.plan();
    let (_, id) = driver.planned().expect("it was planned");
    let ClientError::Data { message } = driver.execute(&mut table).expect_err("the table is empty") else {
        panic!("another error");
    };
    assert!(message.contains(&id.to_string()), "{message}");
    assert!(driver.prefill_step(&mut table).is_err());
}

#[test]
fn what_cannot_be_run_is_refused_with_the_value_that_was_asked() {
    let refused = |config: HotRowsConfig| HotRowsDriver::new(&config).expect_err("it cannot be run").to_string();
    assert!(refused(HotRowsConfig { hot_rows: 20_001, ..CONFIG }).contains("20001"));
    assert!(refused(HotRowsConfig { hot_rows: 0, ..CONFIG }).contains("hot_rows = 0"));
    assert!(refused(HotRowsConfig { rows: MAX_ROWS + 1, ..CONFIG }).contains("100000001"));
    let table = HotRowsPopulation::new(0, 1).expect_err("a table has rows").to_string();
    assert!(table.contains("rows = 0"), "{table}");
    assert!(refused(HotRowsConfig { zipf: 3.1, ..CONFIG }).contains("3.1"));
    assert!(refused(HotRowsConfig { zipf: f64::NAN, ..CONFIG }).contains("NaN"));
    assert!(refused(HotRowsConfig { update_percent: 101, ..CONFIG }).contains("101"));
}

#[test]
fn the_window_reads_the_same_rows_after_warm_ups_of_any_length_and_not_those_of_the_warm_up_again() {
    let plans = |driver: &mut HotRowsDriver, transactions: usize| -> Vec<Option<(usize, u32)>> {
        (0..transactions)
            .map(|_| {
                driver.plan();
                driver.planned()
            })
            .collect()
    };
    let config = HotRowsConfig {
        rows: 10_000,
        run_seed: 5,
        hot_rows: 2_000,
        layout: Layout::Scattered,
        zipf: 0.0,
        update_percent: 10,
    };
    let [first, second] = [3, 400].map(|warm_up| {
        let mut driver = HotRowsDriver::new(&config).expect("the configuration is valid");
        let warm = plans(&mut driver, warm_up);
        driver.begin_window();
        (warm, plans(&mut driver, 400))
    });
    assert_eq!(first.1, second.1);
    assert_ne!(second.0, second.1);
}
