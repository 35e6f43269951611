//! TPC-C's Delivery (specification, 2.7.4): delivers the oldest undelivered order of each district of a warehouse.
//!
//! One database transaction delivers the orders of all ten districts; clause 2.7 leaves the number of database
//! transactions to the implementation. So a counted transaction is one commit, and a retry repeats the whole Delivery.
//! A Delivery runs when its terminal submits it. It is not queued for later (2.7.2), because a closed loop of terminals
//! measures the engine and not a queue.

use super::answers::{expect_affected, expect_row, expect_single_writes, id, int, wrong};
use super::inputs::DeliveryInput;
use super::output::{Batches, TransactionOutput};
use crate::client::{Batch, Client, ClientError, Outcome, StatementId, Value};
use crate::tpcc::schema::{DISTRICTS, MAX_ORDER_LINES, MIN_ORDER_LINES};
use crate::tpcc::statements::{
    DELETE_NEW_ORDER, READ_OLDEST_NEW_ORDER, READ_ORDER_CUSTOMER, SUM_ORDER_LINES, UPDATE_CUSTOMER_DELIVERY,
    UPDATE_ORDER_CARRIER, UPDATE_ORDER_LINES_DELIVERY,
};

const MAX_ORDERS: usize = DISTRICTS as usize;

/// The order to deliver in each district that has one.
#[derive(Clone, Copy, Default)]
struct Orders {
    orders: [Order; MAX_ORDERS],
    count: usize,
}

#[derive(Clone, Copy, Default)]
struct Order {
    district: u32,
    id: u32,
}

impl Orders {
    fn iter(&self) -> impl Iterator<Item = &Order> {
        self.orders[..self.count].iter()
    }
}

/// Executes Delivery in three batches: it reads the oldest new orders, delivers them, and updates the customers.
pub(super) fn execute(
    input: &DeliveryInput,
    now_us: i64,
    batches: &mut Batches,
    client: &mut dyn Client,
) -> Result<(Outcome, TransactionOutput), ClientError> {
    let w: Value<'_> = input.warehouse.into();
    let Batches { reads, details, writes, .. } = batches;
    let orders = oldest_orders(w, reads, client)?;
    let mut delivered = [None; MAX_ORDERS];
    for order in orders.iter() {
        delivered[order.district as usize - 1] = Some(order.id);
    }
    // Skip districts without undelivered orders (2.7.4.2); perhaps no district has one.
    if orders.count > 0 {
        let (customers, sums) = deliver(&orders, input, now_us, details, client)?;
        pay_customers(&orders, w, details, (customers, sums), writes, client)?;
    }
    Ok((Outcome::Committed, TransactionOutput::Delivery { delivered }))
}

fn oldest_orders(w: Value<'_>, batch: &mut Batch, client: &mut dyn Client) -> Result<Orders, ClientError> {
    batch.clear();
    for district in 1..=DISTRICTS {
        batch.call(READ_OLDEST_NEW_ORDER, &[w, district.into()]);
    }
    client.execute(batch)?;
    let mut orders = Orders::default();
    for district in 1..=DISTRICTS {
        let call = district as usize - 1;
        if batch.rows(call) > 0 {
            expect_row(batch, call)?;
            orders.orders[orders.count] = Order { district, id: id(batch, call, 0, 0)? };
            orders.count += 1;
        }
    }
    Ok(orders)
}

/// Delivers the orders. Leaves the orders' customers and the sums of their lines in `batch`; returns the first of the
/// calls that read customers, and the first that read sums.
fn deliver(
    orders: &Orders,
    input: &DeliveryInput,
    now_us: i64,
    batch: &mut Batch,
    client: &mut dyn Client,
) -> Result<(usize, usize), ClientError> {
    let w: Value<'_> = input.warehouse.into();
    batch.clear();
    // Claim the order first: the transaction that deletes the row delivers it.
    let deletes = each(orders, batch, DELETE_NEW_ORDER, w, None);
    let customers = each(orders, batch, READ_ORDER_CUSTOMER, w, None);
    let carriers = each(orders, batch, UPDATE_ORDER_CARRIER, w, Some(input.carrier.into()));
    let lines = each(orders, batch, UPDATE_ORDER_LINES_DELIVERY, w, Some(Value::Int(now_us)));
    let sums = each(orders, batch, SUM_ORDER_LINES, w, None);
    client.execute(batch)?;
    for index in 0..orders.count {
        expect_affected(batch, deletes + index, 1)?;
        expect_row(batch, customers + index)?;
        expect_affected(batch, carriers + index, 1)?;
        expect_order_lines(batch, lines + index)?;
        expect_row(batch, sums + index)?;
    }
    Ok((customers, sums))
}

/// Adds one call of a statement for each order, with the value `set`, if any, before the keys. Returns the first call.
fn each(orders: &Orders, batch: &mut Batch, statement: StatementId, w: Value<'_>, set: Option<Value<'_>>) -> usize {
    let first = batch.len();
    for order in orders.iter() {
        let (d, o) = (order.district.into(), order.id.into());
        match set {
            Some(value) => batch.call(statement, &[value, w, d, o]),
            None => batch.call(statement, &[w, d, o]),
        };
    }
    first
}

fn expect_order_lines(batch: &Batch, call: usize) -> Result<(), ClientError> {
    match batch.affected(call) {
        lines if (u64::from(MIN_ORDER_LINES)..=u64::from(MAX_ORDER_LINES)).contains(&lines) => Ok(()),
        lines => Err(wrong(batch, call, &format!("wrote {lines} lines, not 5 to 15"))),
    }
}

fn pay_customers(
    orders: &Orders,
    w: Value<'_>,
    delivered: &Batch,
    (customers, sums): (usize, usize),
    batch: &mut Batch,
    client: &mut dyn Client,
) -> Result<(), ClientError> {
    batch.clear();
    for (index, order) in orders.iter().enumerate() {
        let amount = Value::Int(int(delivered, sums + index, 0, 0)?);
        let customer = id(delivered, customers + index, 0, 0)?;
        batch.call(UPDATE_CUSTOMER_DELIVERY, &[amount, w, order.district.into(), customer.into()]);
    }
    client.execute(batch)?;
    expect_single_writes(batch)
}
