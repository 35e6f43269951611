//! The set of hot rows: maps each rank to the id of a row. The first rank is the hottest row's.
//!
//! The set computes an id from its rank instead of storing ids. So a set of any size costs the same, and takes no room
//! in the processor's caches.

use super::config::{HotRowsConfig, Layout};
use crate::permutation::Permutation;
use crate::random::Random;

/// The hot rows of one run.
#[derive(Clone, Debug)]
pub struct HotSet {
    hot_rows: u32,
    order: Order,
}

#[derive(Clone, Debug)]
enum Order {
    /// The row of a rank is the row at that place in a random order of the whole table.
    Scattered(Permutation),
    /// The rows of the ranks follow each other from this id on.
    Clustered { first_id: u32 },
}

impl HotSet {
    /// Returns the set of a checked configuration. Of two sets that differ only in size the larger contains the
    /// smaller. In the scattered layout both sets have the same row for each rank of the smaller set. In the clustered
    /// layout the smaller set is a part of the larger set's range.
    pub fn new(config: &HotRowsConfig) -> Self {
        let mut random = Random::stream(config.run_seed, "hot set", &[u64::from(config.rows)]);
        let order = match config.layout {
            Layout::Scattered => Order::Scattered(Permutation::new(u64::from(config.rows), &mut random)),
            Layout::Clustered => {
                // If the range would reach beyond the table, move it back so that it ends with the table.
                let drawn = random.between(1, config.rows);
                Order::Clustered { first_id: drawn.min(config.rows - config.hot_rows + 1) }
            }
        };
        HotSet { hot_rows: config.hot_rows, order }
    }

    /// Returns the number of hot rows.
    pub fn len(&self) -> u32 {
        self.hot_rows
    }

    /// Returns true without a hot row; a checked configuration has at least one.
    pub fn is_empty(&self) -> bool {
        self.hot_rows == 0
    }

    /// Returns the id of the row with this rank. Ranks count from zero, the hottest row's.
    ///
    /// # Panics
    /// When the rank does not exist.
    #[inline]
    pub fn id(&self, rank: u32) -> u32 {
        assert!(rank < self.hot_rows, "there is no rank {rank} among {} hot rows", self.hot_rows);
        match &self.order {
            Order::Scattered(permutation) => permutation.at(u64::from(rank)) as u32 + 1,
            Order::Clustered { first_id } => first_id + rank,
        }
    }
}
