//! A session and its transaction, and how the session gets a page.

use bufferlab_model::trace::latch;

/// A get of a page that the session has not pinned.
pub(super) const FIRST: u8 = latch::FIRST | latch::NO_RING;
/// A get of a page that the session has pinned already.
pub(super) const HELD: u8 = latch::HELD | latch::NO_RING;

/// The session whose turn it is, its transaction, and the oldest transaction that may be under way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Now {
    pub(super) session: u16,
    pub(super) transaction: u64,
    /// The oldest transaction that may still be under way: versions that died before it can be removed (procarray.c,
    /// `GlobalVisTestIsRemovableXid`).
    pub(super) horizon: u64,
}

impl Now {
    pub(super) fn can_remove(self, since: u64) -> bool {
        since < self.horizon
    }
}
