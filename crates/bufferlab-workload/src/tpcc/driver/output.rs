//! The output of transactions for their terminal, and the memory that they share.

use crate::client::Batch;
use crate::tpcc::schema::DISTRICTS;

/// The output of the last executed transaction for its terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionOutput {
    /// The transaction entered an order, or would have done so if the last item existed.
    NewOrder {
        /// O_ID.
        order: u32,
        /// Amount after discount and taxes, of the lines whose item exists.
        total_cents: i64,
        /// Lines shown as "B" for brand: item and stock are both "ORIGINAL".
        brand_lines: u32,
    },
    /// The transaction booked a payment.
    Payment {
        /// C_ID.
        customer: u32,
        /// C_BALANCE after the payment.
        balance_cents: i64,
    },
    /// The last order of a customer.
    OrderStatus {
        /// C_ID.
        customer: u32,
        /// C_BALANCE.
        balance_cents: i64,
        /// O_ID.
        order: u32,
        /// Number of its lines.
        lines: u32,
        /// Sum of their amounts.
        amount_cents: i64,
    },
    /// The transaction delivered orders.
    Delivery {
        /// For each district the order delivered, if it had any.
        delivered: [Option<u32>; DISTRICTS as usize],
    },
    /// The transaction counted items.
    StockLevel {
        /// Distinct items below the threshold.
        low_stock: u32,
    },
}

/// The memory of transactions; all share it, so that they allocate nothing.
#[derive(Debug, Default)]
pub(super) struct Batches {
    pub(super) reads: Batch,
    pub(super) details: Batch,
    pub(super) writes: Batch,
    pub(super) text: String,
}
