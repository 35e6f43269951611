//! A client without rows: it gives the drivers of TPC-C and hot_rows the answers that they need, and turns each
//! statement into operations of an engine.
//!
//! For TPC-C it keeps the facts on which answers depend. They are each district's next order and oldest undelivered
//! order, and each order's customer, lines and items. Texts, money and quantities are always the same, because no page
//! depends on them.

use std::collections::HashMap;
use std::ops::Range;

use bufferlab_workload::client::{Batch, Client, ClientError, StatementId, Value};
use bufferlab_workload::hot_rows::STATEMENTS;
use bufferlab_workload::tpcc::schema::{DISTRICTS, ITEMS, ORDERS};
use bufferlab_workload::tpcc::statements as s;

use crate::engine::{Engine, Purpose, Relation, Row, Span, line_key};
use crate::loaded::{District, Loaded, UNDELIVERED};
use crate::pools::Pools;

/// The text that the client returns for every text that the driver reads.
const TEXT: &str = "TEXT";
/// The number of orders that Stock-Level reads.
const RECENT: usize = 20;
/// The number of orders whose items are kept: one more than Stock-Level reads, because an order that rolls back must
/// not replace the oldest of these.
const KEPT: usize = RECENT + 1;

/// The run's changes in one district.
#[derive(Debug)]
struct Changes {
    oldest_new: u32,
    /// Customer and lines of each order since the load.
    orders: Vec<(u16, u8)>,
    /// Items of the latest orders, by the order's number modulo [`KEPT`]. The list is empty until the run's first
    /// order.
    items: Vec<Vec<u32>>,
}

impl Changes {
    fn next_order(&self) -> u32 {
        ORDERS + 1 + self.orders.len() as u32
    }
}

/// The effects of the open transaction that a rollback has to undo.
#[derive(Debug, Default)]
struct Open {
    order: Option<(u32, Option<u32>)>,
    delivered: Vec<u32>,
}

/// The client. `engine` gets each statement, and touches the pages of `pools`.
pub struct RowlessClient {
    /// The engine whose pages the client's statements touch.
    pub engine: Box<dyn Engine>,
    /// The pools that get the engine's page accesses. All accesses are of pages of the engine's objects.
    pub pools: Pools,
    /// The database of TPC-C; none for hot_rows, where each statement is a transaction.
    pub(crate) loaded: Option<Loaded>,
    districts: Vec<Changes>,
    /// The last order of each customer who gave one since the load.
    last_orders: HashMap<(u32, u16), u32>,
    open: Open,
    /// The lines of orders that Stock-Level reads, and the stock of each line's item.
    recent: Vec<(Span, Vec<Row>)>,
    rows: u64,
}

/// The effect of a statement on a row.
#[derive(Clone, Copy)]
enum Does {
    /// The statement reads columns, each given by a letter: `i` any number, `t` any text, `n` a district's next order,
    /// `c` an order's customer, `b` whether a customer has bad credit.
    Read(Purpose, &'static str),
    /// The statement updates the row.
    Update,
    /// The statement updates a customer, and its third parameter is the new text of the customer's data.
    Note,
}

/// Returns the plan of a statement that reads or updates one row by its primary key: the table, the place of the key's
/// first parameter, and the operation.
fn plan(statement: StatementId) -> Option<(Relation, usize, Does)> {
    use Does::{Note, Read, Update};
    use Purpose::{Change, Look};
    use Relation::{Customer, District, Item, Orders, Stock, Warehouse};
    Some(match statement {
        s::READ_WAREHOUSE_TAX => (Warehouse, 0, Read(Look, "i")),
        s::READ_WAREHOUSE_ADDRESS => (Warehouse, 0, Read(Look, "tttttt")),
        s::READ_DISTRICT_ORDER => (District, 0, Read(Change, "ni")),
        s::READ_DISTRICT_ADDRESS => (District, 0, Read(Look, "ttttttt")),
        s::READ_DISTRICT_NEXT_ORDER => (District, 0, Read(Look, "n")),
        s::READ_CUSTOMER_DISCOUNT => (Customer, 0, Read(Look, "itt")),
        s::READ_CUSTOMER_STATUS => (Customer, 0, Read(Look, "ittt")),
        s::READ_CUSTOMER_PAYMENT => (Customer, 0, Read(Change, "tttttttttibiii")),
        s::READ_CUSTOMER_DATA => (Customer, 0, Read(Change, "t")),
        s::READ_ITEM => (Item, 0, Read(Look, "itt")),
        stock if (s::READ_STOCK_01.0..=s::READ_STOCK_10.0).contains(&stock.0) => (Stock, 0, Read(Change, "itt")),
        s::READ_ORDER_CUSTOMER => (Orders, 0, Read(Change, "c")),
        s::INCREMENT_DISTRICT_ORDER => (District, 0, Update),
        s::UPDATE_WAREHOUSE_YTD => (Warehouse, 1, Update),
        s::UPDATE_DISTRICT_YTD => (District, 1, Update),
        s::UPDATE_STOCK => (Stock, 4, Update),
        s::UPDATE_CUSTOMER_PAYMENT => (Customer, 2, Update),
        s::UPDATE_CUSTOMER_PAYMENT_DATA => (Customer, 3, Note),
        s::UPDATE_CUSTOMER_DELIVERY => (Customer, 1, Update),
        s::UPDATE_ORDER_CARRIER => (Orders, 1, Update),
        _ => return None,
    })
}

impl RowlessClient {
    /// Makes a client of a loaded database, or of the table of hot_rows.
    pub fn new(engine: Box<dyn Engine>, pools: Pools, loaded: Option<Loaded>) -> Self {
        let changes = || Changes { oldest_new: UNDELIVERED.start, orders: vec![], items: vec![] };
        RowlessClient {
            engine,
            pools,
            districts: (0..loaded.as_ref().map_or(0, Loaded::districts)).map(|_| changes()).collect(),
            loaded,
            last_orders: HashMap::new(),
            open: Open::default(),
            recent: vec![(Span::lines(0, 0, 0), Vec::new()); RECENT],
            rows: 0,
        }
    }

    fn district(&self, district: u32) -> &District {
        self.loaded.as_ref().expect("only statements of TPC-C ask for districts").district(district)
    }

    /// Returns the customer and the number of lines of an order.
    fn order(&self, district: u32, order: u32) -> (u32, u32) {
        if order <= ORDERS {
            let loaded = self.district(district);
            return (loaded.customer_of(order), loaded.lines_of(order));
        }
        let (customer, lines) = self.districts[district as usize].orders[(order - ORDERS - 1) as usize];
        (customer.into(), lines.into())
    }

    fn last_order(&self, district: u32, customer: u32) -> u32 {
        let since = self.last_orders.get(&(district, customer as u16));
        since.copied().unwrap_or_else(|| self.district(district).order_of(customer))
    }

    /// Executes one call: reads and updates by key, searches, and other writes.
    fn call(&mut self, batch: &mut Batch, call: usize) -> Result<(), ClientError> {
        let statement = batch.statement(call);
        if let Some((of, first, does)) = plan(statement) {
            let row = self.row(batch, call, of, first);
            match does {
                Does::Read(purpose, columns) => self.read(batch, call, row, purpose, columns),
                does => self.update(batch, call, row, does),
            }
            return Ok(());
        }
        if self.search(batch, call, statement) || self.write(batch, call, statement) {
            return Ok(());
        }
        let (statement, message) = (s::spec(statement).name.to_string(), "the generator does not know it".to_owned());
        Err(ClientError::Statement { statement, message })
    }

    /// Executes a call of hot_rows. A statement that returns columns reads; its last parameter is the id.
    fn call_of_rows(&mut self, batch: &mut Batch, call: usize) {
        let row = Row::new(Relation::HotRows, 0, number(batch, call, batch.param_count(call) - 1));
        debug_assert!(row.key > 0, "ids are counted from one");
        self.engine.begin(&mut self.pools);
        if STATEMENTS[usize::from(batch.statement(call).0)].columns > 0 {
            self.engine.read(&mut self.pools, row, Purpose::Look);
            return self.answer(batch, call, 1, &[Value::Text(TEXT)]);
        }
        self.engine.update(&mut self.pools, row, 0);
        self.engine.commit(&mut self.pools);
        batch.set_affected(call, 1);
    }

    /// Returns the row whose key is in the call's parameters from `first` on.
    fn row(&self, batch: &Batch, call: usize, of: Relation, first: usize) -> Row {
        let key = |index: usize| number(batch, call, first + index);
        match of {
            Relation::Warehouse => Row::new(of, 0, key(0) - 1),
            Relation::Item => Row::new(of, 0, key(0)),
            Relation::Stock => Row::new(of, key(0) - 1, key(1)),
            Relation::District => Row::new(of, 0, district_of(key(0), key(1))),
            Relation::Orders => {
                let (district, order) = (district_of(key(0), key(1)), key(2));
                Row::order(district, order, self.order(district, order).0)
            }
            _ => Row::new(of, district_of(key(0), key(1)), key(2)),
        }
    }

    fn read(&mut self, batch: &mut Batch, call: usize, row: Row, purpose: Purpose, columns: &str) {
        self.engine.read(&mut self.pools, row, purpose);
        batch.begin_rows(call);
        if row.of == Relation::Item && row.key > ITEMS {
            return;
        }
        self.rows += 1;
        for column in columns.bytes() {
            batch.push_column(match column {
                b'n' => self.districts[row.key as usize].next_order().into(),
                b'c' => self.order(row.group, row.key).0.into(),
                b'b' if self.district(row.group).has_bad_credit(row.key) => Value::Text("BC"),
                b'b' => Value::Text("GC"),
                b't' => Value::Text(TEXT),
                _ => Value::Int(50),
            });
        }
        batch.end_row(call);
    }

    fn update(&mut self, batch: &mut Batch, call: usize, row: Row, does: Does) {
        let note = if let Does::Note = does { text(batch, call, 2).len() - TEXT.len() } else { 0 };
        self.engine.update(&mut self.pools, row, note as u32);
        batch.set_affected(call, 1);
    }

    /// Executes a search by something else than a primary key, or for several rows; returns whether the statement is
    /// such a search.
    fn search(&mut self, batch: &mut Batch, call: usize, statement: StatementId) -> bool {
        let key = |index: usize| number(batch, call, index);
        let district = || district_of(key(0), key(1));
        match statement {
            s::LIST_CUSTOMERS_BY_NAME => {
                let district = district();
                let name = self.loaded.as_ref().and_then(|loaded| loaded.name(text(batch, call, 2)));
                let places = self.district(district).places_of(name.unwrap_or_default());
                let first = Row::new(Relation::ByName, district, places.start);
                let span = Span { first, rows: places.len() as u32, most: places.end - 1 };
                self.engine.scan(&mut self.pools, span);
                batch.begin_rows(call);
                for place in places {
                    batch.push_column(self.district(district).customer_at(place).into());
                    batch.end_row(call);
                    self.rows += 1;
                }
            }
            s::READ_LAST_ORDER => {
                let (district, customer) = (district(), key(2));
                let order = self.last_order(district, customer);
                self.engine.read_last(&mut self.pools, Row::order(district, order, customer));
                self.answer(batch, call, 1, &[order.into(), Value::Int(0), Value::Null]);
            }
            s::READ_ORDER_LINES | s::SUM_ORDER_LINES => {
                let (district, order) = (district(), key(2));
                let (_, lines) = self.order(district, order);
                self.engine.scan(&mut self.pools, Span::lines(district, order, lines));
                let rows = if statement == s::SUM_ORDER_LINES { 1 } else { lines };
                self.answer(batch, call, rows, &[Value::Int(1); 5][..s::spec(statement).columns]);
            }
            s::READ_OLDEST_NEW_ORDER => {
                let district = district();
                let changes = &self.districts[district as usize];
                let oldest = (changes.oldest_new < changes.next_order()).then_some(changes.oldest_new);
                self.engine.read_first(&mut self.pools, Relation::NewOrder, district, oldest);
                self.answer(batch, call, oldest.is_some().into(), &[oldest.unwrap_or_default().into()]);
            }
            s::COUNT_LOW_STOCK => {
                let (district, first, end) = (district_of(key(1), key(2)), key(3), key(4));
                self.find_items(district, key(0) - 1, first..end);
                self.engine.join(&mut self.pools, &self.recent[..(end - first) as usize]);
                self.answer(batch, call, 1, &[Value::Int(0)]);
            }
            _ => return false,
        }
        true
    }

    fn answer(&mut self, batch: &mut Batch, call: usize, rows: u32, columns: &[Value<'_>]) {
        batch.begin_rows(call);
        for _ in 0..rows {
            columns.iter().for_each(|&column| batch.push_column(column));
            batch.end_row(call);
        }
        self.rows += u64::from(rows);
    }

    /// Executes a write for which [`plan`] has no plan; returns whether the statement is such a write.
    fn write(&mut self, batch: &mut Batch, call: usize, statement: StatementId) -> bool {
        let key = |index: usize| number(batch, call, index);
        let district = |first: usize| district_of(key(first), key(first + 1));
        let pools = &mut self.pools;
        let mut affected = 1;
        match statement {
            s::UPDATE_ORDER_LINES_DELIVERY => {
                let (district, order) = (district(1), key(3));
                let (_, lines) = self.order(district, order);
                self.engine.update_all(&mut self.pools, Span::lines(district, order, lines));
                affected = lines;
            }
            s::DELETE_NEW_ORDER => {
                let (district, order) = (district(0), key(2));
                let changes = &mut self.districts[district as usize];
                debug_assert_eq!(order, changes.oldest_new, "the oldest order of {district} is delivered first");
                debug_assert!(order < changes.next_order(), "{district} delivers an order that nobody gave");
                changes.oldest_new = order + 1;
                self.open.delivered.push(district);
                self.engine.delete(pools, Row::new(Relation::NewOrder, district, order));
            }
            s::INSERT_HISTORY => self.engine.insert(pools, Row::new(Relation::History, 0, 0)),
            s::INSERT_ORDER => self.insert_order(district_of(key(2), key(1)), key(0), key(3), key(5)),
            s::INSERT_NEW_ORDER => {
                self.engine.insert(pools, Row::new(Relation::NewOrder, district_of(key(2), key(1)), key(0)));
            }
            s::INSERT_ORDER_LINE => {
                let (district, order, item) = (district_of(key(2), key(1)), key(0), key(4));
                self.engine.insert(pools, Row::new(Relation::OrderLine, district, line_key(order, key(3))));
                self.districts[district as usize].items[order as usize % KEPT].push(item);
            }
            _ => return false,
        }
        batch.set_affected(call, affected.into());
        true
    }

    fn insert_order(&mut self, district: u32, order: u32, customer: u32, lines: u32) {
        let changes = &mut self.districts[district as usize];
        debug_assert_eq!(order, changes.next_order(), "orders of district {district} have a gap");
        changes.orders.push((customer as u16, lines as u8));
        debug_assert!(self.open.order.is_none(), "a transaction enters a second order");
        if changes.items.is_empty() {
            changes.items = vec![Vec::new(); KEPT];
        }
        changes.items[order as usize % KEPT].clear();
        let before = self.last_orders.insert((district, customer as u16), order);
        self.open.order = Some((district, before));
        if order > self.engine.most_orders() {
            return self.pools.fill();
        }
        self.engine.insert(&mut self.pools, Row::order(district, order, customer));
    }

    /// Finds the lines of some orders and the stock of their items. For loaded orders it draws items at random, as the
    /// load does.
    fn find_items(&mut self, district: u32, warehouse: u32, orders: Range<u32>) {
        let Some(loaded) = &self.loaded else { return };
        let stock = |item| Row::new(Relation::Stock, warehouse, item);
        for (order, (span, joined)) in orders.zip(&mut self.recent) {
            joined.clear();
            if order > ORDERS {
                let items = &self.districts[district as usize].items[order as usize % KEPT];
                joined.extend(items.iter().map(|&item| stock(item)));
            } else {
                let lines = loaded.district(district).lines_of(order);
                joined.extend((0..lines).map(|line| stock(some_item(district, order, line))));
            }
            *span = Span::lines(district, order, joined.len() as u32);
        }
    }
}

impl Client for RowlessClient {
    fn begin(&mut self, _read_only: bool) -> Result<(), ClientError> {
        self.open.order = None;
        self.open.delivered.clear();
        self.engine.begin(&mut self.pools);
        Ok(())
    }

    fn commit(&mut self) -> Result<(), ClientError> {
        self.engine.commit(&mut self.pools);
        Ok(())
    }

    /// Only New-Order rolls back: its order is the last of the district.
    fn rollback(&mut self) -> Result<(), ClientError> {
        self.engine.rollback(&mut self.pools);
        if let Some((district, before)) = self.open.order.take()
            && let Some((customer, _)) = self.districts[district as usize].orders.pop()
        {
            match before {
                Some(order) => self.last_orders.insert((district, customer), order),
                None => self.last_orders.remove(&(district, customer)),
            };
        }
        self.open.delivered.drain(..).for_each(|district| self.districts[district as usize].oldest_new -= 1);
        Ok(())
    }

    fn execute(&mut self, batch: &mut Batch) -> Result<(), ClientError> {
        if self.loaded.is_some() {
            return (0..batch.len()).try_for_each(|call| self.call(batch, call));
        }
        (0..batch.len()).for_each(|call| self.call_of_rows(batch, call));
        Ok(())
    }

    fn rows_returned(&self) -> u64 {
        self.rows
    }
}

/// Returns a district's number over all warehouses, counted from zero.
fn district_of(warehouse: u32, district: u32) -> u32 {
    debug_assert!(warehouse > 0, "warehouses are counted from one");
    debug_assert!((1..=DISTRICTS).contains(&district), "a warehouse has no district {district}");
    (warehouse - 1) * DISTRICTS + district - 1
}

/// Returns an item that the load may have drawn for a line; each item is equally likely.
fn some_item(district: u32, order: u32, line: u32) -> u32 {
    let mut hash = (u64::from(district) << 32 | u64::from(order) << 4 | u64::from(line)).wrapping_add(1);
    for factor in [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb] {
        hash = (hash ^ (hash >> 29)).wrapping_mul(factor);
    }
    ((hash >> 32) % u64::from(ITEMS)) as u32 + 1
}

/// Returns a parameter that is a key.
fn number(batch: &Batch, call: usize, index: usize) -> u32 {
    match batch.param(call, index) {
        Value::Int(number) => number as u32,
        _ => 0,
    }
}

/// Returns a parameter that is a text.
fn text(batch: &Batch, call: usize, index: usize) -> &str {
    match batch.param(call, index) {
        Value::Text(text) => text,
        _ => "",
    }
}
