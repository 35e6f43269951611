//! Simulates buffer pools on recorded page accesses: no I/O, no clock, no Python.
//!
//! [`StackDistances`] and [`Curve`] are exact LRU at every size at once (Mattson, Gecsei, Slutz, Traiger: "Evaluation
//! techniques for storage hierarchies", IBM Systems Journal 9(2), 1970). An access hits in every pool of at least
//! `distance` pages.
//!
//! ```
//! use bufferlab_sim::StackDistances;
//! let mut stack = StackDistances::new(3)?;
//! let distances: Vec<_> = [0, 1, 2, 0, 0, 1].iter().map(|&page| stack.access(page)).collect();
//! assert_eq!(distances, [None, None, None, Some(3), Some(1), Some(3)]);
//! # Ok::<(), bufferlab_sim::TooManyPages>(())
//! ```
//!
//! [`replay`] plays the columns of a page trace to one [`Manager`]: a database's pool of one size.

mod curve;
mod managers;
mod replay;
mod slots;
mod stack;

pub use curve::Curve;
pub use managers::{Lru, Sqlite};
pub use replay::{Access, Columns, Counts, Manager, Replayed, kind, replay};
pub use stack::{StackDistances, TooManyPages};
