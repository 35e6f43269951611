//! A client that answers every statement with fixed rows. It is fast, allocates no memory, and counts statements.

use bufferlab_workload::client::{Batch, Client, ClientError, Value};
use bufferlab_workload::tpcc::schema::ITEMS;
use bufferlab_workload::tpcc::statements::STATEMENTS;

/// The counts of a client: of calls, and of random choices that the calls' parameters show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub lines: u64,
    pub remote_lines: u64,
    pub unused_items: u64,
    pub payments: u64,
    pub remote_payments: u64,
    pub names: u64,
    pub commits: u64,
    pub rows: u64,
    pub rollbacks: u64,
}

/// A client that answers every statement with fixed rows.
pub struct Canned {
    pub seen: Seen,
    /// The number of reads of each item; the last number is that of the item that does not exist.
    pub items: Vec<u64>,
    /// The number of New-Orders for each customer number.
    pub customers: Vec<u64>,
}

impl Default for Canned {
    fn default() -> Self {
        Canned { seen: Seen::default(), items: vec![0; ITEMS as usize + 2], customers: vec![0; 3_001] }
    }
}

/// A text as long as an engine's longest answer, so that buffers reach their final size.
const LONG_TEXT: &str = concat!(
    "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789",
    "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789",
    "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789",
    "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789",
    "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"
);

const TEN_TO_ONE: [i64; 10] = [10, 9, 8, 7, 6, 5, 4, 3, 2, 1];

impl Canned {
    fn see(&mut self, name: &str, params: [i64; 8]) {
        match name {
            "read_item" => self.items[params[0] as usize] += 1,
            "read_customer_discount" => self.customers[params[2] as usize] += 1,
            "insert_order_line" => {
                self.seen.lines += 1;
                self.seen.remote_lines += u64::from(params[2] != params[5]);
            }
            "insert_history" => {
                self.seen.payments += 1;
                self.seen.remote_payments += u64::from(params[2] != params[4]);
            }
            "list_customers_by_name" => self.seen.names += 1,
            _ => {}
        }
    }

    fn answer(batch: &mut Batch, call: usize, name: &str, columns: usize) {
        batch.begin_rows(call);
        let rows = match name {
            "list_customers_by_name" | "read_order_lines" => 10,
            _ => 1,
        };
        for row in 0..rows {
            for column in 0..columns {
                batch.push_column(canned_value(name, row, column));
            }
            batch.end_row(call);
        }
    }
}

fn canned_value(name: &'_ str, row: usize, column: usize) -> Value<'static> {
    match (name, column) {
        ("list_customers_by_name", _) => Value::Int(TEN_TO_ONE[row]),
        ("read_customer_data", _) => Value::Text(LONG_TEXT),
        // Every customer has bad credit, so that Payment takes its longest path.
        ("read_customer_payment", 10) => Value::Text("BC"),
        ("read_item", 2) => Value::Text(&LONG_TEXT[..50]),
        ("read_customer_payment", 0..=8) | ("read_item" | "read_customer_discount", 1) => Value::Text("some text"),
        ("read_customer_status", 1..) | ("read_warehouse_address" | "read_district_address", _) => {
            Value::Text("ten chars.")
        }
        (stock, 1..) if stock.starts_with("read_stock") => Value::Text("twenty-four characters. "),
        _ => Value::Int(50),
    }
}

impl Client for Canned {
    fn begin(&mut self, _read_only: bool) -> Result<(), ClientError> {
        Ok(())
    }

    fn commit(&mut self) -> Result<(), ClientError> {
        self.seen.commits += 1;
        Ok(())
    }

    fn rollback(&mut self) -> Result<(), ClientError> {
        self.seen.rollbacks += 1;
        Ok(())
    }

    fn execute(&mut self, batch: &mut Batch) -> Result<(), ClientError> {
        for call in 0..batch.len() {
            let spec = &STATEMENTS[usize::from(batch.statement(call).0)];
            let mut params = [0; 8];
            for (index, param) in params.iter_mut().enumerate().take(batch.param_count(call)) {
                if let Value::Int(int) = batch.param(call, index) {
                    *param = int;
                }
            }
            self.see(&spec.name, params);
            let unused = spec.name == "read_item" && params[0] > i64::from(ITEMS);
            if unused {
                self.seen.unused_items += 1;
                batch.begin_rows(call);
            } else if spec.columns > 0 {
                Canned::answer(batch, call, &spec.name, spec.columns);
                self.seen.rows += batch.rows(call) as u64;
            } else {
                batch.set_affected(call, if spec.name == "update_order_lines_delivery" { 10 } else { 1 });
            }
        }
        Ok(())
    }

    fn rows_returned(&self) -> u64 {
        self.seen.rows
    }
}
