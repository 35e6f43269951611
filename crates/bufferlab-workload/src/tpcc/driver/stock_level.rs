//! TPC-C's Stock-Level (specification, 2.8.2): counts the items of a district's last twenty orders whose stock is low.
//! It writes no row.

use super::answers::{expect_row, int};
use super::inputs::StockLevelInput;
use super::output::{Batches, TransactionOutput};
use crate::client::{Client, ClientError, Outcome, Value};
use crate::tpcc::statements::{COUNT_LOW_STOCK, READ_DISTRICT_NEXT_ORDER};

const ORDERS_LOOKED_AT: i64 = 20;

/// Executes Stock-Level in two batches: the district's next order number; the count.
pub(super) fn execute(
    input: &StockLevelInput,
    batches: &mut Batches,
    client: &mut dyn Client,
) -> Result<(Outcome, TransactionOutput), ClientError> {
    let batch = &mut batches.reads;
    let (w, d): (Value<'_>, Value<'_>) = (input.warehouse.into(), input.district.into());
    batch.clear();
    let district = batch.call(READ_DISTRICT_NEXT_ORDER, &[w, d]);
    client.execute(batch)?;
    expect_row(batch, district)?;
    let next_order = int(batch, district, 0, 0)?;

    batch.clear();
    let orders = [next_order - ORDERS_LOOKED_AT, next_order].map(Value::Int);
    let count = batch.call(COUNT_LOW_STOCK, &[w, w, d, orders[0], orders[1], input.threshold.into()]);
    client.execute(batch)?;
    expect_row(batch, count)?;
    Ok((Outcome::Committed, TransactionOutput::StockLevel { low_stock: int(batch, count, 0, 0)? as u32 }))
}
