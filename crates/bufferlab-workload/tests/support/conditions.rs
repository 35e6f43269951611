//! TPC-C's consistency conditions 3.3.2.1 to 3.3.2.12 on the naive database, each as a list of violations.
//!
//! The specification states condition 11 for a fresh load. After a run it holds if the orders delivered since the load
//! are added.

use std::collections::BTreeMap;

use bufferlab_workload::tpcc::schema::TableId::{
    self, Customer, District, History, NewOrder, OrderLine, Orders, Warehouse,
};

use super::model::{Database, Row, Stored, column};

/// Returns the conditions that do not hold, with the first violation of each.
pub fn violated(database: &Database, delivered_orders: &[u64]) -> BTreeMap<u32, String> {
    let mut found = BTreeMap::new();
    let mut check = |condition: u32, holds: bool, place: &dyn std::fmt::Debug| {
        if !holds {
            found.entry(condition).or_insert_with(|| format!("{place:?}"));
        }
    };
    let sums = Sums::of(database);
    for (key, row) in database.table(Warehouse) {
        let w = key[0];
        let ytd = int(Warehouse, row, "w_ytd");
        let districts = database.range(District, &[w]).map(|(_, row)| int(District, row, "d_ytd")).sum::<i64>();
        check(1, ytd == districts, key);
        check(8, ytd == sums.paid_to_warehouse.get(&w).copied().unwrap_or(0), key);
    }
    for (index, (key, row)) in database.table(District).iter().enumerate() {
        let place = [key[0], key[1]];
        let new_orders: Vec<i64> = database.range(NewOrder, &place).map(|(key, _)| key[2]).collect();
        let orders: Vec<(i64, i64)> =
            database.range(Orders, &place).map(|(key, row)| (key[2], int(Orders, row, "o_ol_cnt"))).collect();
        let last_order = int(District, row, "d_next_o_id") - 1;
        let oldest_and_newest = new_orders.first().zip(new_orders.last());
        check(2, orders.last().is_some_and(|order| order.0 == last_order), key);
        check(2, new_orders.last().is_none_or(|&order| order == last_order), key);
        check(3, oldest_and_newest.is_none_or(|(old, new)| new - old + 1 == new_orders.len() as i64), key);
        let lines = database.range(OrderLine, &place).count() as i64;
        check(4, orders.iter().map(|order| order.1).sum::<i64>() == lines, key);
        check(9, int(District, row, "d_ytd") == sums.paid_to_district.get(&place).copied().unwrap_or(0), key);
        let delivered_since = delivered_orders.get(index).copied().unwrap_or(0) as usize;
        check(11, orders.len() - new_orders.len() == 2_100 + delivered_since, key);
    }
    for (key, row) in database.table(Orders) {
        let undelivered = row[column(Orders, "o_carrier_id")] == Stored::Null;
        check(5, undelivered == database.table(NewOrder).contains_key(key), key);
        let lines = database.range(OrderLine, &key[..3]).count() as i64;
        check(6, lines == int(Orders, row, "o_ol_cnt"), key);
    }
    for (key, row) in database.table(OrderLine) {
        let no_date = row[column(OrderLine, "ol_delivery_d")] == Stored::Null;
        check(7, no_date == (*database.value(Orders, &key[..3], "o_carrier_id") == Stored::Null), key);
    }
    for (key, row) in database.table(Customer) {
        let place = [key[0], key[1], key[2]];
        let delivered = sums.delivered_to_customer.get(&place).copied().unwrap_or(0);
        let paid = sums.paid_by_customer.get(&place).copied().unwrap_or(0);
        let balance = int(Customer, row, "c_balance");
        check(10, balance == delivered - paid, key);
        check(12, balance + int(Customer, row, "c_ytd_payment") == delivered, key);
    }
    found
}

fn int(table: TableId, row: &Row, name: &str) -> i64 {
    row[column(table, name)].int()
}

#[derive(Default)]
struct Sums {
    paid_to_warehouse: BTreeMap<i64, i64>,
    paid_to_district: BTreeMap<[i64; 2], i64>,
    paid_by_customer: BTreeMap<[i64; 3], i64>,
    delivered_to_customer: BTreeMap<[i64; 3], i64>,
}

impl Sums {
    fn of(database: &Database) -> Self {
        let mut sums = Sums::default();
        for row in database.table(History).values() {
            let [w, d, cw, cd, c, amount] =
                ["h_w_id", "h_d_id", "h_c_w_id", "h_c_d_id", "h_c_id", "h_amount"].map(|name| int(History, row, name));
            *sums.paid_to_warehouse.entry(w).or_default() += amount;
            *sums.paid_to_district.entry([w, d]).or_default() += amount;
            *sums.paid_by_customer.entry([cw, cd, c]).or_default() += amount;
        }
        for (key, row) in database.table(OrderLine) {
            if row[column(OrderLine, "ol_delivery_d")] != Stored::Null {
                let customer = database.value(Orders, &key[..3], "o_c_id").int();
                *sums.delivered_to_customer.entry([key[0], key[1], customer]).or_default() +=
                    int(OrderLine, row, "ol_amount");
            }
        }
        sums
    }
}
