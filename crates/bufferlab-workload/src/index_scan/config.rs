//! Scale, range of dates and plan of a run of index_scan. This file checks them, so that later code need not.

use serde::{Deserialize, Deserializer, de};

use super::day_of;
use crate::plan::Plan;

/// Smallest scale factor accepted: 1,500 orders.
pub const MIN_SCALE_FACTOR: f64 = 0.001;
/// Largest scale factor accepted: beyond it the sums of Q1, exact integers in millionths of a currency unit, need more
/// than 64 bits.
pub const MAX_SCALE_FACTOR: f64 = 50.0;

/// The day after the last one that Q1 reads with the specification's validation parameter. That last day is 1998-12-01
/// less 90 days.
pub const Q1_UNTIL_DAY: i32 = 10_472;

/// Rows of ORDERS at scale factor 1 (specification, 4.2.5.1). Each order has one to seven lines, four on average.
const ORDERS: f64 = 1_500_000.0;

/// The scale factor of the data: 1 gives about 6,000,000 lines.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(try_from = "f64")]
pub struct ScaleFactor(f64);

impl ScaleFactor {
    /// Makes a scale factor. Within its limits a load can make the data, and answers are exact.
    ///
    /// # Errors
    /// [`IndexScanConfigError::ScaleFactor`] when the scale factor is out of range.
    pub fn new(scale_factor: f64) -> Result<Self, IndexScanConfigError> {
        // NaN is in no range.
        if (MIN_SCALE_FACTOR..=MAX_SCALE_FACTOR).contains(&scale_factor) {
            Ok(ScaleFactor(scale_factor))
        } else {
            Err(IndexScanConfigError::ScaleFactor { scale_factor })
        }
    }

    /// Returns the scale factor as a number.
    #[must_use]
    pub fn get(self) -> f64 {
        self.0
    }

    /// Returns the number of orders, rounded down as the specification's generator does.
    #[must_use]
    pub fn orders(self) -> u64 {
        (ORDERS * self.0) as u64
    }
}

impl TryFrom<f64> for ScaleFactor {
    type Error = IndexScanConfigError;

    fn try_from(scale_factor: f64) -> Result<Self, IndexScanConfigError> {
        ScaleFactor::new(scale_factor)
    }
}

/// The rows that one run reads, and their plan.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct IndexScanConfig {
    /// Scale factor of the loaded data.
    pub scale_factor: ScaleFactor,
    /// First ship date read, in days since 1970.
    #[serde(rename = "ship_from", deserialize_with = "day")]
    pub from_day: i32,
    /// The day after the last ship date read, in days since 1970.
    #[serde(rename = "ship_until", deserialize_with = "day")]
    pub until_day: i32,
    /// The plan by which the engine finds the rows.
    pub plan: Plan,
}

fn day<'de, D: Deserializer<'de>>(from: D) -> Result<i32, D::Error> {
    let text = String::deserialize(from)?;
    day_of(&text).ok_or_else(|| de::Error::custom(format!("{text:?} is no date such as 1998-09-03")))
}

/// A configuration that cannot be loaded or run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum IndexScanConfigError {
    /// The scale factor is out of range.
    #[error("scale_factor = {scale_factor} is not between {MIN_SCALE_FACTOR} and {MAX_SCALE_FACTOR}")]
    ScaleFactor {
        /// The scale factor asked for.
        scale_factor: f64,
    },
    /// The range of dates holds no day.
    #[error("ship_until is not after ship_from: the range has {days} days")]
    Range {
        /// Days from the first ship date to the one at which reading stops.
        days: i32,
    },
    /// The generated rows do not give the answer that the specification publishes.
    #[error("the generated rows do not give Q1's published answer: {difference}")]
    NotPublished {
        /// The first difference between the generator's answer and the published one.
        difference: String,
    },
}

impl IndexScanConfig {
    /// Checks the range of dates.
    ///
    /// # Errors
    /// [`IndexScanConfigError::Range`] when the range holds no day.
    pub fn check(&self) -> Result<(), IndexScanConfigError> {
        if self.from_day < self.until_day {
            return Ok(());
        }
        Err(IndexScanConfigError::Range { days: self.until_day.saturating_sub(self.from_day) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index_scan::day_of;

    #[test]
    fn scales_beyond_the_bounds_and_no_numbers_are_refused() {
        for scale_factor in [f64::NAN, f64::INFINITY, -1.0, 0.0, 0.0009, 50.1] {
            assert!(ScaleFactor::new(scale_factor).is_err(), "{scale_factor}");
        }
        assert_eq!(ScaleFactor::new(0.01).map(ScaleFactor::orders), Ok(15_000));
    }

    #[test]
    fn a_range_has_a_day() {
        let scale_factor = ScaleFactor::new(1.0).expect("a scale");
        let range =
            |from_day, until_day| IndexScanConfig { scale_factor, from_day, until_day, plan: Plan::IndexScan }.check();
        assert_eq!(range(5, 6), Ok(()));
        assert_eq!(range(6, 6), Err(IndexScanConfigError::Range { days: 0 }));
        assert!(range(i32::MAX, i32::MIN).is_err());
    }

    #[test]
    fn the_specifications_range_ends_after_the_second_of_september() {
        assert_eq!(day_of("1998-09-03"), Some(Q1_UNTIL_DAY));
    }
}
