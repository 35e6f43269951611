//! PostgreSQL's heaps: which page holds a row, which page takes a new version, and which space pruning frees.
//!
//! src/backend/access/heap: a version goes to its row's page if that has room (heapam.c, `heap_update`), else to the
//! session's own page (hio.c, `RelationGetBufferForTuple`). A reader that comes to a page prunes it (pruneheap.c,
//! `heap_page_prune_opt`). Without VACUUM, the free space map gets an entry for a page only when a session leaves the
//! page for another one.

use std::collections::{HashMap, VecDeque};

use super::record::{POINTER, max_aligned};
use super::session::{FIRST, HELD, Now};
use crate::pools::{Objects, Pools};

/// Bytes of a page without its header (bufpage.h, `SizeOfPageHeaderData`).
pub(super) const EMPTY: u32 = 8192 - 24;
/// A page with fewer free bytes is pruned (pruneheap.c: a tenth of the page).
const PRUNE_BELOW: u32 = 8192 / 10;
/// The number of heap pages that a page of the visibility map covers (visibilitymap.c, `HEAPBLOCKS_PER_PAGE`).
const OF_VISIBILITY: u32 = (8192 - 24) * 4;
/// The number of heap pages that a lowest page of the free space map covers (fsm_internals.h, `LeafNodesPerPage`).
const OF_SPACE: u32 = 8192 - 24 - 4 - (8192 / 2 - 1);
/// The bytes of free space by which one category differs from the next (freespace.c, `FSM_CAT_STEP`).
const CATEGORY: u32 = 32;

/// Returns the bytes that a tuple takes of a page.
pub(super) fn on_page(tuple: u32) -> u32 {
    max_aligned(tuple) + POINTER
}

#[derive(Clone, Copy, Debug)]
struct Page {
    free: u16,
    /// The number of the page's line pointers that pruning has freed, and that a new tuple can use again.
    unused: u8,
    /// Whether the last update found no room on the page (bufpage.h, `PD_PAGE_FULL`).
    is_full: bool,
    is_all_visible: bool,
}

/// A dead version that is not pruned yet: the transaction that replaced or deleted it, its bytes, and whether pruning
/// frees its line pointer.
#[derive(Clone, Copy, Debug)]
struct Dead {
    since: u64,
    bytes: u16,
    frees_pointer: bool,
}

/// The current version of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version {
    /// The heap page of the version, counted from the table's first.
    pub(super) block: u32,
    /// The version's bytes, not rounded up.
    pub(super) bytes: u16,
    /// Whether no index entry leads to the version (htup_details.h, `HEAP_ONLY_TUPLE`).
    is_heap_only: bool,
    /// The transaction that wrote the version, until a reader notes in it that the transaction has committed; 0 from then
    /// on, and for loaded rows.
    unhinted: u32,
}

/// A row's number in its table: group and key.
pub(super) type RowId = (u32, u32);

/// A table's heap, with its free space map and its visibility map.
#[derive(Default)]
pub(super) struct Heap {
    first_page: u32,
    room: u32,
    /// The first row of each loaded page.
    firsts: Vec<u32>,
    rows: u32,
    pages: Vec<Page>,
    dead: HashMap<u32, Vec<Dead>>,
    versions: HashMap<RowId, Version>,
    /// The page of each session's last insert (smgr.h, `smgr_targblock`).
    targets: Vec<Option<u32>>,
    /// The category of free space that the free space map has for a page, if it is not 0.
    noted: HashMap<u32, usize>,
    /// For each category, the pages that were recorded with it. Some of these pages have another category now.
    known: Vec<VecDeque<u32>>,
    visibility: u32,
    space: u32,
}

impl Heap {
    /// Adds a heap with rows of the given sizes in bytes, which COPY wrote in the order of their keys (heapam.c,
    /// `heap_multi_insert`); it may grow by `growth` pages.
    pub(super) fn new(objects: &mut Objects, name: &str, rows: impl Iterator<Item = u16>, growth: u32) -> Self {
        let (mut firsts, mut pages, mut count) = (Vec::new(), Vec::new(), 0);
        let mut used = EMPTY;
        for bytes in rows {
            let record = on_page(bytes.into());
            if used + record > EMPTY {
                firsts.push(count);
                pages.push(Page { free: EMPTY as u16, unused: 0, is_full: false, is_all_visible: true });
                used = 0;
            }
            used += record;
            count += 1;
            if let Some(page) = pages.last_mut() {
                page.free = (EMPTY - used) as u16;
            }
        }
        let own = pages.len() as u32;
        let room = own + growth;
        let first_page = objects.add(name, own, room);
        let lowest = own.div_ceil(OF_SPACE);
        let space = objects.add(&format!("{name} (fsm)"), 2 + lowest, 2 + room.div_ceil(OF_SPACE));
        let maps = own.div_ceil(OF_VISIBILITY);
        let visibility = objects.add(&format!("{name} (vm)"), maps, room.div_ceil(OF_VISIBILITY));
        let mut heap = Heap {
            first_page,
            room,
            firsts,
            rows: count,
            pages,
            known: vec![VecDeque::new(); 256],
            visibility,
            space,
            ..Heap::default()
        };
        // VACUUM looks at the last page, even if all rows are frozen (vacuumlazy.c, `find_next_unskippable_block`).
        if let Some(last) = own.checked_sub(1) {
            heap.record(last);
        }
        heap
    }

    /// Returns the number of the heap's pages.
    pub(super) fn blocks(&self) -> u32 {
        self.pages.len() as u32
    }

    /// Returns the page's number for the pools.
    pub(super) fn page(&self, block: u32) -> u32 {
        self.first_page + block
    }

    /// Returns the page into which a row was loaded, by its number.
    pub(super) fn loaded(&self, number: u32) -> u32 {
        debug_assert!(number < self.rows, "row {number} is not one of the {} that were loaded", self.rows);
        // Rows have nearly equal sizes, so the guess is at most a few pages off.
        let last = self.firsts.len() as u64 - 1;
        let mut block = (u64::from(number) * (last + 1) / u64::from(self.rows)).min(last) as usize;
        while self.firsts[block] > number {
            block -= 1;
        }
        while self.firsts.get(block + 1).is_some_and(|&first| first <= number) {
            block += 1;
        }
        block as u32
    }

    /// Returns a row's version. For a row that has not changed since the load, `loaded` returns its number and bytes.
    pub(super) fn version(&self, row: RowId, loaded: impl FnOnce() -> (u32, u16)) -> Version {
        self.versions.get(&row).copied().unwrap_or_else(|| {
            let (number, bytes) = loaded();
            Version { block: self.loaded(number), bytes, is_heap_only: false, unhinted: 0 }
        })
    }

    /// Reads a page for an index scan, which prunes the page if it has little room (heapam_handler.c,
    /// `heapam_index_fetch_tuple`).
    pub(super) fn fetch(&mut self, pools: &mut Pools, block: u32, now: Now) {
        pools.get(self.page(block), FIRST);
        let page = &mut self.pages[block as usize];
        if !page.is_full && u32::from(page.free) >= PRUNE_BELOW + POINTER {
            return;
        }
        let Some(dead) = self.dead.get_mut(&block) else { return };
        let before = dead.len();
        dead.retain(|dead| {
            let stays = !now.can_remove(dead.since);
            if !stays {
                page.free += dead.bytes;
                page.unused += u8::from(dead.frees_pointer);
            }
            stays
        });
        let has_pruned = dead.len() < before;
        debug_assert!(u32::from(page.free) <= EMPTY, "{} bytes of block {block} are free, of {EMPTY}", page.free);
        page.is_full &= !has_pruned;
        if dead.is_empty() {
            self.dead.remove(&block);
        }
        if has_pruned {
            pools.change(self.page(block));
        }
    }

    /// Notes in a row's version that its transaction has committed, if this is the first reader that sees it
    /// (heapam_visibility.c, `SetHintBits`).
    pub(super) fn hint(&mut self, pools: &mut Pools, row: RowId, now: Now) {
        if let Some(version) = self.versions.get_mut(&row)
            && version.unhinted != 0
            && version.unhinted != now.transaction as u32
        {
            version.unhinted = 0;
            pools.hint(self.first_page + version.block);
        }
    }

    /// Reads a page that the session has pinned already, and changes it. If all rows of the page are visible to all
    /// transactions, also reads its page of the visibility map, which the session must change too.
    pub(super) fn fetch_to_change(&self, pools: &mut Pools, block: u32) {
        pools.get(self.page(block), HELD);
        pools.change(self.page(block));
        if self.is_all_visible(block) {
            self.read_visibility(pools, block);
        }
    }

    /// Returns whether all rows of a page are visible to all transactions.
    pub(super) fn is_all_visible(&self, block: u32) -> bool {
        self.pages[block as usize].is_all_visible
    }

    /// Reads the page of the visibility map that covers a heap page.
    pub(super) fn read_visibility(&self, pools: &mut Pools, block: u32) {
        pools.get(self.visibility + block / OF_VISIBILITY, FIRST);
    }

    /// Updates a row whose page is pinned; returns its new version, which has `bytes` bytes.
    pub(super) fn update(&mut self, pools: &mut Pools, row: RowId, before: Version, bytes: u16, now: Now) -> Version {
        self.fetch_to_change(pools, before.block);
        let stays = self.has_room(before.block, bytes);
        let block = if stays { before.block } else { self.block_for(pools, bytes, before.block, now) };
        if stays {
            self.put(block, bytes);
        } else {
            self.pages[before.block as usize].is_full = true;
        }
        self.pages[before.block as usize].is_all_visible = false;
        self.bury(before, now);
        if block != before.block {
            pools.change(self.page(block));
        }
        let version = Version { block, bytes, is_heap_only: block == before.block, unhinted: now.transaction as u32 };
        self.versions.insert(row, version);
        version
    }

    /// Inserts a row; returns its version. Without `row` it does not store the version.
    pub(super) fn insert(&mut self, pools: &mut Pools, row: Option<RowId>, bytes: u16, now: Now) -> Version {
        let block = self.block_for(pools, bytes, u32::MAX, now);
        pools.change(self.page(block));
        let version = Version { block, bytes, is_heap_only: false, unhinted: now.transaction as u32 };
        if let Some(row) = row {
            self.versions.insert(row, version);
        }
        version
    }

    /// Deletes a row whose page is pinned.
    pub(super) fn delete(&mut self, pools: &mut Pools, row: RowId, version: Version, now: Now) {
        self.fetch_to_change(pools, version.block);
        self.pages[version.block as usize].is_all_visible = false;
        self.bury(version, now);
        self.versions.remove(&row);
    }

    /// Undoes an update or an insert: `version` is dead, and `before`, if there is one, is the row's version again.
    pub(super) fn undo(&mut self, row: RowId, before: Option<Version>, version: Version, now: Now) {
        let Some(before) = before else {
            self.versions.remove(&row);
            return self.bury(version, now);
        };
        self.versions.insert(row, before);
        if let Some(dead) = self.dead.get_mut(&before.block)
            && let Some(place) = dead.iter().rposition(|dead| dead.since == now.transaction)
        {
            dead.remove(place);
            if dead.is_empty() {
                self.dead.remove(&before.block);
            }
        }
        self.bury(version, now);
    }

    fn bury(&mut self, version: Version, now: Now) {
        debug_assert!(version.block < self.blocks(), "a version lies in block {} of {}", version.block, self.blocks());
        debug_assert!(now.horizon <= now.transaction, "the oldest transaction is younger than {}", now.transaction);
        let bytes = max_aligned(version.bytes.into()) as u16;
        let dead = Dead { since: now.transaction, bytes, frees_pointer: version.is_heap_only };
        self.dead.entry(version.block).or_default().push(dead);
    }

    /// Returns whether a page has room for a tuple and a line pointer, which may be an unused one of the page
    /// (bufpage.c, `PageGetHeapFreeSpace`).
    fn has_room(&self, block: u32, bytes: u16) -> bool {
        u32::from(self.pages[block as usize].free) >= on_page(bytes.into())
    }

    fn put(&mut self, block: u32, bytes: u16) {
        let page = &mut self.pages[block as usize];
        let pointer = if page.unused > 0 { 0 } else { POINTER };
        page.unused = page.unused.saturating_sub(1);
        page.free -= (max_aligned(bytes.into()) + pointer) as u16;
    }

    /// Finds a page for a tuple, puts the tuple there and returns the page; `other` is pinned already (hio.c,
    /// `RelationGetBufferForTuple`).
    fn block_for(&mut self, pools: &mut Pools, bytes: u16, other: u32, now: Now) -> u32 {
        let session = usize::from(now.session);
        if self.targets.len() <= session {
            self.targets.resize(session + 1, None);
        }
        let own = self.targets[session];
        let mut target = own.or_else(|| self.search(pools, bytes, None)).or_else(|| self.blocks().checked_sub(1));
        while let Some(block) = target {
            if block != other {
                pools.get(self.page(block), FIRST);
            }
            if self.has_room(block, bytes) {
                if self.is_all_visible(block) {
                    self.read_visibility(pools, block);
                    self.pages[block as usize].is_all_visible = false;
                }
                self.put(block, bytes);
                self.targets[session] = Some(block);
                return block;
            }
            self.record(block);
            target = self.search(pools, bytes, Some(block));
        }
        let block = self.extend(pools);
        self.put(block, bytes);
        self.targets[session] = Some(block);
        block
    }

    fn extend(&mut self, pools: &mut Pools) -> u32 {
        let block = self.blocks();
        if block == self.room {
            pools.fill();
            return block - 1;
        }
        self.pages.push(Page { free: EMPTY as u16, unused: 0, is_full: false, is_all_visible: false });
        pools.create(self.page(block));
        block
    }

    /// Notes a page's room in the free space map (freespace.c, `fsm_space_avail_to_cat`).
    fn record(&mut self, block: u32) {
        let free = u32::from(self.pages[block as usize].free).saturating_sub(POINTER);
        let category = (free / CATEGORY).min(254) as usize;
        if category == 0 {
            self.noted.remove(&block);
        } else if self.noted.insert(block, category) != Some(category) {
            self.known[category].push_back(block);
        }
    }

    /// Asks the free space map for a page with room; the next search begins after that page. If `full` is a full page,
    /// the map's lowest page that covers it is searched first, then the map from its top (freespace.c,
    /// `RecordAndGetPageWithFreeSpace`, `fsm_search`).
    fn search(&mut self, pools: &mut Pools, bytes: u16, full: Option<u32>) -> Option<u32> {
        let enough = max_aligned(bytes.into()).div_ceil(CATEGORY) as usize;
        let found = (enough..self.known.len()).find_map(|category| self.next_known(category));
        let lowest = |block: u32| self.space + 2 + block / OF_SPACE;
        let first = full.map(lowest);
        first.into_iter().for_each(|page| pools.get(page, FIRST));
        if first.is_none() || found.map(lowest) != first {
            pools.get(self.space, FIRST);
            if let Some(found) = found {
                pools.get(self.space + 1, FIRST);
                pools.get(lowest(found), FIRST);
            }
        }
        found
    }

    fn next_known(&mut self, category: usize) -> Option<u32> {
        while let Some(block) = self.known[category].pop_front() {
            if self.noted.get(&block) == Some(&category) {
                self.known[category].push_back(block);
                return Some(block);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a heap of three pages with 24 rows each, and pools.
    fn heap() -> (Heap, Pools) {
        let mut objects = Objects::default();
        (Heap::new(&mut objects, "t", (0..72).map(|_| 330), 10), Pools::new(Vec::new()))
    }

    fn now(transaction: u64) -> Now {
        Now { session: 0, transaction, horizon: transaction.saturating_sub(8) }
    }

    /// Finds a row and updates it; returns the versions before and after.
    fn update(heap: &mut Heap, pools: &mut Pools, row: u32, transaction: u64) -> (Version, Version) {
        let before = heap.version((0, row), || (row, 330));
        heap.fetch(pools, before.block, now(transaction));
        (before, heap.update(pools, (0, row), before, 330, now(transaction)))
    }

    fn has_moved((before, version): (Version, Version)) -> bool {
        before.block != version.block
    }

    #[test]
    fn the_first_update_of_a_full_page_moves_a_row_and_leaves_its_room_to_the_next() {
        let (mut heap, mut pools) = heap();
        assert_eq!((heap.blocks(), heap.loaded(23), heap.loaded(24)), (3, 0, 1));
        assert!(heap.is_all_visible(0));
        let first = update(&mut heap, &mut pools, 0, 10);
        assert!(has_moved(first) && first.1.block == 3);
        assert!(!heap.is_all_visible(0) && heap.is_all_visible(1));
        // Another transaction may still see the old version: it stays, and the page is full.
        assert!(has_moved(update(&mut heap, &mut pools, 1, 17)));
        // Pruning can remove both old versions.
        for (row, transaction) in [(2, 40), (3, 41), (2, 60), (2, 80), (2, 100)] {
            assert!(!has_moved(update(&mut heap, &mut pools, row, transaction)), "{transaction}");
        }
        assert_eq!(heap.version((0, 2), || unreachable!()).block, 0);
    }

    #[test]
    fn what_is_rolled_back_leaves_the_row_where_it_was_and_its_room_to_others() {
        let (mut heap, mut pools) = heap();
        let (before, moved) = update(&mut heap, &mut pools, 0, 10);
        let free = heap.pages[moved.block as usize].free;
        heap.undo((0, 0), Some(before), moved, now(10));
        assert_eq!(heap.version((0, 0), || unreachable!()), before);
        assert!(!heap.dead.contains_key(&0) && heap.dead[&moved.block].len() == 1);
        heap.pages[moved.block as usize].is_full = true;
        heap.fetch(&mut pools, moved.block, now(30));
        assert_eq!(heap.pages[moved.block as usize].free, free + 336);
    }

    #[test]
    fn a_session_fills_its_own_page_and_notes_what_is_left_for_others() {
        let (mut heap, mut pools) = heap();
        let insert = |heap: &mut Heap, pools: &mut Pools, session: u16, bytes: u16| {
            heap.insert(pools, None, bytes, Now { session, ..now(1) }).block
        };
        (0..12).for_each(|_| assert_eq!(insert(&mut heap, &mut pools, 0, 600), 3));
        // The map has no page with room, so another session begins on the last page, which has 920 bytes left.
        assert_eq!(insert(&mut heap, &mut pools, 1, 1000), 4);
        assert_eq!(insert(&mut heap, &mut pools, 1, 1000), 4);
        // The second session has noted page 3 in the map, so a third session finds room there.
        assert_eq!(insert(&mut heap, &mut pools, 2, 700), 3);
        assert_eq!(insert(&mut heap, &mut pools, 0, 600), 5);
    }
}
