//! PostgreSQL's B-trees: the path to an entry, the entries of dead versions, and the steps before a full leaf is split.
//!
//! The rules are those of src/backend/access/nbtree. Without VACUUM a dead version's entry stays until a full leaf
//! needs its room. A scan that finds such a version marks the entry as killed, and later scans skip it (nbtutils.c,
//! `_bt_killitems`).

use std::collections::HashMap;

use super::heap::Heap;
use super::session::{FIRST, HELD, Now};
use crate::pools::Pools;
use crate::tree::{Grown, Leaf, Place};

/// Bytes of a page without its header and its special space (bufpage.h, nbtree.h, `BTPageOpaqueData`).
const EMPTY: u32 = 8192 - 24 - 16;
/// Bytes of a leaf that an index build leaves free: the fill factor is 90 (nbtree.h, `BTREE_DEFAULT_FILLFACTOR`).
const BUILD_LEAVES: u32 = 8192 / 10;
/// Bytes of an interior page that an index build leaves free: the fill factor is 70 (nbtree.h,
/// `BTREE_NONLEAF_FILLFACTOR`).
const BUILD_LEAVES_ABOVE: u32 = 8192 * 3 / 10;
/// The most heap pages that a pass over duplicates reads (heapam.c, `BOTTOMUP_MAX_NBLOCKS`).
const MOST_BLOCKS: usize = 6;
/// Bytes of entries that a pass over duplicates wants to remove (nbtdedup.c, `_bt_bottomupdel_pass`).
const WANTED: u32 = 8192 / 16;
/// The distance in pages up to which heap pages count as neighbours (heapam.c, `BOTTOMUP_TOLERANCE_NBLOCKS`).
const NEIGHBOURS: u32 = 3;

/// Returns whether a leaf takes an item while an index is built. An item that does not fit goes to the next leaf,
/// together with the item before it (nbtsort.c, `_bt_buildadd`).
pub(super) fn takes_built(_rows: u32, bytes: u32, record: u32) -> bool {
    // 4 bytes are the high key's line pointer, and 4 bytes are the line pointer that PageGetFreeSpace leaves out.
    EMPTY - 4 - 4 >= bytes + record + BUILD_LEAVES
}

/// Returns the number of children of an interior page that an index build made.
pub(super) fn fan_out(entry: u32) -> u32 {
    (EMPTY - 4 - 4 - BUILD_LEAVES_ABOVE) / entry
}

/// The entry of a dead version.
#[derive(Clone, Copy, Debug)]
struct Stale {
    group: u32,
    key: u32,
    /// The version's heap page.
    block: u32,
    since: u64,
    is_killed: bool,
    /// Whether the dead version was the row's last one, so that the row is deleted.
    is_last: bool,
}

/// Group and key of an entry.
pub(super) type Key = (u32, u32);
/// Where an entry is or would be: the place of its leaf, and its key.
pub(super) type At = (Place, Key);

/// A B-tree index.
pub(super) struct Index {
    pub(super) tree: Grown,
    /// Bytes of an entry with its line pointer.
    entry: u32,
    is_unique: bool,
    /// Whether all entries are of one size (nbtsplitloc.c, `_bt_afternewitemoff`).
    is_even: bool,
    /// Entries of dead versions, by the leaf's page.
    stale: HashMap<u32, Vec<Stale>>,
    /// The heap page of each group's last inserted entry.
    last_blocks: Vec<u32>,
}

/// A new entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// The entry's group and key.
    pub(super) key: (u32, u32),
    /// The heap page of the version that the entry leads to.
    pub(super) block: u32,
    /// The heap page of the row's version before, which the session has pinned; none for a new row.
    pub(super) pinned: Option<u32>,
}

impl Index {
    pub(super) fn new(tree: Grown, entry: u32, groups: u32, is_unique: bool, is_even: bool) -> Self {
        let last_blocks = vec![u32::MAX; groups as usize];
        Index { tree, entry, is_unique, is_even, stale: HashMap::new(), last_blocks }
    }

    /// Goes down to the leaf that holds a key or would hold it; returns where the key is (nbtsearch.c, `_bt_search`).
    /// The meta page is not read, because a session keeps its contents (`_bt_getroot`).
    pub(super) fn seek(&self, pools: &mut Pools, key: Key) -> At {
        let at = self.at(key);
        let leaf = self.tree.leaf(at.0);
        self.tree.interior.path(leaf.origin).for_each(|page| pools.get(page, FIRST));
        pools.get(leaf.page, FIRST);
        at
    }

    /// Returns where a key is or would be, without a get.
    pub(super) fn at(&self, key: Key) -> At {
        (self.tree.place(key.0, key.1), key)
    }

    /// Goes on from leaf to leaf to the one that holds a key; returns where the key is.
    pub(super) fn go_on(&self, pools: &mut Pools, (mut place, _): At, key: Key) -> At {
        let (target, _) = self.at(key);
        while place != target {
            let Some(next) = self.tree.behind(place) else { break };
            pools.get(self.tree.leaf(next).page, FIRST);
            place = next;
        }
        (place, key)
    }

    /// Reads the heap pages to which a key's entries lead; `live` is the live version's page, which is read last.
    /// `held` is the heap page that the scan has pinned; the function
    /// updates it. Marks an entry as killed if no transaction sees its version.
    pub(super) fn fetch(
        &mut self,
        pools: &mut Pools,
        heap: &mut Heap,
        (place, key): At,
        live: Option<u32>,
        held: &mut Option<u32>,
        now: Now,
    ) {
        let leaf = self.tree.leaf(place).page;
        let mut has_killed = false;
        let stale = self.stale.get_mut(&leaf).map(Vec::as_mut_slice).unwrap_or_default();
        for stale in stale.iter_mut().filter(|stale| !stale.is_killed && (stale.group, stale.key) == key) {
            if held.replace(stale.block) != Some(stale.block) {
                heap.fetch(pools, stale.block, now);
            }
            stale.is_killed = now.can_remove(stale.since);
            has_killed |= stale.is_killed;
        }
        if let Some(live) = live
            && held.replace(live) != Some(live)
        {
            heap.fetch(pools, live, now);
        }
        if has_killed {
            // The leaf's pin was dropped (nbtsearch.c, `_bt_drop_lock_and_maybe_pin`).
            pools.get(leaf, FIRST);
            pools.hint(leaf);
        }
    }

    /// Returns the keys below `key` in a group whose entries lead to dead versions and are not marked as killed.
    pub(super) fn gone_until(&self, group: u32, key: u32) -> Vec<u32> {
        let place = self.tree.place(group, 0);
        let end = self.tree.place(group, key);
        let along = std::iter::successors(Some(place), |&at| self.tree.behind(at).filter(|_| at != end));
        let leaves = along.filter_map(|at| self.stale.get(&self.tree.leaf(at).page));
        let own = leaves.flatten().filter(|stale| stale.group == group && stale.key < key && !stale.is_killed);
        let mut keys: Vec<u32> = own.map(|stale| stale.key).collect();
        keys.sort_unstable();
        keys
    }

    /// Notes that the version to which an entry leads is dead.
    pub(super) fn bury(&mut self, (group, key): (u32, u32), block: u32, is_last: bool, now: Now) {
        let leaf = self.tree.leaf(self.tree.place(group, key)).page;
        let stale = Stale { group, key, block, since: now.transaction, is_killed: false, is_last };
        self.stale.entry(leaf).or_default().push(stale);
    }

    /// Notes that the version to which an entry leads is alive again: removes the last note of its death.
    pub(super) fn unbury(&mut self, (group, key): (u32, u32), block: u32) {
        let leaf = self.tree.leaf(self.tree.place(group, key)).page;
        if let Some(stale) = self.stale.get_mut(&leaf)
            && let Some(at) = stale.iter().rposition(|one| (one.group, one.key, one.block) == (group, key, block))
        {
            stale.remove(at);
        }
    }

    /// Inserts an entry (nbtinsert.c, `_bt_doinsert`).
    pub(super) fn insert(&mut self, pools: &mut Pools, heap: &mut Heap, entry: Entry, now: Now) {
        let Entry { key: (group, key), block, pinned } = entry;
        let (place, _) = self.seek(pools, (group, key));
        let leaf = *self.tree.leaf(place);
        if self.is_unique {
            self.check_unique(pools, heap, entry, leaf.page, now);
        }
        let is_adjacent = std::mem::replace(&mut self.last_blocks[group as usize], block) == block;
        let takes = |leaf: &Leaf, own: u32| leaf.bytes + 2 * own <= EMPTY;
        pools.change(leaf.page);
        if takes(&leaf, self.entry) {
            return self.tree.add(place, group, key, self.entry);
        }
        self.delete_killed(pools, heap, place, block, now);
        if !takes(self.tree.leaf(place), self.entry) && pinned.is_some() {
            self.delete_duplicates(pools, heap, place, now);
        }
        if takes(self.tree.leaf(place), self.entry) {
            return self.tree.add(place, group, key, self.entry);
        }
        self.split(pools, place, (group, key), is_adjacent);
    }

    /// Reads the dead versions with the new entry's key, and marks an entry as killed if no transaction sees its
    /// version (nbtinsert.c, `_bt_check_unique`).
    fn check_unique(&mut self, pools: &mut Pools, heap: &Heap, entry: Entry, leaf: u32, now: Now) {
        let stale = self.stale.get_mut(&leaf).map(Vec::as_mut_slice).unwrap_or_default();
        for stale in stale.iter_mut().filter(|stale| !stale.is_killed && (stale.group, stale.key) == entry.key) {
            let latch = if entry.pinned == Some(stale.block) { HELD } else { FIRST };
            pools.get(heap.page(stale.block), latch);
            stale.is_killed = now.can_remove(stale.since);
        }
    }

    /// Removes killed entries, and entries of other versions on the same heap pages that no transaction sees
    /// (nbtinsert.c, `_bt_simpledel_pass`; heapam.c, `heap_index_delete_tuples`).
    fn delete_killed(&mut self, pools: &mut Pools, heap: &Heap, place: Place, block: u32, now: Now) {
        let page = self.tree.leaf(place).page;
        let Some(stale) = self.stale.get(&page) else { return };
        let mut blocks: Vec<u32> = stale.iter().filter(|stale| stale.is_killed).map(|stale| stale.block).collect();
        if blocks.is_empty() {
            return;
        }
        blocks.push(block);
        blocks.sort_unstable();
        blocks.dedup();
        blocks.iter().for_each(|&block| pools.get(heap.page(block), FIRST));
        self.remove(place, |stale| {
            stale.is_killed || blocks.binary_search(&stale.block).is_ok() && now.can_remove(stale.since)
        });
    }

    /// Removes entries of versions that no transaction sees, from the heap pages with the most duplicates (nbtdedup.c,
    /// `_bt_bottomupdel_pass`; heapam.c, `heap_index_delete_tuples`, `bottomup_sort_and_shrink`).
    fn delete_duplicates(&mut self, pools: &mut Pools, heap: &Heap, place: Place, now: Now) {
        let page = self.tree.leaf(place).page;
        let mut counts: HashMap<u32, (u32, u32)> = HashMap::new();
        for stale in self.stale.get(&page).into_iter().flatten() {
            let count = counts.entry(stale.block).or_default();
            count.0 += 1;
            count.1 += u32::from(now.can_remove(stale.since));
        }
        let mut blocks: Vec<(u32, u32, u32)> =
            counts.into_iter().map(|(block, (all, dead))| (block, all, dead)).collect();
        blocks.sort_unstable_by_key(|&(block, all, _)| (std::cmp::Reverse(all.next_power_of_two()), block));
        blocks.truncate(MOST_BLOCKS);
        let in_a_row = blocks.windows(2).take_while(|pair| pair[0].0.abs_diff(pair[1].0) <= NEIGHBOURS).count();
        let (mut freed, mut wanted, mut read) = (0, WANTED, Vec::new());
        for (at, &(block, _, dead)) in blocks.iter().enumerate() {
            if at > in_a_row {
                wanted /= 2;
            }
            pools.get(heap.page(block), FIRST);
            read.push(block);
            freed += dead * self.entry;
            if dead == 0 || freed >= wanted {
                break;
            }
        }
        self.remove(place, |stale| read.contains(&stale.block) && now.can_remove(stale.since));
    }

    fn remove(&mut self, place: Place, mut is_removed: impl FnMut(&Stale) -> bool) {
        let page = self.tree.leaf(place).page;
        let Some(stale) = self.stale.get_mut(&page) else { return };
        let removed: Vec<Stale> = stale.extract_if(.., |stale| is_removed(stale)).collect();
        for Stale { group, key, is_last, .. } in removed {
            self.tree.take(place, group, self.entry, is_last.then_some(key + 1));
        }
    }

    /// Splits a leaf (nbtsplitloc.c, `_bt_findsplitloc`). If the entry continues its group in order and many rows of
    /// later groups follow, the leaf is split where the group ends. If few follow, it is split at nine tenths, so that
    /// the next entries get a new leaf. Any other entry splits it in the middle.
    fn split(&mut self, pools: &mut Pools, place: Place, (group, key): (u32, u32), is_adjacent: bool) {
        let leaf = *self.tree.leaf(place);
        let extent = self.tree.extent(group);
        let later = self.tree.rows_of_later_groups(place, group).min(leaf.rows - 1);
        let is_end = self.is_even && key > extent.high && (later == 0 || is_adjacent);
        let tenth = leaf.rows / 10;
        let ((first_group, first), rows) = if !is_end {
            (self.tree.middle(place), leaf.rows / 2)
        } else if later > tenth {
            ((group + 1, 0), later)
        } else {
            // This estimate assumes that the group's entries are spread evenly over its keys.
            let own = u64::from(tenth - later) * u64::from(extent.high - extent.low) / u64::from(extent.rows.max(1));
            let begin = if place.0 == group { leaf.first + 1 } else { extent.low };
            ((group, extent.high.saturating_sub(own as u32).max(begin)), tenth)
        };
        debug_assert!(rows < leaf.rows, "a split moves {rows} entries of a leaf's {}", leaf.rows);
        debug_assert!((first_group, first) > (place.0, leaf.first), "a split leaves nothing on the elder leaf");
        let Some(new) = self.tree.split(place, first_group, first, rows, rows * self.entry) else {
            return pools.fill();
        };
        let page = self.tree.leaf(new).page;
        if let Some(stale) = self.stale.get_mut(&leaf.page) {
            let moved = stale.extract_if(.., |one| (one.group, one.key) >= (first_group, first)).collect();
            self.stale.insert(page, moved);
        }
        pools.create(page);
        pools.change(page);
        let right = self.tree.behind(new).map(|right| self.tree.leaf(right).page);
        let parent = self.tree.interior.path(leaf.origin).next_back();
        for page in right.into_iter().chain(parent) {
            pools.get(page, FIRST);
            pools.change(page);
        }
        let target = self.tree.place(group, key);
        self.tree.add(target, group, key, self.entry);
    }

    /// Reads every leaf, as a scan of all entries does. Calls the function `heard` after each leaf with the number of
    /// leaves before it and the number of all leaves.
    pub(super) fn scan(&self, pools: &mut Pools, mut heard: impl FnMut(&mut Pools, u32, u32)) {
        self.tree.interior.path(0).for_each(|page| pools.get(page, FIRST));
        let leaves = self.tree.leaves().count() as u32;
        for (leaf, number) in self.tree.leaves().zip(0..) {
            pools.get(leaf.page, FIRST);
            heard(pools, number, leaves);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pools::Objects;
    use crate::tree::Loading;

    const ENTRY: u32 = 20;

    /// Returns an index of two groups with the keys 0, 2, 4 and so on, a heap of as many rows, and pools.
    fn index(rows: u32) -> (Index, Heap, Pools) {
        let mut objects = Objects::default();
        let heap = Heap::new(&mut objects, "t", (0..2 * rows).map(|_| 330), 10);
        let mut loading = Loading::new(2, 1 << 31, false);
        (0..2).for_each(|group| (0..rows).for_each(|row| loading.push(group, 2 * row, ENTRY, &takes_built)));
        let tree = Grown::new(&mut objects, "t.t_pkey", loading, fan_out(ENTRY), 10);
        (Index::new(tree, ENTRY, 2, true, true), heap, Pools::new(Vec::new()))
    }

    fn now(transaction: u64) -> Now {
        Now { session: 0, transaction, horizon: transaction.saturating_sub(8) }
    }

    fn rows(index: &Index) -> Vec<u32> {
        index.tree.leaves().map(|leaf| leaf.rows).collect()
    }

    #[test]
    fn a_built_leaf_is_nine_tenths_full() {
        // PostgreSQL 17.2 builds such leaves: it puts 100,000 items on 274 of them.
        assert_eq!(rows(&index(400).0), [366, 366, 68]);
    }

    #[test]
    fn keys_in_order_at_a_groups_end_get_a_leaf_of_their_own() {
        let (mut index, mut heap, mut pools) = index(180);
        assert_eq!(rows(&index), [360]);
        for key in 0..100 {
            let entry = Entry { key: (0, 1000 + key), block: 0, pinned: None };
            index.insert(&mut pools, &mut heap, entry, now(1));
        }
        let all = rows(&index);
        assert_eq!(all.iter().sum::<u32>(), 460);
        assert_eq!(all.last(), Some(&180), "the later group's entries have moved");
    }

    #[test]
    fn entries_of_dead_versions_go_before_a_leaf_splits() {
        let (mut index, mut heap, mut pools) = index(150);
        // Every row moves once, then a search finds it and marks its old entry as killed.
        for row in 0..300 {
            let (key, at) = ((row % 2, row / 2 * 2), u64::from(row) * 20 + 20);
            index.bury(key, row / 24, false, now(at));
            let entry = Entry { key, block: 13, pinned: Some(row / 24) };
            index.insert(&mut pools, &mut heap, entry, now(at));
            let place = index.at(key);
            index.fetch(&mut pools, &mut heap, place, None, &mut None, now(at + 10));
        }
        assert_eq!(index.tree.leaves().count(), 1);
        assert!(rows(&index)[0] >= 300);
    }

    #[test]
    fn a_scan_looks_a_dead_version_up_once() {
        let (mut index, mut heap, mut pools) = index(100);
        index.bury((0, 4), 0, true, now(10));
        index.bury((0, 8), 0, true, now(10));
        assert_eq!(index.gone_until(0, 8), [4]);
        let gets = |index: &mut Index, heap: &mut Heap, pools: &mut Pools, at: u64| {
            let before = pools.gets();
            index.fetch(pools, heap, index.at((0, 4)), None, &mut None, now(at));
            pools.gets() - before
        };
        assert_eq!(gets(&mut index, &mut heap, &mut pools, 11), 1, "somebody may see it");
        assert_eq!(gets(&mut index, &mut heap, &mut pools, 30), 2, "and the leaf, to mark the entry");
        assert_eq!(gets(&mut index, &mut heap, &mut pools, 31), 0);
        assert!(index.gone_until(0, 8).is_empty());
    }
}
