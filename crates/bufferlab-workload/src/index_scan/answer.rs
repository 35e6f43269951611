//! The expected answer of TPC-H's Q1: computes its sums from the generator's rows without an engine, and compares them
//! with an engine's result.
//!
//! All sums are exact integers: quantities and prices in hundredths, the discounted price in ten-thousandths, the
//! charge in millionths. At scale factor 1 and with the specification's own range of days, [`Answer::check_published`]
//! also compares the computed answer with the published one.

use std::collections::BTreeMap;

use tpchgen::distribution::Distributions;
use tpchgen::generators::LineItemGenerator;
use tpchgen::text::TextPool;

use super::config::{IndexScanConfig, Q1_UNTIL_DAY};
use super::population::day;
use super::statements::{Q1, STATEMENTS};
use super::tables::Table;
use crate::client::{Batch, Value};

/// Size of the generator's pool of texts, from which it takes comments. Q1's answer contains no comments, so a small
/// pool suffices instead of the usual 300 MB.
const TEXT_POOL_BYTES: i32 = 64 * 1024;
/// Tolerance of means, because the published means and those of servers have six decimals.
const MEAN_TOLERANCE: f64 = 1e-6;

/// The earliest ship date: 1992-01-02, a day after the first order.
const FIRST_SHIP_DAY: i32 = 8_036;

/// The answer that the specification publishes for scale factor 1 and its validation parameter (2.4.1.5, and its answer
/// set). Each row has flag and status, the four sums in the units of [`Sums`], the mean discount, and the number of
/// rows.
const PUBLISHED: [(char, char, [i64; 4], f64, i64); 4] = [
    ('A', 'F', [3_773_410_700, 5_658_655_440_073, 537_582_571_348_700, 55_909_065_222_827_692], 0.049_985, 1_478_493),
    ('N', 'F', [99_141_700, 148_750_471_038, 14_130_821_680_541, 1_469_649_223_194_375], 0.050_093, 38_854),
    (
        'N',
        'O',
        [7_447_604_000, 11_170_172_969_774, 1_061_182_303_076_056, 110_367_043_872_497_010],
        0.049_997,
        2_920_374,
    ),
    ('R', 'F', [3_771_975_300, 5_656_804_138_090, 537_412_926_846_040, 55_889_619_119_831_932], 0.050_009, 1_478_870),
];

/// The sums of one group of Q1, that is, of one return flag and line status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Number of the group's rows of LINEITEM.
    pub rows: i64,
    /// Sum of L_QUANTITY, in hundredths.
    pub quantity: i64,
    /// Sum of L_EXTENDEDPRICE, in hundredths.
    pub base_price: i64,
    /// Sum of L_EXTENDEDPRICE less L_DISCOUNT, in ten-thousandths.
    pub discounted_price: i64,
    /// Sum of the discounted price with L_TAX, in millionths.
    pub charge: i64,
    /// Sum of L_DISCOUNT, in hundredths; Q1 returns its mean.
    pub discount: i64,
}

impl Sums {
    fn add(&mut self, other: &Sums) {
        self.rows += other.rows;
        self.quantity += other.quantity;
        self.base_price += other.base_price;
        self.discounted_price += other.discounted_price;
        self.charge += other.charge;
        self.discount += other.discount;
    }

    fn mean(&self, sum: i64) -> f64 {
        sum as f64 / 100.0 / self.rows as f64
    }
}

/// One row of Q1's answer: a group and its sums.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The group's L_RETURNFLAG.
    pub return_flag: char,
    /// The group's L_LINESTATUS.
    pub line_status: char,
    /// The sums of the group.
    pub sums: Sums,
}

/// The rows of Q1's answer, in the order of the query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    groups: Vec<Group>,
}

type ByFlags = BTreeMap<(char, char), Sums>;

impl Answer {
    /// Computes the expected answer of Q1 from the generator's rows, on all cores.
    pub fn expected(config: &IndexScanConfig) -> Self {
        let distributions = Distributions::static_default();
        let texts = TextPool::new(TEXT_POOL_BYTES, distributions);
        let parts = Table::LineItem.partitions(config.scale_factor);
        let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get() as i32).min(parts);
        let sum_every = |first: i32| {
            let mut groups = ByFlags::new();
            for part in (first..=parts).step_by(threads as usize) {
                let generator = LineItemGenerator::new_with_distributions_and_text_pool(
                    config.scale_factor.get(),
                    part,
                    parts,
                    distributions,
                    &texts,
                );
                add_part(config, &generator, &mut groups);
            }
            groups
        };
        let sum_every = &sum_every;
        let sums = std::thread::scope(|scope| {
            let threads: Vec<_> = (1..=threads).map(|first| scope.spawn(move || sum_every(first))).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .fold(ByFlags::new(), |mut all, some| {
                    for (flags, sums) in some {
                        all.entry(flags).or_default().add(&sums);
                    }
                    all
                })
        });
        let group = |((return_flag, line_status), sums)| Group { return_flag, line_status, sums };
        Answer { groups: sums.into_iter().map(group).collect() }
    }

    /// Returns the answer's rows, in the order of the query.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Returns the number of rows of LINEITEM in the range of ship dates.
    pub fn rows(&self) -> u64 {
        self.groups.iter().map(|group| group.sums.rows as u64).sum()
    }

    /// Compares the answer with the published one, if the specification has one for this scale and range. This checks
    /// the generator.
    ///
    /// # Errors
    /// When the two differ; the text names the first difference.
    pub fn check_published(&self, config: &IndexScanConfig) -> Result<(), String> {
        let is_for = (config.scale_factor.get() - 1.0).abs() < f64::EPSILON
            && config.from_day <= FIRST_SHIP_DAY
            && config.until_day == Q1_UNTIL_DAY;
        if !is_for {
            return Ok(());
        }
        if self.groups.len() != PUBLISHED.len() {
            return Err(format!("{} groups and not {}", self.groups.len(), PUBLISHED.len()));
        }
        for (group, &(flag, status, published, mean_discount, rows)) in self.groups.iter().zip(&PUBLISHED) {
            let sums = &group.sums;
            let ours = [sums.quantity, sums.base_price, sums.discounted_price, sums.charge];
            let same = (group.return_flag, group.line_status, sums.rows, ours) == (flag, status, rows, published);
            if !same || (sums.mean(sums.discount) - mean_discount).abs() > MEAN_TOLERANCE {
                return Err(format!(
                    "{group:?} where {flag} {status} {published:?} {mean_discount} {rows} is published"
                ));
            }
        }
        Ok(())
    }

    /// Compares an engine's result of Q1 with the expected answer.
    ///
    /// # Errors
    /// When the two differ; the text names the first difference.
    pub fn check(&self, batch: &Batch, call: usize) -> Result<(), String> {
        let columns = STATEMENTS[usize::from(Q1.0)].columns;
        let found = batch.rows(call);
        if found != self.groups.len() {
            return Err(format!("Q1 has {found} rows and not {}", self.groups.len()));
        }
        for (row, group) in self.groups.iter().enumerate() {
            let value = |column| batch.value(call, columns, row, column);
            let sums = &group.sums;
            let place = format!("Q1, {} {}", group.return_flag, group.line_status);
            for (column, letter) in [(0, group.return_flag), (1, group.line_status)] {
                if value(column) != Value::Text(letter.encode_utf8(&mut [0; 4])) {
                    return Err(format!("{place}: {:?} stands in place of {letter}", value(column)));
                }
            }
            let exact = [
                (2, "sum_qty in hundredths", sums.quantity),
                (3, "sum_base_price in hundredths", sums.base_price),
                (4, "sum_disc_price in ten-thousandths", sums.discounted_price),
                (5, "sum_charge in millionths", sums.charge),
                (9, "count_order", sums.rows),
            ];
            for (column, name, expected) in exact {
                if value(column) != Value::Int(expected) {
                    return Err(format!("{place}: {name} is {:?} and not {expected}", value(column)));
                }
            }
            let means =
                [(6, "avg_qty", sums.quantity), (7, "avg_price", sums.base_price), (8, "avg_disc", sums.discount)];
            for (column, name, sum) in means {
                let expected = sums.mean(sum);
                let near = matches!(value(column), Value::Real(mean) if (mean - expected).abs() <= MEAN_TOLERANCE);
                if !near {
                    return Err(format!("{place}: {name} is {:?} and not {expected}", value(column)));
                }
            }
        }
        Ok(())
    }
}

fn add_part(config: &IndexScanConfig, generator: &LineItemGenerator<'_>, groups: &mut ByFlags) {
    for item in generator.iter() {
        if !(config.from_day..config.until_day).contains(&day(item.l_shipdate)) {
            continue;
        }
        let (price, discount) = (item.l_extendedprice.into_inner(), item.l_discount.into_inner());
        let discounted_price = price * (100 - discount);
        let sums = Sums {
            rows: 1,
            quantity: 100 * item.l_quantity,
            base_price: price,
            discounted_price,
            charge: discounted_price * (100 + item.l_tax.into_inner()),
            discount,
        };
        let letter = |text: &str| text.chars().next().unwrap_or(' ');
        groups.entry((letter(item.l_returnflag), letter(item.l_linestatus))).or_default().add(&sums);
    }
}
