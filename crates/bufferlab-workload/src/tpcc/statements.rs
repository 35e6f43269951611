//! The catalogue of TPC-C's statements, as the setting `spec` sends them: one statement for each step of the
//! specification's profiles.
//!
//! Each statement's comment lists its parameters and the columns of its rows, by the specification's names. A dialect
//! gives each name its text, with these parameters and columns in this order. If a text uses a parameter twice, drivers
//! push it two times, so that dialects with plain `?` need no numbering. *Locks the row* marks a read whose row the
//! same transaction then updates. For an engine with row locks and statement snapshots, the dialect's text of such a
//! read must take the row's write lock (`FOR UPDATE`).

use std::borrow::Cow;

use crate::client::{StatementId, StatementSpec};

macro_rules! catalogue {
    ($($(#[$doc:meta])* $id:ident = $name:literal ($parameters:literal) -> $columns:literal;)*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[repr(u16)]
        enum Position { $($id),* }

        /// Every statement; a [`StatementId`] is a position here.
        pub const STATEMENTS: &[StatementSpec] = &[
            $(StatementSpec { name: Cow::Borrowed($name), parameters: $parameters, columns: $columns }),*
        ];

        $($(#[$doc])* pub const $id: StatementId = StatementId(Position::$id as u16);)*
    };
}

catalogue! {
    // The statements of New-Order (specification, 2.4.2.2).

    /// Parameters: w_id. Columns: w_tax.
    READ_WAREHOUSE_TAX = "read_warehouse_tax"(1) -> 1;
    /// Parameters: d_w_id, d_id. Columns: d_next_o_id, d_tax. Locks the row.
    READ_DISTRICT_ORDER = "read_district_order"(2) -> 2;
    /// Parameters: d_w_id, d_id. It adds one to d_next_o_id.
    INCREMENT_DISTRICT_ORDER = "increment_district_order"(2) -> 0;
    /// Parameters: c_w_id, c_d_id, c_id. Columns: c_discount, c_last, c_credit.
    READ_CUSTOMER_DISCOUNT = "read_customer_discount"(3) -> 3;
    /// Parameters: o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local. It leaves o_carrier_id NULL.
    INSERT_ORDER = "insert_order"(7) -> 0;
    /// Parameters: no_o_id, no_d_id, no_w_id.
    INSERT_NEW_ORDER = "insert_new_order"(3) -> 0;
    /// Parameters: i_id. Columns: i_price, i_name, i_data.
    READ_ITEM = "read_item"(1) -> 3;
    /// Parameters: s_w_id, s_i_id. Columns: s_quantity, s_dist_01, s_data. Locks the row. The next nine statements read
    /// the other districts' columns.
    READ_STOCK_01 = "read_stock_01"(2) -> 3;
    /// The same as [`READ_STOCK_01`], but with the column s_dist_02.
    READ_STOCK_02 = "read_stock_02"(2) -> 3;
    /// The same as [`READ_STOCK_01`], but with the column s_dist_03.
    READ_STOCK_03 = "read_stock_03"(2) -> 3;
    /// The same as [`READ_STOCK_01`], but with the column s_dist_04.
    READ_STOCK_04 = "read_stock_04"(2) -> 3;
    /// The same as [`READ_STOCK_01`], but with the column s_dist_05.
    READ_STOCK_05 = "read_stock_05"(2) -> 3;
    /// The same as [`READ_STOCK_01`], but with the column s_dist_06.
    READ_STOCK_06 = "read_stock_06"(2) -> 3;
    /// The same as [`READ_STOCK_01`], but with the column s_dist_07.
    READ_STOCK_07 = "read_stock_07"(2) -> 3;
    /// The same as [`READ_STOCK_01`], but with the column s_dist_08.
    READ_STOCK_08 = "read_stock_08"(2) -> 3;
    /// The same as [`READ_STOCK_01`], but with the column s_dist_09.
    READ_STOCK_09 = "read_stock_09"(2) -> 3;
    /// The same as [`READ_STOCK_01`], but with the column s_dist_10.
    READ_STOCK_10 = "read_stock_10"(2) -> 3;
    /// Parameters: s_quantity to set, amounts to add to s_ytd, s_order_cnt and s_remote_cnt, then s_w_id, s_i_id.
    UPDATE_STOCK = "update_stock"(6) -> 0;
    /// Parameters: ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_dist_info.
    /// It leaves ol_delivery_d NULL.
    INSERT_ORDER_LINE = "insert_order_line"(9) -> 0;

    // The statements of Payment (specification, 2.5.2.2).

    /// Parameters: h_amount, w_id. It adds to w_ytd.
    UPDATE_WAREHOUSE_YTD = "update_warehouse_ytd"(2) -> 0;
    /// Parameters: w_id. Columns: w_name, w_street_1, w_street_2, w_city, w_state, w_zip.
    READ_WAREHOUSE_ADDRESS = "read_warehouse_address"(1) -> 6;
    /// Parameters: h_amount, d_w_id, d_id. It adds to d_ytd.
    UPDATE_DISTRICT_YTD = "update_district_ytd"(3) -> 0;
    /// Parameters: d_w_id, d_id. Columns: d_name, d_street_1, d_street_2, d_city, d_state, d_zip.
    READ_DISTRICT_ADDRESS = "read_district_address"(2) -> 6;
    /// Parameters: c_w_id, c_d_id, c_last. Columns: c_id of every customer of that name, ordered by c_first, then c_id.
    LIST_CUSTOMERS_BY_NAME = "list_customers_by_name"(3) -> 1;
    /// Parameters: c_w_id, c_d_id, c_id. Columns: c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state,
    /// c_zip, c_phone, c_since, c_credit, c_credit_lim, c_discount, c_balance. Locks the row.
    READ_CUSTOMER_PAYMENT = "read_customer_payment"(3) -> 14;
    /// Parameters: h_amount to take from c_balance, h_amount to add to c_ytd_payment, c_w_id, c_d_id, c_id. It also
    /// counts the payment.
    UPDATE_CUSTOMER_PAYMENT = "update_customer_payment"(5) -> 0;
    /// Parameters: c_w_id, c_d_id, c_id. Columns: c_data, for customers with bad credit.
    READ_CUSTOMER_DATA = "read_customer_data"(3) -> 1;
    /// The same as [`UPDATE_CUSTOMER_PAYMENT`], but with c_data to set after the two amounts.
    UPDATE_CUSTOMER_PAYMENT_DATA = "update_customer_payment_data"(6) -> 0;
    /// Parameters: h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data.
    INSERT_HISTORY = "insert_history"(8) -> 0;

    // The statements of Order-Status (specification, 2.6.2.2), which also executes `LIST_CUSTOMERS_BY_NAME`.

    /// Parameters: c_w_id, c_d_id, c_id. Columns: c_balance, c_first, c_middle, c_last.
    READ_CUSTOMER_STATUS = "read_customer_status"(3) -> 4;
    /// Parameters: o_w_id, o_d_id, o_c_id. Columns: o_id, o_entry_d, o_carrier_id of the order with the largest o_id.
    READ_LAST_ORDER = "read_last_order"(3) -> 3;
    /// Parameters: ol_w_id, ol_d_id, ol_o_id. Columns: ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d
    /// of each line.
    READ_ORDER_LINES = "read_order_lines"(3) -> 5;

    // The statements of Delivery (specification, 2.7.4.2).

    /// Parameters: no_w_id, no_d_id. Columns: smallest no_o_id, or no row. Locks the row.
    READ_OLDEST_NEW_ORDER = "read_oldest_new_order"(2) -> 1;
    /// Parameters: no_w_id, no_d_id, no_o_id.
    DELETE_NEW_ORDER = "delete_new_order"(3) -> 0;
    /// Parameters: o_w_id, o_d_id, o_id. Columns: o_c_id. Locks the row.
    READ_ORDER_CUSTOMER = "read_order_customer"(3) -> 1;
    /// Parameters: o_carrier_id to set, o_w_id, o_d_id, o_id.
    UPDATE_ORDER_CARRIER = "update_order_carrier"(4) -> 0;
    /// Parameters: ol_delivery_d to set on each line, ol_w_id, ol_d_id, ol_o_id.
    UPDATE_ORDER_LINES_DELIVERY = "update_order_lines_delivery"(4) -> 0;
    /// Parameters: ol_w_id, ol_d_id, ol_o_id. Columns: sum of ol_amount.
    SUM_ORDER_LINES = "sum_order_lines"(3) -> 1;
    /// Parameters: amount to add to c_balance, c_w_id, c_d_id, c_id. It also counts the delivery.
    UPDATE_CUSTOMER_DELIVERY = "update_customer_delivery"(4) -> 0;

    // The statements of Stock-Level (specification, 2.8.2.2).

    /// Parameters: d_w_id, d_id. Columns: d_next_o_id.
    READ_DISTRICT_NEXT_ORDER = "read_district_next_order"(2) -> 1;
    /// Parameters: s_w_id, ol_w_id, ol_d_id, first ol_o_id, ol_o_id to stop before, threshold. Columns: number of
    /// distinct items of those orders with s_quantity below the threshold.
    COUNT_LOW_STOCK = "count_low_stock"(6) -> 1;
}

/// Returns the statement that reads stock with the column of `district`, s_dist_01 to s_dist_10.
pub fn read_stock(district: u32) -> StatementId {
    debug_assert!((1..=10).contains(&district), "there is no district {district}");
    StatementId(READ_STOCK_01.0 + district as u16 - 1)
}

/// Returns the declaration of a statement of this catalogue.
pub fn spec(statement: StatementId) -> &'static StatementSpec {
    &STATEMENTS[usize::from(statement.0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = STATEMENTS.iter().map(|spec| spec.name.as_ref()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), STATEMENTS.len());
    }

    #[test]
    fn the_stock_statement_of_a_district_names_that_district() {
        for district in 1..=10 {
            assert_eq!(spec(read_stock(district)).name, format!("read_stock_{district:02}"));
        }
    }
}
