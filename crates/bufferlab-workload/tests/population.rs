//! Tests of TPC-C's population against the specification's 4.3.3: numbers of rows, keys and values, and that equal
//! seeds give equal rows.

mod support;

use std::collections::BTreeSet;
use std::sync::mpsc;

use bufferlab_workload::client::Value;
use bufferlab_workload::population::ColumnKind;
use bufferlab_workload::tpcc::TpccConfig;
use bufferlab_workload::tpcc::population::{LOAD_DATE_US, RowBlock, generate, partitions};
use bufferlab_workload::tpcc::random::{NuRandConstants, last_name};
use bufferlab_workload::tpcc::schema::TableId;
use support::statistics::{SIGNIFICANCE, chi_square_p_value, nurand_probabilities};
use support::{checksum, config};

/// Calls `look` with every row of a table, in load order.
fn each_row(table: TableId, config: &TpccConfig, mut look: impl FnMut(&RowBlock, usize)) {
    let mut block = RowBlock::new();
    for partition in partitions(config.warehouses()).iter().filter(|partition| partition.table() == table) {
        generate(partition, config, &mut block);
        assert_eq!((block.table(), block.columns()), (table as usize, table.columns().len()));
        (0..block.rows()).for_each(|row| look(&block, row));
    }
}

fn int(block: &RowBlock, row: usize, name: &str) -> i64 {
    match value(block, row, name) {
        Value::Int(int) => int,
        other => panic!("{name} is {other:?}"),
    }
}

fn text<'a>(block: &'a RowBlock, row: usize, name: &str) -> &'a str {
    match value(block, row, name) {
        Value::Text(text) => text,
        other => panic!("{name} is {other:?}"),
    }
}

fn value<'a>(block: &'a RowBlock, row: usize, name: &str) -> Value<'a> {
    block.value(row, support::model::column(TableId::ALL[block.table()], name))
}

#[test]
fn every_table_has_its_cardinality() {
    let config = config(2, 1, 1);
    let expected = [
        (TableId::Item, 100_000),
        (TableId::Warehouse, 2),
        (TableId::District, 20),
        (TableId::Stock, 200_000),
        (TableId::Customer, 60_000),
        (TableId::History, 60_000),
        (TableId::Orders, 60_000),
        (TableId::NewOrder, 18_000),
    ];
    for (table, rows) in expected {
        let mut found = 0;
        each_row(table, &config, |_, _| found += 1);
        assert_eq!(found, rows, "rows of {}", table.name());
    }
    let mut lines = 0_i64;
    each_row(TableId::OrderLine, &config, |_, _| lines += 1);
    // An order has ten lines on average, with a standard deviation of the square root of ten.
    assert!((lines - 600_000).abs() < 4_000, "{lines} order lines");
}

#[test]
fn the_rows_announced_are_the_rows_generated() {
    let config = config(1, 1, 1);
    let mut block = RowBlock::new();
    for partition in partitions(1) {
        generate(&partition, &config, &mut block);
        if partition.table() == TableId::OrderLine {
            assert!(block.rows().abs_diff(partition.rows()) < 500, "{partition}: {} rows", block.rows());
        } else {
            assert_eq!(block.rows(), partition.rows(), "{partition}");
        }
        assert!(block.rows() <= 7_000, "{partition} does not fit in bounded memory");
    }
}

#[test]
fn keys_rise_through_every_table_so_they_are_unique_and_appended() {
    let config = config(2, 3, 1);
    for table in TableId::ALL.into_iter().filter(|table| table.key_columns() > 0) {
        let mut last = [0_i64; 4];
        each_row(table, &config, |block, row| {
            let mut key = [0; 4];
            for (column, part) in key.iter_mut().enumerate().take(table.key_columns()) {
                let Value::Int(int) = block.value(row, column) else {
                    panic!("a key of {} is no integer", table.name())
                };
                *part = int;
            }
            assert!(key > last, "{} has {key:?} after {last:?}", table.name());
            last = key;
        });
    }
}

#[test]
fn every_value_is_of_its_columns_kind_and_length() {
    let config = config(1, 4, 1);
    for table in TableId::ALL {
        each_row(table, &config, |block, row| {
            for (index, column) in table.columns().iter().enumerate() {
                match (block.value(row, index), column.kind) {
                    (Value::Null, _) => assert!(column.nullable, "{} is null", column.name),
                    (Value::Int(_), ColumnKind::Text { .. } | ColumnKind::Days) => {
                        panic!("{} is an integer", column.name)
                    }
                    (Value::Int(date), ColumnKind::Micros) => assert_eq!(date, LOAD_DATE_US),
                    (Value::Int(rate), ColumnKind::BasisPoints) => assert!((0..=5_000).contains(&rate)),
                    (Value::Int(_), _) => {}
                    (Value::Real(real), _) => panic!("{} is {real}", column.name),
                    (Value::Text(text), ColumnKind::Text { max_chars }) => {
                        assert!(text.is_ascii() && text.len() <= usize::from(max_chars), "{}: {text}", column.name);
                    }
                    (Value::Text(text), _) => panic!("{} is {text}", column.name),
                }
            }
        });
    }
}

/// The smallest and the largest value seen.
struct Range(i64, i64);

impl Range {
    fn new() -> Self {
        Range(i64::MAX, i64::MIN)
    }

    fn see(&mut self, value: i64) {
        *self = Range(self.0.min(value), self.1.max(value));
    }
}

#[test]
fn items_have_the_specified_values() {
    let (mut prices, mut images, mut names, mut data, mut originals) =
        (Range::new(), Range::new(), Range::new(), Range::new(), 0);
    each_row(TableId::Item, &config(1, 5, 1), |block, row| {
        prices.see(int(block, row, "i_price"));
        images.see(int(block, row, "i_im_id"));
        names.see(text(block, row, "i_name").len() as i64);
        data.see(text(block, row, "i_data").len() as i64);
        originals += i32::from(text(block, row, "i_data").contains("ORIGINAL"));
    });
    assert!(prices.0 >= 100 && prices.0 < 110 && prices.1 <= 10_000 && prices.1 > 9_990, "prices");
    assert!(images.0 >= 1 && images.0 < 10 && images.1 <= 10_000 && images.1 > 9_990, "images");
    assert_eq!((names.0, names.1, data.0, data.1), (14, 24, 26, 50));
    assert_eq!(originals, 10_000);
}

#[test]
fn stock_has_the_specified_values() {
    let (mut quantities, mut data, mut originals) = (Range::new(), Range::new(), 0);
    each_row(TableId::Stock, &config(1, 5, 1), |block, row| {
        quantities.see(int(block, row, "s_quantity"));
        data.see(text(block, row, "s_data").len() as i64);
        originals += i32::from(text(block, row, "s_data").contains("ORIGINAL"));
        for counter in ["s_ytd", "s_order_cnt", "s_remote_cnt"] {
            assert_eq!(int(block, row, counter), 0);
        }
        for district in 1..=10 {
            assert_eq!(text(block, row, &format!("s_dist_{district:02}")).len(), 24);
        }
    });
    assert_eq!((quantities.0, quantities.1, data.0, data.1), (10, 100, 26, 50));
    assert_eq!(originals, 10_000);
}

#[test]
fn warehouses_and_districts_have_the_specified_values() {
    let config = config(300, 5, 1);
    let mut taxes = Range::new();
    each_row(TableId::Warehouse, &config, |block, row| {
        taxes.see(int(block, row, "w_tax"));
        assert_eq!(int(block, row, "w_ytd"), 30_000_000);
        assert!((6..=10).contains(&text(block, row, "w_name").len()));
        assert!((10..=20).contains(&text(block, row, "w_city").len()));
        assert!(text(block, row, "w_zip").ends_with("11111"));
    });
    each_row(TableId::District, &config, |block, row| {
        taxes.see(int(block, row, "d_tax"));
        assert_eq!(int(block, row, "d_ytd"), 3_000_000);
        assert_eq!(int(block, row, "d_next_o_id"), 3_001);
        assert_eq!(text(block, row, "d_state").len(), 2);
    });
    assert!(taxes.0 < 10 && taxes.1 > 1_990 && taxes.1 <= 2_000, "taxes from {} to {}", taxes.0, taxes.1);
}

#[test]
fn customers_have_the_specified_values() {
    let (mut bad_credits, mut discounts, mut data, mut first) = (0, Range::new(), Range::new(), Range::new());
    each_row(TableId::Customer, &config(1, 5, 1), |block, row| {
        bad_credits += i32::from(text(block, row, "c_credit") == "BC");
        assert!(["BC", "GC"].contains(&text(block, row, "c_credit")));
        discounts.see(int(block, row, "c_discount"));
        data.see(text(block, row, "c_data").len() as i64);
        first.see(text(block, row, "c_first").len() as i64);
        assert_eq!(text(block, row, "c_middle"), "OE");
        assert_eq!(text(block, row, "c_phone").len(), 16);
        let numbers = ["c_credit_lim", "c_balance", "c_ytd_payment", "c_payment_cnt", "c_delivery_cnt"];
        assert_eq!(numbers.map(|name| int(block, row, name)), [5_000_000, -1_000, 1_000, 1, 0]);
    });
    assert_eq!(bad_credits, 3_000);
    assert_eq!((data.0, data.1, first.0, first.1), (300, 500, 8, 16));
    assert!(discounts.0 < 10 && discounts.1 > 4_990 && discounts.1 <= 5_000);
}

#[test]
fn the_first_thousand_customers_bear_all_names_and_the_others_draw_theirs_from_nurand() {
    let config = config(3, 6, 1);
    let names: Vec<String> = (0..1_000).map(|number| last_name(number).as_str().to_owned()).collect();
    let mut drawn = vec![0_u64; 1_000];
    each_row(TableId::Customer, &config, |block, row| {
        let (customer, name) = (int(block, row, "c_id"), text(block, row, "c_last"));
        if customer <= 1_000 {
            assert_eq!(name, names[customer as usize - 1]);
        } else {
            drawn[names.iter().position(|other| other == name).expect("the name exists")] += 1;
        }
    });
    assert_eq!(drawn.iter().sum::<u64>(), 60_000);
    let constants = NuRandConstants::choose(6, 1);
    let exact = nurand_probabilities(255, 0, 999, constants.load_last_name);
    assert!(chi_square_p_value(&drawn, &exact) > SIGNIFICANCE, "last names do not follow NURand(255, 0, 999)");
    let of_the_run = nurand_probabilities(255, 0, 999, constants.run_last_name);
    assert!(chi_square_p_value(&drawn, &of_the_run) < SIGNIFICANCE, "the load must not use the run's constant");
}

#[test]
fn orders_belong_to_a_permutation_of_the_customers_and_their_lines_agree() {
    let config = config(1, 7, 1);
    let mut customers = BTreeSet::new();
    let mut unmoved = 0;
    let mut line_counts = Vec::new();
    let mut counts_seen = [0_u64; 11];
    each_row(TableId::Orders, &config, |block, row| {
        let [d, order, customer, lines] = ["o_d_id", "o_id", "o_c_id", "o_ol_cnt"].map(|name| int(block, row, name));
        assert!((1..=3_000).contains(&customer));
        customers.insert((d, customer));
        unmoved += i32::from(customer == order);
        match value(block, row, "o_carrier_id") {
            Value::Null => assert!(order >= 2_101, "order {order} has no carrier"),
            Value::Int(carrier) => assert!(order < 2_101 && (1..=10).contains(&carrier)),
            other => panic!("the carrier is {other:?}"),
        }
        assert_eq!(int(block, row, "o_all_local"), 1);
        line_counts.push(((d, order), lines));
        counts_seen[lines as usize - 5] += 1;
    });
    assert_eq!(customers.len(), 30_000, "each customer has one order");
    // A random permutation leaves one element in its place on average, and there are ten permutations.
    assert!(unmoved < 30, "{unmoved} orders belong to the customer of their own number");
    assert!(chi_square_p_value(&counts_seen, &[1.0 / 11.0; 11]) > SIGNIFICANCE, "{counts_seen:?}");

    let mut next = 0;
    let mut number = 0;
    each_row(TableId::OrderLine, &config, |block, row| {
        let ((d, order), lines) = line_counts[next];
        number += 1;
        let key = ["ol_d_id", "ol_o_id", "ol_number"].map(|name| int(block, row, name));
        assert_eq!(key, [d, order, number]);
        let amount = int(block, row, "ol_amount");
        let undated = value(block, row, "ol_delivery_d") == Value::Null;
        assert_eq!((undated, amount == 0), (order >= 2_101, order < 2_101));
        assert!((0..=999_999).contains(&amount));
        assert!((1..=100_000).contains(&int(block, row, "ol_i_id")));
        assert_eq!(["ol_supply_w_id", "ol_quantity"].map(|name| int(block, row, name)), [1, 5]);
        assert_eq!(text(block, row, "ol_dist_info").len(), 24);
        if number == lines {
            (next, number) = (next + 1, 0);
        }
    });
    assert_eq!((next, number), (30_000, 0), "every order has all its lines");
}

/// Returns the checksums of all tables, in load order.
fn table_checksums(config: &TpccConfig) -> Vec<(&'static str, u64)> {
    let mut block = RowBlock::new();
    let all = partitions(config.warehouses());
    let of_table = |table: TableId, block: &mut RowBlock| {
        let own = all.iter().filter(|partition| partition.table() == table);
        checksum::combine(own.map(|partition| checksum::partition(partition, config, block)).collect::<Vec<_>>())
    };
    TableId::ALL.map(|table| (table.name(), of_table(table, &mut block))).to_vec()
}

#[test]
fn the_population_of_seed_42_is_the_one_that_was_recorded() {
    let found: Vec<String> =
        table_checksums(&config(1, 42, 0)).into_iter().map(|(table, sum)| format!("{table} {sum:016x}")).collect();
    let golden: Vec<&str> = include_str!("golden/tpcc-1-warehouse-seed-42.txt").lines().collect();
    assert_eq!(found, golden, "a changed population makes every recorded result incomparable");
}

#[test]
fn threads_and_order_do_not_change_the_population() {
    let config = config(1, 8, 1);
    let all = partitions(1);
    let mut block = RowBlock::new();
    let in_order: Vec<u64> = all.iter().map(|partition| checksum::partition(partition, &config, &mut block)).collect();
    let (send, receive) = mpsc::channel();
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (send, all, config) = (send.clone(), &all, &config);
            scope.spawn(move || {
                let mut block = RowBlock::new();
                for index in (0..all.len()).rev().filter(|index| index % 3 == thread) {
                    let sum = checksum::partition(&all[index], config, &mut block);
                    send.send((index, sum)).expect("the receiver waits");
                }
            });
        }
    });
    drop(send);
    let mut in_threads = vec![0; all.len()];
    receive.iter().for_each(|(index, sum)| in_threads[index] = sum);
    assert_eq!(in_order, in_threads);
}

#[test]
fn another_seed_changes_every_table_that_has_random_values_and_a_run_seed_none() {
    let base = table_checksums(&config(1, 42, 0));
    assert_eq!(base, table_checksums(&config(1, 42, 99)), "the run's seed must not touch the load");
    for ((table, one), (_, other)) in base.into_iter().zip(table_checksums(&config(1, 43, 0))) {
        assert_eq!(one == other, table == "new_order", "{table} with another seed");
    }
}

#[test]
fn a_larger_database_contains_the_smaller() {
    let (small, large) = (config(1, 9, 0), config(3, 9, 0));
    let (mut one, mut three) = (Vec::new(), Vec::new());
    each_row(TableId::Warehouse, &small, |block, row| one.push(text(block, row, "w_name").to_owned()));
    each_row(TableId::Warehouse, &large, |block, row| three.push(text(block, row, "w_name").to_owned()));
    assert_eq!((one[0].as_str(), three.len()), (three[0].as_str(), 3));
    let lines = |config: &TpccConfig| {
        let mut block = RowBlock::new();
        let all = partitions(config.warehouses());
        let first = all.iter().find(|partition| partition.table() == TableId::OrderLine).expect("there are lines");
        checksum::partition(first, config, &mut block)
    };
    assert_eq!(lines(&small), lines(&large));
}
