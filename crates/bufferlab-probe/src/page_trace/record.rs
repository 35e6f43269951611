//! One access, and its bytes in a spool.

use serde::Deserialize;

/// Bytes of an access in a spool.
pub const RECORD_BYTES: usize = 24;

/// An event of a page. The numbers stand in page-trace.parquet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
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
    /// A caller asked to read the page ahead of any get; the engine does so if it is not in the pool.
    Prefetch = 4,
    /// The page lost its frame to another.
    Evict = 5,
    /// The page left the pool for another reason: its content is no longer true (a rollback), or no caller wants it.
    Drop = 6,
}

/// All kinds, by their numbers.
pub const KINDS: [(Kind, &str); 7] = [
    (Kind::Get, "get"),
    (Kind::GetIfInPool, "get_if_in_pool"),
    (Kind::Create, "create"),
    (Kind::Read, "read"),
    (Kind::Prefetch, "prefetch"),
    (Kind::Evict, "evict"),
    (Kind::Drop, "drop"),
];

/// One access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// CLOCK_MONOTONIC.
    pub t_ns: u64,
    /// The tablespace, relation or file.
    pub object: u32,
    /// The page's number in it.
    pub page: u32,
    /// The thread, numbered from 0 in the order of their first accesses.
    pub thread: u32,
    /// What happened.
    pub kind: Kind,
    /// The latch asked for, in the engine's numbers; 0 where it has none. PostgreSQL: 1 where the session pins the
    /// page, 2 where it has already pinned it; and 4 more without a ring, 8 with a ring of bulk reads, 12 with another.
    pub latch: u8,
    /// The place in a server's binary that told of it; 0 where there is only one.
    pub site: u8,
}

impl Access {
    /// Returns the access as bytes, little-endian: t_ns, object, page, thread, kind, latch, site, and an unused byte.
    #[must_use]
    pub fn record(&self) -> [u8; RECORD_BYTES] {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_stands_at_its_number() {
        for (number, (kind, _)) in KINDS.iter().enumerate() {
            assert_eq!(*kind as usize, number);
        }
    }

    #[test]
    fn a_record_has_every_field_at_its_place() {
        let access =
            Access { t_ns: 1 << 40, object: 2, page: 0x0403_0201, thread: 5, kind: Kind::Evict, latch: 7, site: 8 };
        let bytes = access.record();
        assert_eq!(bytes[..8], [0, 0, 0, 0, 0, 1, 0, 0]);
        assert_eq!(bytes[8..], [2, 0, 0, 0, 1, 2, 3, 4, 5, 0, 0, 0, 5, 7, 8, 0]);
    }
}
