//! Shares of the pages: of each block of N runs of pages, a share has the run at a place that a hash names.
//!
//! A run is of [`RUN`] pages in a row, because InnoDB writes a page's neighbours with it: with single pages MySQL 5.7
//! misses 3 % less, as without `flush_neighbors`.
//!
//! The pages of a share are a sample of all pages, and of those of every table: a pool that is played the sample, and has
//! as small a part of the frames, misses as large a part of the pages (Waldspurger, Park, Garthwaite, Ahmad: "Efficient
//! MRC construction with SHARDS", FAST 2015). The block's number is the run's number in the share, so that no map is
//! needed.

use bufferlab_workload::random::split_mix;

/// Pages of a run.
pub const RUN: u32 = 4;

/// The shares of one page in N. They have the numbers 0 to N - 1, and each page is of one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    one_in: u32,
}

impl Shares {
    /// The only share of all pages.
    pub const ALL: Shares = Shares { one_in: 1 };

    /// Returns the shares of one page in `one_in`.
    ///
    /// # Panics
    /// When that is zero.
    pub fn new(one_in: u32) -> Self {
        assert!(one_in > 0, "a share has pages");
        Shares { one_in }
    }

    /// Returns of how many pages a share has one.
    pub fn one_in(self) -> u32 {
        self.one_in
    }

    /// Returns the share that has a page, and the page's number in it.
    #[inline]
    pub fn of(self, page: u32) -> (u32, u32) {
        if self.one_in == 1 {
            return (0, page);
        }
        let (run, within) = (page / RUN, page % RUN);
        let (block, place) = (run / self.one_in, run % self.one_in);
        // The high half times the number of shares: an even draw without a division.
        let turned = (((split_mix(block.into()) >> 32) * u64::from(self.one_in)) >> 32) as u32;
        let share = place + turned;
        (if share >= self.one_in { share - self.one_in } else { share }, block * RUN + within)
    }

    /// Returns how many pages a share has at most.
    pub fn pages(self, pages: u32) -> u32 {
        if self.one_in == 1 { pages } else { pages.div_ceil(self.one_in * RUN) * RUN }
    }

    /// Returns a share's frames. Those of all shares are the pool's.
    pub fn frames(self, share: u32, frames: u32) -> u32 {
        assert!(share < self.one_in, "one page in {} has no share {share}", self.one_in);
        ((u64::from(frames) + u64::from(share)) / u64::from(self.one_in)) as u32
    }
}
