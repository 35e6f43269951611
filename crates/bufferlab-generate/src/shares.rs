//! Shares of the pages: of each block of so many pages in a row, a share has the one at a place that a hash names.
//!
//! The pages of a share are a sample of all pages, and of those of every table: a pool that is played the sample, and has
//! as small a part of the frames, misses as large a part of the pages (Waldspurger, Park, Garthwaite, Ahmad: "Efficient
//! MRC construction with SHARDS", FAST 2015). A block's number is the page's number in the share, so that no map is
//! needed.

use bufferlab_workload::random::split_mix;

/// The shares of one page in so many. They have numbers from 0 to below that, and each page is of one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    one_in: u32,
}

impl Shares {
    /// The only share of all pages.
    pub const ALL: Shares = Shares { one_in: 1 };

    /// Returns the shares of one page in so many.
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
        let (block, place) = (page / self.one_in, page % self.one_in);
        // The high half times the number of shares: an even draw without a division.
        let turned = ((split_mix(block.into()) >> 32) * u64::from(self.one_in) >> 32) as u32;
        let share = place + turned;
        (if share >= self.one_in { share - self.one_in } else { share }, block)
    }

    /// Returns how many pages a share may have.
    pub fn pages(self, pages: u32) -> u32 {
        pages.div_ceil(self.one_in)
    }

    /// Returns a share's frames. Those of all shares are the pool's.
    pub fn frames(self, share: u32, frames: u32) -> u32 {
        ((u64::from(frames) + u64::from(share)) / u64::from(self.one_in)) as u32
    }
}
