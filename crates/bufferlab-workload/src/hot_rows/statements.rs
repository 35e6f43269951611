//! The catalogue of statements of hot_rows. A statement's comment lists its parameters and the columns of its row, in
//! order. Each statement is a transaction by itself.

use std::borrow::Cow;

use crate::client::{StatementId, StatementSpec};

/// Every statement; a [`StatementId`] is a position here.
pub const STATEMENTS: &[StatementSpec] = &[
    StatementSpec { name: Cow::Borrowed("read_c"), parameters: 1, columns: 1 },
    StatementSpec { name: Cow::Borrowed("update_c"), parameters: 2, columns: 0 },
];

/// Parameters: id. Columns: c.
pub(super) const READ_C: StatementId = StatementId(0);
/// Parameters: c to set, id.
pub(super) const UPDATE_C: StatementId = StatementId(1);
