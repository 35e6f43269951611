//! TPC-C's Payment (specification, 2.5.2): a customer pays, and warehouse and district book the amount.

use std::fmt::Write;

use super::answers::{expect_row, expect_single_writes, int, text};
use super::customer::{chosen, list_by_name};
use super::inputs::{CustomerChoice, PaymentInput};
use super::output::{Batches, TransactionOutput};
use crate::client::{Batch, Client, ClientError, Outcome, Value};
use crate::tpcc::schema::MAX_C_DATA_CHARS;
use crate::tpcc::statements::{
    INSERT_HISTORY, READ_CUSTOMER_DATA, READ_CUSTOMER_PAYMENT, READ_DISTRICT_ADDRESS, READ_WAREHOUSE_ADDRESS,
    UPDATE_CUSTOMER_PAYMENT, UPDATE_CUSTOMER_PAYMENT_DATA, UPDATE_DISTRICT_YTD, UPDATE_WAREHOUSE_YTD,
};

const CREDIT_COLUMN: usize = 10;
const BALANCE_COLUMN: usize = 13;

/// Executes Payment in two to four batches. The first batch has warehouse, district and a customer given by number.
/// Then follow a customer given by name, the data of a customer with bad credit, and the writes that need these rows.
pub(super) fn execute(
    input: &PaymentInput,
    now_us: i64,
    batches: &mut Batches,
    client: &mut dyn Client,
) -> Result<(Outcome, TransactionOutput), ClientError> {
    let Batches { reads, details, writes, text: c_data } = batches;
    let (w, d): (Value<'_>, Value<'_>) = (input.warehouse.into(), input.district.into());
    let amount = Value::Int(input.amount_cents);
    let customer_place: [Value<'_>; 2] = [input.customer.warehouse.into(), input.customer.district.into()];

    reads.clear();
    reads.call(UPDATE_WAREHOUSE_YTD, &[amount, w]);
    let warehouse = reads.call(READ_WAREHOUSE_ADDRESS, &[w]);
    reads.call(UPDATE_DISTRICT_YTD, &[amount, w, d]);
    let district = reads.call(READ_DISTRICT_ADDRESS, &[w, d]);
    let list = list_by_name(&input.customer, reads);
    let numbered = match input.customer.choice {
        CustomerChoice::Id(id) => Some(reads.call(READ_CUSTOMER_PAYMENT, &with(customer_place, id))),
        CustomerChoice::Name(_) => None,
    };
    client.execute(reads)?;
    expect_row(reads, warehouse)?;
    expect_row(reads, district)?;
    expect_single_writes(reads)?;

    let customer_id = chosen(&input.customer, reads, list)?;
    let customer_key = with(customer_place, customer_id);
    let (customer_batch, customer): (&Batch, usize) = match numbered {
        Some(call) => (reads, call),
        None => {
            details.clear();
            let call = details.call(READ_CUSTOMER_PAYMENT, &customer_key);
            client.execute(details)?;
            (details, call)
        }
    };
    expect_row(customer_batch, customer)?;
    let balance_cents = int(customer_batch, customer, 0, BALANCE_COLUMN)? - input.amount_cents;
    let bad_credit = text(customer_batch, customer, 0, CREDIT_COLUMN)? == "BC";

    if bad_credit {
        details.clear();
        let call = details.call(READ_CUSTOMER_DATA, &customer_key);
        client.execute(details)?;
        expect_row(details, call)?;
        write_customer_data(input, customer_id, text(details, call, 0, 0)?, c_data);
    }

    writes.clear();
    let [cw, cd, c] = customer_key;
    if bad_credit {
        writes.call(UPDATE_CUSTOMER_PAYMENT_DATA, &[amount, amount, Value::Text(c_data), cw, cd, c]);
    } else {
        writes.call(UPDATE_CUSTOMER_PAYMENT, &[amount, amount, cw, cd, c]);
    }
    write_history_data(text(reads, warehouse, 0, 0)?, text(reads, district, 0, 0)?, c_data);
    writes.call(INSERT_HISTORY, &[c, cd, cw, d, w, Value::Int(now_us), amount, Value::Text(c_data)]);
    client.execute(writes)?;
    expect_single_writes(writes)?;
    Ok((Outcome::Committed, TransactionOutput::Payment { customer: customer_id, balance_cents }))
}

fn with(place: [Value<'_>; 2], customer: u32) -> [Value<'_>; 3] {
    [place[0], place[1], customer.into()]
}

/// Writes the new C_DATA: the payment's data before the old text, cut off after 500 characters.
fn write_customer_data(input: &PaymentInput, customer: u32, old: &str, new: &mut String) {
    let PaymentInput { warehouse, district, customer: place, amount_cents } = input;
    let (units, cents) = (amount_cents / 100, amount_cents % 100);
    new.clear();
    // Writing to a string cannot fail.
    let _ = write!(new, "{customer} {} {} {district} {warehouse} {units}.{cents:02} ", place.district, place.warehouse);
    new.push_str(old);
    // The population has only ASCII, so this does not cut a character.
    new.truncate(MAX_C_DATA_CHARS);
}

/// Writes H_DATA: the names of warehouse and district with four spaces between them.
fn write_history_data(warehouse_name: &str, district_name: &str, data: &mut String) {
    data.clear();
    for part in [warehouse_name, "    ", district_name] {
        data.push_str(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcc::driver::inputs::CustomerInput;

    fn input() -> PaymentInput {
        let customer = CustomerInput { warehouse: 4, district: 3, choice: CustomerChoice::Id(2_999) };
        PaymentInput { warehouse: 1, district: 2, customer, amount_cents: 123_405 }
    }

    #[test]
    fn customer_data_notes_the_payment_at_the_left() {
        let mut data = String::new();
        write_customer_data(&input(), 2_999, "before", &mut data);
        assert_eq!(data, "2999 3 4 2 1 1234.05 before");
    }

    #[test]
    fn customer_data_never_exceeds_500_characters() {
        let mut data = String::new();
        write_customer_data(&input(), 2_999, &"x".repeat(500), &mut data);
        assert_eq!(data.len(), 500);
        assert!(data.starts_with("2999 3 4 2 1 1234.05 xxx"));
    }
}
