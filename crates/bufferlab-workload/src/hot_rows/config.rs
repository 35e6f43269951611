//! Scale, seed and layout of a run of hot_rows. This file checks them, so that later code need not.

use serde::Deserialize;

/// Most rows accepted: they are 20 GB of data, and every id fits 32 bits.
pub const MAX_ROWS: u32 = 100_000_000;
/// Largest exponent of Zipf's law accepted: beyond it nearly every read is of the three most popular rows.
const MAX_ZIPF: f64 = 3.0;

/// The places of the hot rows in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// The hot rows lie at random places in the whole table.
    Scattered,
    /// The hot rows are neighbours in key order. This has the same effect as loading the table with new keys that bring
    /// scattered hot rows together, because the rows' contents are random; but it needs no other table.
    Clustered,
}

/// The rows that one run reads, and their table.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct HotRowsConfig {
    /// Rows of the table; their ids are 1 to this number.
    pub rows: u32,
    /// Seed of the hot set and of every random choice of the run.
    #[serde(rename = "seed")]
    pub run_seed: u64,
    /// Number of rows that the run reads, the hot rows.
    pub hot_rows: u32,
    /// The places of the hot rows in the table.
    pub layout: Layout,
    /// Exponent of Zipf's law over the ranks of the hot rows; with zero the run reads each of them equally often.
    pub zipf: f64,
    /// The number of transactions in a hundred that update a row instead of reading it.
    pub update_percent: u32,
}

/// A configuration that cannot be loaded or run.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum HotRowsConfigError {
    /// The number of rows is out of range.
    #[error("rows = {rows} is not between 1 and {MAX_ROWS}")]
    Rows {
        /// The number of rows asked for.
        rows: u32,
    },
    /// There are more hot rows than rows, or none.
    #[error("hot_rows = {hot_rows} is not between 1 and the table's {rows} rows")]
    HotRows {
        /// The number of hot rows asked for.
        hot_rows: u32,
        /// The number of the table's rows.
        rows: u32,
    },
    /// The exponent of Zipf's law is out of range.
    #[error("zipf = {zipf} is not between 0 and {MAX_ZIPF}")]
    Zipf {
        /// The exponent asked for.
        zipf: f64,
    },
    /// The share of updates is not a percentage.
    #[error("update_percent = {update_percent} is not between 0 and 100")]
    UpdatePercent {
        /// The percentage of updates asked for.
        update_percent: u32,
    },
}

impl HotRowsConfig {
    /// Checks every bound.
    ///
    /// # Errors
    /// The first bound that the configuration breaks.
    pub fn check(&self) -> Result<(), HotRowsConfigError> {
        let HotRowsConfig { rows, hot_rows, zipf, update_percent, .. } = *self;
        if !(1..=MAX_ROWS).contains(&rows) {
            return Err(HotRowsConfigError::Rows { rows });
        }
        if !(1..=rows).contains(&hot_rows) {
            return Err(HotRowsConfigError::HotRows { hot_rows, rows });
        }
        // NaN is in no range.
        if !(0.0..=MAX_ZIPF).contains(&zipf) {
            return Err(HotRowsConfigError::Zipf { zipf });
        }
        if update_percent > 100 {
            return Err(HotRowsConfigError::UpdatePercent { update_percent });
        }
        Ok(())
    }
}
