//! The catalogue of statements. A parameter is pushed in the order given here; both are transactions of their own.

use std::borrow::Cow;

use crate::client::{StatementId, StatementSpec};

/// Every statement; a [`StatementId`] is a position here.
pub const STATEMENTS: &[StatementSpec] = &[
    StatementSpec { name: Cow::Borrowed("read_c"), parameters: 1, columns: 1 },
    StatementSpec { name: Cow::Borrowed("update_c"), parameters: 2, columns: 0 },
];

/// id -> c
pub(super) const READ_C: StatementId = StatementId(0);
/// c to set, id
pub(super) const UPDATE_C: StatementId = StatementId(1);
