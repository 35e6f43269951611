//! Decodes the spool into one file of events in the order of time. Only one page of each processor is in memory at a
//! time.
//!
//! Events of plugs and unplugs have no device. The decoder gives them the device of the requests that their task holds
//! back, because a plug holds back a task's own requests. If a task holds back no request of the traced devices, its
//! plugs belong to other devices, and the decoder only counts them. If the trace has every step, the decoder recognises
//! a request by its allocation; otherwise by a bio that was queued and not merged into another.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::Path;

use serde::Serialize;

use super::event::{Event, Kind, NEEDED, TRACEPOINTS};
use super::page;
use super::spool::{FORMAT, HEADER_PAGE, cpus, pages_of};
use crate::tracefs::TraceError;
use crate::tracefs::{Format, PageLayout};

/// The counts of a decoded spool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Decoded {
    /// Events in the spool's pages, those that the decoder leaves out included.
    pub events_read: u64,
    /// Events in the decoded file, where each takes `RECORD_BYTES` bytes.
    pub events: u64,
    /// The number of events in the decoded file by blktrace's letter for their kind.
    pub actions: BTreeMap<char, u64>,
    /// Plugs and unplugs of tasks without a request on these devices, which the decoder leaves out.
    pub plugs_elsewhere: u64,
    /// Pages of the kernel's trace buffer with the mark that events were lost before them.
    pub pages_after_a_gap: u64,
}

/// Decodes the spool in a directory into a file of records (see [`Event::record`]).
///
/// # Errors
/// When the spool cannot be read, is not whole or has a damaged page, or the file cannot be written.
pub fn decode(directory: &Path, out: &Path) -> Result<Decoded, TraceError> {
    let unwritten = |error: io::Error| TraceError::io("the trace cannot be written", out, &error);
    let mut file = BufWriter::with_capacity(1 << 20, File::create(out).map_err(unwritten)?);
    let decoded = events(directory, &mut |event| file.write_all(&event.record()).map_err(unwritten))?;
    file.flush().map_err(unwritten)?;
    Ok(decoded)
}

/// Passes every event of a spool to `take`, in the order of time.
pub(super) fn events(
    directory: &Path,
    take: &mut dyn FnMut(&Event) -> Result<(), TraceError>,
) -> Result<Decoded, TraceError> {
    let reader = PageReader::open(directory)?;
    let unreadable = |error: io::Error| TraceError::io("the spool cannot be read", directory, &error);
    let mut streams = Vec::new();
    for cpu in cpus(directory).map_err(unreadable)? {
        let file = File::open(pages_of(directory, cpu)).map_err(unreadable)?;
        streams.push(Stream {
            cpu: cpu as u16,
            file: BufReader::with_capacity(1 << 18, file),
            waiting: VecDeque::new(),
        });
    }
    let mut decoded = Decoded::default();
    let mut holders = Holders { by_allocation: reader.has(b'G'), ..Holders::default() };
    loop {
        let mut next: Option<(u64, usize)> = None;
        for (place, stream) in streams.iter_mut().enumerate() {
            if stream.waiting.is_empty() {
                stream.fill(&reader, directory, &mut decoded)?;
            }
            let first = stream.waiting.front().map(|event| (event.t_ns, place));
            next = match (next, first) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
        }
        let Some((_, place)) = next else { break };
        let Some(mut event) = streams[place].waiting.pop_front() else { break };
        if !holders.place(&mut event) {
            decoded.plugs_elsewhere += 1;
            continue;
        }
        decoded.events += 1;
        *decoded.actions.entry(char::from(event.action)).or_default() += 1;
        take(&event)?;
    }
    Ok(decoded)
}

/// The requests that each task holds back.
#[derive(Default)]
struct Holders {
    by_allocation: bool,
    of_task: HashMap<i32, Held>,
}

/// Requests of one task that are allocated and, by the events so far, neither unplugged nor issued.
struct Held {
    device: u32,
    requests: u64,
    last_sector: Option<u64>,
}

impl Holders {
    /// Gives a plug or unplug its device; returns false if its task holds back no request of a traced device.
    fn place(&mut self, event: &mut Event) -> bool {
        match event.action {
            b'G' | b'Q' if (event.action == b'G') == self.by_allocation => {
                let held = self.of_task.entry(event.pid).or_insert(Held { device: 0, requests: 0, last_sector: None });
                // A request that finds a full list empties the list first: the unplug of the earlier requests then
                // comes between this event and the request's plug.
                *held = Held { device: event.device, requests: held.requests + 1, last_sector: Some(event.sector) };
            }
            b'M' | b'F' if !self.by_allocation => self.release(event.pid, 1),
            // The request was issued without a plug.
            b'D' if self.of_task.get(&event.pid).is_some_and(|held| held.last_sector == Some(event.sector)) => {
                self.release(event.pid, 1);
            }
            b'P' | b'U' => {
                let Some(held) = self.of_task.get(&event.pid) else { return false };
                event.device = held.device;
                if event.action == b'U' {
                    self.release(event.pid, u64::from(event.requests));
                }
            }
            _ => {}
        }
        true
    }

    fn release(&mut self, pid: i32, requests: u64) {
        if let Some(held) = self.of_task.get_mut(&pid) {
            held.requests = held.requests.saturating_sub(requests);
            held.last_sector = None;
            if held.requests == 0 {
                self.of_task.remove(&pid);
            }
        }
    }
}

/// A reader of a spool's pages, by the formats in the spool.
struct PageReader {
    layout: PageLayout,
    kinds: HashMap<u64, Kind>,
}

impl PageReader {
    fn open(directory: &Path) -> Result<Self, TraceError> {
        let text = |name: &str| fs::read_to_string(directory.join(name));
        let foreign = |what: String, name: &str| {
            TraceError::new(what, directory.join(name).display().to_string(), "trace again: this spool is not whole")
        };
        let header = text(HEADER_PAGE).map_err(|error| foreign(error.to_string(), HEADER_PAGE))?;
        let layout = PageLayout::parse(&header)
            .ok_or_else(|| foreign("this is no layout of a trace's pages".to_owned(), HEADER_PAGE))?;
        let mut kinds = HashMap::new();
        for (name, _) in TRACEPOINTS {
            let file = format!("{name}.{FORMAT}");
            match text(&file) {
                Ok(text) => {
                    let format = Format::parse(&text).filter(|format| format.name == name);
                    let kind = format.as_ref().and_then(Kind::of);
                    let kind = kind.ok_or_else(|| foreign("this is no format of an event".to_owned(), &file))?;
                    kinds.insert(kind.id, kind);
                }
                Err(error) if error.kind() == ErrorKind::NotFound && !NEEDED.contains(&name) => {}
                Err(error) => return Err(foreign(error.to_string(), &file)),
            }
        }
        Ok(Self { layout, kinds })
    }

    /// Returns whether events with this letter were recorded.
    fn has(&self, action: u8) -> bool {
        self.kinds.values().any(|kind| kind.action == action)
    }

    /// Returns the kind of an event's bytes.
    fn kind(&self, data: &[u8]) -> Option<&Kind> {
        // All formats have the tracepoint's number at the same place.
        let id = self.kinds.values().next()?.id_in(data)?;
        self.kinds.get(&id)
    }
}

/// One processor's file of pages, and the events of its pages that are decoded and not yet passed on.
struct Stream {
    cpu: u16,
    file: BufReader<File>,
    waiting: VecDeque<Event>,
}

impl Stream {
    /// Reads pages until one has events, or the file ends.
    fn fill(&mut self, reader: &PageReader, directory: &Path, decoded: &mut Decoded) -> Result<(), TraceError> {
        let place = pages_of(directory, u32::from(self.cpu));
        let mut page = vec![0; reader.layout.page_bytes];
        while self.waiting.is_empty() {
            match self.file.read_exact(&mut page) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
                Err(error) => return Err(TraceError::io("the spool cannot be read", &place, &error)),
            }
            let damaged = |why: &str| {
                let hint = "trace again; please report it when it happens again";
                TraceError::new(format!("a page of the trace is damaged: {why}"), place.display().to_string(), hint)
            };
            let facts = page::facts(&reader.layout, &page).map_err(|error| damaged(error.0))?;
            decoded.pages_after_a_gap += u64::from(facts.missed);
            let (waiting, cpu, mut unread) = (&mut self.waiting, self.cpu, 0);
            page::walk(&reader.layout, &page, |t_ns, data| {
                decoded.events_read += 1;
                match reader.kind(data).and_then(|kind| kind.read(t_ns, cpu, data)) {
                    Some(event) => waiting.push_back(event),
                    None => unread += 1,
                }
            })
            .map_err(|error| damaged(error.0))?;
            if unread > 0 {
                return Err(damaged(&format!("{unread} events have an unknown kind")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
