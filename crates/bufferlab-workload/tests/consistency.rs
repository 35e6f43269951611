//! Tests of TPC-C's transactions on the naive database: the twelve consistency conditions, and the specification's
//! rules for each row that a transaction changes.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use bufferlab_workload::client::{Batch, Client, ClientError, Outcome, Workload};
use bufferlab_workload::tpcc::schema::TableId::{
    self, Customer, District, History, Item, NewOrder, OrderLine, Orders, Stock, Warehouse,
};
use bufferlab_workload::tpcc::{TpccDriver, TransactionOutput};
use support::conditions::violated;
use support::config;
use support::model::{Database, Row, Stored, column};

const WAREHOUSES: u32 = 2;
const LOAD_SEED: u64 = 77;
const TRANSACTIONS: usize = 3_450;

/// Returns the loaded database, which is made once for all tests.
fn loaded() -> &'static Database {
    static LOADED: OnceLock<Database> = OnceLock::new();
    LOADED.get_or_init(|| Database::load(&config(WAREHOUSES, LOAD_SEED, 0)))
}

fn driver(run_seed: u64) -> TpccDriver {
    TpccDriver::new(config(WAREHOUSES, LOAD_SEED, run_seed), 0, 1).expect("one driver")
}

/// Returns the database after [`TRANSACTIONS`] transactions, each of which was checked, and the driver that executed
/// them.
fn after_a_run() -> &'static (Database, TpccDriver) {
    static RUN: OnceLock<(Database, TpccDriver)> = OnceLock::new();
    RUN.get_or_init(|| {
        let (mut database, mut driver) = (loaded().clone(), driver(5));
        let mut rolled_back = 0;
        for _ in 0..TRANSACTIONS {
            driver.plan();
            match driver.execute(&mut database).expect("the naive database has no errors") {
                Outcome::Committed => check_output(&database, driver.last_output().expect("it was executed")),
                Outcome::RolledBack => rolled_back += 1,
            }
        }
        assert_eq!(rolled_back, driver.input_counts().unused_items);
        assert!(rolled_back > 0, "the run must hold a rolled-back order");
        (database, driver)
    })
}

fn int(table: TableId, row: &Row, name: &str) -> i64 {
    row[column(table, name)].int()
}

/// Returns the calls of one statement in the last transaction.
fn calls<'a>(database: &'a Database, name: &str) -> Vec<&'a Vec<Stored>> {
    database.log.iter().filter(|(called, _)| *called == name).map(|(_, params)| params).collect()
}

/// Checks the output of the last transaction against the database after it.
fn check_output(database: &Database, output: &TransactionOutput) {
    match *output {
        TransactionOutput::NewOrder { order, total_cents, brand_lines } => {
            check_new_order(database, order.into(), total_cents, brand_lines);
        }
        TransactionOutput::Payment { customer, balance_cents } => {
            let (_, paid) = database.table(History).last_key_value().expect("a payment was just made");
            assert_eq!(int(History, paid, "h_c_id"), i64::from(customer));
            let place = ["h_c_w_id", "h_c_d_id", "h_c_id"].map(|name| int(History, paid, name));
            assert_eq!(database.value(Customer, &place, "c_balance").int(), balance_cents);
            check_named_customer(database, customer.into());
        }
        TransactionOutput::OrderStatus { customer, balance_cents, order, lines, amount_cents } => {
            let asked = calls(database, "read_customer_status")[0].iter().map(Stored::int).collect::<Vec<_>>();
            assert_eq!(asked[2], i64::from(customer));
            assert_eq!(database.value(Customer, &asked, "c_balance").int(), balance_cents);
            check_named_customer(database, customer.into());
            let own = database.range(Orders, &asked[..2]).filter(|(_, row)| int(Orders, row, "o_c_id") == asked[2]);
            assert_eq!(own.map(|(key, _)| key[2]).max(), Some(order.into()));
            let amounts: Vec<i64> = database
                .range(OrderLine, &[asked[0], asked[1], order.into()])
                .map(|(_, row)| int(OrderLine, row, "ol_amount"))
                .collect();
            assert_eq!((amounts.len(), amounts.iter().sum::<i64>()), (lines as usize, amount_cents));
        }
        TransactionOutput::Delivery { delivered } => {
            let w = calls(database, "read_oldest_new_order")[0][0].int();
            for (d, order) in (1..).zip(delivered) {
                check_delivery(database, w, d, order.map(i64::from));
            }
        }
        TransactionOutput::StockLevel { low_stock } => check_stock_level(database, low_stock as usize),
    }
}

fn check_delivery(database: &Database, w: i64, d: i64, delivered: Option<i64>) {
    let oldest_left = database.range(NewOrder, &[w, d]).next().map(|(key, _)| key[2]);
    let Some(order) = delivered else {
        assert_eq!(oldest_left, None, "district {d} was skipped");
        return;
    };
    assert!(oldest_left.is_none_or(|left| left == order + 1), "{order} was delivered before {oldest_left:?}");
    let carrier = calls(database, "update_order_carrier")[0][0].int();
    assert_eq!(database.value(Orders, &[w, d, order], "o_carrier_id").int(), carrier);
    let entered = database.value(Orders, &[w, d, order], "o_entry_d").int();
    for (_, line) in database.range(OrderLine, &[w, d, order]) {
        assert!(int(OrderLine, line, "ol_delivery_d") > entered);
    }
}

/// Checks the count of Stock-Level (2.8.2.2) against a count that is made from the district's last twenty orders and
/// their items.
fn check_stock_level(database: &Database, low_stock: usize) {
    let asked = calls(database, "count_low_stock")[0].iter().map(Stored::int).collect::<Vec<_>>();
    let (w, d, threshold) = (asked[1], asked[2], asked[5]);
    let next = database.value(District, &[w, d], "d_next_o_id").int();
    let items: BTreeSet<i64> = database
        .range(OrderLine, &[w, d])
        .filter(|(key, _)| (next - 20..next).contains(&key[2]))
        .map(|(_, row)| int(OrderLine, row, "ol_i_id"))
        .collect();
    let low = items.iter().filter(|&&item| database.value(Stock, &[w, item], "s_quantity").int() < threshold);
    assert_eq!(low.count(), low_stock);
}

/// Checks that a customer found by name is the one in the middle, rounded up, of the customers of that name, ordered by
/// first name.
fn check_named_customer(database: &Database, customer: i64) {
    if let Some(&params) = calls(database, "list_customers_by_name").first() {
        let named = database.customers_named(params[0].int(), params[1].int(), params[2].text());
        let middle = (named.len() as f64 / 2.0).ceil() as usize;
        assert_eq!(customer, named[middle - 1], "of {named:?}");
    }
}

fn check_new_order(database: &Database, order: i64, total_cents: i64, brand_lines: u32) {
    let [o, d, w, c] = [0, 1, 2, 3].map(|index| calls(database, "insert_order")[0][index].int());
    assert_eq!(o, order);
    assert_eq!(database.value(District, &[w, d], "d_next_o_id").int(), order + 1);
    assert!(database.table(NewOrder).contains_key(&[w, d, o, 0]));
    let (mut amount, mut brands, mut local) = (0, 0, true);
    for (number, (key, row)) in (1..).zip(database.range(OrderLine, &[w, d, o])) {
        assert_eq!(key[3], number);
        let [item, supply, quantity, line_amount] =
            ["ol_i_id", "ol_supply_w_id", "ol_quantity", "ol_amount"].map(|name| int(OrderLine, row, name));
        assert_eq!(line_amount, quantity * database.value(Item, &[item], "i_price").int());
        let dist_info = database.value(Stock, &[supply, item], &format!("s_dist_{d:02}"));
        assert_eq!(&row[column(OrderLine, "ol_dist_info")], dist_info);
        amount += line_amount;
        local &= supply == w;
        let data = [database.value(Item, &[item], "i_data"), database.value(Stock, &[supply, item], "s_data")];
        brands += u32::from(data.iter().all(|data| data.text().contains("ORIGINAL")));
    }
    assert_eq!(brands, brand_lines);
    assert_eq!(database.value(Orders, &[w, d, o], "o_all_local").int(), i64::from(local));
    let rate = |table, key: &[i64], name| database.value(table, key, name).int() as f64 / 10_000.0;
    let taxes = rate(Warehouse, &[w], "w_tax") + rate(District, &[w, d], "d_tax");
    let total = amount as f64 * (1.0 - rate(Customer, &[w, d, c], "c_discount")) * (1.0 + taxes);
    assert!((total - total_cents as f64).abs() <= 0.51, "{total_cents} cents instead of {total}");
}

#[test]
fn all_conditions_hold_after_the_load() {
    assert_eq!(violated(loaded(), &[]), BTreeMap::new());
}

#[test]
fn all_conditions_hold_after_thousands_of_transactions() {
    let (database, driver) = after_a_run();
    assert_eq!(violated(database, driver.delivered_orders()), BTreeMap::new());
    assert!(violated(database, &[]).contains_key(&11), "condition 11 must count the orders delivered since the load");
}

#[test]
fn each_condition_notices_what_it_is_for() {
    let config = config(1, LOAD_SEED, 0);
    let mut database = Database::load(&config);
    let set = |table, key: &[i64], name, value| (table, key.to_vec(), Some((name, value)));
    let remove = |table, key: &[i64]| (table, key.to_vec(), None);
    let corruptions = [
        (1, set(Warehouse, &[1], "w_ytd", Stored::Int(0))),
        (2, set(District, &[1, 1], "d_next_o_id", Stored::Int(3_002))),
        (3, remove(NewOrder, &[1, 1, 2_500])),
        (4, remove(OrderLine, &[1, 1, 1, 5])),
        (5, set(Orders, &[1, 1, 1], "o_carrier_id", Stored::Null)),
        (6, set(Orders, &[1, 1, 1], "o_ol_cnt", Stored::Int(16))),
        (7, set(OrderLine, &[1, 1, 1, 1], "ol_delivery_d", Stored::Null)),
        (8, set(History, &[0], "h_w_id", Stored::Int(2))),
        (9, set(History, &[0], "h_d_id", Stored::Int(2))),
        (10, set(History, &[0], "h_c_id", Stored::Int(2))),
        (11, remove(NewOrder, &[1, 1, 2_101])),
        (12, set(Customer, &[1, 1, 1], "c_ytd_payment", Stored::Int(0))),
    ];
    for (condition, (table, key, change)) in corruptions {
        let row = database.remove(table, &key);
        let removed = change.is_none();
        if let Some((name, value)) = change {
            let mut corrupted = row.clone();
            corrupted[column(table, name)] = value;
            database.put(table, &key, corrupted);
        }
        let found = violated(&database, &[]);
        assert!(found.contains_key(&condition), "condition {condition} was violated and {found:?} found");
        if !removed {
            database.remove(table, &key);
        }
        database.put(table, &key, row);
    }
    assert_eq!(violated(&database, &[]), BTreeMap::new());
}

#[test]
fn stock_counts_every_line_it_supplied() {
    let (database, _) = after_a_run();
    let mut supplied: BTreeMap<[i64; 2], [i64; 3]> = BTreeMap::new();
    for (key, row) in database.table(OrderLine).iter().filter(|(key, _)| key[2] > 3_000) {
        let place = ["ol_supply_w_id", "ol_i_id"].map(|name| int(OrderLine, row, name));
        let counts = supplied.entry(place).or_default();
        counts[0] += int(OrderLine, row, "ol_quantity");
        counts[1] += 1;
        counts[2] += i64::from(place[0] != key[0]);
    }
    let mut twice = 0;
    for (key, row) in database.table(Stock) {
        let expected = supplied.get(&[key[0], key[1]]).copied().unwrap_or_default();
        assert_eq!(["s_ytd", "s_order_cnt", "s_remote_cnt"].map(|name| int(Stock, row, name)), expected, "{key:?}");
        // Each line takes its quantity from the stock or, if the stock is refilled, its quantity less 91.
        let before = loaded().value(Stock, &key[..2], "s_quantity").int();
        let quantity = int(Stock, row, "s_quantity");
        assert_eq!((before - expected[0] - quantity) % 91, 0, "{key:?}: {before}, {expected:?}, {quantity}");
        assert!((10..=100).contains(&quantity));
        twice += i32::from(expected[1] > 1);
    }
    assert!(twice > 100, "only {twice} rows supplied more than one line");
}

#[test]
fn customers_count_their_payments_and_deliveries() {
    let (database, driver) = after_a_run();
    let mut payments: BTreeMap<[i64; 3], (i64, i64)> = BTreeMap::new();
    for row in database.table(History).values() {
        let place = ["h_c_w_id", "h_c_d_id", "h_c_id"].map(|name| int(History, row, name));
        let (count, amount) = payments.entry(place).or_default();
        *count += 1;
        *amount += int(History, row, "h_amount");
    }
    let mut deliveries: BTreeMap<[i64; 3], i64> = BTreeMap::new();
    for (key, row) in database.table(Orders).iter().filter(|(key, _)| key[2] > 2_100) {
        if row[column(Orders, "o_carrier_id")] != Stored::Null {
            *deliveries.entry([key[0], key[1], int(Orders, row, "o_c_id")]).or_default() += 1;
        }
    }
    assert_eq!(deliveries.values().sum::<i64>(), driver.delivered_orders().iter().sum::<u64>() as i64);
    assert!(!deliveries.is_empty());
    for (key, row) in database.table(Customer) {
        let place = [key[0], key[1], key[2]];
        let numbers = ["c_payment_cnt", "c_ytd_payment", "c_delivery_cnt"].map(|name| int(Customer, row, name));
        let (count, amount) = payments[&place];
        assert_eq!(numbers, [count, amount, deliveries.get(&place).copied().unwrap_or(0)], "{place:?}");
    }
}

#[test]
fn bad_credit_notes_every_payment_and_good_credit_none() {
    let (database, _) = after_a_run();
    let mut noted = 0;
    for (key, row) in database.table(Customer) {
        let data = row[column(Customer, "c_data")].text();
        let before = loaded().value(Customer, &key[..3], "c_data").text();
        let paid = int(Customer, row, "c_payment_cnt") > 1;
        if paid && row[column(Customer, "c_credit")].text() == "BC" {
            assert!(data.starts_with(&format!("{} {} {} ", key[2], key[1], key[0])), "{data}");
            assert!(data.len() <= 500 && (data.len() == 500 || data.ends_with(before)));
            noted += 1;
        } else {
            assert_eq!(data, before);
        }
    }
    assert!(noted > 10, "only {noted} customers with bad credit paid");
}

#[test]
fn payments_are_recorded_with_both_names_and_rising_dates() {
    let (database, driver) = after_a_run();
    let paid: Vec<&Arc<Row>> = database.table(History).values().skip(30_000 * WAREHOUSES as usize).collect();
    assert_eq!(paid.len() as u64, driver.input_counts().payments);
    let mut last_date = 0;
    for row in paid {
        let [w, d, date] = ["h_w_id", "h_d_id", "h_date"].map(|name| int(History, row, name));
        let names = [database.value(Warehouse, &[w], "w_name"), database.value(District, &[w, d], "d_name")];
        let expected = format!("{}    {}", names[0].text(), names[1].text());
        assert_eq!(row[column(History, "h_data")].text(), expected);
        assert!(date > last_date);
        last_date = date;
    }
}

/// A client that passes all calls on to another client, but asks for a retry at every N-th batch.
struct Unreliable {
    inner: Database,
    executed: u32,
    fails_at: u32,
}

impl Client for Unreliable {
    fn begin(&mut self, read_only: bool) -> Result<(), ClientError> {
        self.inner.begin(read_only)
    }

    fn commit(&mut self) -> Result<(), ClientError> {
        self.inner.commit()
    }

    fn rollback(&mut self) -> Result<(), ClientError> {
        self.inner.rollback()
    }

    fn execute(&mut self, batch: &mut Batch) -> Result<(), ClientError> {
        self.executed += 1;
        if self.executed.is_multiple_of(self.fails_at) {
            return Err(ClientError::Retry { message: "a deadlock, as planned".to_owned() });
        }
        self.inner.execute(batch)
    }

    fn rows_returned(&self) -> u64 {
        self.inner.rows_returned()
    }
}

#[test]
fn a_retry_executes_the_same_inputs_and_counts_once() {
    const SOME: usize = 690;
    let (mut reliable, mut steady) = (loaded().clone(), driver(6));
    let mut unreliable = Unreliable { inner: loaded().clone(), executed: 0, fails_at: 5 };
    let mut shaken = driver(6);
    let mut retries = 0;
    for _ in 0..SOME {
        assert_eq!(steady.plan(), shaken.plan());
        let expected = steady.execute(&mut reliable).expect("the naive database has no errors");
        let outcome = loop {
            match shaken.execute(&mut unreliable) {
                Err(ClientError::Retry { .. }) => {
                    assert_eq!(shaken.last_output(), None);
                    unreliable.rollback().expect("there is an open transaction");
                    retries += 1;
                }
                other => break other.expect("only retries fail"),
            }
        };
        assert_eq!((outcome, shaken.last_output()), (expected, steady.last_output()));
        assert_eq!(unreliable.inner.log, reliable.log, "a retry must repeat the same statements");
    }
    assert!(retries > 100, "only {retries} retries");
    assert_eq!(shaken.delivered_orders(), steady.delivered_orders());
    assert_eq!(shaken.input_counts(), steady.input_counts());
    assert!(unreliable.inner == reliable, "retries left another database");
}

#[test]
fn equal_seeds_leave_equal_databases_and_others_do_not() {
    let after = |run_seed| {
        let (mut database, mut driver) = (loaded().clone(), driver(run_seed));
        for _ in 0..230 {
            driver.plan();
            driver.execute(&mut database).expect("the naive database has no errors");
        }
        database
    };
    let base = after(1);
    assert!(base == after(1), "the same seed left another database");
    assert!(base != after(2), "another seed left the same database");
}

/// Executes transactions until one fails, and returns the error.
fn first_error(database: &mut Database) -> ClientError {
    let mut driver = driver(9);
    for _ in 0..500 {
        driver.plan();
        if let Err(error) = driver.execute(database) {
            return error;
        }
    }
    panic!("no transaction noticed what is missing");
}

#[test]
fn a_missing_row_is_a_data_error_that_names_the_statement() {
    let mut without_district = loaded().clone();
    for d in 1..=10 {
        without_district.remove(District, &[1, d]);
    }
    let error = first_error(&mut without_district);
    let ClientError::Data { message } = &error else { panic!("{error:?}") };
    assert!(
        message.contains("read_district_order with [Int(1)") && message.contains("found 0 rows, not 1"),
        "{message}"
    );
}

#[test]
fn an_order_without_its_lines_is_a_data_error() {
    let mut without_lines = loaded().clone();
    for d in 1..=10 {
        let lines: Vec<[i64; 4]> = without_lines.range(OrderLine, &[1, d, 2_101]).map(|(key, _)| *key).collect();
        for line in lines {
            without_lines.remove(OrderLine, &line);
        }
    }
    let error = first_error(&mut without_lines);
    let ClientError::Data { message } = &error else { panic!("{error:?}") };
    assert!(message.contains("update_order_lines_delivery") && message.contains("wrote 0 lines"), "{message}");
}

#[test]
fn a_delivery_to_a_missing_customer_is_a_data_error() {
    let mut without_customers = loaded().clone();
    for d in 1..=10 {
        let customer = without_customers.value(Orders, &[1, d, 2_101], "o_c_id").int();
        without_customers.remove(Customer, &[1, d, customer]);
    }
    let error = first_error(&mut without_customers);
    let ClientError::Data { message } = &error else { panic!("{error:?}") };
    assert!(message.contains("update_customer_delivery") && message.contains("wrote 0 rows"), "{message}");
}
