//! TPC-C for one connection: chooses transactions for its terminals, draws their inputs, and executes them.
//!
//! Terminals take turns, each for one transaction, without keying or think times. Each driver deals the types from its
//! own shuffled deck. A driver reads no clock: dates come from a counter, so equal seeds leave equal databases. With
//! several drivers, a database also depends on the order in which the engine executes their transactions.

mod answers;
mod customer;
mod deck;
mod delivery;
mod inputs;
mod new_order;
mod order_status;
mod output;
mod payment;
mod stock_level;
mod terminals;

use deck::{DELIVERY, Deck, NEW_ORDER, ORDER_STATUS, PAYMENT, STOCK_LEVEL};
use inputs::{CustomerInput, DeliveryInput, InputSource, NewOrderInput, PaymentInput, StockLevelInput};
use output::Batches;
use terminals::{Terminal, terminals_of};

pub use inputs::InputCounts;
pub use output::TransactionOutput;

use crate::client::{Client, ClientError, Outcome, Planned, StatementSpec, Workload};
use crate::findings::Findings;
use crate::random::Random;
use crate::tpcc::population::LOAD_DATE_US;
use crate::tpcc::random::NuRandConstants;
use crate::tpcc::schema::DISTRICTS;
use crate::tpcc::statements::STATEMENTS;
use crate::tpcc::{NAME, TpccConfig, TpccConfigError};

/// The transaction types, by the indices of [`Planned::transaction_type`].
pub const TRANSACTION_TYPES: [&str; 5] = ["new_order", "payment", "order_status", "delivery", "stock_level"];

/// The run's first date, one day after the load's, in microseconds since 1970.
const RUN_DATE_US: i64 = LOAD_DATE_US + 24 * 3_600 * 1_000_000;
/// The step, in microseconds, by which each planned transaction advances the date.
const TRANSACTION_STEP_US: i64 = 1_000;

/// The planned transaction with its inputs.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one per driver, and a box would be allocated per transaction")]
enum Input {
    NewOrder(NewOrderInput),
    Payment(PaymentInput),
    OrderStatus(CustomerInput),
    Delivery(DeliveryInput),
    StockLevel(StockLevelInput),
}

impl Input {
    fn read_only(&self) -> bool {
        matches!(self, Input::OrderStatus(_) | Input::StockLevel(_))
    }
}

/// TPC-C for one connection.
#[derive(Debug)]
pub struct TpccDriver {
    constants: NuRandConstants,
    terminals: Vec<Terminal>,
    next_terminal: usize,
    random: Random,
    /// The stream that replaces `random` when the measured window begins.
    window: Random,
    deck: Deck,
    inputs: InputSource,
    planned: Option<Input>,
    now_us: i64,
    batches: Batches,
    output: Option<TransactionOutput>,
    delivered_orders: Vec<u64>,
}

impl TpccDriver {
    /// Returns the driver `driver_index` of `drivers` drivers, which divide the terminals among them and share nothing
    /// else.
    ///
    /// # Errors
    /// [`TpccConfigError`] when the driver does not exist, or has no terminal.
    pub fn new(config: TpccConfig, driver_index: u32, drivers: u32) -> Result<Self, TpccConfigError> {
        let numbers = [u64::from(driver_index), u64::from(drivers)];
        Ok(TpccDriver {
            constants: NuRandConstants::choose(config.load_seed(), config.run_seed()),
            terminals: terminals_of(&config, driver_index, drivers)?,
            next_terminal: 0,
            random: Random::stream(config.run_seed(), "tpcc driver", &numbers),
            window: Random::stream(config.run_seed(), "tpcc window", &numbers),
            deck: Deck::new(),
            inputs: InputSource::new(&config),
            planned: None,
            now_us: RUN_DATE_US,
            batches: Batches::default(),
            output: None,
            delivered_orders: vec![0; (config.warehouses() * DISTRICTS) as usize],
        })
    }

    /// Returns the number of orders that this driver has delivered, by district. The index of a district is
    /// `(warehouse - 1) * 10 + district - 1`.
    pub fn delivered_orders(&self) -> &[u64] {
        &self.delivered_orders
    }

    /// Returns the counts of all planned transactions, and of each random choice whose share the specification fixes.
    pub fn input_counts(&self) -> &InputCounts {
        self.inputs.counts()
    }

    /// Returns the constants of NURand, which results must record (specification, 2.1.6.1). Other skews than the
    /// specification's use only some of them, or none.
    pub fn constants(&self) -> &NuRandConstants {
        &self.constants
    }

    /// Returns the output of the last executed transaction, if there was one and it did not fail.
    pub fn last_output(&self) -> Option<&TransactionOutput> {
        self.output.as_ref()
    }

    fn count_delivered(&mut self, warehouse: u32, delivered: &[Option<u32>]) {
        let first = (warehouse as usize - 1) * DISTRICTS as usize;
        for (count, order) in self.delivered_orders[first..].iter_mut().zip(delivered) {
            *count += u64::from(order.is_some());
        }
    }
}

impl Workload for TpccDriver {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statements(&self) -> &'static [StatementSpec] {
        STATEMENTS
    }

    fn findings(&self) -> Findings {
        let by_district = self.delivered_orders.iter().zip(0u32..);
        let delivered = by_district.map(|(&orders, at)| (at / DISTRICTS + 1, at % DISTRICTS + 1, orders));
        Findings { delivered_orders: delivered.collect(), ..Findings::new(self.constants, self.inputs.counts()) }
    }

    fn transaction_types(&self) -> Vec<String> {
        TRANSACTION_TYPES.map(str::to_owned).to_vec()
    }

    fn terminals(&self) -> usize {
        self.terminals.len()
    }

    fn plan(&mut self) -> Planned {
        let terminal = self.next_terminal;
        self.next_terminal = (terminal + 1) % self.terminals.len();
        self.now_us += TRANSACTION_STEP_US;
        let transaction_type = self.deck.deal(&mut self.random);
        let (place, random, inputs) = (self.terminals[terminal], &mut self.random, &mut self.inputs);
        self.planned = Some(match transaction_type {
            NEW_ORDER => Input::NewOrder(inputs.new_order(place, random)),
            PAYMENT => Input::Payment(inputs.payment(place, random)),
            ORDER_STATUS => Input::OrderStatus(inputs.order_status(place, random)),
            DELIVERY => Input::Delivery(inputs.delivery(place, random)),
            STOCK_LEVEL => Input::StockLevel(inputs.stock_level(place, random)),
            other => unreachable!("no card is of type {other}"),
        });
        Planned { transaction_type, terminal }
    }

    /// The deck and the terminals' turns restart, too. Dates and the counts of deliveries continue.
    fn begin_window(&mut self) {
        self.random = self.window.clone();
        self.deck = Deck::new();
        self.next_terminal = 0;
    }

    /// # Panics
    /// When no transaction is planned.
    fn execute(&mut self, client: &mut dyn Client) -> Result<Outcome, ClientError> {
        let input = self.planned.expect("a transaction is planned before it is executed");
        self.output = None;
        client.begin(input.read_only())?;
        let (now_us, batches) = (self.now_us, &mut self.batches);
        let (outcome, output) = match &input {
            Input::NewOrder(input) => new_order::execute(input, now_us, batches, client)?,
            Input::Payment(input) => payment::execute(input, now_us, batches, client)?,
            Input::OrderStatus(input) => order_status::execute(input, batches, client)?,
            Input::Delivery(input) => delivery::execute(input, now_us, batches, client)?,
            Input::StockLevel(input) => stock_level::execute(input, batches, client)?,
        };
        match outcome {
            Outcome::Committed => client.commit()?,
            Outcome::RolledBack => client.rollback()?,
        }
        if let (Input::Delivery(input), TransactionOutput::Delivery { delivered }) = (&input, &output) {
            self.count_delivered(input.warehouse, delivered);
        }
        self.output = Some(output);
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn driver(run_seed: u64) -> TpccDriver {
        let config = TpccConfig::new(2, 1, run_seed).expect("the scale is valid");
        TpccDriver::new(config, 0, 1).expect("there is such a driver")
    }

    /// Returns types, terminals and every input of the next transactions, as text.
    fn plans(driver: &mut TpccDriver, transactions: usize) -> Vec<String> {
        (0..transactions).map(|_| format!("{:?} {:?}", driver.plan(), driver.planned)).collect()
    }

    #[test]
    fn the_draws_of_two_drivers_add_up() {
        let config = TpccConfig::new(1, 1, 2).expect("the scale is valid");
        let drawn = |index| {
            let mut driver = TpccDriver::new(config, index, 2).expect("there is such a driver");
            for _ in 0..300 {
                driver.plan();
            }
            driver.findings()
        };
        let (first, second) = (drawn(0), drawn(1));
        let both = first.clone().plus(second.clone());
        assert_eq!(both.facts, first.facts);
        let count = |findings: &Findings, name: &str| findings.counts[name].as_u64().expect("a number");
        assert!(count(&both, "order_lines") > 1_000, "{both:?}");
        for name in both.counts.keys() {
            assert_eq!(count(&both, name), count(&first, name) + count(&second, name), "{name}");
        }
    }

    #[test]
    fn the_window_holds_the_same_transactions_after_warm_ups_of_any_length() {
        let windows = [0, 1, 17, 500].map(|warm_up| {
            let mut driver = driver(7);
            plans(&mut driver, warm_up);
            driver.begin_window();
            plans(&mut driver, 300)
        });
        assert!(windows.iter().all(|window| window == &windows[0]));
    }

    #[test]
    fn the_window_is_not_the_warm_up_again_and_has_a_seed() {
        let (mut warm, mut other) = (driver(7), driver(8));
        let first = plans(&mut warm, 300);
        warm.begin_window();
        other.begin_window();
        let window = plans(&mut warm, 300);
        let repeated = window.iter().filter(|plan| first.contains(plan)).count();
        assert!(repeated < 30, "{repeated} of 300 transactions were in the warm-up");
        assert_ne!(window, plans(&mut other, 300));
    }
}
