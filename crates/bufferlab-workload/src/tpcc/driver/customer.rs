//! Finds the customer of TPC-C's Payment and Order-Status, by number or by last name.

use super::answers::{id, wrong};
use super::inputs::{CustomerChoice, CustomerInput};
use crate::client::{Batch, ClientError, Value};
use crate::tpcc::statements::LIST_CUSTOMERS_BY_NAME;

/// If the input has a last name, adds the search by this name to a batch and returns the call.
pub(super) fn list_by_name(input: &CustomerInput, batch: &mut Batch) -> Option<usize> {
    let CustomerChoice::Name(name) = input.choice else { return None };
    let params = [input.warehouse.into(), input.district.into(), Value::Text(name.as_str())];
    Some(batch.call(LIST_CUSTOMERS_BY_NAME, &params))
}

/// Returns the number of the customer: the input's number or, for a search by name, that of the customer in the middle
/// of the rows of the call `list`, rounded up (2.5.2.2).
pub(super) fn chosen(input: &CustomerInput, batch: &Batch, list: Option<usize>) -> Result<u32, ClientError> {
    match (input.choice, list) {
        (CustomerChoice::Id(customer), _) => Ok(customer),
        (CustomerChoice::Name(_), Some(list)) => match batch.rows(list) {
            0 => Err(wrong(batch, list, "found no customer of that name")),
            rows => id(batch, list, rows.div_ceil(2) - 1, 0),
        },
        (CustomerChoice::Name(name), None) => unreachable!("{name:?} was not searched for"),
    }
}
