//! A slow, naive database of plain maps. It executes each statement as the specification's text describes it.
//!
//! It shares only the statements' names and the schema's column names with the driver.

use std::collections::BTreeMap;
use std::sync::Arc;

use bufferlab_workload::client::{Batch, Client, ClientError, Value};
use bufferlab_workload::tpcc::TpccConfig;
use bufferlab_workload::tpcc::population::{RowBlock, generate, partitions};
use bufferlab_workload::tpcc::schema::TableId;
use bufferlab_workload::tpcc::statements::STATEMENTS;

/// A stored value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stored {
    Null,
    Int(i64),
    Text(Box<str>),
}

impl From<Value<'_>> for Stored {
    fn from(value: Value<'_>) -> Self {
        match value {
            Value::Null => Stored::Null,
            Value::Int(int) => Stored::Int(int),
            Value::Real(real) => panic!("TPC-C stores no decimal such as {real}"),
            Value::Text(text) => Stored::Text(text.into()),
        }
    }
}

impl Stored {
    pub fn int(&self) -> i64 {
        match self {
            Stored::Int(int) => *int,
            other => panic!("{other:?} is not an integer"),
        }
    }

    pub fn text(&self) -> &str {
        match self {
            Stored::Text(text) => text,
            other => panic!("{other:?} is not a text"),
        }
    }

    fn as_value(&self) -> Value<'_> {
        match self {
            Stored::Null => Value::Null,
            Stored::Int(int) => Value::Int(*int),
            Stored::Text(text) => Value::Text(text),
        }
    }
}

/// A row's key in its map: its primary key filled up with zeros, or for HISTORY a running number.
pub type Key = [i64; 4];

/// A row, in the order of the schema's columns.
pub type Row = Vec<Stored>;

/// Every row of every table, and the old rows with which an open transaction can be rolled back. A copy shares
/// unchanged rows with its original: copying a million rows of texts would take most of a test's time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Database {
    tables: BTreeMap<TableId, BTreeMap<Key, Arc<Row>>>,
    undo: Vec<(TableId, Key, Option<Arc<Row>>)>,
    open: bool,
    read_only: bool,
    /// Every call since the last `begin`: the statement and its parameters.
    pub log: Vec<(&'static str, Vec<Stored>)>,
    rows_returned: Uncompared,
}

/// A count that is not a part of the data: databases that differ only in such counts are equal.
#[derive(Clone, Copy, Debug, Default)]
struct Uncompared(u64);

impl PartialEq for Uncompared {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for Uncompared {}

/// Returns the position of a column in its table.
pub fn column(table: TableId, name: &str) -> usize {
    let found = table.columns().iter().position(|column| column.name == name);
    found.unwrap_or_else(|| panic!("{} has no column {name}", table.name()))
}

fn key_of(numbers: &[i64]) -> Key {
    let mut key = [0; 4];
    key[..numbers.len()].copy_from_slice(numbers);
    key
}

impl Database {
    /// Returns the freshly loaded database.
    pub fn load(config: &TpccConfig) -> Self {
        let mut database = Database::default();
        let mut block = RowBlock::new();
        for partition in partitions(config.warehouses()) {
            generate(&partition, config, &mut block);
            for row in 0..block.rows() {
                let values = (0..block.columns()).map(|column| block.value(row, column).into()).collect();
                database.insert(partition.table(), values);
            }
        }
        database.undo.clear();
        database
    }

    pub fn table(&self, table: TableId) -> &BTreeMap<Key, Arc<Row>> {
        &self.tables[&table]
    }

    /// Returns the rows whose key begins with the numbers of `prefix`.
    pub fn range(&self, table: TableId, prefix: &[i64]) -> impl Iterator<Item = (&Key, &Arc<Row>)> + use<'_> {
        let (mut low, mut high) = ([i64::MIN; 4], [i64::MAX; 4]);
        low[..prefix.len()].copy_from_slice(prefix);
        high[..prefix.len()].copy_from_slice(prefix);
        self.tables[&table].range(low..=high)
    }

    /// Removes a row outside of any transaction.
    pub fn remove(&mut self, table: TableId, key: &[i64]) -> Row {
        let removed = self.tables.get_mut(&table).and_then(|rows| rows.remove(&key_of(key)));
        Arc::unwrap_or_clone(removed.expect("the row to remove exists"))
    }

    /// Inserts a row outside of any transaction. No row with its key may exist.
    pub fn put(&mut self, table: TableId, key: &[i64], row: Row) {
        assert_eq!(self.tables.entry(table).or_default().insert(key_of(key), Arc::new(row)), None);
    }

    pub fn value(&self, table: TableId, key: &[i64], name: &str) -> &Stored {
        &self.tables[&table][&key_of(key)][column(table, name)]
    }

    fn insert(&mut self, table: TableId, row: Row) {
        let rows = self.tables.entry(table).or_default();
        let key = match table.key_columns() {
            0 => [rows.len() as i64, 0, 0, 0],
            columns => key_of(&row[..columns].iter().map(Stored::int).collect::<Vec<_>>()),
        };
        let before = rows.insert(key, Arc::new(row));
        assert!(before.is_none(), "{} holds {key:?} twice", table.name());
        self.undo.push((table, key, None));
    }

    /// Inserts a row from names and values of columns; the other columns are NULL.
    fn insert_named(&mut self, table: TableId, values: &[(&str, Stored)]) {
        let mut row = vec![Stored::Null; table.columns().len()];
        for (name, value) in values {
            row[column(table, name)] = value.clone();
        }
        self.insert(table, row);
    }

    /// Changes the row with this key. Returns false if it does not exist.
    fn update(&mut self, table: TableId, key: Key, change: impl Fn(&mut Row)) -> bool {
        let Some(row) = self.tables.get_mut(&table).and_then(|rows| rows.get_mut(&key)) else { return false };
        self.undo.push((table, key, Some(row.clone())));
        change(Arc::make_mut(row));
        true
    }

    fn delete(&mut self, table: TableId, key: Key) -> bool {
        let removed = self.tables.get_mut(&table).and_then(|rows| rows.remove(&key));
        let found = removed.is_some();
        if found {
            self.undo.push((table, key, removed));
        }
        found
    }

    fn take_back(&mut self) {
        while let Some((table, key, before)) = self.undo.pop() {
            let rows = self.tables.entry(table).or_default();
            match before {
                Some(row) => rows.insert(key, row),
                None => rows.remove(&key),
            };
        }
    }
}

/// A statement's answer: rows of values, or the number of rows that the statement wrote.
enum Answer {
    Rows(Vec<Row>),
    Wrote(u64),
}

impl Database {
    /// Returns the named columns of the row with this key.
    fn select(&self, table: TableId, key: Key, names: &[&str]) -> Answer {
        let row = self.tables[&table].get(&key);
        Answer::Rows(
            row.map(|row| names.iter().map(|name| row[column(table, name)].clone()).collect()).into_iter().collect(),
        )
    }

    fn add(&mut self, table: TableId, key: Key, changes: &[(&str, i64)]) -> Answer {
        Answer::Wrote(u64::from(self.update(table, key, |row| {
            for (name, amount) in changes {
                let place = column(table, name);
                row[place] = Stored::Int(row[place].int() + amount);
            }
        })))
    }

    fn answer(&mut self, name: &'static str, p: &[Stored]) -> Answer {
        use TableId::{Customer, District, History, Item, NewOrder, OrderLine, Orders, Stock, Warehouse};
        let int = |index: usize| p[index].int();
        let key = |first: usize| key_of(&p[first..].iter().map(Stored::int).collect::<Vec<_>>());
        let pick = |index: usize| p[index].clone();
        match name {
            "read_warehouse_tax" => self.select(Warehouse, key(0), &["w_tax"]),
            "read_district_order" => self.select(District, key(0), &["d_next_o_id", "d_tax"]),
            "increment_district_order" => self.add(District, key(0), &[("d_next_o_id", 1)]),
            "read_customer_discount" => self.select(Customer, key(0), &["c_discount", "c_last", "c_credit"]),
            "insert_order" => {
                let names = ["o_id", "o_d_id", "o_w_id", "o_c_id", "o_entry_d", "o_ol_cnt", "o_all_local"];
                self.insert_named(Orders, &names.into_iter().zip(p.iter().cloned()).collect::<Vec<_>>());
                Answer::Wrote(1)
            }
            "insert_new_order" => {
                self.insert_named(NewOrder, &[("no_o_id", pick(0)), ("no_d_id", pick(1)), ("no_w_id", pick(2))]);
                Answer::Wrote(1)
            }
            "read_item" => self.select(Item, key(0), &["i_price", "i_name", "i_data"]),
            "update_stock" => {
                let place = key(4);
                let quantity = pick(0);
                self.add(Stock, place, &[("s_ytd", int(1)), ("s_order_cnt", int(2)), ("s_remote_cnt", int(3))]);
                let set = column(Stock, "s_quantity");
                Answer::Wrote(u64::from(self.update(Stock, place, |row| row[set] = quantity.clone())))
            }
            "insert_order_line" => {
                let names = [
                    "ol_o_id",
                    "ol_d_id",
                    "ol_w_id",
                    "ol_number",
                    "ol_i_id",
                    "ol_supply_w_id",
                    "ol_quantity",
                    "ol_amount",
                    "ol_dist_info",
                ];
                self.insert_named(OrderLine, &names.into_iter().zip(p.iter().cloned()).collect::<Vec<_>>());
                Answer::Wrote(1)
            }
            "update_warehouse_ytd" => self.add(Warehouse, key(1), &[("w_ytd", int(0))]),
            "read_warehouse_address" => {
                self.select(Warehouse, key(0), &["w_name", "w_street_1", "w_street_2", "w_city", "w_state", "w_zip"])
            }
            "update_district_ytd" => self.add(District, key(1), &[("d_ytd", int(0))]),
            "read_district_address" => {
                self.select(District, key(0), &["d_name", "d_street_1", "d_street_2", "d_city", "d_state", "d_zip"])
            }
            "list_customers_by_name" => Answer::Rows(
                self.customers_named(int(0), int(1), p[2].text()).into_iter().map(|id| vec![Stored::Int(id)]).collect(),
            ),
            "read_customer_payment" => self.select(
                Customer,
                key(0),
                &[
                    "c_first",
                    "c_middle",
                    "c_last",
                    "c_street_1",
                    "c_street_2",
                    "c_city",
                    "c_state",
                    "c_zip",
                    "c_phone",
                    "c_since",
                    "c_credit",
                    "c_credit_lim",
                    "c_discount",
                    "c_balance",
                ],
            ),
            "update_customer_payment" => self.pay(key(2), int(0), int(1)),
            "read_customer_data" => self.select(Customer, key(0), &["c_data"]),
            "update_customer_payment_data" => {
                let place = key(3);
                self.pay(place, int(0), int(1));
                let (set, data) = (column(Customer, "c_data"), pick(2));
                Answer::Wrote(u64::from(self.update(Customer, place, |row| row[set] = data.clone())))
            }
            "insert_history" => {
                let names = ["h_c_id", "h_c_d_id", "h_c_w_id", "h_d_id", "h_w_id", "h_date", "h_amount", "h_data"];
                self.insert_named(History, &names.into_iter().zip(p.iter().cloned()).collect::<Vec<_>>());
                Answer::Wrote(1)
            }
            "read_customer_status" => self.select(Customer, key(0), &["c_balance", "c_first", "c_middle", "c_last"]),
            "read_last_order" => {
                let customer = column(Orders, "o_c_id");
                let last = self.range(Orders, &[int(0), int(1)]).filter(|(_, row)| row[customer] == p[2]).last();
                match last.map(|(key, _)| *key) {
                    Some(found) => self.select(Orders, found, &["o_id", "o_entry_d", "o_carrier_id"]),
                    None => Answer::Rows(Vec::new()),
                }
            }
            "read_order_lines" => {
                let names = ["ol_i_id", "ol_supply_w_id", "ol_quantity", "ol_amount", "ol_delivery_d"];
                let places = names.map(|name| column(OrderLine, name));
                let lines = self.range(OrderLine, &[int(0), int(1), int(2)]);
                Answer::Rows(lines.map(|(_, row)| places.iter().map(|&place| row[place].clone()).collect()).collect())
            }
            "read_oldest_new_order" => {
                let oldest = self.range(NewOrder, &[int(0), int(1)]).next();
                Answer::Rows(oldest.map(|(key, _)| vec![Stored::Int(key[2])]).into_iter().collect())
            }
            "delete_new_order" => Answer::Wrote(u64::from(self.delete(NewOrder, key(0)))),
            "read_order_customer" => self.select(Orders, key(0), &["o_c_id"]),
            "update_order_carrier" => {
                let (set, carrier) = (column(Orders, "o_carrier_id"), pick(0));
                Answer::Wrote(u64::from(self.update(Orders, key(1), |row| row[set] = carrier.clone())))
            }
            "update_order_lines_delivery" => {
                let (set, date) = (column(OrderLine, "ol_delivery_d"), pick(0));
                let lines: Vec<Key> = self.range(OrderLine, &[int(1), int(2), int(3)]).map(|(key, _)| *key).collect();
                for &line in &lines {
                    self.update(OrderLine, line, |row| row[set] = date.clone());
                }
                Answer::Wrote(lines.len() as u64)
            }
            "sum_order_lines" => {
                let amount = column(OrderLine, "ol_amount");
                let lines = self.range(OrderLine, &[int(0), int(1), int(2)]);
                Answer::Rows(vec![vec![Stored::Int(lines.map(|(_, row)| row[amount].int()).sum())]])
            }
            "update_customer_delivery" => self.add(Customer, key(1), &[("c_balance", int(0)), ("c_delivery_cnt", 1)]),
            "read_district_next_order" => self.select(District, key(0), &["d_next_o_id"]),
            "count_low_stock" => {
                let item = column(OrderLine, "ol_i_id");
                let mut items: Vec<i64> = (int(3)..int(4))
                    .flat_map(|order| self.range(OrderLine, &[int(1), int(2), order]))
                    .map(|(_, row)| row[item].int())
                    .filter(|&item| self.value(Stock, &[int(0), item], "s_quantity").int() < int(5))
                    .collect();
                items.sort_unstable();
                items.dedup();
                Answer::Rows(vec![vec![Stored::Int(items.len() as i64)]])
            }
            _ => match name.strip_prefix("read_stock_") {
                Some(district) => self.select(Stock, key(0), &["s_quantity", &format!("s_dist_{district}"), "s_data"]),
                None => panic!("the model does not know {name}"),
            },
        }
    }

    fn pay(&mut self, customer: Key, from_balance: i64, to_payments: i64) -> Answer {
        let changes = [("c_balance", -from_balance), ("c_ytd_payment", to_payments), ("c_payment_cnt", 1)];
        self.add(TableId::Customer, customer, &changes)
    }

    /// Returns the numbers of the customers with this last name, ordered by first name, then by number.
    pub fn customers_named(&self, warehouse: i64, district: i64, last: &str) -> Vec<i64> {
        let places = ["c_last", "c_first"].map(|name| column(TableId::Customer, name));
        let mut found: Vec<(&str, i64)> = self
            .range(TableId::Customer, &[warehouse, district])
            .filter(|(_, row)| row[places[0]].text() == last)
            .map(|(key, row)| (row[places[1]].text(), key[2]))
            .collect();
        found.sort_unstable();
        found.into_iter().map(|(_, id)| id).collect()
    }
}

impl Client for Database {
    fn begin(&mut self, read_only: bool) -> Result<(), ClientError> {
        assert!(!self.open, "a transaction was begun within another");
        (self.open, self.read_only) = (true, read_only);
        self.undo.clear();
        self.log.clear();
        Ok(())
    }

    fn commit(&mut self) -> Result<(), ClientError> {
        assert!(self.open, "nothing is open to be committed");
        assert!(!self.read_only || self.undo.is_empty(), "a read-only transaction wrote");
        self.open = false;
        self.undo.clear();
        Ok(())
    }

    fn rollback(&mut self) -> Result<(), ClientError> {
        assert!(self.open, "nothing is open to be rolled back");
        self.open = false;
        self.take_back();
        Ok(())
    }

    fn execute(&mut self, batch: &mut Batch) -> Result<(), ClientError> {
        assert!(self.open, "statements are executed within transactions");
        for call in 0..batch.len() {
            let spec = &STATEMENTS[usize::from(batch.statement(call).0)];
            let params: Vec<Stored> =
                (0..batch.param_count(call)).map(|index| batch.param(call, index).into()).collect();
            assert_eq!(params.len(), spec.parameters, "{} takes other parameters", spec.name);
            match self.answer(&spec.name, &params) {
                Answer::Wrote(rows) => batch.set_affected(call, rows),
                Answer::Rows(rows) => {
                    batch.begin_rows(call);
                    self.rows_returned.0 += rows.len() as u64;
                    for row in &rows {
                        assert_eq!(row.len(), spec.columns, "{} gives other columns", spec.name);
                        row.iter().for_each(|value| batch.push_column(value.as_value()));
                        batch.end_row(call);
                    }
                }
            }
            self.log.push((&spec.name, params));
        }
        Ok(())
    }

    fn rows_returned(&self) -> u64 {
        self.rows_returned.0
    }
}
