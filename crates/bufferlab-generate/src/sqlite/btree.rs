//! SQLite's index b-tree, for indexes and tables without row ids. It holds sizes of cells and not their contents.
//! Interior pages hold rows too.
//!
//! SQLite 3.54's btree.c: `balance_nonroot` and `balance_deeper` decide which cells a page has, when a load appends
//! rows as well as when a run changes them. A row that does not fit has a chain of further pages, which a search reads
//! for each cell that it compares (`sqlite3BtreeIndexMoveto`).

use std::collections::HashMap;

use super::overflow::Spilled;
use crate::pools::{Objects, Pools};

/// The number of siblings that are balanced together (`NB`).
const SIBLINGS: usize = 3;
/// Bytes of a leaf's header, and of a child's number, which an interior page has in addition (`hdrOffset`,
/// `childPtrSize`).
const LEAF_HEADER: u32 = 8;
const CHILD: u32 = 4;

#[derive(Debug, Default, Clone)]
struct Node {
    page: u32,
    keys: Vec<u32>,
    /// Bytes of each cell without a child's number and without its chain of overflow pages.
    bytes: Vec<u16>,
    /// The children, one more than the cells; empty in a leaf.
    children: Vec<u32>,
}

/// An index b-tree. Its root is node 0.
#[derive(Debug, Default)]
pub struct Btree {
    pub(super) page_bytes: u32,
    nodes: Vec<Node>,
    pub(super) first_page: u32,
    pub(super) next_page: u32,
    end_page: u32,
    /// Pages that the open transaction changed.
    pub dirty: Vec<u32>,
    /// Further pages that the open transaction changed. In this model a rollback leaves them in the cache.
    pub(super) also_written: Vec<u32>,
    /// Whether the open transaction took or freed a page.
    pub(super) is_resized: bool,
    /// The free pages; the first one is the trunk of SQLite's free list.
    pub(super) free_pages: Vec<u32>,
    /// Rows with a chain of overflow pages, by key.
    pub(super) spilled: HashMap<u32, Spilled>,
    /// Bytes of a child's number in a cell of the lowest level: 4 in a tree of [`Btree::above_leaves`], else 0.
    child_below: u32,
    /// The nodes from the root to the cell that was sought last, with the place in each.
    path: Vec<(u32, usize)>,
}

impl Btree {
    /// Makes an empty tree, whose pages are numbered later.
    pub fn new(page_bytes: u32) -> Self {
        Btree { page_bytes, nodes: vec![Node::default()], next_page: 1, end_page: u32::MAX, ..Btree::default() }
    }

    /// Makes the interior pages of a table with row ids, as a tree in which each row represents a leaf: a row's key is
    /// the leaf's last row id. The last leaf has no row.
    pub fn above_leaves(page_bytes: u32) -> Self {
        Btree { child_below: CHILD, ..Btree::new(page_bytes) }
    }

    /// Forgets the changes of the transaction before.
    pub(super) fn begin(&mut self) {
        self.dirty.clear();
        self.also_written.clear();
        self.is_resized = false;
    }

    /// Appends a row: in a load, or in a run whose cursor is at the end. `is_sorted` is true for a row of an index that
    /// comes from a sorter (`BTREE_BULKLOAD`).
    pub fn append(&mut self, pools: &mut Pools, key: u32, bytes: u16, is_sorted: bool) {
        let cell = self.store(pools, key, bytes);
        self.path.clear();
        let node = self.go_last(0);
        let leaf = &mut self.nodes[node as usize];
        leaf.keys.push(key);
        leaf.bytes.push(cell);
        self.balance(pools, is_sorted);
    }

    /// Adds to the path the nodes from `node` to the last leaf below it; returns the leaf.
    fn go_last(&mut self, mut node: u32) -> u32 {
        loop {
            let at = &self.nodes[node as usize];
            self.path.push((node, at.children.len().saturating_sub(1)));
            match at.children.last() {
                Some(&child) => node = child,
                None => return node,
            }
        }
    }

    /// Gives the tree's pages numbers among all objects; it may grow by `growth` pages.
    pub fn place(&mut self, objects: &mut Objects, name: &str, growth: u32) {
        let first_page = objects.add(name, self.next_page, self.next_page + growth);
        self.number(first_page, growth);
    }

    /// Numbers the tree's pages from `first_page` on; it may grow by `growth` pages.
    pub fn number(&mut self, first_page: u32, growth: u32) {
        (self.first_page, self.end_page) = (first_page, self.next_page + growth);
        self.begin();
    }

    fn page(&self, node: u32) -> u32 {
        self.first_page + self.nodes[node as usize].page
    }

    /// Goes down to the leaf in which a cursor is placed before the first row with at least this key
    /// (`sqlite3BtreeIndexMoveto` for a key of fewer columns than the row's, which no row equals).
    pub fn seek(&mut self, pools: &mut Pools, key: u32) {
        self.descend(Some(pools), key, false, true);
    }

    /// Does what [`Btree::seek`] does, with a cursor that is already in the tree, so that it does not read the root
    /// again.
    pub fn seek_on(&mut self, pools: &mut Pools, key: u32) {
        self.descend(Some(pools), key, false, false);
    }

    /// Sets the path to a row without a get.
    fn find(&mut self, key: u32) {
        self.descend(None, key, true, false);
    }

    fn descend(&mut self, mut pools: Option<&mut Pools>, key: u32, stops: bool, with_root: bool) {
        self.path.clear();
        let mut node = 0;
        loop {
            if let Some(pools) = pools.as_deref_mut().filter(|_| with_root || node != 0) {
                pools.get(self.page(node), 0);
            }
            let place = self.compare(pools.as_deref_mut(), node, key, stops);
            let at = &self.nodes[node as usize];
            self.path.push((node, place));
            if at.children.is_empty() || stops && at.keys.get(place) == Some(&key) {
                return;
            }
            node = at.children[place];
        }
    }

    /// Returns the place of a key among a page's cells, by a binary search like SQLite's, which reads the chain of each
    /// cell that it compares. With `stops` the search ends at an equal key.
    fn compare(&self, pools: Option<&mut Pools>, node: u32, key: u32, stops: bool) -> usize {
        let keys = &self.nodes[node as usize].keys;
        let Some(pools) = pools.filter(|_| !self.spilled.is_empty()) else {
            return keys.partition_point(|&other| other < key);
        };
        let (mut low, mut high) = (0, keys.len());
        while low < high {
            let middle = (low + high - 1) / 2;
            self.read_chain(pools, keys[middle]);
            if stops && keys[middle] == key {
                return middle;
            }
            if keys[middle] < key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Seeks a row to write it; returns the page that has it. The root is not read, because the previous search still
    /// holds it.
    pub fn rewrite(&mut self, pools: &mut Pools, key: u32) -> u32 {
        self.descend(Some(pools), key, true, false);
        self.current()
    }

    /// Returns the page where the last search ended.
    pub fn current(&self) -> u32 {
        self.path.last().map_or(self.first_page, |&(node, _)| self.page(node))
    }

    /// Returns the bytes of the row where the last search ended.
    pub fn bytes(&self) -> u32 {
        let Some(&(node, place)) = self.path.last() else { return 0 };
        let Node { keys, bytes, .. } = &self.nodes[node as usize];
        let whole = keys.get(place).and_then(|key| self.spilled.get(key)).map(|row| row.bytes);
        whole.or(bytes.get(place).copied()).map_or(0, u32::from)
    }

    /// Goes on to the leaf in which a cursor is placed before `key`. Gets only that leaf, because the cursor still
    /// holds its parents.
    pub fn go_on(&mut self, pools: &mut Pools, key: u32) {
        let before = self.current();
        let mut node = 0;
        while let Some(&child) = self.nodes[node as usize].children.get(self.compare(None, node, key, false)) {
            node = child;
        }
        if self.page(node) != before {
            pools.get(self.page(node), 0);
            self.path.clear();
            self.path.push((node, 0));
        }
    }

    /// Inserts a row.
    pub fn insert(&mut self, pools: &mut Pools, key: u32, bytes: u16) {
        self.seek(pools, key);
        self.dirty.push(self.current());
        let cell = self.store(pools, key, bytes);
        let &(leaf, place) = &self.path[self.path.len() - 1];
        let leaf = &mut self.nodes[leaf as usize];
        leaf.keys.insert(place, key);
        leaf.bytes.insert(place, cell);
        self.balance(pools, false);
    }

    /// Lets a row grow by `by` bytes without a search: the cursor is on it. Returns whether the tree was balanced.
    pub fn grow(&mut self, pools: &mut Pools, key: u32, by: u16) -> bool {
        self.find(key);
        self.dirty.push(self.current());
        let bytes = self.bytes() as u16 + by;
        let old = self.spilled.remove(&key);
        // The new chain is made before the old one is freed (`sqlite3BtreeInsert`).
        let cell = self.store(pools, key, bytes);
        self.release(pools, old);
        let &(node, place) = &self.path[self.path.len() - 1];
        if let Some(bytes) = self.nodes[node as usize].bytes.get_mut(place) {
            *bytes = cell;
        }
        self.balance(pools, false)
    }

    /// Deletes a row; a row of an interior page is replaced by the row before it (`sqlite3BtreeDelete`).
    pub fn delete(&mut self, pools: &mut Pools, key: u32) {
        self.find(key);
        let (node, place) = self.path[self.path.len() - 1];
        if self.nodes[node as usize].keys.get(place) != Some(&key) {
            return;
        }
        self.dirty.push(self.page(node));
        let old = self.spilled.remove(&key);
        self.release(pools, old);
        let at = &mut self.nodes[node as usize];
        if at.children.is_empty() {
            at.keys.remove(place);
            at.bytes.remove(place);
        } else {
            let below = at.children[place];
            let below = self.go_last(below);
            pools.get(self.page(below), 0);
            self.dirty.push(self.page(below));
            let leaf = &mut self.nodes[below as usize];
            if let (Some(key), Some(bytes)) = (leaf.keys.pop(), leaf.bytes.pop()) {
                let own = &mut self.nodes[node as usize];
                (own.keys[place], own.bytes[place]) = (key, bytes);
            }
        }
        self.balance(pools, false);
    }

    /// Removes a row whose insertion was rolled back, without balancing.
    pub fn forget(&mut self, key: u32) {
        self.find(key);
        let &(node, place) = &self.path[self.path.len() - 1];
        let at = &mut self.nodes[node as usize];
        if at.children.is_empty() && at.keys.get(place) == Some(&key) {
            at.keys.remove(place);
            at.bytes.remove(place);
        }
    }

    /// Checks that a page's keys are in order (an index may have equal ones), that it has one child more than cells or
    /// no child, and that its cells fit.
    #[inline]
    fn check(&self, node: u32) {
        let Node { page, keys, bytes, children } = &self.nodes[node as usize];
        let fault = keys.windows(2).find(|pair| pair[0] > pair[1]);
        debug_assert!(fault.is_none(), "keys of page {page} are out of order: {fault:?}");
        debug_assert_eq!(keys.len(), bytes.len(), "a cell of page {page} has no size");
        debug_assert!(children.is_empty() || children.len() == keys.len() + 1, "page {page} lacks a child");
        debug_assert!(self.used(node) <= self.capacity(children.is_empty()), "the cells of page {page} do not fit");
    }

    fn child(&self, is_leaf: bool) -> u32 {
        if is_leaf { self.child_below } else { CHILD }
    }

    fn capacity(&self, is_leaf: bool) -> u32 {
        self.page_bytes - LEAF_HEADER - self.child(is_leaf)
    }

    fn used(&self, node: u32) -> u32 {
        let node = &self.nodes[node as usize];
        let child = self.child(node.children.is_empty());
        node.bytes.iter().map(|&bytes| u32::from(bytes) + 2 + child).sum()
    }

    /// Balances the pages of the path, from its end upwards (`balance`); returns whether it balanced any page.
    fn balance(&mut self, pools: &mut Pools, is_sorted: bool) -> bool {
        let mut changed = false;
        while let Some(&(node, _)) = self.path.last() {
            let is_leaf = self.nodes[node as usize].children.is_empty();
            let (used, capacity) = (self.used(node), self.capacity(is_leaf));
            if node == 0 {
                if used <= capacity {
                    break;
                }
                self.deepen(pools);
            } else if used <= capacity && (capacity - used) * 3 <= self.page_bytes * 2 {
                break;
            }
            changed = true;
            self.path.pop();
            let Some(&(parent, place)) = self.path.last() else { break };
            self.balance_siblings(pools, parent, place, is_sorted);
        }
        changed
    }

    /// Moves the root's cells to a new child (`balance_deeper`).
    fn deepen(&mut self, pools: &mut Pools) {
        let child = self.new_node(pools, !self.nodes[0].children.is_empty());
        let page = self.nodes[child as usize].page;
        let root = std::mem::take(&mut self.nodes[0]);
        pools.mark_interior(self.first_page + root.page);
        self.nodes[child as usize] = Node { page, ..root.clone() };
        self.nodes[0] = Node { page: root.page, children: vec![child], ..Node::default() };
        let last = self.path.len() - 1;
        let place = self.path[last].1;
        self.path[last].1 = 0;
        self.path.push((child, place));
    }

    fn new_node(&mut self, pools: &mut Pools, is_interior: bool) -> u32 {
        let page = self.new_page(pools, false, is_interior);
        self.nodes.push(Node { page, ..Node::default() });
        self.nodes.len() as u32 - 1
    }

    /// Takes a free page, or a new one. For a chain SQLite gets the first free page, the trunk, which lists the others,
    /// and takes the trunk itself last (`allocateBtreePage`).
    pub(super) fn new_page(&mut self, pools: &mut Pools, is_of_chain: bool, is_interior: bool) -> u32 {
        let trunk = self.free_pages.first().copied().filter(|_| is_of_chain);
        let free = match trunk {
            Some(_) if self.free_pages.len() > 1 => Some(self.free_pages.swap_remove(1)),
            _ => self.free_pages.pop(),
        };
        debug_assert!(free.is_none_or(|page| (1..self.next_page).contains(&page)), "page {free:?} is no free one");
        let page = free.unwrap_or_else(|| {
            if self.next_page < self.end_page {
                self.next_page += 1;
            } else {
                pools.fill();
            }
            self.next_page - 1
        });
        trunk.into_iter().for_each(|trunk| pools.get(self.first_page + trunk, 0));
        if is_interior {
            pools.create_interior(self.first_page + page);
        } else if trunk != Some(page) {
            pools.create(self.first_page + page);
        }
        self.dirty.push(self.first_page + page);
        self.is_resized = true;
        page
    }

    /// Distributes the cells of up to three siblings over as few pages as hold them, then evens them out
    /// (`balance_nonroot`).
    fn balance_siblings(&mut self, pools: &mut Pools, parent: u32, place: usize, is_sorted: bool) {
        let cells = self.nodes[parent as usize].keys.len();
        let spare = usize::from(is_sorted);
        let first = match place {
            _ if cells < 2 => 0,
            0 => 0,
            last if last == cells => cells - 2 + spare,
            middle => middle - 1,
        };
        let count = if cells < 2 { cells + 1 } else { SIBLINGS - spare };
        let old: Vec<u32> = self.nodes[parent as usize].children[first..first + count].to_vec();
        old.iter().rev().for_each(|&node| pools.get(self.page(node), 0));
        for &node in old.iter().chain([&parent]) {
            self.dirty.push(self.page(node));
        }
        let mut all = Node::default();
        let mut ends = Vec::with_capacity(SIBLINGS + 2);
        for (number, &node) in old.iter().enumerate() {
            let own = std::mem::take(&mut self.nodes[node as usize]);
            self.nodes[node as usize].page = own.page;
            all.keys.extend(own.keys);
            all.bytes.extend(own.bytes);
            all.children.extend(own.children);
            ends.push(all.keys.len());
            if number + 1 < old.len() {
                let above = &self.nodes[parent as usize];
                all.keys.push(above.keys[first + number]);
                all.bytes.push(above.bytes[first + number]);
            }
        }
        let is_leaf = all.children.is_empty();
        let child = self.child(is_leaf);
        let sizes: Vec<u32> = all.bytes.iter().map(|&bytes| u32::from(bytes) + 2 + child).collect();
        share_out(&sizes, &mut ends, self.capacity(is_leaf), is_sorted);
        self.write_siblings(pools, parent, first, &old, &all, &ends);
    }

    /// Fills the siblings, and the parent's cells between them. Siblings get their pages in the order of the pages'
    /// numbers.
    fn write_siblings(
        &mut self,
        pools: &mut Pools,
        parent: u32,
        first: usize,
        old: &[u32],
        all: &Node,
        ends: &[usize],
    ) {
        let mut nodes: Vec<u32> = old.iter().copied().take(ends.len()).collect();
        while nodes.len() < ends.len() {
            nodes.push(self.new_node(pools, !all.children.is_empty()));
        }
        // An unused node stays in the list without cells: a run frees few nodes.
        let free = old[old.len().min(ends.len())..].iter().map(|&node| self.nodes[node as usize].page);
        let before = self.free_pages.len();
        self.free_pages.extend(free);
        self.is_resized |= self.free_pages.len() > before;
        let mut pages: Vec<u32> = nodes.iter().map(|&node| self.nodes[node as usize].page).collect();
        pages.sort_unstable();
        debug_assert!(ends.is_sorted_by(|end, next| end < next), "siblings end at {ends:?}");
        debug_assert_eq!(ends.last(), Some(&all.keys.len()), "some cells are on no sibling");
        let (mut begin, mut keys, mut bytes) = (0, Vec::new(), Vec::new());
        for ((&node, &end), page) in nodes.iter().zip(ends).zip(pages) {
            let children = if all.children.is_empty() { Vec::new() } else { all.children[begin..=end].to_vec() };
            let (own_keys, own_bytes) = (all.keys[begin..end].to_vec(), all.bytes[begin..end].to_vec());
            self.nodes[node as usize] = Node { page, keys: own_keys, bytes: own_bytes, children };
            self.check(node);
            if end < all.keys.len() {
                keys.push(all.keys[end]);
                bytes.push(all.bytes[end]);
            }
            begin = end + 1;
        }
        let above = &mut self.nodes[parent as usize];
        above.keys.splice(first..first + old.len() - 1, keys);
        above.bytes.splice(first..first + old.len() - 1, bytes);
        above.children.splice(first..first + old.len(), nodes);
        self.shrink_root();
    }

    /// Moves the only child's cells into the root, if they fit there (`balance_nonroot`, "balance-shallower").
    fn shrink_root(&mut self) {
        let [child] = self.nodes[0].children[..] else { return };
        if self.nodes[child as usize].keys.is_empty() || self.used(child) > self.capacity(false) {
            return;
        }
        let own = std::mem::take(&mut self.nodes[child as usize]);
        self.free_pages.push(own.page);
        self.is_resized = true;
        self.nodes[0] = Node { page: self.nodes[0].page, ..own };
        self.check(0);
        self.path.truncate(1);
    }

    /// Returns every page of the tree, level by level from the root. The chains of a page's rows follow the page.
    pub fn pages(&self) -> Vec<u32> {
        let (mut pages, mut level) = (Vec::new(), vec![0]);
        while !level.is_empty() {
            for &node in &level {
                pages.push(self.page(node));
                let rows = self.nodes[node as usize].keys.iter().filter_map(|key| self.spilled.get(key));
                pages.extend(rows.flat_map(Spilled::pages).map(|page| self.first_page + page));
            }
            level = level.iter().flat_map(|&node| self.nodes[node as usize].children.iter().copied()).collect();
        }
        pages
    }

    /// Returns the pages that have children.
    pub fn interior_pages(&self) -> impl Iterator<Item = u32> + '_ {
        self.nodes.iter().filter(|node| !node.children.is_empty()).map(|node| self.first_page + node.page)
    }
}

/// Chooses at which cell each sibling ends, by the two passes of `balance_nonroot`. `sizes` has the cells' sizes in
/// bytes. The cell at an end goes to the parent.
fn share_out(sizes: &[u32], ends: &mut Vec<usize>, capacity: u32, is_sorted: bool) {
    let cells = sizes.len();
    let size = |cell: usize| if cell < cells { sizes[cell] } else { 0 };
    let mut begin = 0;
    let mut used: Vec<u32> = Vec::with_capacity(SIBLINGS + 2);
    for &end in ends.iter() {
        used.push(sizes[begin..end].iter().sum());
        begin = end + 1;
    }
    let mut page = 0;
    while page < ends.len() {
        while used[page] > capacity {
            if page + 1 == ends.len() {
                ends.push(cells);
                used.push(0);
            }
            used[page] -= size(ends[page] - 1);
            used[page + 1] += size(ends[page]);
            ends[page] -= 1;
        }
        while ends[page] < cells && used[page] + size(ends[page]) <= capacity {
            used[page] += size(ends[page]);
            ends[page] += 1;
            if let Some(next) = used.get_mut(page + 1) {
                *next = next.saturating_sub(size(ends[page]));
            }
        }
        if ends[page] >= cells {
            ends.truncate(page + 1);
        }
        page += 1;
    }
    for page in (1..ends.len()).rev() {
        let (mut right, mut left) = (used[page], used[page - 1]);
        let own_pointer = if page + 1 == ends.len() { 0 } else { 2 };
        while let Some(last) = ends[page - 1].checked_sub(1) {
            // The cell between the two siblings moves to the right page, and the left page's last cell takes its place.
            let (leaves, enters) = (sizes[last], sizes[last + 1]);
            let evens_out = right + enters <= left + 2 - leaves.min(left) - own_pointer;
            if right != 0 && (is_sorted || !evens_out) {
                break;
            }
            right += enters;
            left = left.saturating_sub(leaves);
            ends[page - 1] = last;
        }
        (used[page], used[page - 1]) = (right, left);
    }
}

#[cfg(test)]
mod tests;
