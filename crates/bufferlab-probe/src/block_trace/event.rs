//! One event of the block layer, from any tracepoint, with blktrace's letter for it (blkparse(1)).

use crate::tracefs::{Field, Format};

/// Length of an event in the decoded file, in bytes.
pub const RECORD_BYTES: usize = 80;
const FLAGS: usize = 10;
const COMM: usize = 16;

/// Every tracepoint that a trace can record, and its letter. If a device's driver completes whole bios (device mapper,
/// md), C is the completion of a bio. A request's bios are not completed a second time (blk_update_request clears
/// BIO_TRACE_COMPLETION).
pub(super) const TRACEPOINTS: [(&str, u8); 16] = [
    ("block_bio_queue", b'Q'),
    ("block_split", b'X'),
    ("block_bio_remap", b'A'),
    ("block_rq_remap", b'A'),
    ("block_bio_bounce", b'B'),
    ("block_getrq", b'G'),
    ("block_plug", b'P'),
    ("block_bio_backmerge", b'M'),
    ("block_bio_frontmerge", b'F'),
    ("block_rq_merge", b'M'),
    ("block_rq_insert", b'I'),
    ("block_unplug", b'U'),
    ("block_rq_issue", b'D'),
    ("block_rq_requeue", b'R'),
    ("block_rq_complete", b'C'),
    ("block_bio_complete", b'C'),
];

/// The steps of a request between queueing and issuing, except merging. A trace records them only if `every_step` is
/// set. An event costs the task that makes the request some tenths of a microsecond, and most requests have two of
/// these events.
const STEPS: [&str; 4] = ["block_bio_bounce", "block_getrq", "block_plug", "block_rq_insert"];

/// Returns the names of the tracepoints to record, with the steps of a request only if `every_step` is true.
pub(super) fn recorded(every_step: bool) -> impl Iterator<Item = &'static str> {
    TRACEPOINTS.into_iter().map(|(name, _)| name).filter(move |name| every_step || !STEPS.contains(name))
}

/// The tracepoints that every trace needs.
pub(super) const NEEDED: [&str; 3] = ["block_bio_queue", "block_rq_issue", "block_rq_complete"];

/// An event of the block layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The time of the event in nanoseconds, on CLOCK_MONOTONIC.
    pub t_ns: u64,
    /// The letter that blktrace has for this kind of event.
    pub action: u8,
    /// The processor that recorded the event.
    pub cpu: u16,
    /// The device, as the kernel numbers it: major << 20 | minor. Plugs have none.
    pub device: u32,
    /// The event's first sector on the device, in sectors of 512 bytes.
    pub sector: u64,
    /// The number of the event's sectors, of 512 bytes each.
    pub sectors: u32,
    /// For a remap, the device that the request came from, as the kernel numbers it.
    pub from_device: u32,
    /// For a remap, the sector that the request came from; for a split, the first sector of the request's second part.
    pub other_sector: u64,
    /// For an unplug, the number of requests that the task had held back.
    pub requests: u32,
    /// The number of the task that was running; for a completion, of the task that the completion interrupted.
    pub pid: i32,
    /// For a completion: the error's number, negative, or 0.
    pub error: i32,
    /// The kind of request, RWBS, as blktrace writes it.
    pub flags: [u8; FLAGS],
    /// The task's name, if the tracepoint has it.
    pub comm: [u8; COMM],
}

impl Event {
    /// Returns the event in the form of the decoded file: little-endian, without gaps between fields, but with four
    /// bytes of zeros after the last number.
    pub fn record(&self) -> [u8; RECORD_BYTES] {
        let mut record = [0; RECORD_BYTES];
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            record[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&self.t_ns.to_le_bytes());
        put(&self.sector.to_le_bytes());
        put(&self.other_sector.to_le_bytes());
        put(&self.device.to_le_bytes());
        put(&self.from_device.to_le_bytes());
        put(&self.sectors.to_le_bytes());
        put(&self.requests.to_le_bytes());
        put(&self.pid.to_le_bytes());
        put(&self.error.to_le_bytes());
        put(&self.cpu.to_le_bytes());
        put(&[self.action, 0]);
        put(&self.flags);
        put(&[0; 2]);
        put(&self.comm);
        record
    }
}

/// A reader of the events of one tracepoint.
#[derive(Clone, Debug)]
pub(super) struct Kind {
    pub id: u64,
    pub action: u8,
    device: Option<Field>,
    sector: Option<Field>,
    sectors: Option<Field>,
    from_device: Option<Field>,
    other_sector: Option<Field>,
    requests: Option<Field>,
    error: Option<Field>,
    flags: Option<Field>,
    comm: Option<Field>,
    pid: Option<Field>,
    kind: Option<Field>,
}

impl Kind {
    /// Returns the reader for the tracepoint that a format describes; none if that tracepoint is not recorded.
    pub(super) fn of(format: &Format) -> Option<Self> {
        let (_, action) = *TRACEPOINTS.iter().find(|(name, _)| *name == format.name)?;
        let field = |name| format.field(name);
        Some(Self {
            id: format.id,
            action,
            device: field("dev"),
            sector: field("sector"),
            sectors: field("nr_sector"),
            from_device: field("old_dev"),
            other_sector: field("old_sector").or_else(|| field("new_sector")),
            requests: field("nr_rq"),
            error: field("error"),
            flags: field("rwbs"),
            comm: field("comm"),
            pid: field("common_pid"),
            kind: field("common_type"),
        })
    }

    /// Returns the number of an event's tracepoint.
    pub(super) fn id_in(&self, data: &[u8]) -> Option<u64> {
        self.kind?.number(data)
    }

    /// Returns the event; none when a field lies outside of it.
    pub(super) fn read(&self, t_ns: u64, cpu: u16, data: &[u8]) -> Option<Event> {
        let number = |field: Option<Field>| field.map_or(Some(0), |field| field.number(data));
        Some(Event {
            t_ns,
            action: self.action,
            cpu,
            device: number(self.device)? as u32,
            sector: number(self.sector)?,
            sectors: number(self.sectors)? as u32,
            from_device: number(self.from_device)? as u32,
            other_sector: number(self.other_sector)?,
            requests: number(self.requests)? as u32,
            pid: number(self.pid)? as i32,
            error: number(self.error)? as i32,
            flags: text(self.flags, data)?,
            comm: text(self.comm, data)?,
        })
    }
}

fn text<const N: usize>(field: Option<Field>, data: &[u8]) -> Option<[u8; N]> {
    let mut whole = [0; N];
    if let Some(field) = field {
        let text = field.text(data)?;
        let length = text.len().min(N);
        whole[..length].copy_from_slice(&text[..length]);
    }
    Some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_its_fields_where_the_reader_looks_for_them() {
        let event = Event {
            t_ns: 1,
            sector: 2,
            other_sector: 3,
            device: 4,
            from_device: 5,
            sectors: 6,
            requests: 7,
            pid: 8,
            error: -9,
            cpu: 10,
            action: b'Q',
            flags: *b"WFSM\0\0\0\0\0\0",
            comm: *b"kworker/0:1\0\0\0\0\0",
        };
        let record = event.record();
        assert_eq!(record[24..28], [4, 0, 0, 0]);
        assert_eq!(record[44..48], (-9_i32).to_le_bytes());
        assert_eq!(record[48..54], [10, 0, b'Q', 0, b'W', b'F']);
        assert_eq!(&record[64..75], b"kworker/0:1");
    }
}
