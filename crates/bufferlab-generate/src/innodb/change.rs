//! Changes of a tree of InnoDB: inserts, rows that grow, removals, and the splits and merges of leaves.

use super::latch::{EXCLUSIVE, NO_LATCH};
use super::layout::is_built;
use super::undo::{Log, record_bytes};
use super::{Innodb, reach, space};
use crate::engine::{Relation, Row};
use crate::pools::Pools;
use crate::tree::{Grown, Place, Tree};

/// Bytes of an undo record of an insert.
const INSERTED: u32 = 30;

impl Innodb {
    pub(super) fn grown(&self, of: Relation) -> &Grown {
        match self.tree(of) {
            Tree::Grown(tree) => tree,
            Tree::Packed(_) => unreachable!("{} does not grow", of.name()),
        }
    }

    fn grown_mut(&mut self, of: Relation) -> &mut Grown {
        match &mut self.trees[of as usize] {
            Tree::Grown(tree) => tree,
            Tree::Packed(_) => unreachable!("{} does not grow", of.name()),
        }
    }

    /// Puts a row into a tree (btr0cur.cc, `btr_cur_optimistic_insert`, `btr_cur_pessimistic_insert`).
    pub(super) fn insert_into(&mut self, pools: &mut Pools, row: Row, is_logged: bool) {
        let Row { of, group, key, .. } = row;
        let (bytes, size) = (self.inserted[of as usize], self.size);
        let place = self.grown(of).place(group, key);
        reach(pools, self.tree(of), place, EXCLUSIVE);
        let leaf = *self.grown(of).leaf(place);
        let in_a_row = leaf.last_insert.is_some_and(|(last, before)| last == group && before < key);
        let fits = if in_a_row && !is_built(of) {
            size.takes_next(leaf.rows, leaf.bytes, bytes)
        } else {
            size.takes(leaf.rows, leaf.bytes, bytes)
        };
        if fits {
            self.grown_mut(of).add(place, group, key, bytes);
        } else {
            self.latch_siblings(pools, of, place);
        }
        if is_logged {
            self.write(pools, row, Log::Insert, INSERTED);
        }
        if !fits {
            self.split(pools, row, place, in_a_row);
        }
    }

    /// Goes down from the root again and latches a leaf and both its siblings, because the tree may change (btr0cur.cc,
    /// `btr_cur_latch_leaves` with `BTR_MODIFY_TREE`).
    fn latch_siblings(&self, pools: &mut Pools, of: Relation, place: Place) {
        let tree = self.grown(of);
        let leaf = tree.leaf(place);
        tree.interior.path(leaf.origin).for_each(|page| pools.get(page, NO_LATCH));
        pools.get(leaf.page, NO_LATCH);
        for other in [tree.before(place), Some(place), tree.behind(place)].into_iter().flatten() {
            pools.get(tree.leaf(other).page, EXCLUSIVE);
        }
    }

    /// Splits a leaf (btr0btr.cc, `btr_page_split_and_insert`). If rows are inserted in order, the new leaf begins one
    /// row after the inserted row (`btr_page_get_split_rec_to_right`). Otherwise the leaf is split in the middle.
    fn split(&mut self, pools: &mut Pools, row: Row, place: Place, in_a_row: bool) {
        let Row { of, group, key, .. } = row;
        let bytes = self.inserted[of as usize];
        let tree = self.grown_mut(of);
        let leaf = *tree.leaf(place);
        let (later, later_bytes) = if in_a_row { tree.later_rows(place, group) } else { (0, 0) };
        let ((first_group, first), rows, moved) = match (in_a_row, later) {
            (false, _) => (tree.middle(place), leaf.rows / 2, leaf.bytes / 2),
            (true, 0 | 1) => ((group, key), later, later_bytes),
            _ => (tree.second_of_later_groups(group), later - 1, later_bytes - later_bytes / later),
        };
        let Some(new) = tree.split(place, first_group, first, rows, moved) else { return pools.fill() };
        if later > 1 {
            tree.note_begun(first_group, first, 1, later_bytes / later);
        }
        let target = tree.place(group, key);
        tree.add(target, group, key, bytes);
        self.space.reserve(pools, of);
        let tree = self.grown(of);
        self.space.make(pools, of, tree, tree.leaf(new).page);
        tree.behind(new).into_iter().for_each(|place| pools.get(tree.leaf(place).page, EXCLUSIVE));
        space::father(pools, tree, leaf.origin);
        if is_built(of) {
            self.space.note_room(pools, of);
        }
        self.point_to(pools, of, leaf.origin);
    }

    fn point_to(&mut self, pools: &mut Pools, of: Relation, origin: u32) {
        self.grown_mut(of).point_to(origin).into_iter().for_each(|page| pools.create_interior(page));
    }

    /// Merges a leaf that is less than half full into a neighbour that has room (btr0btr.cc, `btr_compress`).
    fn merge(&mut self, pools: &mut Pools, of: Relation, place: Place) {
        let size = self.size;
        let tree = self.grown(of);
        let leaf = *tree.leaf(place);
        let room = |other: &Place| size.takes(tree.leaf(*other).rows + leaf.rows, tree.leaf(*other).bytes, leaf.bytes);
        let latch = |pools: &mut Pools, place: Option<Place>| {
            place.into_iter().for_each(|place| pools.get(tree.leaf(place).page, EXCLUSIVE));
        };
        let (left, right) = (tree.before(place), tree.behind(place));
        space::father(pools, tree, leaf.origin);
        latch(pools, left);
        let to_left = left.filter(room);
        if to_left.is_none() {
            latch(pools, right);
        }
        let Some(into) = to_left.or_else(|| right.filter(room)) else { return };
        // Remove the node pointer, and take the leaf out of the list of its level.
        space::father(pools, tree, leaf.origin);
        latch(pools, left);
        latch(pools, right);
        self.space.give_back(pools, of, tree);
        let tree = self.grown_mut(of);
        if to_left.is_some() {
            let own = tree.leaf_mut(into);
            (own.rows, own.bytes) = (own.rows + leaf.rows, own.bytes + leaf.bytes);
            return tree.remove(place);
        }
        let other = *tree.leaf(into);
        // Keep the right page, with the keys of both pages.
        let own = tree.leaf_mut(place);
        (own.rows, own.bytes) = (own.rows + other.rows, own.bytes + other.bytes);
        let freed = std::mem::replace(&mut own.page, other.page);
        own.last_insert = None;
        tree.leaf_mut(into).page = freed;
        tree.remove(into);
    }

    /// Returns whether a leaf is so empty that InnoDB tries to merge it (btr0cur.h, `BTR_CUR_PAGE_COMPRESS_LIMIT`).
    fn is_nearly_empty(&self, of: Relation, place: Place) -> bool {
        self.grown(of).leaf(place).bytes < self.size.0 / 2
    }

    /// Lets a row grow (btr0cur.cc, `btr_cur_optimistic_update`, `btr_cur_pessimistic_update`): a column that was null,
    /// the date of a line's delivery or an order's carrier, gets a value.
    pub(super) fn grow(&mut self, pools: &mut Pools, row: Row, place: Place) {
        let (of, size) = (row.of, self.size);
        let by = if of == Relation::OrderLine { 5 } else { 1 };
        let leaf = *self.grown(of).leaf(place);
        pools.get(leaf.page, EXCLUSIVE);
        let old = self.inserted[of as usize];
        let left = old + size.max_insert(leaf.rows, leaf.bytes);
        let overflows = left < size.0 / 32 || left < old + by;
        let underflows = self.is_nearly_empty(of, place);
        if overflows || underflows {
            self.latch_siblings(pools, of, place);
        }
        self.write(pools, row, Log::Update, record_bytes(of));
        if overflows && !underflows {
            self.space.reserve(pools, of);
        }
        let tree = self.grown_mut(of);
        tree.leaf_mut(place).bytes += by;
        if underflows {
            self.merge(pools, of, place);
        } else if left < old + by {
            let leaf = *tree.leaf(place);
            let (group, key) = tree.middle(place);
            // Rows grow in the order of their keys, so the rows after this one have not grown yet.
            let (upper, grown) = (leaf.rows / 2, leaf.bytes.saturating_sub(leaf.rows * old) / by);
            let moved = upper * old + by * grown.saturating_sub(leaf.rows - upper);
            let Some(new) = tree.split(place, group, key, upper, moved) else { return pools.fill() };
            let tree = self.grown(of);
            self.space.make(pools, of, tree, tree.leaf(new).page);
            self.point_to(pools, of, leaf.origin);
        }
    }

    /// Removes the row of a purged or rolled back transaction. `next` is the group's new lowest key, if the removed row
    /// had the lowest.
    pub(super) fn remove(&mut self, pools: &mut Pools, row: Row, next: Option<u32>) {
        let Row { of, group, key, .. } = row;
        let place = self.grown(of).place(group, key);
        reach(pools, self.tree(of), place, EXCLUSIVE);
        let bytes = self.inserted[of as usize];
        self.grown_mut(of).take(place, group, bytes, next);
        if next.is_some() && self.is_nearly_empty(of, place) {
            self.latch_siblings(pools, of, place);
            self.space.reserve(pools, of);
            self.merge(pools, of, place);
        }
    }
}
