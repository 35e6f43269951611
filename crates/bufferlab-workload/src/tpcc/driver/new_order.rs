//! TPC-C's New-Order (specification, 2.4.2): enters an order of 5 to 15 lines. One in a hundred New-Orders contains an
//! item that does not exist, and rolls back.

use super::answers::{expect_row, expect_single_writes, id, int, text, wrong};
use super::inputs::{MAX_LINES, NewOrderInput};
use super::output::{Batches, TransactionOutput};
use crate::client::{Client, ClientError, Outcome, Value};
use crate::tpcc::statements::{
    INCREMENT_DISTRICT_ORDER, INSERT_NEW_ORDER, INSERT_ORDER, INSERT_ORDER_LINE, READ_CUSTOMER_DISCOUNT,
    READ_DISTRICT_ORDER, READ_ITEM, READ_WAREHOUSE_TAX, UPDATE_STOCK, read_stock,
};

/// The result of the first phase, for the later phases.
struct Header {
    order: u32,
    tax_basis_points: i64,
    discount_basis_points: i64,
}

/// The state of one order line during a New-Order.
#[derive(Clone, Copy, Default)]
struct Line {
    amount_cents: i64,
    stock_call: usize,
    /// Stock of the item after this line.
    quantity_left: i64,
    brand: bool,
}

/// Executes New-Order in three phases of one batch each: the header; the items and stocks of all lines; all writes.
///
/// A rolled-back order first does all the work of its other lines, as 2.4.2.3 demands.
pub(super) fn execute(
    input: &NewOrderInput,
    now_us: i64,
    batches: &mut Batches,
    client: &mut dyn Client,
) -> Result<(Outcome, TransactionOutput), ClientError> {
    let header = read_header(input, batches, client)?;
    let lines = read_lines(input, batches, client)?;
    write_order(input, &header, &lines, now_us, batches, client)?;
    let valid = &lines[..input.valid_lines()];
    let output = TransactionOutput::NewOrder {
        order: header.order,
        total_cents: total_cents(valid, &header),
        brand_lines: valid.iter().filter(|line| line.brand).count() as u32,
    };
    let outcome = if input.unused_item { Outcome::RolledBack } else { Outcome::Committed };
    Ok((outcome, output))
}

fn read_header(input: &NewOrderInput, batches: &mut Batches, client: &mut dyn Client) -> Result<Header, ClientError> {
    let batch = &mut batches.reads;
    let (w, d, c) = (input.warehouse.into(), input.district.into(), input.customer.into());
    batch.clear();
    let district = batch.call(READ_DISTRICT_ORDER, &[w, d]);
    batch.call(INCREMENT_DISTRICT_ORDER, &[w, d]);
    let warehouse = batch.call(READ_WAREHOUSE_TAX, &[w]);
    let customer = batch.call(READ_CUSTOMER_DISCOUNT, &[w, d, c]);
    client.execute(batch)?;
    for read in [district, warehouse, customer] {
        expect_row(batch, read)?;
    }
    expect_single_writes(batch)?;
    Ok(Header {
        order: id(batch, district, 0, 0)?,
        tax_basis_points: int(batch, warehouse, 0, 0)? + int(batch, district, 0, 1)?,
        discount_basis_points: int(batch, customer, 0, 0)?,
    })
}

/// Reads the items and stocks of all lines. The stock rows stay in `batches.reads`, from which the next phase takes the
/// district information.
fn read_lines(
    input: &NewOrderInput,
    batches: &mut Batches,
    client: &mut dyn Client,
) -> Result<[Line; MAX_LINES], ClientError> {
    let batch = &mut batches.reads;
    batch.clear();
    for line in input.lines() {
        batch.call(READ_ITEM, &[line.item.into()]);
    }
    let first_stock = batch.len();
    for &position in input.stock_order() {
        let line = input.lines()[position];
        batch.call(read_stock(input.district), &[line.supply_warehouse.into(), line.item.into()]);
    }
    client.execute(batch)?;

    let mut lines = [Line::default(); MAX_LINES];
    let mut previous: Option<usize> = None;
    for (index, &position) in input.stock_order().iter().enumerate() {
        let (item_call, stock_call) = (position, first_stock + index);
        expect_row(batch, item_call)?;
        expect_row(batch, stock_call)?;
        let ordered = input.lines()[position];
        // Two lines of one item both read the stock before the first of them took from it.
        let quantity_before = match previous {
            Some(other) if same_stock(input, other, position) => lines[other].quantity_left,
            _ => int(batch, stock_call, 0, 0)?,
        };
        lines[position] = Line {
            amount_cents: i64::from(ordered.quantity) * int(batch, item_call, 0, 0)?,
            stock_call,
            quantity_left: quantity_left(quantity_before, ordered.quantity.into()),
            brand: text(batch, item_call, 0, 2)?.contains("ORIGINAL")
                && text(batch, stock_call, 0, 2)?.contains("ORIGINAL"),
        };
        previous = Some(position);
    }
    if input.unused_item {
        let unused_call = input.valid_lines();
        if batch.rows(unused_call) != 0 {
            return Err(wrong(batch, unused_call, "found an item that must not exist"));
        }
    }
    Ok(lines)
}

fn same_stock(input: &NewOrderInput, one: usize, other: usize) -> bool {
    let key = |position: usize| (input.lines()[position].supply_warehouse, input.lines()[position].item);
    key(one) == key(other)
}

/// Returns the stock after an order line. The stock is refilled by 91 if the line would leave fewer than ten.
fn quantity_left(before: i64, ordered: i64) -> i64 {
    if before >= ordered + 10 { before - ordered } else { before - ordered + 91 }
}

fn write_order(
    input: &NewOrderInput,
    header: &Header,
    lines: &[Line; MAX_LINES],
    now_us: i64,
    batches: &mut Batches,
    client: &mut dyn Client,
) -> Result<(), ClientError> {
    let Batches { reads, writes, .. } = batches;
    let (w, d, o): (Value<'_>, Value<'_>, Value<'_>) =
        (input.warehouse.into(), input.district.into(), header.order.into());
    let line_count = Value::Int(input.lines().len() as i64);
    let all_local = Value::Int(input.all_local().into());
    writes.clear();
    writes.call(INSERT_ORDER, &[o, d, w, input.customer.into(), Value::Int(now_us), line_count, all_local]);
    writes.call(INSERT_NEW_ORDER, &[o, d, w]);
    for &position in input.stock_order() {
        let line = input.lines()[position];
        let remote = Value::Int((line.supply_warehouse != input.warehouse).into());
        let left = Value::Int(lines[position].quantity_left);
        let stock = [line.supply_warehouse.into(), line.item.into()];
        writes.call(UPDATE_STOCK, &[left, line.quantity.into(), Value::Int(1), remote, stock[0], stock[1]]);
    }
    for (position, line) in input.lines()[..input.valid_lines()].iter().enumerate() {
        let dist_info = text(reads, lines[position].stock_call, 0, 1)?;
        writes.call(
            INSERT_ORDER_LINE,
            &[
                o,
                d,
                w,
                Value::Int(position as i64 + 1),
                line.item.into(),
                line.supply_warehouse.into(),
                line.quantity.into(),
                Value::Int(lines[position].amount_cents),
                Value::Text(dist_info),
            ],
        );
    }
    client.execute(writes)?;
    expect_single_writes(writes)
}

/// Returns the total for the customer, to the nearest cent.
fn total_cents(lines: &[Line], header: &Header) -> i64 {
    let amount_cents: i64 = lines.iter().map(|line| line.amount_cents).sum();
    let scaled = amount_cents * (10_000 - header.discount_basis_points) * (10_000 + header.tax_basis_points);
    (scaled + 50_000_000) / 100_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stock_falls_until_fewer_than_ten_would_be_left_and_then_gains_91() {
        assert_eq!(quantity_left(20, 10), 10);
        assert_eq!(quantity_left(19, 10), 100);
        assert_eq!(quantity_left(10, 10), 91);
        assert_eq!(quantity_left(100, 1), 99);
    }

    #[test]
    fn the_total_takes_the_discount_and_adds_both_taxes() {
        let lines = [Line { amount_cents: 10_000, ..Line::default() }, Line { amount_cents: 5_001, ..Line::default() }];
        // 150.01 * 0.9 * 1.25 = 168.76125
        let header = Header { order: 1, tax_basis_points: 2_500, discount_basis_points: 1_000 };
        assert_eq!(total_cents(&lines, &header), 16_876);
    }
}
