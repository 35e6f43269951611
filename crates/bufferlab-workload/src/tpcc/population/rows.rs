//! Generates the rows of each TPC-C table as clause 4.3.3.1 of the specification says.
//!
//! Every partition has its own stream of random numbers, named by table, warehouse, district and first row. Only the
//! numbers of lines of orders come from one stream for the whole district: separate code generates ORDER and
//! ORDER-LINE, and both must have the same numbers.

use super::{Partition, RowBlock};
use crate::tpcc::TpccConfig;
use crate::tpcc::random::{ExactShare, NuRand, NuRandConstants, Random, TextBuffer, last_name};
use crate::tpcc::schema::{
    CUSTOMERS, DISTRICTS, FIRST_UNDELIVERED_ORDER, ITEMS, MAX_ORDER_LINES, MIN_ORDER_LINES, ORDERS, TableId,
};

/// The date of every loaded row, 2025-01-01T00:00:00Z, in microseconds since 1970. The specification takes the
/// operating system's date, but then two loads with one seed would differ.
pub const LOAD_DATE_US: i64 = 1_735_689_600_000_000;

const WAREHOUSE_YTD_CENTS: i64 = 300_000 * 100;
const DISTRICT_YTD_CENTS: i64 = 30_000 * 100;
const CREDIT_LIMIT_CENTS: i64 = 50_000 * 100;
/// The amount that each customer has paid before the run, and by which the customer's balance is reduced.
const FIRST_PAYMENT_CENTS: i64 = 10 * 100;
const LOADED_LINE_QUANTITY: i64 = 5;
const DIST_INFO_CHARS: usize = 24;

/// Replaces the content of `block` by the rows of a partition.
pub fn generate(partition: &Partition, config: &TpccConfig, block: &mut RowBlock) {
    block.reset(partition.table as usize, partition.table.columns().len());
    let mut writer = Writer {
        random: partition_stream(partition, config),
        text: TextBuffer::default(),
        load_seed: config.load_seed(),
        block,
    };
    match partition.table {
        TableId::Item => writer.items(partition),
        TableId::Warehouse => writer.warehouses(partition),
        TableId::District => writer.districts(partition),
        TableId::Stock => writer.stock(partition),
        TableId::Customer => writer.customers(partition),
        TableId::History => writer.history(partition),
        TableId::Orders => writer.orders(partition),
        TableId::NewOrder => writer.new_orders(partition),
        TableId::OrderLine => writer.order_lines(partition),
    }
}

fn partition_stream(partition: &Partition, config: &TpccConfig) -> Random {
    // Leave the partition's last row out of the stream's name: a database of more warehouses must begin with the same
    // rows.
    let Partition { table, warehouse, district, first, .. } = *partition;
    let numbers = [u64::from(warehouse), u64::from(district), u64::from(first)];
    Random::stream(config.load_seed(), table.name(), &numbers)
}

struct Writer<'a> {
    random: Random,
    text: TextBuffer,
    load_seed: u64,
    block: &'a mut RowBlock,
}

impl Writer<'_> {
    fn items(&mut self, partition: &Partition) {
        let mut originals = ExactShare::one_in(10, partition.rows() as u64);
        for item in partition.first..=partition.last {
            self.block.int(item);
            self.uniform(1, 10_000);
            self.alphanumeric(14, 24);
            self.uniform(100, 10_000);
            self.data(&mut originals);
        }
    }

    fn warehouses(&mut self, partition: &Partition) {
        for warehouse in partition.first..=partition.last {
            self.block.int(warehouse);
            self.alphanumeric(6, 10);
            self.address();
            self.uniform(0, 2_000);
            self.block.int(WAREHOUSE_YTD_CENTS);
        }
    }

    fn districts(&mut self, partition: &Partition) {
        for warehouse in partition.first..=partition.last {
            for district in 1..=DISTRICTS {
                self.block.int(warehouse);
                self.block.int(district);
                self.alphanumeric(6, 10);
                self.address();
                self.uniform(0, 2_000);
                self.block.int(DISTRICT_YTD_CENTS);
                self.block.int(ORDERS + 1);
            }
        }
    }

    fn stock(&mut self, partition: &Partition) {
        let mut originals = ExactShare::one_in(10, partition.rows() as u64);
        for item in partition.first..=partition.last {
            self.block.int(partition.warehouse);
            self.block.int(item);
            self.uniform(10, 100);
            for _ in 1..=DISTRICTS {
                self.dist_info();
            }
            for _counter in ["s_ytd", "s_order_cnt", "s_remote_cnt"] {
                self.block.int(0);
            }
            self.data(&mut originals);
        }
    }

    fn customers(&mut self, partition: &Partition) {
        // The run's seed does not matter here, because a load uses only the load's constant.
        let constants = NuRandConstants::choose(self.load_seed, 0);
        let names = NuRand::last_name(constants.load_last_name);
        let mut bad_credits = ExactShare::one_in(10, partition.rows() as u64);
        for customer in partition.first..=partition.last {
            // The first thousand customers of a district have all thousand names.
            let name = if customer <= 1_000 { customer - 1 } else { names.draw(&mut self.random) };
            self.block.int(partition.warehouse);
            self.block.int(partition.district);
            self.block.int(customer);
            self.alphanumeric(8, 16);
            self.block.text("OE");
            self.block.text(last_name(name).as_str());
            self.address();
            self.block.text(self.text.digits(&mut self.random, 16));
            self.block.int(LOAD_DATE_US);
            let bad_credit = bad_credits.next_is_chosen(&mut self.random);
            self.block.text(if bad_credit { "BC" } else { "GC" });
            self.block.int(CREDIT_LIMIT_CENTS);
            self.uniform(0, 5_000);
            self.block.int(-FIRST_PAYMENT_CENTS);
            self.block.int(FIRST_PAYMENT_CENTS);
            self.block.int(1);
            self.block.int(0);
            self.alphanumeric(300, 500);
        }
    }

    fn history(&mut self, partition: &Partition) {
        for customer in partition.first..=partition.last {
            self.block.int(customer);
            self.block.int(partition.district);
            self.block.int(partition.warehouse);
            self.block.int(partition.district);
            self.block.int(partition.warehouse);
            self.block.int(LOAD_DATE_US);
            self.block.int(FIRST_PAYMENT_CENTS);
            self.alphanumeric(12, 24);
        }
    }

    fn orders(&mut self, partition: &Partition) {
        let mut customers: [u32; CUSTOMERS as usize] = std::array::from_fn(|index| index as u32 + 1);
        self.random.shuffle(&mut customers);
        let mut line_counts = line_counts(partition, self.load_seed);
        for order in partition.first..=partition.last {
            self.block.int(partition.warehouse);
            self.block.int(partition.district);
            self.block.int(order);
            self.block.int(customers[order as usize - 1]);
            self.block.int(LOAD_DATE_US);
            if order < FIRST_UNDELIVERED_ORDER {
                self.uniform(1, 10);
            } else {
                self.block.null();
            }
            self.block.int(next_line_count(&mut line_counts));
            self.block.int(1);
        }
    }

    fn new_orders(&mut self, partition: &Partition) {
        for order in partition.first..=partition.last {
            self.block.int(partition.warehouse);
            self.block.int(partition.district);
            self.block.int(order);
        }
    }

    fn order_lines(&mut self, partition: &Partition) {
        let mut line_counts = line_counts(partition, self.load_seed);
        for _earlier in 1..partition.first {
            next_line_count(&mut line_counts);
        }
        for order in partition.first..=partition.last {
            for number in 1..=next_line_count(&mut line_counts) {
                self.order_line(partition, order, number);
            }
        }
    }

    fn order_line(&mut self, partition: &Partition, order: u32, number: u32) {
        let delivered = order < FIRST_UNDELIVERED_ORDER;
        self.block.int(partition.warehouse);
        self.block.int(partition.district);
        self.block.int(order);
        self.block.int(number);
        self.uniform(1, ITEMS);
        self.block.int(partition.warehouse);
        if delivered {
            self.block.int(LOAD_DATE_US);
        } else {
            self.block.null();
        }
        self.block.int(LOADED_LINE_QUANTITY);
        if delivered {
            self.block.int(0);
        } else {
            self.uniform(1, 999_999);
        }
        self.dist_info();
    }

    fn uniform(&mut self, low: u32, high: u32) {
        self.block.int(self.random.between(low, high));
    }

    fn alphanumeric(&mut self, min_chars: usize, max_chars: usize) {
        self.block.text(self.text.alphanumeric(&mut self.random, min_chars, max_chars));
    }

    fn dist_info(&mut self) {
        self.block.text(self.text.alphanumeric_exact(&mut self.random, DIST_INFO_CHARS));
    }

    /// Writes a value of I_DATA or S_DATA.
    fn data(&mut self, originals: &mut ExactShare) {
        let original = originals.next_is_chosen(&mut self.random);
        self.block.text(self.text.data(&mut self.random, 26, 50, original));
    }

    /// Writes two streets, city, state and zip code.
    fn address(&mut self) {
        for _line in ["street_1", "street_2", "city"] {
            self.alphanumeric(10, 20);
        }
        self.block.text(self.text.state(&mut self.random));
        self.block.text(self.text.zip(&mut self.random));
    }
}

fn line_counts(partition: &Partition, load_seed: u64) -> Random {
    let numbers = [u64::from(partition.warehouse), u64::from(partition.district)];
    Random::stream(load_seed, "lines of orders", &numbers)
}

fn next_line_count(line_counts: &mut Random) -> u32 {
    line_counts.between(MIN_ORDER_LINES, MAX_ORDER_LINES)
}
