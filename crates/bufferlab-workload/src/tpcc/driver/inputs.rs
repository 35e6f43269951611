//! Draws the inputs of TPC-C's five transactions (specification, 2.4.1 to 2.8.1) before their execution, so that a
//! retry has the same inputs.
//!
//! All lines and payments belong to the terminal's own warehouse if there is only one, as in every known
//! implementation, or if the skew has no remote work.

use serde::Serialize;

use super::terminals::Terminal;
use crate::random::Random;
use crate::tpcc::TpccConfig;
use crate::tpcc::random::{Choices, LastName, NuRandConstants, last_name};
use crate::tpcc::schema::{DISTRICTS, ITEMS, MAX_ORDER_LINES, MIN_ORDER_LINES};

/// Counts of planned transactions, and of each random choice whose share the specification fixes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct InputCounts {
    /// New-Orders planned.
    pub new_orders: u64,
    /// New-Orders that roll back because their last item does not exist: 1 %.
    pub unused_items: u64,
    /// Lines of the planned New-Orders.
    pub order_lines: u64,
    /// Lines supplied by another warehouse: 1 %, or none with one warehouse.
    pub remote_lines: u64,
    /// Payments planned.
    pub payments: u64,
    /// Payments by a customer of another warehouse: 15 %, or none with one warehouse.
    pub remote_payments: u64,
    /// Payments that give their customer's last name instead of the number: 60 %.
    pub payments_by_name: u64,
    /// Order-Statuses planned.
    #[serde(skip)]
    pub order_statuses: u64,
    /// Order-Statuses that give their customer's last name: 60 %.
    #[serde(skip)]
    pub order_statuses_by_name: u64,
    /// Deliveries planned.
    #[serde(skip)]
    pub deliveries: u64,
    /// Stock-Levels planned.
    #[serde(skip)]
    pub stock_levels: u64,
}

/// One line of an order as the customer gives it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LineInput {
    pub(super) item: u32,
    pub(super) supply_warehouse: u32,
    pub(super) quantity: u32,
}

/// The most lines of an order. Arrays of lines have this length.
pub(super) const MAX_LINES: usize = MAX_ORDER_LINES as usize;

/// The inputs of a New-Order (specification, 2.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NewOrderInput {
    pub(super) warehouse: u32,
    pub(super) district: u32,
    pub(super) customer: u32,
    lines: [LineInput; MAX_LINES],
    line_count: usize,
    /// Positions in `lines` of the lines whose item exists, ordered by supplying warehouse and item.
    stock_order: [usize; MAX_LINES],
    /// True when the last line's item does not exist, which the transaction must find out.
    pub(super) unused_item: bool,
}

impl NewOrderInput {
    /// Returns the lines in the order of OL_NUMBER.
    pub(super) fn lines(&self) -> &[LineInput] {
        &self.lines[..self.line_count]
    }

    /// Returns the number of lines whose item exists; these lines come first.
    pub(super) fn valid_lines(&self) -> usize {
        self.line_count - usize::from(self.unused_item)
    }

    /// Returns the positions of the lines whose item exists, in the order in which the transaction locks their stock.
    /// Two New-Orders that need the same two rows then meet at the first row and cannot deadlock.
    pub(super) fn stock_order(&self) -> &[usize] {
        &self.stock_order[..self.valid_lines()]
    }

    /// Returns O_ALL_LOCAL: true when the home warehouse supplies every line.
    pub(super) fn all_local(&self) -> bool {
        self.lines().iter().all(|line| line.supply_warehouse == self.warehouse)
    }
}

/// How Payment and Order-Status choose a customer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CustomerChoice {
    Id(u32),
    Name(LastName),
}

/// The customer of a Payment or an Order-Status, by district and choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CustomerInput {
    pub(super) warehouse: u32,
    pub(super) district: u32,
    pub(super) choice: CustomerChoice,
}

/// The inputs of a Payment (specification, 2.5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PaymentInput {
    pub(super) warehouse: u32,
    pub(super) district: u32,
    pub(super) customer: CustomerInput,
    pub(super) amount_cents: i64,
}

/// The inputs of a Delivery (specification, 2.7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeliveryInput {
    pub(super) warehouse: u32,
    pub(super) carrier: u32,
}

/// The inputs of a Stock-Level (specification, 2.8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StockLevelInput {
    pub(super) warehouse: u32,
    pub(super) district: u32,
    pub(super) threshold: u32,
}

/// A source of inputs, which counts the choices that it draws.
#[derive(Debug)]
pub(super) struct InputSource {
    warehouses: u32,
    choices: Choices,
    remote_work: bool,
    counts: InputCounts,
}

impl InputSource {
    pub(super) fn new(config: &TpccConfig) -> Self {
        let constants = NuRandConstants::choose(config.load_seed(), config.run_seed());
        InputSource {
            warehouses: config.warehouses(),
            choices: Choices::new(config.skew(), &constants, config.run_seed()),
            remote_work: config.skew().has_remote_work(),
            counts: InputCounts::default(),
        }
    }

    pub(super) fn counts(&self) -> &InputCounts {
        &self.counts
    }

    pub(super) fn new_order(&mut self, terminal: Terminal, random: &mut Random) -> NewOrderInput {
        let district = random.between(1, DISTRICTS);
        let customer = self.choices.customer(random);
        let line_count = random.between(MIN_ORDER_LINES, MAX_ORDER_LINES) as usize;
        let unused_item = random.percent(1);
        let mut lines = [LineInput::default(); MAX_LINES];
        for line in &mut lines[..line_count] {
            *line = self.line(terminal.warehouse, random);
        }
        if unused_item {
            lines[line_count - 1].item = ITEMS + 1;
        }
        let mut stock_order: [usize; MAX_LINES] = std::array::from_fn(|position| position);
        stock_order[..line_count - usize::from(unused_item)]
            .sort_unstable_by_key(|&position| (lines[position].supply_warehouse, lines[position].item, position));
        self.counts.new_orders += 1;
        self.counts.unused_items += u64::from(unused_item);
        let warehouse = terminal.warehouse;
        NewOrderInput { warehouse, district, customer, lines, line_count, stock_order, unused_item }
    }

    fn line(&mut self, home: u32, random: &mut Random) -> LineInput {
        let item = self.choices.item(random);
        let supply_warehouse = if random.percent(1) { self.other_warehouse(home, random) } else { home };
        self.counts.order_lines += 1;
        self.counts.remote_lines += u64::from(supply_warehouse != home);
        LineInput { item, supply_warehouse, quantity: random.between(1, 10) }
    }

    pub(super) fn payment(&mut self, terminal: Terminal, random: &mut Random) -> PaymentInput {
        let district = random.between(1, DISTRICTS);
        let home = terminal.warehouse;
        let (warehouse, customer_district) = if random.percent(85) {
            (home, district)
        } else {
            (self.other_warehouse(home, random), random.between(1, DISTRICTS))
        };
        let choice = self.customer_choice(random);
        self.counts.payments += 1;
        self.counts.remote_payments += u64::from(warehouse != home);
        self.counts.payments_by_name += u64::from(matches!(choice, CustomerChoice::Name(_)));
        PaymentInput {
            warehouse: home,
            district,
            customer: CustomerInput { warehouse, district: customer_district, choice },
            amount_cents: i64::from(random.between(100, 500_000)),
        }
    }

    pub(super) fn order_status(&mut self, terminal: Terminal, random: &mut Random) -> CustomerInput {
        let district = random.between(1, DISTRICTS);
        let choice = self.customer_choice(random);
        self.counts.order_statuses += 1;
        self.counts.order_statuses_by_name += u64::from(matches!(choice, CustomerChoice::Name(_)));
        CustomerInput { warehouse: terminal.warehouse, district, choice }
    }

    pub(super) fn delivery(&mut self, terminal: Terminal, random: &mut Random) -> DeliveryInput {
        self.counts.deliveries += 1;
        DeliveryInput { warehouse: terminal.warehouse, carrier: random.between(1, 10) }
    }

    pub(super) fn stock_level(&mut self, terminal: Terminal, random: &mut Random) -> StockLevelInput {
        self.counts.stock_levels += 1;
        let Terminal { warehouse, district } = terminal;
        StockLevelInput { warehouse, district, threshold: random.between(10, 20) }
    }

    fn customer_choice(&self, random: &mut Random) -> CustomerChoice {
        if random.percent(60) {
            CustomerChoice::Name(last_name(self.choices.last_name(random)))
        } else {
            CustomerChoice::Id(self.choices.customer(random))
        }
    }

    fn other_warehouse(&self, home: u32, random: &mut Random) -> u32 {
        if self.warehouses == 1 || !self.remote_work {
            return home;
        }
        let other = random.between(1, self.warehouses - 1);
        other + u32::from(other >= home)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcc::random::Skew;

    const HOME: Terminal = Terminal { warehouse: 3, district: 7 };

    fn source(warehouses: u32) -> (InputSource, Random) {
        let config = TpccConfig::new(warehouses, 1, 2).expect("the scale is valid");
        (InputSource::new(&config), Random::stream(2, "input tests", &[]))
    }

    #[test]
    fn new_orders_keep_within_their_ranges() {
        let (mut source, mut random) = source(5);
        for _ in 0..20_000 {
            let order = source.new_order(HOME, &mut random);
            assert!(order.warehouse == 3 && (1..=10).contains(&order.district));
            assert!((1..=3_000).contains(&order.customer) && (5..=15).contains(&order.lines().len()));
            let (last, others) = order.lines().split_last().expect("there are lines");
            assert!(others.iter().all(|line| (1..=100_000).contains(&line.item)));
            assert_eq!(order.unused_item, last.item == 100_001, "only the last item may not exist");
            assert!(order.lines().iter().all(|line| (1..=10).contains(&line.quantity)));
            assert!(order.lines().iter().all(|line| (1..=5).contains(&line.supply_warehouse)));
        }
    }

    #[test]
    fn stock_is_locked_in_one_order_by_all() {
        let (mut source, mut random) = source(5);
        for _ in 0..5_000 {
            let order = source.new_order(HOME, &mut random);
            let keys: Vec<(u32, u32)> = order
                .stock_order()
                .iter()
                .map(|&position| (order.lines()[position].supply_warehouse, order.lines()[position].item))
                .collect();
            assert!(keys.is_sorted(), "{keys:?}");
            let mut positions = order.stock_order().to_vec();
            positions.sort_unstable();
            assert_eq!(positions, (0..order.valid_lines()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn remote_work_goes_to_every_other_warehouse_alike() {
        let (source, mut random) = source(5);
        let mut chosen = [0_u32; 6];
        (0..8_000).for_each(|_| chosen[source.other_warehouse(3, &mut random) as usize] += 1);
        assert_eq!((chosen[0], chosen[3]), (0, 0));
        assert!([1, 2, 4, 5].iter().all(|&w| (1_850..2_150).contains(&chosen[w])), "{chosen:?}");
    }

    #[test]
    fn uniform_work_stays_at_home() {
        let config = TpccConfig::new(5, 1, 2).expect("the scale is valid").with_skew(Skew::Uniform);
        let (mut source, mut random) = (InputSource::new(&config), Random::stream(2, "input tests", &[]));
        for _ in 0..5_000 {
            source.new_order(HOME, &mut random);
            source.payment(HOME, &mut random);
        }
        assert_eq!((source.counts.remote_lines, source.counts.remote_payments), (0, 0));
        assert!(source.counts.order_lines > 40_000);
    }

    #[test]
    fn a_local_payment_is_by_a_customer_of_the_same_district_and_a_remote_one_of_any() {
        let (mut source, mut random) = source(5);
        let mut other_district = 0;
        for _ in 0..10_000 {
            let PaymentInput { warehouse, district, customer, amount_cents } = source.payment(HOME, &mut random);
            assert!(warehouse == 3 && (1..=10).contains(&district) && (100..=500_000).contains(&amount_cents));
            assert!((1..=10).contains(&customer.district) && (1..=5).contains(&customer.warehouse));
            if customer.warehouse == 3 {
                assert_eq!(customer.district, district);
            } else {
                other_district += u32::from(customer.district != district);
            }
        }
        assert!((1_200..1_500).contains(&other_district), "{other_district} of about 1350");
    }

    #[test]
    fn stock_level_keeps_the_district_of_its_terminal_and_the_others_draw_theirs() {
        let (mut source, mut random) = source(5);
        let mut districts = [0; 11];
        for _ in 0..2_000 {
            let StockLevelInput { warehouse, district, threshold } = source.stock_level(HOME, &mut random);
            assert!(warehouse == 3 && district == 7 && (10..=20).contains(&threshold));
            assert!((1..=10).contains(&source.delivery(HOME, &mut random).carrier));
            districts[source.order_status(HOME, &mut random).district as usize] += 1;
        }
        assert!(districts[1..].iter().all(|count| (140..260).contains(count)), "{districts:?}");
    }
}
