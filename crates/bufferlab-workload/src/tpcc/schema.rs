//! TPC-C's nine tables (specification, 1.3): names, columns in order, kinds and primary keys, and the numbers of rows
//! of 4.3.3.
//!
//! Key columns come first and in the order of the primary key, so that an engine with clustered tables finds the key at
//! the start of a row. This file has no SQL: an engine's dialect translates the kinds to the engine's types.

use crate::population::{Column, basis_points, cents, int, micros, text};

/// Rows of ITEM, for any number of warehouses.
pub const ITEMS: u32 = 100_000;
/// Districts of one warehouse.
pub const DISTRICTS: u32 = 10;
/// Customers of one district.
pub const CUSTOMERS: u32 = 3_000;
/// Orders of one district after the load.
pub const ORDERS: u32 = 3_000;
/// The number of the first order that the load leaves undelivered. This order and all later ones have a row in
/// NEW-ORDER.
pub const FIRST_UNDELIVERED_ORDER: u32 = 2_101;
/// Fewest lines of an order.
pub const MIN_ORDER_LINES: u32 = 5;
/// Most lines of an order.
pub const MAX_ORDER_LINES: u32 = 15;
/// Terminals of one warehouse (4.2).
pub const TERMINALS_PER_WAREHOUSE: u32 = 10;
/// Most characters in C_DATA.
pub const MAX_C_DATA_CHARS: usize = 500;

const ITEM: &[Column] = &[int("i_id"), int("i_im_id"), text("i_name", 24), cents("i_price"), text("i_data", 50)];

const WAREHOUSE: &[Column] = &[
    int("w_id"),
    text("w_name", 10),
    text("w_street_1", 20),
    text("w_street_2", 20),
    text("w_city", 20),
    text("w_state", 2),
    text("w_zip", 9),
    basis_points("w_tax"),
    cents("w_ytd"),
];

const DISTRICT: &[Column] = &[
    int("d_w_id"),
    int("d_id"),
    text("d_name", 10),
    text("d_street_1", 20),
    text("d_street_2", 20),
    text("d_city", 20),
    text("d_state", 2),
    text("d_zip", 9),
    basis_points("d_tax"),
    cents("d_ytd"),
    int("d_next_o_id"),
];

const STOCK: &[Column] = &[
    int("s_w_id"),
    int("s_i_id"),
    int("s_quantity"),
    text("s_dist_01", 24),
    text("s_dist_02", 24),
    text("s_dist_03", 24),
    text("s_dist_04", 24),
    text("s_dist_05", 24),
    text("s_dist_06", 24),
    text("s_dist_07", 24),
    text("s_dist_08", 24),
    text("s_dist_09", 24),
    text("s_dist_10", 24),
    int("s_ytd"),
    int("s_order_cnt"),
    int("s_remote_cnt"),
    text("s_data", 50),
];

const CUSTOMER: &[Column] = &[
    int("c_w_id"),
    int("c_d_id"),
    int("c_id"),
    text("c_first", 16),
    text("c_middle", 2),
    text("c_last", 16),
    text("c_street_1", 20),
    text("c_street_2", 20),
    text("c_city", 20),
    text("c_state", 2),
    text("c_zip", 9),
    text("c_phone", 16),
    micros("c_since"),
    text("c_credit", 2),
    cents("c_credit_lim"),
    basis_points("c_discount"),
    cents("c_balance"),
    cents("c_ytd_payment"),
    int("c_payment_cnt"),
    int("c_delivery_cnt"),
    text("c_data", MAX_C_DATA_CHARS as u16),
];

const HISTORY: &[Column] = &[
    int("h_c_id"),
    int("h_c_d_id"),
    int("h_c_w_id"),
    int("h_d_id"),
    int("h_w_id"),
    micros("h_date"),
    cents("h_amount"),
    text("h_data", 24),
];

/// O_CARRIER_ID and OL_DELIVERY_D are NULL until the order is delivered.
const ORDERS_COLUMNS: &[Column] = &[
    int("o_w_id"),
    int("o_d_id"),
    int("o_id"),
    int("o_c_id"),
    micros("o_entry_d"),
    int("o_carrier_id").nullable(),
    int("o_ol_cnt"),
    int("o_all_local"),
];

const NEW_ORDER: &[Column] = &[int("no_w_id"), int("no_d_id"), int("no_o_id")];

const ORDER_LINE: &[Column] = &[
    int("ol_w_id"),
    int("ol_d_id"),
    int("ol_o_id"),
    int("ol_number"),
    int("ol_i_id"),
    int("ol_supply_w_id"),
    micros("ol_delivery_d").nullable(),
    int("ol_quantity"),
    cents("ol_amount"),
    text("ol_dist_info", 24),
];

/// One of the nine tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TableId {
    /// ITEM, the catalogue shared by all warehouses.
    Item,
    /// WAREHOUSE, one row for each warehouse.
    Warehouse,
    /// DISTRICT, ten rows for each warehouse.
    District,
    /// STOCK, one row for each warehouse and item.
    Stock,
    /// CUSTOMER, 3,000 rows for each district.
    Customer,
    /// HISTORY of payments, the one table without a primary key.
    History,
    /// ORDER, spelt `orders` because the word is reserved.
    Orders,
    /// NEW-ORDER, the orders not yet delivered.
    NewOrder,
    /// ORDER-LINE, 5 to 15 rows for each order.
    OrderLine,
}

impl TableId {
    /// Every table, in the order in which the load writes them.
    pub const ALL: [TableId; 9] = [
        TableId::Item,
        TableId::Warehouse,
        TableId::District,
        TableId::Stock,
        TableId::Customer,
        TableId::History,
        TableId::Orders,
        TableId::NewOrder,
        TableId::OrderLine,
    ];

    /// Returns the table's name in every dialect.
    #[must_use]
    pub fn name(self) -> &'static str {
        DECLARED[self as usize].0
    }

    /// Returns the table's columns, in the order of every generated row.
    #[must_use]
    pub fn columns(self) -> &'static [Column] {
        DECLARED[self as usize].1
    }

    /// Returns the number of leading columns that form the primary key; zero for HISTORY, which has none.
    #[must_use]
    pub fn key_columns(self) -> usize {
        DECLARED[self as usize].2
    }
}

/// Name, columns and number of key columns of each table, in the order of [`TableId`].
const DECLARED: [(&str, &[Column], usize); TableId::ALL.len()] = [
    ("item", ITEM, 1),
    ("warehouse", WAREHOUSE, 1),
    ("district", DISTRICT, 2),
    ("stock", STOCK, 2),
    ("customer", CUSTOMER, 3),
    ("history", HISTORY, 0),
    ("orders", ORDERS_COLUMNS, 3),
    ("new_order", NEW_ORDER, 3),
    ("order_line", ORDER_LINE, 4),
];
