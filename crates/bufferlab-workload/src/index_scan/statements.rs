//! The catalogue of statements: Q1 alone. A dialect has a text of it for each plan the engine can be made to take.

use std::borrow::Cow;

use crate::client::{StatementId, StatementSpec};

/// Every statement; a [`StatementId`] is a position here.
pub const STATEMENTS: &[StatementSpec] = &[StatementSpec { name: Cow::Borrowed("q1"), parameters: 2, columns: 10 }];

/// first day, first day that is not read -> return flag, line status, sums of quantity and base price (hundredths), of the
/// discounted price (ten-thousandths) and of the charge (millionths), means of quantity, price and discount (decimals), rows;
/// ordered by flag and status
pub(super) const Q1: StatementId = StatementId(0);
