//! Simulated buffer pools on recorded page accesses, without I/O, clock or Python.
//!
//! [`PageStack`] and [`Curve`] are exact LRU at every size at once (Mattson, Gecsei, Slutz, Traiger: "Evaluation
//! techniques for storage hierarchies", IBM Systems Journal 9(2), 1970). An access hits in every pool of at least
//! `distance` pages.
//!
//! ```
//! use bufferlab_sim::PageStack;
//! let mut stack = PageStack::new(3)?;
//! let distances: Vec<_> = [0, 1, 2, 0, 0, 1].iter().map(|&page| stack.access(page)).collect();
//! assert_eq!(distances, [None, None, None, Some(3), Some(1), Some(3)]);
//! # Ok::<(), bufferlab_sim::TooManyPages>(())
//! ```
//!
//! [`replay`] plays the columns of a page trace to one [`Manager`]: a database's pool of one size. The list [`MODELS`]
//! has each [`Model`] by its name.
//!
//! ```
//! use bufferlab_model::trace::Columns;
//! use bufferlab_sim::{Innodb57, Innodb57Settings, Model, replay};
//! use std::num::NonZeroU32;
//! // Two scans of 1000 pages, one access a millisecond, in a pool of 900 frames.
//! let page: Vec<u32> = (0..1000).chain(0..1000).collect();
//! let columns = Columns { page: &page, kind: &[0; 2000], latch: &[1; 2000], thread: &[0; 2000], delta_us: &[1000; 2000] };
//! let settings = Innodb57Settings { lru_scan_depth: 100, ..Innodb57Settings::default() };
//! let frames = NonZeroU32::new(900).expect("a size");
//! let second_scan = replay(&mut Innodb57::new(frames, 1000, &settings), &columns, 0, 1000..2000);
//! // Least recently used would miss all 1000: pages are read into the old sublist, and the young ones stay.
//! assert_eq!(second_scan.counts.misses, 451);
//! # assert_eq!(second_scan.gets, 1000);
//! ```

mod curve;
mod ghost_list;
mod managers;
mod replay;
mod slices;
mod slots;
mod stack;
mod stretched;

pub use curve::Curve;
pub use ghost_list::{BY_RING, Depths, ghost_depths};
pub use managers::*;
pub use replay::{Counts, Make, Manager, Model, NoSettings, OneIn, Refused, Replay, Replayed, Watch, replay};
pub use slices::{Slice, replay_slices};
pub use stack::{PageStack, TooManyPages};
pub use stretched::stretched;
