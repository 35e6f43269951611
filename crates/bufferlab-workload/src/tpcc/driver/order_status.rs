//! TPC-C's Order-Status (specification, 2.6.2): a customer asks for their last order. It writes no row.

use super::answers::{expect_row, id, int, wrong};
use super::customer::{chosen, list_by_name};
use super::inputs::CustomerInput;
use super::output::{Batches, TransactionOutput};
use crate::client::{Client, ClientError, Outcome, Value};
use crate::tpcc::statements::{READ_CUSTOMER_STATUS, READ_LAST_ORDER, READ_ORDER_LINES};

const AMOUNT_COLUMN: usize = 3;

/// Executes Order-Status in two or three batches: the search for a customer given by name; the customer and the last
/// order; the order's lines.
pub(super) fn execute(
    input: &CustomerInput,
    batches: &mut Batches,
    client: &mut dyn Client,
) -> Result<(Outcome, TransactionOutput), ClientError> {
    let Batches { reads, details, .. } = batches;
    let (w, d): (Value<'_>, Value<'_>) = (input.warehouse.into(), input.district.into());
    reads.clear();
    let list = list_by_name(input, reads);
    if list.is_some() {
        client.execute(reads)?;
    }
    let customer_id = chosen(input, reads, list)?;

    reads.clear();
    let customer = reads.call(READ_CUSTOMER_STATUS, &[w, d, customer_id.into()]);
    let last_order = reads.call(READ_LAST_ORDER, &[w, d, customer_id.into()]);
    client.execute(reads)?;
    expect_row(reads, customer)?;
    expect_row(reads, last_order)?;
    let order = id(reads, last_order, 0, 0)?;

    details.clear();
    let lines = details.call(READ_ORDER_LINES, &[w, d, order.into()]);
    client.execute(details)?;
    if details.rows(lines) == 0 {
        return Err(wrong(details, lines, "found an order without lines"));
    }
    let mut amount_cents = 0;
    for line in 0..details.rows(lines) {
        amount_cents += int(details, lines, line, AMOUNT_COLUMN)?;
    }
    let output = TransactionOutput::OrderStatus {
        customer: customer_id,
        balance_cents: int(reads, customer, 0, 0)?,
        order,
        lines: details.rows(lines) as u32,
        amount_cents,
    };
    Ok((Outcome::Committed, output))
}
