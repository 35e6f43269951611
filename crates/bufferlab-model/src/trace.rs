//! The terms of a page trace: kinds of accesses, the record of an access in a spool, the columns of page-trace.parquet,
//! and the measured window. docs/page-trace.md lists the records of each engine.

use serde::{Deserialize, Serialize};

/// The kind of a page's event. page-trace.parquet stores its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
#[repr(u8)]
pub enum Kind {
    /// A caller wanted the page and got it, from the pool or after a read.
    Get = 0,
    /// A caller wanted the page only if it is in the pool.
    GetIfInPool = 1,
    /// The page got a frame without a read, because it is new.
    Create = 2,
    /// The engine read the page into a frame.
    Read = 3,
    /// A caller asked the engine to read the page before any get. The engine reads it if it is not in the pool.
    Prefetch = 4,
    /// The page lost its frame to another.
    Evict = 5,
    /// The page left the pool for another reason: its content is invalid (a rollback), or no caller wants it.
    Drop = 6,
    /// A caller changed the page, which is dirty from then on.
    Dirty = 7,
    /// The engine wrote the page into its file.
    Write = 8,
}

/// All kinds and their names, by their numbers.
pub const KINDS: [(Kind, &str); 9] = [
    (Kind::Get, "get"),
    (Kind::GetIfInPool, "get_if_in_pool"),
    (Kind::Create, "create"),
    (Kind::Read, "read"),
    (Kind::Prefetch, "prefetch"),
    (Kind::Evict, "evict"),
    (Kind::Drop, "drop"),
    (Kind::Dirty, "dirty"),
    (Kind::Write, "write"),
];

const _: () = {
    let mut number = 0;
    while number < KINDS.len() {
        assert!(KINDS[number].0 as usize == number, "a kind does not stand at its number");
        number += 1;
    }
};

impl Kind {
    /// Returns the kind of a number in a column; none for a number that has no kind.
    #[inline]
    pub fn of(number: u8) -> Option<Self> {
        // A lookup in a table would cost a memory load for each access. The test below checks that this list and
        // `KINDS` are equal.
        Some(match number {
            0 => Kind::Get,
            1 => Kind::GetIfInPool,
            2 => Kind::Create,
            3 => Kind::Read,
            4 => Kind::Prefetch,
            5 => Kind::Evict,
            6 => Kind::Drop,
            7 => Kind::Dirty,
            8 => Kind::Write,
            _ => return None,
        })
    }
}

impl TryFrom<String> for Kind {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let known = KINDS.iter().find(|(_, known)| *known == name);
        known.map(|&(kind, _)| kind).ok_or_else(|| format!("there is no kind of access {name}"))
    }
}

/// The parts of PostgreSQL's column `latch`: the pin in the lower two bits, the buffer ring of a get in the next two.
/// When a page becomes dirty, the lower two bits give the cause.
pub mod latch {
    /// A change of the page made it dirty.
    pub const BY_CHANGE: u8 = 1;
    /// A hint made the page dirty, for example the note that a row's transaction has committed. Without data checksums,
    /// the log does not contain such a change.
    pub const BY_HINT: u8 = 2;
    /// The bits of the pin.
    pub const PIN: u8 = 3;
    /// The session's first pin of the page.
    pub const FIRST: u8 = 1;
    /// The session had the page pinned already.
    pub const HELD: u8 = 2;
    /// The bits of the buffer ring; 0 if the trace does not show it.
    pub const RING: u8 = 12;
    /// The get uses no buffer ring: a miss may take any buffer of the pool.
    pub const NO_RING: u8 = 4;
    /// The get uses the buffer ring of a bulk read, for example of a scan of a large table.
    pub const BULK_READ: u8 = 8;
    /// The get uses the buffer ring of VACUUM or of a bulk write.
    pub const OTHER_RING: u8 = 12;
    /// The mark of an eviction in a trace of frames: a scan's buffer ring reused the frame.
    pub const LEFT_BY_RING: u8 = 16;
    /// The mark of a get or a creation after which the session changed the page.
    pub const CHANGED: u8 = 32;
    /// The mark of a get or a creation after which the session set a hint in the page.
    pub const HINTED: u8 = 64;

    const _: () = {
        assert!(PIN & RING == 0, "a bit is of the pin and of the ring");
        assert!(LEFT_BY_RING & (PIN | RING) == 0, "the mark of an eviction is of the pin or of the ring");
        assert!((CHANGED | HINTED) & (PIN | RING | LEFT_BY_RING) == 0, "the mark of a change has another meaning");
        assert!((FIRST | HELD) & !PIN == 0, "a pin has bits that are not the pin's");
        assert!((NO_RING | BULK_READ | OTHER_RING) & !RING == 0, "a ring has bits that are not the ring's");
    };
}

/// One recorded access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The time of the access in nanoseconds, on CLOCK_MONOTONIC.
    pub t_ns: u64,
    /// The number of the object that has the page: a tablespace, a relation or a file.
    pub object: u32,
    /// The page's number in the object.
    pub page: u32,
    /// The number of the thread or process that made the access. Numbers count from 0 in the order of first accesses.
    pub thread: u32,
    /// The kind of event.
    pub kind: Kind,
    /// The latch that the access asks for, by the engine's numbers; 0 for an engine without latches. PostgreSQL: see
    /// [`latch`].
    pub latch: u8,
    /// The number of the place in a server's binary that recorded the access; 0 if there is only one place. In a trace
    /// of calls it marks a read: 1 if the read page seemed to be in another frame, 2 if the page that the frame held
    /// before was unknown.
    pub site: u8,
}

/// The fields of a record in a spool, in their order, with their types by numpy's names.
pub const RECORD: [(&str, &str); 8] = [
    ("t_ns", "<u8"),
    ("object", "<u4"),
    ("page", "<u4"),
    ("thread", "<u4"),
    ("kind", "u1"),
    ("latch", "u1"),
    ("site", "u1"),
    ("unused", "u1"),
];

/// Bytes of a record in a spool.
pub const RECORD_BYTES: usize = 24;

impl Record {
    /// Returns the access as the bytes of a spool, by the fields of [`RECORD`].
    #[inline]
    pub fn bytes(&self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[..8].copy_from_slice(&self.t_ns.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.object.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.page.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.thread.to_le_bytes());
        bytes[20] = self.kind as u8;
        bytes[21] = self.latch;
        bytes[22] = self.site;
        bytes
    }
}

/// Begin and end of the measured window, on CLOCK_MONOTONIC; none for a point that the run did not reach.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Window {
    /// The window's begin in nanoseconds on CLOCK_MONOTONIC; none if the run did not reach it.
    pub window_start_ns: Option<u64>,
    /// The window's end in nanoseconds on CLOCK_MONOTONIC; none if the run did not reach it.
    pub window_end_ns: Option<u64>,
}

/// The names of the columns of page-trace.parquet, with their types.
pub const COLUMNS: [(&str, &str); 5] =
    [("page", "u32"), ("kind", "u8"), ("latch", "u8"), ("thread", "u16"), ("delta_us", "u32")];

/// The columns of a page trace, one row an event, in the order of time.
#[derive(Clone, Copy, Debug)]
pub struct Columns<'a> {
    /// The page of each event. Pages are numbered from 0 without gaps, and the pages of one object have consecutive
    /// numbers.
    pub page: &'a [u32],
    /// The number of each event's kind, one of [`Kind`].
    pub kind: &'a [u8],
    /// The latch that each event takes, by the database's number; for PostgreSQL the parts in [`latch`].
    pub latch: &'a [u8],
    /// The number of the thread, or of the process, of each event.
    pub thread: &'a [u16],
    /// Microseconds from the event before to each event.
    pub delta_us: &'a [u32],
}

/// One event that a buffer manager gets.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// The page, below the number of pages that the manager was made for.
    pub page: u32,
    /// The thread or process, by its number in the trace.
    pub thread: u16,
    /// The latch that the access takes, by the database's number; 0 if it takes none. For PostgreSQL the parts in
    /// [`latch`].
    pub latch: u8,
    /// Microseconds since the trace began, by the trace's clock.
    pub now_us: u64,
}

impl Columns<'_> {
    /// Returns the number of each column's rows; none if the columns differ in length.
    pub fn rows(&self) -> Option<usize> {
        let rows = self.page.len();
        let others = [self.kind.len(), self.latch.len(), self.thread.len(), self.delta_us.len()];
        (others == [rows; 4]).then_some(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_stands_at_its_number_and_is_known_by_its_name() {
        for (number, (kind, name)) in (0..).zip(KINDS) {
            assert_eq!((Kind::of(number), Kind::try_from(name.to_owned())), (Some(kind), Ok(kind)));
            assert_eq!(kind as u8, number);
        }
        assert_eq!(Kind::of(9), None);
        assert!(Kind::try_from("flush".to_owned()).is_err());
    }

    #[test]
    fn a_record_has_every_field_at_its_place() {
        let record =
            Record { t_ns: 1 << 40, object: 2, page: 0x0403_0201, thread: 5, kind: Kind::Evict, latch: 7, site: 8 };
        let bytes = record.bytes();
        assert_eq!(bytes[..8], [0, 0, 0, 0, 0, 1, 0, 0]);
        assert_eq!(bytes[8..], [2, 0, 0, 0, 1, 2, 3, 4, 5, 0, 0, 0, 5, 7, 8, 0]);
        let sizes = RECORD.map(|(_, field)| field.trim_start_matches(['<', 'u']).parse::<usize>().expect("a size"));
        assert_eq!(sizes.iter().sum::<usize>(), RECORD_BYTES);
    }
}
