//! The catalogue of statements of index_scan, which has only Q1. A dialect has a text of Q1 for each plan that its
//! engine can be forced to take.

use std::borrow::Cow;

use crate::client::{StatementId, StatementSpec};

/// Every statement; a [`StatementId`] is a position here.
pub const STATEMENTS: &[StatementSpec] = &[StatementSpec { name: Cow::Borrowed("q1"), parameters: 2, columns: 10 }];

/// Parameters: first day, first day that is not read. Columns: return flag, line status, sums of quantity and base
/// price (hundredths), of the discounted price (ten-thousandths) and of the charge (millionths), means of quantity,
/// price and discount (decimals), number of rows. Rows are ordered by flag and status.
pub(super) const Q1: StatementId = StatementId(0);
