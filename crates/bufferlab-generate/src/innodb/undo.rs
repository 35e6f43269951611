//! InnoDB's undo log and its purge (trx0rseg.cc, trx0undo.cc, trx0purge.cc).
//!
//! Up to MySQL 5.7 rollback segments are in the system tablespace, from 8.0 on in undo tablespaces ([`Segments`]).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::latch::{EXCLUSIVE, SHARED, SX};
use crate::engine::Relation;
use crate::pools::{Objects, Pools};

/// The rollback segments of a server, by its default settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segments {
    /// The segments that transactions use, of all tablespaces together.
    used: u32,
    /// The segments among them that transactions use twice while they use the others once.
    twice: u32,
    /// The segments of temporary tables.
    temporary: u32,
    /// The tablespaces that have the segments. Transactions take the tablespaces in turn.
    tablespaces: u32,
}

impl Segments {
    /// MySQL 5.7: 128 rollback segments in the system tablespace (trx0sys.h, `TRX_SYS_N_RSEGS`). Slots 1 to 32 are
    /// those of temporary tables (srv0srv.cc, `srv_tmp_undo_rsegs`). A transaction whose turn is one of these slots
    /// takes one of the next 32 instead. So in each round transactions use those 32 segments twice (trx0trx.cc,
    /// `get_next_redo_rseg`).
    pub const OF_5_7: Segments = Segments { used: 96, twice: 32, temporary: 32, tablespaces: 1 };
    /// MySQL from 8.0 on: 128 (`innodb_rollback_segments`) in each of two undo tablespaces (`innodb_undo_tablespaces`;
    /// trx0trx.cc, `get_next_redo_rseg_from_undo_spaces`), and as many in the temporary tablespace.
    pub const OF_8_0: Segments = Segments { used: 256, twice: 0, temporary: 128, tablespaces: 2 };

    /// Returns the number of pages that transactions use all the time. Each rollback segment has a header, a page of
    /// inserts and a page of updates; temporary tables have headers.
    pub fn pages_in_use(self) -> u32 {
        3 * self.used + self.temporary
    }

    /// Returns the number of slots. Transactions take the slots in turn, and each slot has a rollback segment.
    fn slots(self) -> u32 {
        self.used + self.twice
    }

    /// Returns the rollback segment of a slot.
    fn of(self, slot: u32) -> u32 {
        if slot <= self.twice { slot } else { slot - self.twice }
    }

    /// Returns the pages of a tablespace before its undo pages: header, two inode pages, then the headers of rollback
    /// segments.
    fn managing(self) -> u32 {
        3 + self.used / self.tablespaces
    }

    /// Returns the first managing page of the tablespace that has a segment, counted from that of the first tablespace.
    fn tablespace(self, segment: u32) -> u32 {
        segment % self.tablespaces * self.managing()
    }
}

/// Bytes of a page before the first log.
const PAGE_HEADER: u32 = 38 + 18 + 30;
/// Bytes of a log's header with its XA part (trx0undo.h, `TRX_UNDO_LOG_XA_HDR_SIZE`).
const LOG_HEADER: u32 = 186;
/// The number of transactions by which the purge lags behind the commits, for each connection, times two. The purge
/// lags because it waits for the views of other connections (trx0purge.cc, `trx_purge`). A trace of eight connections
/// showed 20 transactions; one connection's purge follows at once.
const BEHIND_HALVES: usize = 5;
/// The number of transactions that are purged between two truncations of the history. A truncation looks at every
/// rollback segment, once in 128 batches of the purge (srv0srv.cc, `srv_do_purge`;
/// `innodb_purge_rseg_truncate_frequency`). In a trace of eight connections 128 batches had this many transactions.
const TRUNCATION: usize = 172;

/// Bytes of the old value of column c in an undo record of hot_rows.
const C: u32 = 120;

/// Returns the bytes of an undo record of an update or a delete: header, key and old values of the columns that the
/// statements change (trx0rec.cc, `trx_undo_page_report_modify`).
pub(super) fn record_bytes(of: Relation) -> u32 {
    match of {
        Relation::District | Relation::OrderLine => 42,
        Relation::Customer => 56,
        Relation::Stock | Relation::NewOrder => 50,
        Relation::HotRows => 40 + C,
        _ => 40,
    }
}

/// The two kinds of undo log of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Log {
    /// The log of inserts, which the commit drops.
    Insert,
    /// The log of updates and deletes, which is kept until the purge.
    Update,
}

#[derive(Clone, Copy, Default)]
struct Segment {
    insert: Option<u32>,
    update: Option<u32>,
    used: u32,
}

/// A committed transaction that the purge has not processed yet.
struct Committed {
    segment: u32,
    page: u32,
    /// Pages that the transaction's updates filled, and that the purge frees.
    full: Vec<u32>,
    /// The rows of NEW-ORDER that the purge removes: district and order of each.
    deleted: Vec<(u32, u32)>,
}

/// The undo log.
pub(super) struct Undo {
    of: Segments,
    page_bytes: u32,
    /// The first managing page of the first tablespace.
    system: u32,
    temporary: u32,
    segments: Vec<Segment>,
    free: BinaryHeap<Reverse<u32>>,
    next_page: u32,
    end_page: u32,
    next_slot: u32,
    /// The number of connections that have run a transaction.
    connections: usize,
    history: VecDeque<Committed>,
    /// Logs that were purged since the last truncation: their segments and pages.
    purged: Vec<(u32, u32)>,
    freed: Vec<u32>,
    /// The rollback segment of the open transaction; none before its first undo record. The next field says which of
    /// its two logs the transaction has begun.
    open: Option<u32>,
    begun: [bool; 2],
    full: Vec<u32>,
    deleted: Vec<(u32, u32)>,
}

impl Undo {
    pub(super) fn new(objects: &mut Objects, page_bytes: u32, of: Segments) -> Self {
        let managing = of.tablespaces * of.managing();
        let system = objects.add("(system)", managing, managing);
        let temporary = objects.add("(temporary)", of.temporary, of.temporary);
        let room = of.used * 8 + 1024 * (16384 / page_bytes).max(1);
        let first = objects.add("(undo)", 0, room);
        Undo {
            of,
            page_bytes,
            system,
            temporary,
            segments: vec![Segment::default(); of.used as usize],
            free: BinaryHeap::new(),
            next_page: first,
            end_page: first + room,
            next_slot: 0,
            connections: 1,
            history: VecDeque::new(),
            purged: Vec::new(),
            freed: Vec::new(),
            open: None,
            begun: [false; 2],
            full: Vec::new(),
            deleted: Vec::new(),
        }
    }

    fn header(&self, segment: u32) -> u32 {
        self.system + self.of.tablespace(segment) + 3 + segment / self.of.tablespaces
    }

    /// Writes an undo record of `bytes` bytes (trx0rec.cc, `trx_undo_report_row_operation`).
    pub(super) fn write(&mut self, pools: &mut Pools, log: Log, bytes: u32) {
        let segment = *self.open.get_or_insert_with(|| {
            self.next_slot = (self.next_slot + 1) % self.of.slots();
            self.of.of(self.next_slot)
        });
        let begun = std::mem::replace(&mut self.begun[log as usize], true);
        let page = match log {
            Log::Insert => self.insert_page(pools, segment),
            Log::Update => self.room_for(pools, segment, bytes, begun),
        };
        if !begun {
            pools.get(page, EXCLUSIVE);
        }
        pools.get(page, EXCLUSIVE);
    }

    /// Returns the page that takes a record: the segment's, or a new one (trx0undo.cc, `trx_undo_assign_undo`,
    /// `trx_undo_add_page`).
    fn room_for(&mut self, pools: &mut Pools, segment: u32, bytes: u32, begun: bool) -> u32 {
        let bytes = if begun { bytes } else { bytes + LOG_HEADER };
        let Segment { update, used, .. } = self.segments[segment as usize];
        let fits = used + bytes <= self.page_bytes - 16;
        if let Some(page) = update.filter(|_| fits) {
            self.segments[segment as usize].used += bytes;
            return page;
        }
        self.full.extend(update);
        let page = self.new_page(pools, segment);
        let own = &mut self.segments[segment as usize];
        (own.update, own.used) = (Some(page), PAGE_HEADER + bytes);
        debug_assert!(own.used <= self.page_bytes, "a page of {} bytes takes {}", self.page_bytes, own.used);
        page
    }

    /// Returns the page of a segment's inserts, which each transaction of the segment uses again.
    fn insert_page(&mut self, pools: &mut Pools, segment: u32) -> u32 {
        if let Some(page) = self.segments[segment as usize].insert {
            return page;
        }
        let page = self.new_page(pools, segment);
        self.segments[segment as usize].insert = Some(page);
        page
    }

    /// Makes a page of the undo log: the free one with the lowest number, or a new one (fsp0fsp.cc,
    /// `fsp_alloc_free_page`).
    fn new_page(&mut self, pools: &mut Pools, segment: u32) -> u32 {
        pools.get(self.header(segment), EXCLUSIVE);
        for place in [0, 0, 1, 0, 0, 0] {
            pools.get(self.system + self.of.tablespace(segment) + place, SX);
        }
        let page = self.free.pop().map_or_else(
            || {
                if self.next_page == self.end_page {
                    pools.fill();
                    return self.end_page - 1;
                }
                self.next_page += 1;
                self.next_page - 1
            },
            |Reverse(page)| page,
        );
        debug_assert!(page < self.next_page, "page {page} of the undo log is free and was never used");
        pools.create(page);
        pools.get(page, EXCLUSIVE);
        page
    }

    /// Notes that the open transaction deletes an order's row of NEW-ORDER.
    pub(super) fn deletes(&mut self, district: u32, order: u32) {
        debug_assert!(
            !self.deleted.contains(&(district, order)),
            "order {order} of district {district} is deleted twice"
        );
        self.deleted.push((district, order));
    }

    /// Closes the logs of the open transaction; returns its segment and the page of its updates, if there are any.
    fn close(&mut self, pools: &mut Pools) -> Option<(u32, u32)> {
        let segment = self.open.take()?;
        let Segment { insert, update, .. } = self.segments[segment as usize];
        let [has_insert, has_update] = std::mem::take(&mut self.begun);
        let (insert, update) = (insert.filter(|_| has_insert), update.filter(|_| has_update));
        insert.into_iter().chain(update).for_each(|page| pools.get(page, EXCLUSIVE));
        update.map(|page| (segment, page))
    }

    /// Ends the open transaction (trx0trx.cc, `trx_write_serialisation_history`). A page that is three quarters full is
    /// not used again (trx0undo.h, `TRX_UNDO_PAGE_REUSE_LIMIT`).
    pub(super) fn commit(&mut self, pools: &mut Pools) {
        let Some((segment, page)) = self.close(pools) else {
            let is_empty = self.deleted.is_empty() && self.full.is_empty();
            return debug_assert!(is_empty, "an update's records are in no log of updates");
        };
        pools.get(self.header(segment), EXCLUSIVE);
        let mut full = std::mem::take(&mut self.full);
        let own = &mut self.segments[segment as usize];
        if own.used >= self.page_bytes / 4 * 3 || !full.is_empty() {
            full.push(page);
            own.update = None;
        }
        let deleted = std::mem::take(&mut self.deleted);
        self.history.push_back(Committed { segment, page, full, deleted });
    }

    /// Ends the open transaction after its rows are restored, and adds nothing to the history.
    pub(super) fn forget(&mut self, pools: &mut Pools) {
        self.close(pools);
        self.free.extend(self.full.drain(..).map(Reverse));
        self.deleted.clear();
    }

    /// Reads an undo record to restore its row.
    pub(super) fn read_back(&self, pools: &mut Pools, log: Log) {
        let Some(segment) = self.open else { return };
        let own = self.segments[segment as usize];
        let page = if log == Log::Insert { own.insert } else { own.update };
        page.into_iter().for_each(|page| pools.get(page, EXCLUSIVE));
    }

    /// Purges the transaction that is due, if there is one; returns district and order of the rows of NEW-ORDER to
    /// remove (trx0purge.cc, `trx_purge`).
    pub(super) fn purge(&mut self, pools: &mut Pools) -> Vec<(u32, u32)> {
        self.connections = self.connections.max(usize::from(pools.thread()) + 1);
        if self.history.len() <= self.connections * BEHIND_HALVES / 2 {
            return Vec::new();
        }
        let Some(due) = self.history.pop_front() else { return Vec::new() };
        (0..=due.deleted.len()).for_each(|_| pools.get(due.page, SHARED));
        self.purged.push((due.segment, due.page));
        self.freed.extend(due.full);
        if self.purged.len() == TRUNCATION {
            self.truncate(pools);
        }
        debug_assert!(self.purged.len() < TRUNCATION, "{} logs wait for a truncation", self.purged.len());
        due.deleted
    }

    /// Truncates the history (trx0purge.cc, `trx_purge_truncate_history`).
    fn truncate(&mut self, pools: &mut Pools) {
        self.purged.sort_unstable();
        for (segment, page) in self.purged.drain(..) {
            pools.get(self.system + self.of.tablespace(segment) + 3 + segment / self.of.tablespaces, EXCLUSIVE);
            pools.get(page, EXCLUSIVE);
        }
        (0..self.of.used).for_each(|segment| pools.get(self.header(segment), EXCLUSIVE));
        (0..self.of.temporary).for_each(|number| pools.get(self.temporary + number, EXCLUSIVE));
        for page in self.freed.drain(..) {
            pools.get(page, SX);
            [1, 0, 1, 0, 0, 0].into_iter().for_each(|place| pools.get(self.system + place, SX));
            self.free.push(Reverse(page));
        }
    }
}
