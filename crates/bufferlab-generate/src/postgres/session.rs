//! The session whose statements come, its transaction, and how it gets a page.

use bufferlab_model::trace::latch;

/// A get of a page that the session has not pinned.
pub(super) const FIRST: u8 = latch::FIRST | latch::NO_RING;
/// A get of one that it has.
pub(super) const HELD: u8 = latch::HELD | latch::NO_RING;

/// The session and the transaction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Now {
    pub(super) session: u16,
    pub(super) transaction: u64,
    /// The oldest transaction that may still be under way: its elders' dead versions can be removed (procarray.c,
    /// `GlobalVisTestIsRemovableXid`).
    pub(super) horizon: u64,
}

impl Now {
    pub(super) fn can_remove(self, since: u64) -> bool {
        since < self.horizon
    }
}
