//! The output of TPC-C's transactions for their terminals, and buffers that one transaction after another reuses.

use crate::client::Batch;
use crate::tpcc::schema::DISTRICTS;

/// The output of the last executed transaction for its terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionOutput {
    /// The transaction entered an order, or rolled it back because the last item does not exist.
    NewOrder {
        /// Number of the order (O_ID).
        order: u32,
        /// Amount after discount and taxes of the lines whose item exists, in cents.
        total_cents: i64,
        /// Lines that the terminal shows as "B" for brand, because the data of item and stock both have "ORIGINAL".
        brand_lines: u32,
    },
    /// The transaction booked a payment.
    Payment {
        /// Number of the customer (C_ID).
        customer: u32,
        /// Balance of the customer (C_BALANCE) after the payment.
        balance_cents: i64,
    },
    /// The transaction read the last order of a customer.
    OrderStatus {
        /// Number of the customer (C_ID).
        customer: u32,
        /// Balance of the customer (C_BALANCE).
        balance_cents: i64,
        /// Number of the order (O_ID).
        order: u32,
        /// Number of the order's lines.
        lines: u32,
        /// Sum of the amounts of the order's lines (OL_AMOUNT), in cents.
        amount_cents: i64,
    },
    /// The transaction delivered orders.
    Delivery {
        /// For each district the number of the order delivered; none if the district had no undelivered order.
        delivered: [Option<u32>; DISTRICTS as usize],
    },
    /// The transaction counted items.
    StockLevel {
        /// Number of distinct items with a stock below the threshold.
        low_stock: u32,
    },
}

/// Buffers that one transaction after another reuses, so that none allocates memory.
#[derive(Debug, Default)]
pub(super) struct Batches {
    pub(super) reads: Batch,
    pub(super) details: Batch,
    pub(super) writes: Batch,
    pub(super) text: String,
}
