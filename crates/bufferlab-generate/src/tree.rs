//! B-trees without rows: which leaf holds a key, and which interior pages lead to it.
//!
//! [`Packed`] never changes: its rows are numbered from zero, and each leaf holds consecutive ones. [`Grown`] takes
//! inserts and removals by group (a district) and key. Its interior pages are those of the load; a leaf that a split
//! makes has the same parent as the leaf that was split. A page just above the leaves may be split in the middle once.
//! [`Tree`] is one of the two.

use crate::engine::Row;
use crate::pools::Objects;
use crate::segment::Segment;

/// The pages above the leaves, the root first.
#[derive(Debug)]
pub struct Interior {
    /// For each level, the root's first: its first page, and the number of leaves below one of its pages.
    levels: Vec<(u32, u32)>,
    leaves: u32,
    /// For each page just above the leaves: the number of children added since the load, and the page of its upper half
    /// once it was split. Empty until the first child is added.
    grown: Vec<(u32, Option<u32>)>,
}

impl Interior {
    /// Adds to the objects a tree of `leaves` leaves that may grow by `growth` pages. Its interior pages come first,
    /// each with `fan_out` children, then its leaves. Returns the interior and the first leaf's page.
    pub fn new(objects: &mut Objects, name: &str, leaves: u32, fan_out: u32, growth: u32) -> (Self, u32) {
        let (mut spans, mut below) = (Vec::new(), 1);
        while below < leaves {
            below = below.saturating_mul(fan_out);
            spans.push(below);
        }
        let all = leaves + spans.iter().map(|&span| leaves.div_ceil(span)).sum::<u32>();
        let mut page = objects.add(name, all, all + growth);
        let levels = spans.iter().rev().map(|&span| {
            let level = (page, span);
            page += leaves.div_ceil(span);
            level
        });
        (Interior { levels: levels.collect(), leaves, grown: Vec::new() }, page)
    }

    /// Returns the interior pages above a leaf, the root first. `leaf` is the leaf's number at the load.
    pub fn path(&self, leaf: u32) -> impl DoubleEndedIterator<Item = u32> + '_ {
        debug_assert!(leaf < self.leaves, "leaf {leaf} is not one of the load's {}", self.leaves);
        self.levels.iter().map(move |&(first, span)| first + leaf / span).enumerate().map(move |(level, page)| {
            if level + 1 == self.levels.len() { self.upper(leaf).unwrap_or(page) } else { page }
        })
    }

    /// Returns the page of the upper half, if the page above a leaf was split and the leaf is below that half.
    #[inline]
    fn upper(&self, leaf: u32) -> Option<u32> {
        let span = self.levels.last()?.1;
        let (_, upper) = self.grown.get((leaf / span) as usize)?;
        upper.filter(|_| leaf % span >= span / 2)
    }

    /// Counts a new child of the page above a leaf; returns whether that page overflows for the first time and must be
    /// split.
    fn fills(&mut self, leaf: u32) -> bool {
        let Some(&(_, span)) = self.levels.last() else { return false };
        if self.grown.is_empty() {
            self.grown = vec![(0, None); self.leaves.div_ceil(span) as usize];
        }
        let number = leaf / span;
        let loaded = span.min(self.leaves - number * span);
        let (added, upper) = &mut self.grown[number as usize];
        *added += 1;
        // A full root would need one more level, which is not simulated.
        upper.is_none() && loaded + *added > span && self.levels.len() > 1
    }

    /// Returns every interior page.
    pub fn all(&self) -> impl Iterator<Item = u32> + '_ {
        let loaded = self.levels.iter().flat_map(|&(first, span)| first..first + self.leaves.div_ceil(span));
        loaded.chain(self.grown.iter().filter_map(|&(_, upper)| upper))
    }

    /// Returns the number of interior pages above `leaves` leaves.
    pub fn count(&self, leaves: u32) -> u32 {
        self.levels.iter().map(|&(_, span)| leaves.div_ceil(span)).sum()
    }
}

/// A tree that never changes; its rows are numbers from zero.
#[derive(Debug)]
pub struct Packed {
    /// The tree's pages above the leaves.
    pub interior: Interior,
    first_leaf: u32,
    /// The first row of each leaf.
    firsts: Vec<u32>,
    rows_per_group: u32,
    /// The leaf that holds each group's first row.
    anchors: Vec<u32>,
}

impl Packed {
    /// Adds a tree to the objects. Each group of `rows_per_group` rows fills its leaves nearly alike.
    pub fn new(objects: &mut Objects, name: &str, packing: Packing, rows_per_group: u32, fan_out: u32) -> Self {
        let Packing { firsts, rows } = packing;
        let leaves = firsts.len() as u32;
        let (interior, first_leaf) = Interior::new(objects, name, leaves, fan_out, 0);
        let groups = rows.div_ceil(rows_per_group);
        assert!(firsts.first() == Some(&0), "the first leaf of {name} does not begin with row 0");
        debug_assert!(firsts.is_sorted_by(|before, behind| before < behind), "leaves of {name} are out of order");
        let holds = |row: u32| firsts.partition_point(|&first| first <= row) as u32 - 1;
        let mut anchors: Vec<u32> = (0..groups).map(|group| holds(group * rows_per_group)).collect();
        anchors.push(leaves - 1);
        Packed { interior, first_leaf, firsts, rows_per_group, anchors }
    }

    /// Returns the number of the leaf that holds a row.
    #[inline]
    pub fn leaf(&self, row: u32) -> u32 {
        let group = (row / self.rows_per_group) as usize;
        debug_assert!(group + 1 < self.anchors.len(), "row {row} is of no group that was loaded");
        let (low, high) = (self.anchors[group], self.anchors[group + 1]);
        // Rows have nearly equal sizes, so the guess is at most a few leaves off.
        let within = u64::from(row % self.rows_per_group) * u64::from(high - low);
        let mut leaf = (low + (within / u64::from(self.rows_per_group)) as u32) as usize;
        while self.firsts[leaf] > row {
            leaf -= 1;
        }
        while self.firsts.get(leaf + 1).is_some_and(|&first| first <= row) {
            leaf += 1;
        }
        leaf as u32
    }

    /// Returns whether a row is the first of a leaf.
    #[inline]
    pub fn is_first(&self, leaf: u32, row: u32) -> bool {
        self.firsts[leaf as usize] == row
    }

    /// Returns the number of a leaf's page.
    #[inline]
    pub fn page(&self, leaf: u32) -> u32 {
        self.first_leaf + leaf
    }

    /// Returns the number of leaves.
    pub fn leaves(&self) -> u32 {
        self.firsts.len() as u32
    }
}

/// A leaf of a tree that grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// The leaf's first key, in the group whose list holds the leaf.
    pub first: u32,
    /// The number of the leaf's page.
    pub page: u32,
    /// The number that the original leaf had at the load: the leaf from which this one was split, or this leaf itself
    /// if the load made it.
    pub origin: u32,
    /// The number of rows on the leaf.
    pub rows: u32,
    /// Bytes of the leaf's rows.
    pub bytes: u32,
    /// Group and key of the row that was inserted last; none if none was.
    pub last_insert: Option<(u32, u32)>,
}

/// A leaf's place: the group whose list holds it, and its position in that list.
pub type Place = (u32, usize);

/// The rows of one group that are in the tree, and their lowest and highest keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// The number of rows.
    pub rows: u32,
    /// The lowest key of the group's rows.
    pub low: u32,
    /// The highest key of the group's rows.
    pub high: u32,
}

/// The first rows of a group, on a leaf that begins with a row of an earlier group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Begun {
    rows: u32,
    bytes: u32,
    /// The key of the group's first row.
    low: u32,
    /// The first key of the group's own first leaf.
    next: u32,
}

/// A tree that grows.
#[derive(Debug)]
pub struct Grown {
    /// The tree's pages above the leaves.
    pub interior: Interior,
    groups: Vec<Vec<Leaf>>,
    extents: Vec<Extent>,
    /// For each group, its rows on the leaf before the group's own first leaf, as [`Grown::note_begun`] last noted
    /// them.
    begun: Vec<Begun>,
    first_leaf: u32,
    next_page: u32,
    end_page: u32,
    free: Vec<u32>,
    /// If present, decides which page a new leaf gets, instead of `next_page` and `free`.
    pub(crate) segment: Option<Segment>,
    /// The number of keys that a group can have; [`Grown::middle`] uses it.
    keys_per_group: u64,
}

impl Grown {
    /// Adds to the objects a tree that may grow by `growth` pages. Gives each loaded leaf its page, in the order of
    /// keys.
    pub fn new(objects: &mut Objects, name: &str, loaded: Loading, fan_out: u32, growth: u32) -> Self {
        let Loading { mut groups, extents, begun, leaves, keys_per_group, .. } = loaded;
        assert_eq!(groups.iter().map(Vec::len).sum::<usize>(), leaves as usize, "{name} has leaves in no group");
        let (interior, first_leaf) = Interior::new(objects, name, leaves, fan_out, growth);
        let numbers = groups.iter_mut().flatten().zip(0..);
        numbers.for_each(|(leaf, number)| (leaf.page, leaf.origin) = (first_leaf + number, number));
        let next_page = first_leaf + leaves;
        let (end_page, free, segment) = (next_page + growth, Vec::new(), None);
        Grown { interior, groups, extents, begun, first_leaf, next_page, end_page, free, segment, keys_per_group }
    }

    /// Returns the place of the leaf that holds a key or would hold it: the last leaf whose first key is at most `key`.
    #[inline]
    pub fn place(&self, group: u32, key: u32) -> Place {
        let leaves = &self.groups[group as usize];
        match leaves.partition_point(|leaf| leaf.first <= key) {
            0 => self.before((group, 0)).unwrap_or((group, 0)),
            position => (group, position - 1),
        }
    }

    /// Returns a leaf.
    #[inline]
    pub fn leaf(&self, place: Place) -> &Leaf {
        &self.groups[place.0 as usize][place.1]
    }

    /// Returns a leaf to change it.
    pub fn leaf_mut(&mut self, place: Place) -> &mut Leaf {
        &mut self.groups[place.0 as usize][place.1]
    }

    /// Returns the place of the leaf before this one; none for the first leaf.
    pub fn before(&self, (group, position): Place) -> Option<Place> {
        if position > 0 {
            return Some((group, position - 1));
        }
        let mut groups = (0..group).rev();
        groups.find_map(|group| Some((group, self.groups[group as usize].len().checked_sub(1)?)))
    }

    /// Returns the place of the leaf after this one; none for the last leaf.
    pub fn behind(&self, (group, position): Place) -> Option<Place> {
        if position + 1 < self.groups[group as usize].len() {
            return Some((group, position + 1));
        }
        let mut groups = group + 1..self.groups.len() as u32;
        groups.find(|&group| !self.groups[group as usize].is_empty()).map(|group| (group, 0))
    }

    /// Returns whether a key is a leaf's first one.
    #[inline]
    pub fn is_first(&self, place: Place, group: u32, key: u32) -> bool {
        place.0 == group && self.leaf(place).first == key
    }

    /// Returns the group and the key in the middle between a leaf's first key and the next leaf's.
    pub fn middle(&self, place: Place) -> (u32, u32) {
        let number = |(group, key): (u32, u32)| u64::from(group) * self.keys_per_group + u64::from(key);
        let low = number((place.0, self.leaf(place).first));
        let end = (self.groups.len() as u32, 0);
        let high = number(self.behind(place).map_or(end, |next| (next.0, self.leaf(next).first)));
        let middle = u64::midpoint(low, high);
        ((middle / self.keys_per_group) as u32, (middle % self.keys_per_group) as u32)
    }

    /// Moves `rows` rows from the leaf `elder` to a new leaf whose first key is `first`. Returns the new leaf's place,
    /// or none if the tree has no page number left.
    pub fn split(&mut self, elder: Place, group: u32, first: u32, rows: u32, bytes: u32) -> Option<Place> {
        let Leaf { page: near, origin, .. } = *self.leaf(elder);
        let page = self.new_page(near)?;
        let leaves = &mut self.groups[group as usize];
        let position = leaves.partition_point(|leaf| leaf.first <= first);
        // Grow the list by an eighth: doubling the lists of many districts would take twice the memory.
        if leaves.len() == leaves.capacity() {
            leaves.reserve_exact(leaves.len() / 8 + 4);
        }
        debug_assert!(
            position == 0 || leaves[position - 1].first < first,
            "two leaves of group {group} begin with key {first}"
        );
        leaves.insert(position, Leaf { first, page, origin, rows, bytes, last_insert: None });
        // The elder's place may have moved by one.
        let elder = self.before((group, position)).unwrap_or(elder);
        let own = self.leaf_mut(elder);
        (own.rows, own.bytes) = (own.rows - rows, own.bytes - bytes);
        Some((group, position))
    }

    fn new_page(&mut self, near: u32) -> Option<u32> {
        if let Some(segment) = &mut self.segment {
            debug_assert!(near >= self.first_leaf, "page {near} is not in the segment of the leaves");
            let page = self.first_leaf + segment.take(near - self.first_leaf);
            return (page < self.end_page).then_some(page);
        }
        self.free.pop().or_else(|| {
            let page = self.next_page;
            self.next_page += 1;
            (page < self.end_page).then_some(page)
        })
    }

    /// Adds a pointer to a new leaf to the page above it. If that page overflows for the first time, splits it in the
    /// middle and returns the new page. Returns none otherwise, and also if the tree has no page number left.
    pub fn point_to(&mut self, origin: u32) -> Option<u32> {
        let upper = if self.interior.fills(origin) { self.new_page(self.first_leaf)? } else { return None };
        let span = self.interior.levels.last()?.1;
        let before = self.interior.grown[(origin / span) as usize].1.replace(upper);
        debug_assert_eq!(before, None, "the page above leaf {origin} is split a second time");
        Some(upper)
    }

    /// Removes a leaf whose rows were moved to other leaves, and frees its page.
    pub fn remove(&mut self, (group, position): Place) {
        let leaf = self.groups[group as usize].remove(position);
        debug_assert!((self.first_leaf..self.end_page).contains(&leaf.page), "page {} is no leaf's", leaf.page);
        match &mut self.segment {
            Some(segment) => segment.give(leaf.page - self.first_leaf),
            None => self.free.push(leaf.page),
        }
    }

    /// Notes a row that a leaf took.
    pub fn add(&mut self, place: Place, group: u32, key: u32, bytes: u32) {
        let leaf = self.leaf_mut(place);
        (leaf.rows, leaf.bytes, leaf.last_insert) = (leaf.rows + 1, leaf.bytes + bytes, Some((group, key)));
        let extent = &mut self.extents[group as usize];
        *extent = Extent { rows: extent.rows + 1, low: extent.low.min(key), high: extent.high.max(key) };
    }

    /// Notes a row that left a leaf; `next` is the group's lowest key from now on, if the row was the lowest. The leaf
    /// forgets its last insert (InnoDB: page0cur.cc, `page_cur_delete_rec`).
    pub fn take(&mut self, place: Place, group: u32, bytes: u32, next: Option<u32>) {
        let leaf = self.leaf_mut(place);
        leaf.last_insert = None;
        (leaf.rows, leaf.bytes) = (leaf.rows.saturating_sub(1), leaf.bytes.saturating_sub(bytes));
        let extent = &mut self.extents[group as usize];
        extent.rows = extent.rows.saturating_sub(1);
        extent.low = next.unwrap_or(extent.low);
    }

    /// Estimates how many rows of later groups are on the leaf where a group ends. It assumes that a group's rows are
    /// spread evenly over its keys.
    pub fn rows_of_later_groups(&self, place: Place, group: u32) -> u32 {
        let next = self.behind(place);
        let last = next.map_or(self.groups.len() as u32, |(group, _)| group);
        let whole = |group: u32| self.extents[group as usize].rows;
        let begun = next.filter(|next| next.0 > group).map_or(0, |next| {
            let Extent { rows, low, high } = self.extents[next.0 as usize];
            let below = self.leaf(next).first.clamp(low, high + 1) - low;
            (u64::from(rows) * u64::from(below) / u64::from(high - low + 1)) as u32
        });
        (group + 1..last).map(whole).sum::<u32>() + begun
    }

    /// Returns the number and the bytes of the rows of later groups on the leaf where a group ends. The next group's
    /// rows are known while it begins there as it did at the load, or at the last [`Grown::note_begun`]; otherwise they
    /// are estimated. The difference matters, because the load's delivered lines are longer than the new ones before
    /// them.
    pub fn later_rows(&self, place: Place, group: u32) -> (u32, u32) {
        let leaf = self.leaf(place);
        let known = self.behind(place).filter(|next| next.0 == group + 1).and_then(|next| {
            let (begun, low) = (self.begun[next.0 as usize], self.extents[next.0 as usize].low);
            let is_as_noted = self.leaf(next).first == begun.next && (begun.rows == 0 || begun.low == low);
            (is_as_noted && begun.rows <= leaf.rows).then_some((begun.rows, begun.bytes))
        });
        known.unwrap_or_else(|| {
            let rows = self.rows_of_later_groups(place, group).min(leaf.rows);
            (rows, rows * (leaf.bytes / leaf.rows.max(1)))
        })
    }

    /// Notes the number and the bytes of the rows of a group that are on the leaf before the group's own first leaf.
    /// `next` is that leaf's first key.
    pub fn note_begun(&mut self, group: u32, next: u32, rows: u32, bytes: u32) {
        self.begun[group as usize] = Begun { rows, bytes, low: self.extents[group as usize].low, next };
    }

    /// Returns group and key of the second row after a group's last row. The later group's keys must have no gap.
    pub fn second_of_later_groups(&self, group: u32) -> (u32, u32) {
        let mut later = (group + 1..self.groups.len() as u32).filter(|&group| self.extents[group as usize].rows > 0);
        later.next().map_or((group + 1, 0), |group| (group, self.extents[group as usize].low + 1))
    }

    /// Returns a group's rows, and its lowest and highest keys.
    pub fn extent(&self, group: u32) -> Extent {
        self.extents[group as usize]
    }

    /// Returns every leaf in the order of keys.
    pub fn leaves(&self) -> impl Iterator<Item = &Leaf> {
        self.groups.iter().flatten()
    }
}

/// A tree of either kind.
#[derive(Debug)]
pub enum Tree {
    /// A tree that never changes. All of its leaves are of group 0, and its rows are numbered from zero.
    Packed(Packed),
    /// A tree that grows.
    Grown(Grown),
}

impl Tree {
    /// Returns the pages above the leaves.
    #[inline(always)]
    pub fn interior(&self) -> &Interior {
        match self {
            Tree::Packed(tree) => &tree.interior,
            Tree::Grown(tree) => &tree.interior,
        }
    }

    /// Returns the place of the leaf that holds a row or would hold it.
    #[inline(always)]
    pub fn place(&self, row: Row) -> Place {
        match self {
            Tree::Packed(tree) => (0, tree.leaf(row.number()) as usize),
            Tree::Grown(tree) => tree.place(row.group, row.key),
        }
    }

    /// Returns a leaf's page, and the number that the leaf, or the leaf from which it was split, had at the load.
    #[inline(always)]
    pub fn leaf(&self, place: Place) -> (u32, u32) {
        match self {
            Tree::Packed(tree) => (tree.page(place.1 as u32), place.1 as u32),
            Tree::Grown(tree) => {
                let Leaf { page, origin, .. } = *tree.leaf(place);
                (page, origin)
            }
        }
    }

    /// Returns the place of the leaf before this one; none for the first leaf.
    #[inline(always)]
    pub fn before(&self, place: Place) -> Option<Place> {
        match self {
            Tree::Packed(_) => place.1.checked_sub(1).map(|before| (0, before)),
            Tree::Grown(tree) => tree.before(place),
        }
    }

    /// Returns the place of the leaf after this one; none for the last leaf.
    #[inline(always)]
    pub fn behind(&self, place: Place) -> Option<Place> {
        match self {
            Tree::Packed(tree) => (place.1 + 1 < tree.firsts.len()).then_some((0, place.1 + 1)),
            Tree::Grown(tree) => tree.behind(place),
        }
    }

    /// Returns whether a row is a leaf's first one.
    #[inline(always)]
    pub fn is_first(&self, place: Place, row: Row) -> bool {
        match self {
            Tree::Packed(tree) => tree.is_first(place.1 as u32, row.number()),
            Tree::Grown(tree) => tree.is_first(place, row.group, row.key),
        }
    }

    /// Returns the pages of all leaves in the order of keys.
    pub fn leaf_pages(&self) -> Vec<u32> {
        match self {
            Tree::Packed(tree) => (0..tree.leaves()).map(|leaf| tree.page(leaf)).collect(),
            Tree::Grown(tree) => tree.leaves().map(|leaf| leaf.page).collect(),
        }
    }
}

/// The leaves of a tree while rows are loaded in the order of their keys.
#[derive(Debug)]
pub struct Loading {
    groups: Vec<Vec<Leaf>>,
    extents: Vec<Extent>,
    /// For each group, the group's rows that are on the leaf before the group's own first leaf.
    begun: Vec<Begun>,
    /// Rows of the first leaf, while it is the only one: their groups, keys and bytes.
    firsts: Vec<(u32, u32, u32)>,
    /// The number of leaves that the load has made so far.
    pub leaves: u32,
    last_group: usize,
    keys_per_group: u64,
    halves_first: bool,
}

impl Loading {
    /// Begins a tree of `groups` groups. With `halves_first` the first leaf keeps half of its rows when it is full.
    pub fn new(groups: u32, keys_per_group: u64, halves_first: bool) -> Self {
        let (extents, begun) = (vec![Extent::default(); groups as usize], vec![Begun::default(); groups as usize]);
        let (groups, firsts) = (vec![Vec::new(); groups as usize], Vec::new());
        Loading { groups, extents, begun, firsts, leaves: 0, last_group: 0, keys_per_group, halves_first }
    }

    /// Adds a row at the end. `takes` gets a leaf's number of rows, their bytes and a record's bytes; it returns
    /// whether the record fits.
    pub fn push(&mut self, group: u32, key: u32, bytes: u32, takes: &impl Fn(u32, u32, u32) -> bool) {
        let Extent { rows, low, high } = self.extents[group as usize];
        debug_assert!(group as usize >= self.last_group, "group {group} is loaded behind group {}", self.last_group);
        debug_assert!(rows == 0 || key > high, "key {key} of group {group} is loaded behind key {high}");
        self.extents[group as usize] = Extent { rows: rows + 1, low: if rows == 0 { key } else { low }, high: key };
        if self.leaves < 2 {
            self.firsts.push((group, key, bytes));
        }
        if let Some(leaf) = self.groups[self.last_group].last_mut() {
            if takes(leaf.rows, leaf.bytes, bytes) {
                (leaf.rows, leaf.bytes) = (leaf.rows + 1, leaf.bytes + bytes);
                if self.groups[group as usize].is_empty() {
                    let begun = &mut self.begun[group as usize];
                    let low = if begun.rows == 0 { key } else { begun.low };
                    *begun = Begun { rows: begun.rows + 1, bytes: begun.bytes + bytes, low, next: begun.next };
                }
                return;
            }
            if self.leaves == 1 && self.halves_first {
                let kept = leaf.rows / 2;
                return self.split_first(kept);
            }
        }
        let first = if self.leaves == 0 { 0 } else { key };
        self.begin(group, first, 1, bytes);
    }

    fn begin(&mut self, group: u32, first: u32, rows: u32, bytes: u32) {
        let group = group as usize;
        if group != self.last_group {
            self.groups[self.last_group].shrink_to_fit();
            self.begun[group].next = first;
        }
        self.groups[group].push(Leaf { first, page: 0, origin: 0, rows, bytes, last_insert: None });
        (self.leaves, self.last_group) = (self.leaves + 1, group);
    }

    /// Splits the first leaf: it keeps `kept` rows; the others, and the row that had no room, go to a second leaf.
    fn split_first(&mut self, kept: u32) {
        let behind = std::mem::take(&mut self.firsts).split_off(kept as usize);
        let moved: u32 = behind.iter().map(|&(.., bytes)| bytes).sum();
        let (group, first, last) = (behind[0].0, behind[0].1, behind[behind.len() - 1].2);
        if let Some(leaf) = self.groups[self.last_group].last_mut() {
            (leaf.rows, leaf.bytes) = (kept, leaf.bytes + last - moved);
        }
        self.begin(group, first, behind.len() as u32, moved);
    }
}

/// The distribution of rows over leaves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packing {
    /// The first row of each leaf.
    pub firsts: Vec<u32>,
    /// The number of rows on all leaves together.
    pub rows: u32,
}

/// The most leaves that [`pack`] holds before it notes their first rows and drops them.
const PACKED_AT_ONCE: usize = 1000;

/// Packs rows of the given sizes in bytes into leaves.
///
/// `takes` returns whether a leaf takes a row, as in [`Loading::push`]. With `halves_first` the first leaf keeps half
/// of its rows when it is full.
pub fn pack(rows: impl Iterator<Item = u16>, halves_first: bool, takes: impl Fn(u32, u32, u32) -> bool) -> Packing {
    let mut loading = Loading::new(1, 1 << 32, halves_first);
    let mut packing = Packing::default();
    for (row, bytes) in (0..).zip(rows) {
        loading.push(0, row, bytes.into(), &takes);
        packing.rows = row + 1;
        let leaves = &mut loading.groups[0];
        if leaves.len() > PACKED_AT_ONCE {
            // The last leaf still takes rows.
            packing.firsts.extend(leaves.drain(..PACKED_AT_ONCE).map(|leaf| leaf.first));
        }
    }
    packing.firsts.extend(loading.groups[0].iter().map(|leaf| leaf.first));
    packing
}
