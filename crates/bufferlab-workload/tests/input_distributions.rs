//! Tests of TPC-C's inputs, as a client gets them, against the exact distributions and shares of the specification's
//! clause 2.

mod support;

use std::sync::OnceLock;

use bufferlab_workload::client::{Outcome, Workload};
use bufferlab_workload::tpcc::random::{NuRand, NuRandConstants, Random};
use bufferlab_workload::tpcc::{InputCounts, TRANSACTION_TYPES, TpccDriver};
use support::canned::Canned;
use support::config;
use support::statistics::{SIGNIFICANCE, chi_square_p_value, nurand_probabilities, standard_errors};

const LOAD_SEED: u64 = 42;
const RUN_SEED: u64 = 2_024;
/// The transactions of a long run: ten thousand decks of 23.
const TRANSACTIONS: usize = 230_000;
/// The largest allowed distance of a share from its probability; chance exceeds it for one seed in 16,000.
const MAX_STANDARD_ERRORS: f64 = 4.0;

/// A run's counts, by the client and by the driver.
struct Run {
    client: Canned,
    counts: InputCounts,
    committed: u64,
    rolled_back: u64,
}

fn run(warehouses: u32, transactions: usize) -> Run {
    let mut client = Canned::default();
    let mut driver = TpccDriver::new(config(warehouses, LOAD_SEED, RUN_SEED), 0, 1).expect("one driver");
    let (mut committed, mut rolled_back) = (0, 0);
    for _ in 0..transactions {
        driver.plan();
        match driver.execute(&mut client).expect("canned answers are right") {
            Outcome::Committed => committed += 1,
            Outcome::RolledBack => rolled_back += 1,
        }
    }
    Run { client, counts: *driver.input_counts(), committed, rolled_back }
}

/// Returns the long run on five warehouses, which is made once for all tests.
fn long_run() -> &'static Run {
    static RUN: OnceLock<Run> = OnceLock::new();
    RUN.get_or_init(|| run(5, TRANSACTIONS))
}

fn assert_share(what: &str, successes: u64, trials: u64, probability: f64) {
    let errors = standard_errors(successes, trials, probability);
    assert!(
        errors.abs() < MAX_STANDARD_ERRORS,
        "{what}: {successes} of {trials} is {errors:.1} standard errors from {probability}"
    );
}

fn item_probabilities() -> &'static [f64] {
    static EXACT: OnceLock<Vec<f64>> = OnceLock::new();
    EXACT.get_or_init(|| {
        let constants = NuRandConstants::choose(LOAD_SEED, RUN_SEED);
        nurand_probabilities(8_191, 1, 100_000, constants.run_item_id)
    })
}

fn hottest(probabilities: &[f64], values: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|&one, &other| probabilities[other].total_cmp(&probabilities[one]));
    order.truncate(values);
    order
}

#[test]
fn the_hottest_thousand_items_get_the_exact_share_of_nurand() {
    let exact = item_probabilities();
    assert!((exact.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    let hottest = hottest(exact, 1_000);
    let share: f64 = hottest.iter().map(|&index| exact[index]).sum();
    assert!((share - 0.3046).abs() < 0.0001, "the exact share is {share}");
    let items = &long_run().client.items;
    let drawn: u64 = items[1..=100_000].iter().sum();
    assert_share("hottest items", hottest.iter().map(|&index| items[index + 1]).sum(), drawn, share);
}

#[test]
fn items_follow_nurand_exactly() {
    let p_value = chi_square_p_value(&long_run().client.items[1..=100_000], item_probabilities());
    assert!(p_value > SIGNIFICANCE, "p = {p_value}");
}

#[test]
fn customers_of_new_orders_follow_nurand_exactly() {
    let constants = NuRandConstants::choose(LOAD_SEED, RUN_SEED);
    let exact = nurand_probabilities(1_023, 1, 3_000, constants.run_customer_id);
    let p_value = chi_square_p_value(&long_run().client.customers[1..], &exact);
    assert!(p_value > SIGNIFICANCE, "p = {p_value}");
}

#[test]
fn last_names_follow_nurand_exactly() {
    let mut random = Random::stream(3, "last names", &[]);
    let mut drawn = vec![0_u64; 1_000];
    let nurand = NuRand::last_name(123);
    (0..500_000).for_each(|_| drawn[nurand.draw(&mut random) as usize] += 1);
    let p_value = chi_square_p_value(&drawn, &nurand_probabilities(255, 0, 999, 123));
    assert!(p_value > SIGNIFICANCE, "p = {p_value}");
}

#[test]
fn the_test_of_the_skew_fails_for_a_uniform_generator_and_for_a_wrong_constant() {
    let mut random = Random::stream(4, "uniform", &[]);
    let mut uniform = vec![0_u64; 3_000];
    (0..200_000).for_each(|_| uniform[random.below(3_000) as usize] += 1);
    let exact = nurand_probabilities(1_023, 1, 3_000, 259);
    assert!(chi_square_p_value(&uniform, &exact) < 1e-9, "a uniform generator passes for NURand");
    let mut other_constant = vec![0_u64; 3_000];
    (0..200_000).for_each(|_| other_constant[NuRand::customer_id(260).draw(&mut random) as usize - 1] += 1);
    assert!(chi_square_p_value(&other_constant, &exact) < 1e-9, "a wrong constant passes");
    assert!(chi_square_p_value(&uniform, &[1.0 / 3_000.0; 3_000]) > SIGNIFICANCE, "uniform is not even uniform");
}

#[test]
fn one_line_in_a_hundred_is_remote() {
    let run = long_run();
    assert_share("remote lines", run.counts.remote_lines, run.counts.order_lines, 0.01);
    // The client gets no line of an item that does not exist.
    let unseen = run.counts.order_lines - run.client.seen.lines;
    assert_eq!(unseen, run.counts.unused_items);
    assert!(run.counts.remote_lines - run.client.seen.remote_lines <= unseen);
}

#[test]
fn fifteen_payments_in_a_hundred_are_remote() {
    let run = long_run();
    assert_eq!(
        (run.counts.payments, run.counts.remote_payments),
        (run.client.seen.payments, run.client.seen.remote_payments)
    );
    assert_share("remote payments", run.counts.remote_payments, run.counts.payments, 0.15);
}

#[test]
fn sixty_customers_in_a_hundred_are_named() {
    let InputCounts { payments, payments_by_name, order_statuses, order_statuses_by_name, .. } = long_run().counts;
    assert_eq!(payments_by_name + order_statuses_by_name, long_run().client.seen.names);
    assert_share("payments by name", payments_by_name, payments, 0.60);
    assert_share("order-statuses by name", order_statuses_by_name, order_statuses, 0.60);
}

#[test]
fn one_new_order_in_a_hundred_is_rolled_back() {
    let run = long_run();
    assert_share("rolled back", run.rolled_back, run.counts.new_orders, 0.01);
    assert_eq!(run.rolled_back, run.counts.unused_items);
    assert_eq!((run.committed, run.rolled_back), (run.client.seen.commits, run.client.seen.rollbacks));
    assert_eq!(run.rolled_back, run.client.seen.unused_items);
}

#[test]
fn orders_have_ten_lines_on_average() {
    let run = long_run();
    let mean = run.counts.order_lines as f64 / run.counts.new_orders as f64;
    // The standard deviation of one order's number of lines is the square root of ten.
    let error = (10.0 / run.counts.new_orders as f64).sqrt();
    assert!((mean - 10.0).abs() < MAX_STANDARD_ERRORS * error, "mean of {mean} lines");
}

#[test]
fn nothing_is_remote_with_one_warehouse() {
    let run = run(1, 23_000);
    assert_eq!((run.counts.remote_lines, run.counts.remote_payments), (0, 0));
    assert_eq!((run.client.seen.remote_lines, run.client.seen.remote_payments), (0, 0));
}

#[test]
fn the_mix_is_exact_in_every_deck_and_terminals_take_turns() {
    let mut driver = TpccDriver::new(config(2, LOAD_SEED, RUN_SEED), 0, 1).expect("one driver");
    assert_eq!((driver.terminals(), driver.transaction_types()), (20, TRANSACTION_TYPES.map(str::to_owned).to_vec()));
    let mut terminal = 0;
    for deck in 0..500 {
        let mut dealt = [0; 5];
        for _ in 0..23 {
            let planned = driver.plan();
            dealt[planned.transaction_type] += 1;
            assert_eq!(planned.terminal, terminal);
            terminal = (terminal + 1) % 20;
        }
        assert_eq!(dealt, [10, 10, 1, 1, 1], "deck {deck}");
    }
    let InputCounts { new_orders, payments, order_statuses, deliveries, stock_levels, .. } = *driver.input_counts();
    assert_eq!([new_orders, payments, order_statuses, deliveries, stock_levels], [5_000, 5_000, 500, 500, 500]);
}

#[test]
fn drivers_have_different_streams_and_the_same_driver_the_same() {
    let planned = |driver_index, drivers, run_seed| -> Vec<usize> {
        let mut driver =
            TpccDriver::new(config(2, LOAD_SEED, run_seed), driver_index, drivers).expect("there is such a driver");
        (0..46).map(|_| driver.plan().transaction_type).collect()
    };
    let base = planned(0, 2, 1);
    assert_eq!(base, planned(0, 2, 1));
    assert_ne!(base, planned(1, 2, 1));
    assert_ne!(base, planned(0, 2, 2));
}
