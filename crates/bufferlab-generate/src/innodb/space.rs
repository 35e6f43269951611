//! Pages that manage the space of a table's file. The functions say which of these pages a split, a merge and a read
//! access.
//!
//! The rules give the same gets as a page trace of MySQL 5.7.22 with one connection.

use super::latch::{EXCLUSIVE, NO_LATCH, SX};
use crate::engine::Relation;
use crate::pools::{Objects, Pools};
use crate::run::Run;
use crate::tree::Grown;

const NAME: &str = "(space management)";
/// The managing pages of each file: its header, its first bitmap page and its inode page (fsp0types.h).
const PAGES: u32 = 3;
const BITMAP: u32 = 1;
const INODE: u32 = 2;

/// The managing pages of the files of all trees that grow.
#[derive(Default)]
pub(super) struct Space(u32);

impl Space {
    pub(super) fn new(objects: &mut Objects) -> Self {
        Space(objects.add(NAME, 5 * PAGES, 5 * PAGES))
    }

    fn page(&self, table: Relation, page: u32) -> u32 {
        let file = match table {
            Relation::History => 0,
            // The index on customers is in the file of ORDERS.
            Relation::Orders | Relation::ByCustomer => 1,
            Relation::NewOrder => 3,
            _ => 4,
        };
        self.0 + file * PAGES + page
    }

    /// Makes sure that a file has free extents before its tree may change (fsp0fsp.cc, `fsp_reserve_free_extents`).
    pub(super) fn reserve(&self, pools: &mut Pools, table: Relation) {
        pools.get(self.page(table, 0), SX);
    }

    /// Makes a leaf (btr0btr.cc, `btr_page_alloc_low`; buf0buf.cc, `buf_page_create`, which looks at the bitmap).
    pub(super) fn make(&self, pools: &mut Pools, table: Relation, tree: &Grown, leaf: u32) {
        self.segment(pools, table, tree);
        (0..2).for_each(|_| pools.get(self.page(table, 0), SX));
        pools.create(leaf);
        pools.get(self.page(table, BITMAP), EXCLUSIVE);
    }

    /// Frees a leaf (btr0btr.cc, `btr_page_free_low`; fsp0fsp.cc, `fseg_free_page`).
    pub(super) fn give_back(&self, pools: &mut Pools, table: Relation, tree: &Grown) {
        self.segment(pools, table, tree);
        pools.get(self.page(table, 0), SX);
    }

    /// Gets the bitmap page twice, to note the free space of two leaves of a secondary index (ibuf0ibuf.cc,
    /// `ibuf_update_free_bits_for_two_pages_low`).
    pub(super) fn note_room(&self, pools: &mut Pools, table: Relation) {
        (0..2).for_each(|_| pools.get(self.page(table, BITMAP), EXCLUSIVE));
    }

    /// Reads the root, which names the leaves' segment, and the page with the segment's inode.
    fn segment(&self, pools: &mut Pools, table: Relation, tree: &Grown) {
        tree.interior.path(0).take(1).for_each(|page| pools.get(page, SX));
        pools.get(self.page(table, INODE), SX);
    }
}

/// Goes to the page above a leaf to change its pointer (btr0btr.cc, `btr_page_get_father_node_ptr`).
pub(super) fn father(pools: &mut Pools, tree: &Grown, origin: u32) {
    tree.interior.path(origin).for_each(|page| pools.get(page, NO_LATCH));
    tree.interior.path(origin).next_back().into_iter().for_each(|page| pools.get(page, EXCLUSIVE));
}

/// Adds the gets of bitmap pages: one for each leaf that is read, to see whether changes wait for it (buf0buf.cc,
/// `buf_page_io_complete`; ibuf0ibuf.cc, `ibuf_merge_or_delete_for_page`). Only one page of 16 KiB in 16,384 is a
/// bitmap, so bitmaps stay in every pool and cause no reads. Pages above the leaves have no such gets; they are seldom
/// read, so this function counts them as leaves.
pub fn count_bitmaps(run: &mut Run) {
    for pool in &mut run.pools {
        pool.gets += pool.counts.misses;
    }
    if let (Some(first), Some(space)) = (run.pools.first(), run.census.iter_mut().find(|counted| counted.name == NAME))
    {
        space.all.gets_per_transaction += first.counts.misses as f64 / first.transactions.max(1) as f64;
    }
}
