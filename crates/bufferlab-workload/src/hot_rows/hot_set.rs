//! The hot rows: rank by rank, hottest first, so that a smaller set is the beginning of a larger one.
//!
//! The set stores nothing: it computes an id from its rank, so sets of any size cost the same and leave caches alone.

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
    /// The id of a rank is the entry at that place in a random order of the whole table.
    Scattered(Permutation),
    /// Ranks follow each other from here on.
    Clustered { first_id: u32 },
}

impl HotSet {
    /// Returns the set of a checked configuration. Sets that differ only in size are nested: in the scattered layout
    /// the smaller is the beginning of the larger, in the clustered one it is a part of its run.
    pub fn new(config: &HotRowsConfig) -> Self {
        let mut random = Random::stream(config.run_seed, "hot set", &[u64::from(config.rows)]);
        let order = match config.layout {
            Layout::Scattered => Order::Scattered(Permutation::new(u64::from(config.rows), &mut random)),
            Layout::Clustered => {
                // If the range would reach beyond the table, move it back just far enough.
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

    /// Returns false: a set has at least one row.
    pub fn is_empty(&self) -> bool {
        self.hot_rows == 0
    }

    /// Returns the id of a rank, counted from zero, the hottest.
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
