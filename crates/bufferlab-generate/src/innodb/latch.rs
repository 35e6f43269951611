//! The latches that InnoDB takes on pages, with their numbers in page traces.

/// A shared latch (sync0types.h, `RW_S_LATCH`).
pub(super) const SHARED: u8 = 1;
/// An exclusive latch (sync0types.h, `RW_X_LATCH`).
pub(super) const EXCLUSIVE: u8 = 2;
/// A shared exclusive latch (sync0types.h, `RW_SX_LATCH`).
pub(super) const SX: u8 = 4;
/// The bits of latches under which a thread may change a page.
pub(crate) const CHANGING: u8 = EXCLUSIVE | SX;
/// No latch, because the tree's own latch protects the page (sync0types.h, `RW_NO_LATCH`).
pub(super) const NO_LATCH: u8 = 8;
