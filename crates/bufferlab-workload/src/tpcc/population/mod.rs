//! The initial database (4.3.3): which partitions it has, in which order, and the rows of each.
//!
//! A partition is a slice of one table, small enough that many can be generated at once in bounded memory.
//! Its rows depend on the load seed and on the partition alone: not on the number of threads, not on the
//! order, and not on the number of warehouses, so a larger database contains the smaller.

mod block;
mod partition;
mod rows;

pub use block::RowBlock;
pub use partition::{Partition, partitions};
pub use rows::{LOAD_DATE_US, generate};
