//! A client without rows: it answers what the driver of TPC-C needs, and tells the engine what each statement wants.
//!
//! It keeps what answers depend on: the next order of each district, who gave it, its lines and items, and the oldest
//! order that is not delivered. Texts, money and quantities are always the same; no page depends on them.

use std::collections::HashMap;

use bufferlab_workload::client::{Batch, Client, ClientError, StatementId, Value};
use bufferlab_workload::tpcc::schema::{DISTRICTS, ITEMS, ORDERS};
use bufferlab_workload::tpcc::statements as s;

use crate::engine::{Engine, Purpose, Row};
use crate::loaded::{Loaded, UNDELIVERED};
use crate::pools::{Objects, Paging, Pools};

/// Every text that the driver reads.
const TEXT: &str = "TEXT";
/// Orders that Stock-Level looks at.
const RECENT: usize = 20;
/// Orders whose items are kept: one that rolls back must not replace the oldest that Stock-Level looks at.
const KEPT: usize = RECENT + 1;

/// What the run changed in one district.
#[derive(Debug)]
struct Changes {
    next_order: u32,
    oldest_new: u32,
    /// Customer and lines of each order since the load.
    orders: Vec<(u16, u8)>,
    /// Items of the latest orders, by the order's number modulo [`KEPT`]; empty before the first is asked for.
    items: Vec<Vec<u32>>,
}

/// The open transaction, for its rollback.
#[derive(Debug, Default)]
struct Open {
    order: Option<(u32, Option<u32>)>,
    delivered: Vec<u32>,
    incremented: Option<u32>,
}

/// The client. `engine` is told of each statement, and touches the pages of `pools`.
pub struct Ghost<E> {
    /// The engine.
    pub engine: E,
    /// The listeners.
    pub pools: Pools,
    loaded: Loaded,
    districts: Vec<Changes>,
    /// The last order of a customer who gave one since the load.
    last_orders: HashMap<(u32, u16), u32>,
    open: Open,
    asked_items: Vec<Vec<u32>>,
    rows: u64,
}

impl<E: Engine> Ghost<E> {
    /// Makes a client of a loaded database.
    pub fn new(engine: E, pools: Pools, loaded: Loaded) -> Self {
        let changes =
            || Changes { next_order: ORDERS + 1, oldest_new: UNDELIVERED.start, orders: vec![], items: vec![] };
        Ghost {
            engine,
            pools,
            districts: (0..loaded.districts()).map(|_| changes()).collect(),
            loaded,
            last_orders: HashMap::new(),
            open: Open::default(),
            asked_items: vec![Vec::new(); RECENT],
            rows: 0,
        }
    }

    /// Returns customer and lines of an order.
    fn order(&self, district: u32, order: u32) -> (u32, u32) {
        if order <= ORDERS {
            let loaded = self.loaded.district(district);
            return (loaded.customer_of(order), loaded.lines_of(order));
        }
        let (customer, lines) = self.districts[district as usize].orders[(order - ORDERS - 1) as usize];
        (customer.into(), lines.into())
    }

    fn last_order(&self, district: u32, customer: u32) -> u32 {
        let since = self.last_orders.get(&(district, customer as u16));
        since.copied().unwrap_or_else(|| self.loaded.district(district).order_of(customer))
    }

    /// Executes one call: reads by key, writes by key, and the searches.
    fn call(&mut self, batch: &mut Batch, call: usize) -> Result<(), ClientError> {
        let statement = batch.statement(call);
        let answered = self.read(batch, call, statement) || self.search(batch, call, statement);
        if answered || self.write(batch, call, statement) {
            return Ok(());
        }
        let spec = s::spec(statement);
        let message = "the generator does not know it".to_owned();
        Err(ClientError::Statement { statement: spec.name.to_string(), message })
    }

    /// Reads one row by its primary key; returns whether the statement does that.
    fn read(&mut self, batch: &mut Batch, call: usize, statement: StatementId) -> bool {
        let key = |index: usize| number(batch, call, index);
        let district = || district_of(key(0), key(1));
        let (row, purpose) = match statement {
            s::READ_WAREHOUSE_TAX | s::READ_WAREHOUSE_ADDRESS => (Row::Warehouse(key(0)), Purpose::Look),
            s::READ_DISTRICT_ORDER => (Row::District(district()), Purpose::Change),
            s::READ_DISTRICT_ADDRESS | s::READ_DISTRICT_NEXT_ORDER => (Row::District(district()), Purpose::Look),
            s::READ_CUSTOMER_DISCOUNT | s::READ_CUSTOMER_STATUS => (Row::Customer(district(), key(2)), Purpose::Look),
            s::READ_CUSTOMER_PAYMENT | s::READ_CUSTOMER_DATA => (Row::Customer(district(), key(2)), Purpose::Change),
            s::READ_ITEM => (Row::Item(key(0)), Purpose::Look),
            stock if (s::READ_STOCK_01.0..=s::READ_STOCK_10.0).contains(&stock.0) => {
                (Row::Stock(key(0), key(1)), Purpose::Change)
            }
            s::READ_ORDER_CUSTOMER => {
                let (district, order) = (district(), key(2));
                let (customer, _) = self.order(district, order);
                (Row::Order { district, order, customer }, Purpose::Change)
            }
            _ => return false,
        };
        self.engine.read(&mut self.pools, row, purpose);
        if row == Row::Item(ITEMS + 1) {
            batch.begin_rows(call);
            return true;
        }
        let credit = match row {
            Row::Customer(district, customer) if self.loaded.district(district).has_bad_credit(customer) => "BC",
            _ => "GC",
        };
        self.rows += 1;
        batch.begin_rows(call);
        for column in 0..s::spec(statement).columns {
            let value = match (statement, column) {
                (s::READ_DISTRICT_ORDER | s::READ_DISTRICT_NEXT_ORDER, 0) => {
                    let Row::District(district) = row else { unreachable!("it reads a district") };
                    self.districts[district as usize].next_order.into()
                }
                (s::READ_ORDER_CUSTOMER, _) => {
                    let Row::Order { customer, .. } = row else { unreachable!("it reads an order") };
                    customer.into()
                }
                (s::READ_CUSTOMER_PAYMENT, 10) => Value::Text(credit),
                _ if is_text(statement, column) => Value::Text(TEXT),
                _ => Value::Int(50),
            };
            batch.push_column(value);
        }
        batch.end_row(call);
        true
    }

    /// Searches by something else than a primary key, or for several rows; returns whether the statement does that.
    fn search(&mut self, batch: &mut Batch, call: usize, statement: StatementId) -> bool {
        let key = |index: usize| number(batch, call, index);
        let district = || district_of(key(0), key(1));
        match statement {
            s::LIST_CUSTOMERS_BY_NAME => {
                let name = match batch.param(call, 2) {
                    Value::Text(text) => self.loaded.name(text).unwrap_or_default(),
                    _ => 0,
                };
                let district = district();
                let places = self.loaded.district(district).places_of(name);
                self.engine.read_names(&mut self.pools, district, places.clone());
                batch.begin_rows(call);
                for place in places {
                    batch.push_column(self.loaded.district(district).customer_at(place).into());
                    batch.end_row(call);
                    self.rows += 1;
                }
            }
            s::READ_LAST_ORDER => {
                let (district, customer) = (district(), key(2));
                let order = self.last_order(district, customer);
                self.engine.read_last_order(&mut self.pools, district, customer, order);
                self.answer(batch, call, 1, &[order.into(), Value::Int(0), Value::Null]);
            }
            s::READ_ORDER_LINES | s::SUM_ORDER_LINES => {
                let (district, order) = (district(), key(2));
                let (_, lines) = self.order(district, order);
                self.engine.read_lines(&mut self.pools, district, order, lines);
                let rows = if statement == s::SUM_ORDER_LINES { 1 } else { lines };
                self.answer(batch, call, rows, &[Value::Int(1); 5][..s::spec(statement).columns]);
            }
            s::READ_OLDEST_NEW_ORDER => {
                let district = district();
                let Changes { oldest_new, next_order, .. } = self.districts[district as usize];
                let oldest = (oldest_new < next_order).then_some(oldest_new);
                self.engine.read_oldest(&mut self.pools, district, oldest);
                self.answer(batch, call, oldest.is_some().into(), &[oldest.unwrap_or_default().into()]);
            }
            s::COUNT_LOW_STOCK => {
                let (district, first, end) = (district_of(key(1), key(2)), key(3), key(4));
                self.find_items(district, first, end);
                let items = &self.asked_items[..(end - first) as usize];
                self.engine.read_low_stock(&mut self.pools, district, first..end, items);
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

    /// Writes; returns whether the statement does that.
    fn write(&mut self, batch: &mut Batch, call: usize, statement: StatementId) -> bool {
        let key = |index: usize| number(batch, call, index);
        let district = |first: usize| district_of(key(first), key(first + 1));
        let pools = &mut self.pools;
        let mut affected = 1;
        match statement {
            s::INCREMENT_DISTRICT_ORDER => {
                let district = district(0);
                self.districts[district as usize].next_order += 1;
                self.open.incremented = Some(district);
                self.engine.update(pools, Row::District(district), 0);
            }
            s::UPDATE_WAREHOUSE_YTD => self.engine.update(pools, Row::Warehouse(key(1)), 0),
            s::UPDATE_DISTRICT_YTD => self.engine.update(pools, Row::District(district(1)), 0),
            s::UPDATE_STOCK => self.engine.update(pools, Row::Stock(key(4), key(5)), 0),
            s::UPDATE_CUSTOMER_PAYMENT => self.engine.update(pools, Row::Customer(district(2), key(4)), 0),
            s::UPDATE_CUSTOMER_PAYMENT_DATA => {
                let text = if let Value::Text(text) = batch.param(call, 2) { text.len() - TEXT.len() } else { 0 };
                self.engine.update(pools, Row::Customer(district(3), key(5)), text as u32);
            }
            s::UPDATE_CUSTOMER_DELIVERY => self.engine.update(pools, Row::Customer(district(1), key(3)), 0),
            s::UPDATE_ORDER_CARRIER => {
                let (district, order) = (district(1), key(3));
                let (customer, _) = self.order(district, order);
                self.engine.update(&mut self.pools, Row::Order { district, order, customer }, 0);
            }
            s::UPDATE_ORDER_LINES_DELIVERY => {
                let (district, order) = (district(1), key(3));
                let (_, lines) = self.order(district, order);
                self.engine.deliver_lines(&mut self.pools, district, order, lines);
                affected = lines;
            }
            s::DELETE_NEW_ORDER => {
                let (district, order) = (district(0), key(2));
                let Changes { oldest_new, next_order, .. } = self.districts[district as usize];
                debug_assert_eq!(order, oldest_new, "the oldest order of district {district} is delivered first");
                debug_assert!(order < next_order, "district {district} delivers an order that nobody gave");
                self.districts[district as usize].oldest_new = order + 1;
                self.open.delivered.push(district);
                self.engine.delete_new_order(pools, district, order);
            }
            s::INSERT_HISTORY => self.engine.insert(pools, Row::History),
            s::INSERT_ORDER => self.insert_order(district_of(key(2), key(1)), key(0), key(3), key(5)),
            s::INSERT_NEW_ORDER => self.engine.insert(pools, Row::NewOrder(district_of(key(2), key(1)), key(0))),
            s::INSERT_ORDER_LINE => {
                let (district, order, item) = (district_of(key(2), key(1)), key(0), key(4));
                self.engine.insert(pools, Row::Line(district, order, key(3)));
                self.districts[district as usize].items[order as usize % KEPT].push(item);
            }
            _ => return false,
        }
        batch.set_affected(call, affected.into());
        true
    }

    fn insert_order(&mut self, district: u32, order: u32, customer: u32, lines: u32) {
        let changes = &mut self.districts[district as usize];
        changes.orders.push((customer as u16, lines as u8));
        debug_assert_eq!(order, ORDERS + changes.orders.len() as u32, "orders of district {district} have a gap");
        debug_assert!(self.open.order.is_none(), "a transaction enters a second order");
        if changes.items.is_empty() {
            changes.items = vec![Vec::new(); KEPT];
        }
        changes.items[order as usize % KEPT].clear();
        let before = self.last_orders.insert((district, customer as u16), order);
        self.open.order = Some((district, before));
        if order > E::MOST_ORDERS {
            return self.pools.fill();
        }
        self.engine.insert(&mut self.pools, Row::Order { district, order, customer });
    }

    /// Puts the items of some orders into `asked_items`. Those of loaded orders are any, as the load draws them.
    fn find_items(&mut self, district: u32, first: u32, end: u32) {
        for (place, order) in (first..end).enumerate() {
            let asked = &mut self.asked_items[place];
            asked.clear();
            if order > ORDERS {
                asked.extend(&self.districts[district as usize].items[order as usize % KEPT]);
            } else {
                let lines = self.loaded.district(district).lines_of(order);
                asked.extend((0..lines).map(|line| some_item(district, order, line)));
            }
        }
    }
}

impl<E: Engine> Paging for Ghost<E> {
    fn parts(&mut self) -> (&mut Pools, &Objects) {
        (&mut self.pools, self.engine.objects())
    }

    fn bytes(&self) -> Option<u64> {
        Some(self.engine.bytes())
    }

    fn interior_pages(&self) -> Vec<u32> {
        self.engine.interior_pages()
    }
}

impl<E: Engine> Client for Ghost<E> {
    fn begin(&mut self, read_only: bool) -> Result<(), ClientError> {
        (self.open.order, self.open.incremented) = (None, None);
        self.open.delivered.clear();
        self.engine.begin(&mut self.pools, read_only);
        Ok(())
    }

    fn commit(&mut self) -> Result<(), ClientError> {
        self.engine.commit(&mut self.pools);
        Ok(())
    }

    /// Only New-Order rolls back, the last order of its district.
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
        if let Some(district) = self.open.incremented.take() {
            self.districts[district as usize].next_order -= 1;
            let Changes { next_order, orders, .. } = &self.districts[district as usize];
            let given = ORDERS + orders.len() as u32;
            debug_assert_eq!(*next_order, given + 1, "district {district} has {given} orders after a rollback");
        }
        self.open.delivered.drain(..).for_each(|district| self.districts[district as usize].oldest_new -= 1);
        Ok(())
    }

    fn execute(&mut self, batch: &mut Batch) -> Result<(), ClientError> {
        (0..batch.len()).try_for_each(|call| self.call(batch, call))
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

/// Returns an item that the load may have drawn for a line: each is as likely.
fn some_item(district: u32, order: u32, line: u32) -> u32 {
    let mut hash = (u64::from(district) << 32 | u64::from(order) << 4 | u64::from(line)).wrapping_add(1);
    for factor in [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb] {
        hash = (hash ^ (hash >> 29)).wrapping_mul(factor);
    }
    ((hash >> 32) % u64::from(ITEMS)) as u32 + 1
}

/// Returns whether the driver reads a column as text.
fn is_text(statement: StatementId, column: usize) -> bool {
    match statement {
        s::READ_ITEM => column > 0,
        s::READ_CUSTOMER_DISCOUNT => column > 0,
        s::READ_WAREHOUSE_ADDRESS | s::READ_DISTRICT_ADDRESS | s::READ_CUSTOMER_DATA => true,
        s::READ_CUSTOMER_STATUS => column > 0,
        s::READ_CUSTOMER_PAYMENT => !matches!(column, 9 | 11..=13),
        stock if (s::READ_STOCK_01.0..=s::READ_STOCK_10.0).contains(&stock.0) => column > 0,
        _ => false,
    }
}

/// Returns a parameter that is a key.
fn number(batch: &Batch, call: usize, index: usize) -> u32 {
    match batch.param(call, index) {
        Value::Int(number) => number as u32,
        _ => 0,
    }
}
