//! Decodes records into page accesses. A record's fields have fixed places, and its site says which kinds of events it
//! is.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash};

use bufferlab_model::trace::latch::{BULK_READ, FIRST, HELD, NO_RING, OTHER_RING};
use bufferlab_model::trace::{Kind, Record};

use crate::tracefs::{Field, Format};

use super::carried::{Carried, NAMELESS};
use super::mixed::Mixed;
use super::recording::{Settings, Site};

/// A call reads or makes at most this many blocks; a record with more is invalid. PostgreSQL's `MAX_IO_COMBINE_LIMIT`
/// is 128.
const MOST_BLOCKS: u64 = 1 << 16;

/// A decoder of one build's records.
#[derive(Debug)]
pub(super) struct Decoder {
    /// Bytes of a record.
    bytes: usize,
    fields: Fields,
    /// The kinds of events of each site: first if its flag is not set, then if it is.
    sites: Vec<[Vec<Kind>; 2]>,
    /// For each site, the bits of its flag that the decoder looks at.
    flag_masks: Vec<u64>,
    modes_if_in_pool: Vec<u64>,
    objects: Numbers<[u32; 4]>,
    /// The relations in the order of their numbers: tablespace, database, relation, fork.
    pub relations: Vec<[u32; 4]>,
    number_of_thread: Numbers<u32>,
    /// The kernel's IDs of the threads. A thread's place in this list is its number in decoded records.
    pub threads: Vec<u32>,
    /// Finds the pages of evictions whose records lack the page's number.
    pub carried: Carried,
}

/// The places of fields in a record; a build's records have the fields that its sites need.
#[derive(Debug)]
struct Fields {
    site: Place,
    object: Object,
    page: Place,
    mode: Place,
    latch: Place,
    /// The address of the session's entry for the page if the session has pinned the page, else null. It decides the
    /// bit of `latch` that marks a pinned page.
    held: Option<Place>,
    /// The address of the get's `BufferAccessStrategy`, and its type; an address of type 0 means that neither is known.
    strategy: Option<[Place; 2]>,
    /// The IOContext that the server derived from the strategy, for sites that no longer have the strategy, and the
    /// ring of each of its values; 9 at other sites.
    io_context: Option<(Place, &'static [u8])>,
    blocks: Option<Place>,
    flag: Place,
    /// The frame's address, at sites of reads and evictions; 0 at others.
    frame: Option<Place>,
}

#[derive(Debug)]
enum Object {
    /// A tablespace, by its number.
    Space(Place),
    /// A relation, by its tablespace, database, relation and fork.
    Relation([Place; 4]),
}

/// The place of an unsigned number: the eight bytes that hold it, and the number's bits among them.
#[derive(Clone, Copy, Debug)]
struct Place {
    at: usize,
    shift: u32,
    mask: u64,
}

impl Place {
    /// The place of a field that records lack: its number is always zero.
    const NOWHERE: Self = Self { at: 0, shift: 0, mask: 0 };

    /// Returns the place of a field in a record of `bytes` bytes.
    fn of(field: Field, bytes: usize) -> Option<Self> {
        if !(1..=8).contains(&field.size) {
            return None;
        }
        // Read a whole word if possible: the processor then need not wait for a word that was written just before.
        let word = field.offset & !7;
        let first = if field.offset + field.size <= word + 8 { word } else { field.offset };
        let at = first.min(bytes.checked_sub(8)?);
        Some(Self { at, shift: 8 * (field.offset - at) as u32, mask: u64::MAX >> (64 - 8 * field.size) })
    }

    #[inline]
    fn number(&self, record: &[u8]) -> u64 {
        let word = record[self.at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        word >> self.shift & self.mask
    }
}

impl Fields {
    fn new(format: &Format) -> Option<Self> {
        let bytes = format.bytes();
        let field = |name| Place::of(format.field(name)?, bytes);
        let half = |first| {
            let both = format.field("page_id").filter(|both| both.size == 8)?;
            Place::of(Field { offset: both.offset + first, size: 4, ..both }, bytes)
        };
        let relation =
            || Some(Object::Relation([field("tablespace")?, field("database")?, field("relation")?, field("fork")?]));
        // One number may hold tablespace and page, the page in the lower half.
        let space = half(4).or_else(|| field("space"));
        Some(Self {
            site: field("site")?,
            object: space.map(Object::Space).or_else(relation)?,
            page: half(0).or_else(|| field("page"))?,
            mode: field("mode").unwrap_or(Place::NOWHERE),
            latch: field("latch").unwrap_or(Place::NOWHERE),
            held: field("held"),
            strategy: field("strategy").zip(field("strategy_type")).map(|(address, kind)| [address, kind]),
            io_context: field("io_context")
                .map(|place| (place, &RINGS_UNTIL_17[..]))
                .or_else(|| Some((field("io_context_18")?, &RINGS_FROM_18[..]))),
            blocks: field("blocks"),
            flag: field("flag").unwrap_or(Place::NOWHERE),
            frame: field("frame"),
        })
    }
}

impl Decoder {
    /// Makes a decoder; none when the format lacks a necessary field.
    pub fn new(format: &Format, settings: &Settings) -> Option<Self> {
        let kinds = |site: &Site| [site.kinds.clone(), site.kinds_if_flag.as_ref().unwrap_or(&site.kinds).clone()];
        Some(Self {
            bytes: format.bytes(),
            fields: Fields::new(format)?,
            sites: settings.sites.iter().map(kinds).collect(),
            flag_masks: settings.sites.iter().map(|site| flag_mask(settings, site)).collect(),
            modes_if_in_pool: settings.modes_if_in_pool.clone(),
            objects: Numbers::default(),
            relations: Vec::new(),
            number_of_thread: Numbers::default(),
            threads: Vec::new(),
            carried: Carried::default(),
        })
    }

    /// Returns a thread's number in decoded records, from the kernel's ID of the thread.
    pub fn thread(&mut self, thread: u32) -> u32 {
        numbered(&mut self.number_of_thread, &mut self.threads, thread)
    }

    /// Passes the accesses of one record to `take`; returns none when it is malformed.
    #[inline]
    pub fn accesses(&mut self, thread: u32, t_ns: u64, data: &[u8], take: &mut impl FnMut(Record)) -> Option<()> {
        // All fields lie within these bytes.
        let data = data.get(..self.bytes)?;
        let fields = &self.fields;
        let site = fields.site.number(data) as usize;
        let kinds = &self.sites.get(site)?[usize::from(fields.flag.number(data) & self.flag_masks[site] != 0)];
        let blocks = fields.blocks.map_or(1, |blocks| blocks.number(data));
        if blocks > MOST_BLOCKS {
            return None;
        }
        let (mode, page) = (fields.mode.number(data), fields.page.number(data) as u32);
        let latch = match fields.held {
            None => fields.latch.number(data) as u8,
            Some(held) => fields.ring(data) + if held.number(data) == 0 { FIRST } else { HELD },
        };
        let object = match &fields.object {
            Object::Space(space) => space.number(data) as u32,
            Object::Relation(places) => {
                let [tablespace, database, relation, fork] = &places;
                let number = |place: &Place| place.number(data) as u32;
                let name = [number(tablespace), number(database), number(relation), number(fork)];
                numbered(&mut self.objects, &mut self.relations, name)
            }
        };
        for block in 0..blocks as u32 {
            for &kind in kinds {
                let looks = kind == Kind::Get && self.modes_if_in_pool.contains(&mode);
                let kind = if looks { Kind::GetIfInPool } else { kind };
                let page = page.wrapping_add(block);
                let mut record = Record { t_ns, object, page, thread, kind, latch, site: site as u8 };
                match fields.frame.map_or(0, |frame| frame.number(data)) {
                    0 => (),
                    frame if kind == Kind::Read => self.carried.read(frame, &record),
                    frame if kind == Kind::Evict && (object, page) == (NAMELESS, u32::MAX) => {
                        record.page = self.carried.nameless(frame, t_ns);
                    }
                    _ => (),
                }
                take(record);
            }
        }
        Some(())
    }
}

/// The name by which sites fetch the processor's flags. The decoder uses only the zero flag, which a comparison of
/// equal values sets.
pub(super) const ZERO_FLAG: &str = "%zf";
/// The bit of the zero flag in the processor's flags.
const ZERO_FLAG_BIT: u64 = 0x40;

/// Returns the bits of a site's field `flag` that decide which events it marks.
fn flag_mask(settings: &Settings, site: &Site) -> u64 {
    let column = settings.fields.iter().position(|field| field.split(':').next() == Some("flag"));
    let text = column.and_then(|column| site.fetch.get(column));
    if text.is_some_and(|text| text == ZERO_FLAG) { ZERO_FLAG_BIT } else { u64::MAX }
}

/// The rings of the values of IOContext (pgstat.h) up to version 17: bulk read, bulk write, normal, VACUUM.
const RINGS_UNTIL_17: [u8; 4] = [BULK_READ, OTHER_RING, NO_RING, OTHER_RING];
/// The rings of the values of IOContext from version 18 on: bulk read, bulk write, init (of the log), normal, VACUUM.
const RINGS_FROM_18: [u8; 5] = [BULK_READ, OTHER_RING, NO_RING, NO_RING, OTHER_RING];

impl Fields {
    /// Returns the mark of the get's ring in the column `latch`.
    #[inline]
    fn ring(&self, data: &[u8]) -> u8 {
        if let Some((context, rings)) = self.io_context
            && let Some(&ring) = rings.get(context.number(data) as usize)
        {
            return ring;
        }
        let Some([address, kind]) = self.strategy else { return 0 };
        // A get without a strategy has the address 0, so the record has no type either.
        if address.number(data) == 0 {
            return NO_RING;
        }
        // BufferAccessStrategyType of storage/bufmgr.h: bulk read, then bulk write and VACUUM.
        match kind.number(data) {
            1 => BULK_READ,
            2 | 3 => OTHER_RING,
            _ => 0,
        }
    }
}

pub(super) type Numbers<T> = HashMap<T, u32, BuildHasherDefault<Mixed>>;

/// Returns the place of a value in the list `known`, and appends the value if it is new.
pub(super) fn numbered<T: Copy + Eq + Hash>(numbers: &mut Numbers<T>, known: &mut Vec<T>, thing: T) -> u32 {
    if let Some(number) = numbers.get(&thing) {
        return *number;
    }
    let number = known.len() as u32;
    numbers.insert(thing, number);
    known.push(thing);
    number
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::page_trace::recording::SpoolAsked;

    const HEAD: &str =
        "name: page\nID: 7\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n";

    fn format(fields: &[(&str, usize, usize)]) -> Format {
        let lines =
            fields.iter().map(|(name, at, size)| format!("\tfield:u {name};\toffset:{at};\tsize:{size};\tsigned:0;\n"));
        Format::parse(&(HEAD.to_owned() + &lines.collect::<String>())).expect("it is one")
    }

    /// The kinds of events of a site: first those if its flag is not set, then those if it is set.
    type Kinds<'a> = (&'a [Kind], Option<&'a [Kind]>);

    fn settings(sites: &[Kinds<'_>]) -> Settings {
        let site = |&(kinds, flagged): &Kinds<'_>| Site {
            at: String::new(),
            kinds: kinds.to_vec(),
            kinds_if_flag: flagged.map(<[Kind]>::to_vec),
            offset: 0,
            byte: 0,
            semaphore: None,
            fetch: Vec::new(),
        };
        Settings {
            binary: "server".into(),
            spool: SpoolAsked::default(),
            fields: Vec::new(),
            modes_if_in_pool: vec![11],
            sites: sites.iter().map(site).collect(),
        }
    }

    fn sample(thread: u32, t_ns: u64, data: &[u8]) -> (u32, u64, Vec<u8>) {
        (thread, t_ns, data.to_vec())
    }

    fn decoded(decoder: &mut Decoder, (thread, t_ns, data): &(u32, u64, Vec<u8>)) -> Option<Vec<Record>> {
        let mut all = Vec::new();
        let thread = decoder.thread(*thread);
        decoder.accesses(thread, *t_ns, data, &mut |access| all.push(access))?;
        Some(all)
    }

    #[test]
    fn a_get_has_its_tablespace_page_latch_thread_and_moment_and_its_mode_tells_a_look() {
        let fields = format(&[("space", 2, 4), ("page", 6, 4), ("mode", 10, 1), ("latch", 11, 1), ("site", 12, 1)]);
        let mut decoder = Decoder::new(&fields, &settings(&[(&[Kind::Get], None)])).expect("all fields are there");
        let data = |mode| [0, 0, 5, 0, 0, 0, 9, 1, 0, 0, mode, 2, 0];
        let get = decoded(&mut decoder, &sample(1234, 77, &data(10))).expect("a record");
        let expected = Record { t_ns: 77, object: 5, page: 265, thread: 0, kind: Kind::Get, latch: 2, site: 0 };
        assert_eq!(get, [expected]);
        let look = decoded(&mut decoder, &sample(1235, 78, &data(11))).expect("a record");
        assert_eq!((look[0].kind, look[0].thread), (Kind::GetIfInPool, 1));
        assert_eq!(decoded(&mut decoder, &sample(1234, 79, &data(10))).expect("a record")[0].thread, 0);
    }

    #[test]
    fn an_eviction_whose_page_has_lost_its_number_has_that_of_the_read_into_its_frame() {
        let fields = format(&[("page_id", 0, 8), ("frame", 8, 8), ("site", 16, 1)]);
        let sites: [Kinds<'_>; 3] = [(&[Kind::Read], None), (&[Kind::Evict], None), (&[Kind::Get], None)];
        let mut decoder = Decoder::new(&fields, &settings(&sites)).expect("all fields are there");
        let mut page = |t_ns, id: u64, frame: u64, site: u8| {
            let data: Vec<u8> = [id, frame].map(u64::to_le_bytes).concat().into_iter().chain([site]).collect();
            let record = decoded(&mut decoder, &sample(1, t_ns, &data)).expect("a record")[0];
            let named = decoder.carried.named(record);
            (named.object, named.page)
        };
        assert_eq!(page(1, 5 << 32 | 9, 0x7f00_0000_1000, 0), (5, 9));
        assert_eq!(page(2, 6 << 32 | 8, 0x7f00_0000_2000, 0), (6, 8));
        assert_eq!(page(3, u64::MAX, 0x7f00_0000_1000, 1), (5, 9));
        assert_eq!(page(4, 6 << 32 | 8, 0x7f00_0000_2000, 1), (6, 8));
        assert_eq!(page(5, u64::MAX, 0x7f00_0000_3000, 1), (u32::MAX, u32::MAX));
        assert_eq!(page(6, u64::MAX, 0, 2), (u32::MAX, u32::MAX));
    }

    #[test]
    fn a_pin_of_a_session_that_has_the_page_pinned_is_told_from_its_first() {
        let fields = format(&[("page_id", 0, 8), ("held", 8, 8), ("site", 16, 1)]);
        let mut decoder = Decoder::new(&fields, &settings(&[(&[Kind::Get], None)])).expect("all fields are there");
        let mut latch = |held: u64| {
            let data: Vec<u8> = [7u64.to_le_bytes(), held.to_le_bytes()].concat().into_iter().chain([0]).collect();
            decoded(&mut decoder, &sample(1, 1, &data)).expect("a record")[0].latch
        };
        assert_eq!([latch(0), latch(0x5555_0000_0000)], [1, 2]);
    }

    #[test]
    fn the_ring_of_a_get_is_added_to_its_latch_and_without_an_address_the_type_does_not_count() {
        let fields = format(&[
            ("page_id", 0, 8),
            ("held", 8, 8),
            ("strategy", 16, 8),
            ("strategy_type", 24, 4),
            ("site", 28, 1),
        ]);
        let mut decoder = Decoder::new(&fields, &settings(&[(&[Kind::Get], None)])).expect("all fields are there");
        let mut latch = |held: u64, address: u64, kind: u32| {
            let words = [7, held, address].map(u64::to_le_bytes).concat();
            let data: Vec<u8> = words.into_iter().chain(kind.to_le_bytes()).chain([0]).collect();
            decoded(&mut decoder, &sample(1, 1, &data)).expect("a record")[0].latch
        };
        let at = 0x5555_0000_0000;
        assert_eq!([latch(0, 0, 0), latch(0, 0, 1), latch(at, 0, 3)], [5, 5, 6]);
        assert_eq!([latch(0, at, 1), latch(at, at, 1)], [9, 10]);
        assert_eq!([latch(0, at, 2), latch(0, at, 3)], [13, 13]);
        assert_eq!([latch(0, 1, 0), latch(at, at, 4)], [1, 2]);
    }

    /// Returns the marks of gets that have this address of a strategy and each of these values of IOContext. `field` is
    /// the name of the field for IOContext.
    fn marks<const N: usize>(field: &str, address: u64, contexts: [u32; N]) -> [u8; N] {
        let names = [("page_id", 8), ("held", 8), ("strategy", 8), ("strategy_type", 4), (field, 4), ("site", 1)];
        let mut at = 0;
        let places = names.map(|(name, size)| {
            at += size;
            (name, at - size, size)
        });
        let mut decoder =
            Decoder::new(&format(&places), &settings(&[(&[Kind::Get], None)])).expect("all fields are there");
        contexts.map(|context| {
            let mut data = [7, 0, address].map(u64::to_le_bytes).concat();
            data.extend([3u32, context].map(u32::to_le_bytes).concat());
            data.push(0);
            decoded(&mut decoder, &sample(1, 1, &data)).expect("a record")[0].latch
        })
    }

    #[test]
    fn an_io_context_tells_the_ring_where_the_strategy_is_lost() {
        // The values of IOContext up to version 17: bulk read, bulk write, normal, VACUUM.
        assert_eq!(marks("io_context", 1, [0, 1, 2, 3]), [9, 13, 5, 13]);
        assert_eq!((marks("io_context", 0, [9]), marks("io_context", 0x5555_0000_0000, [9])), ([5], [13]));
    }

    #[test]
    fn an_io_context_from_18_on_has_one_more_value_before_normal() {
        // The values of IOContext from version 18 on: bulk read, bulk write, init, normal, VACUUM.
        assert_eq!(marks("io_context_18", 1, [0, 1, 2, 3, 4]), [9, 13, 5, 5, 13]);
        assert_eq!((marks("io_context_18", 0, [9]), marks("io_context_18", 0x5555_0000_0000, [9])), ([5], [13]));
    }

    #[test]
    fn tablespace_and_page_may_come_in_one_number() {
        let fields = format(&[("page_id", 0, 8), ("site", 8, 1)]);
        let mut decoder = Decoder::new(&fields, &settings(&[(&[Kind::Evict], None)])).expect("all fields are there");
        let got = decoded(&mut decoder, &sample(1, 1, &[3, 0, 0, 0, 7, 0, 0, 0, 0])).expect("a record");
        assert_eq!((got[0].object, got[0].page), (7, 3));
    }

    #[test]
    fn a_call_for_several_blocks_is_an_access_to_each_and_relations_are_numbered() {
        let names = ["tablespace", "database", "relation", "fork", "page", "blocks"];
        let mut places: Vec<_> = names.iter().enumerate().map(|(at, name)| (*name, 4 * at, 4)).collect();
        places.extend([("flag", 24, 1), ("site", 25, 1)]);
        let asked = settings(&[(&[Kind::Get, Kind::Read], Some(&[Kind::Create]))]);
        let mut decoder = Decoder::new(&format(&places), &asked).expect("all fields are there");
        let data = |relation: u32, blocks: u32, flag: u8| {
            let mut bytes: Vec<u8> =
                [1663, 5, relation, 0, 40, blocks].iter().flat_map(|n: &u32| n.to_le_bytes()).collect();
            bytes.extend([flag, 0]);
            sample(1, 1, &bytes)
        };
        let read = decoded(&mut decoder, &data(16_384, 2, 0)).expect("a record");
        let told: Vec<_> = read.iter().map(|access| (access.page, access.kind, access.object)).collect();
        assert_eq!(told, [(40, Kind::Get, 0), (40, Kind::Read, 0), (41, Kind::Get, 0), (41, Kind::Read, 0)]);
        let grown = decoded(&mut decoder, &data(16_390, 1, 1)).expect("a record");
        assert_eq!((grown.len(), grown[0].kind, grown[0].object), (1, Kind::Create, 1));
        assert_eq!(decoder.relations, [[1663, 5, 16_384, 0], [1663, 5, 16_390, 0]]);
        assert_eq!(decoded(&mut decoder, &data(1, u32::MAX, 0)), None);
    }

    #[test]
    fn an_address_is_a_flag_whatever_its_lowest_byte_and_a_site_may_have_no_event_then() {
        let fields = format(&[("page_id", 0, 8), ("flag", 8, 8), ("site", 16, 1)]);
        let mut decoder = Decoder::new(&fields, &settings(&[(&[Kind::Get], Some(&[]))])).expect("all fields are there");
        let mut events = |flag: u64| {
            let data: Vec<u8> = [7u64.to_le_bytes(), flag.to_le_bytes()].concat().into_iter().chain([0]).collect();
            decoded(&mut decoder, &sample(1, 1, &data)).expect("a record").len()
        };
        assert_eq!([events(0), events(0x7f26_4191_b600)], [1, 0]);
    }

    #[test]
    fn of_the_processors_flags_the_one_of_equal_values_alone_decides_at_sites_that_fetch_it() {
        let fields = format(&[("page_id", 0, 8), ("flag", 8, 1), ("site", 9, 1)]);
        let mut asked = settings(&[(&[], Some(&[Kind::Get])), (&[], Some(&[Kind::Get]))]);
        asked.fields = vec!["page_id:u64".to_owned(), "flag:u8".to_owned()];
        for (site, flag) in asked.sites.iter_mut().zip(["%zf", "%di"]) {
            site.fetch = vec!["%si".to_owned(), flag.to_owned()];
        }
        let mut decoder = Decoder::new(&fields, &asked).expect("all fields are there");
        let mut events = |flag: u8, site: u8| {
            let data = [&7u64.to_le_bytes()[..], &[flag, site]].concat();
            decoded(&mut decoder, &sample(1, 1, &data)).expect("a record").len()
        };
        // The second bit of the flags is always set.
        assert_eq!([0x02, 0x97, 0x42, 0x46, 0xd7].map(|flags| events(flags, 0)), [0, 0, 1, 1, 1]);
        assert_eq!([0x00, 0x02, 0x97].map(|value| events(value, 1)), [0, 1, 1]);
    }

    #[test]
    fn a_format_without_a_page_or_a_site_is_refused() {
        let whole = [("space", 0, 4), ("page", 4, 4), ("site", 8, 1)];
        assert!(Decoder::new(&format(&whole), &settings(&[])).is_some());
        assert!(Decoder::new(&format(&[whole[0], whole[2]]), &settings(&[])).is_none());
        assert!(Decoder::new(&format(&whole[..2]), &settings(&[])).is_none());
    }

    /// Decodes a record field by field.
    fn slowly_decoded(format: &Format, settings: &Settings, data: &[u8]) -> Option<Vec<Record>> {
        if data.len() < format.bytes() {
            return None;
        }
        let has = |name| format.field(name).is_some();
        let number = |name| format.field(name).map_or(0, |field| field.number(data).expect("the data are long enough"));
        let site = settings.sites.get(number("site") as usize)?;
        let kinds = site.kinds_if_flag.as_ref().filter(|_| number("flag") != 0).unwrap_or(&site.kinds);
        let (object, page) = match (has("page_id"), has("space")) {
            (true, _) => ((number("page_id") >> 32) as u32, number("page_id") as u32),
            (false, true) => (number("space") as u32, number("page") as u32),
            // The relation has the number 0, because it is the first one seen.
            (false, false) => (0, number("page") as u32),
        };
        let of_context = [Some(8), Some(12), Some(4), Some(12)].get(number("io_context") as usize).copied().flatten();
        let ring = match (of_context.filter(|_| has("io_context")), number("strategy"), number("strategy_type")) {
            (Some(ring), ..) => ring,
            _ if !has("strategy") => 0,
            (None, 0, _) => 4,
            (None, _, 1) => 8,
            (None, _, 2 | 3) => 12,
            _ => 0,
        };
        let held = ring + if number("held") == 0 { 1 } else { 2 };
        let latch = if has("held") { held } else { number("latch") as u8 };
        let blocks = if has("blocks") { number("blocks") } else { 1 };
        if blocks > MOST_BLOCKS {
            return None;
        }
        let all = (0..blocks as u32).flat_map(|block| kinds.iter().map(move |kind| (block, *kind)));
        let looks = settings.modes_if_in_pool.contains(&number("mode"));
        Some(
            all.map(|(block, kind)| Record {
                t_ns: 1,
                object,
                page: page.wrapping_add(block),
                thread: 0,
                kind: if kind == Kind::Get && looks { Kind::GetIfInPool } else { kind },
                latch,
                site: site_number(format, data),
            })
            .collect(),
        )
    }

    fn site_number(format: &Format, data: &[u8]) -> u8 {
        format.field("site").and_then(|field| field.number(data)).expect("it has a site") as u8
    }

    /// Generates formats with the page in one of three forms and any other fields, one after another with gaps.
    fn formats() -> impl Strategy<Value = Vec<(&'static str, usize, usize)>> {
        let named = prop_oneof![
            Just(vec![("page_id", 8)]),
            Just(vec![("page", 4), ("space", 4)]),
            Just(vec![("page", 4), ("tablespace", 4), ("database", 4), ("relation", 4), ("fork", 1)]),
        ];
        let others = [("mode", 1), ("latch", 1), ("held", 8), ("held", 1), ("strategy", 8), ("strategy_type", 4)];
        let others = [&others[..], &[("io_context", 1), ("blocks", 2), ("flag", 8), ("flag", 1)]].concat();
        let others = proptest::sample::subsequence(others, 0..=10);
        let placed = (named, others, proptest::collection::vec(0..4_usize, 20), any::<bool>());
        placed.prop_map(|(named, others, gaps, site_first)| {
            let mut all = [named, others].concat();
            all.insert(if site_first { 0 } else { all.len() }, ("site", 1));
            let mut at = 0;
            let place = |((name, size), gap): ((&'static str, usize), usize)| {
                at += gap + size;
                (name, at - size, size)
            };
            all.into_iter().zip(gaps).map(place).collect()
        })
    }

    proptest! {
        #[test]
        fn any_record_of_any_format_is_what_its_fields_say_one_by_one(
            places in formats(),
            mut data in proptest::collection::vec(prop_oneof![0..13_u8, any::<u8>()], 0..90),
        ) {
            let fields = format(&places);
            let sites: [Kinds<'_>; 3] =
                [(&[Kind::Get], None), (&[Kind::Get, Kind::Read], Some(&[Kind::Create])), (&[Kind::Evict], Some(&[]))];
            let settings = settings(&sites);
            // No server's format has fewer bytes than one load.
            prop_assume!(fields.bytes() >= 8);
            let site = fields.field("site").expect("it has one").offset;
            data.iter_mut().skip(site).take(1).for_each(|site| *site %= 4);
            let mut decoder = Decoder::new(&fields, &settings).expect("it has a page and a site");
            let fast = decoded(&mut decoder, &sample(1, 1, &data));
            prop_assert_eq!(fast, slowly_decoded(&fields, &settings, &data));
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let fields = format(&[("page_id", 0, 8), ("blocks", 8, 4), ("site", 12, 1)]);
            let mut decoder = Decoder::new(&fields, &settings(&[(&[Kind::Get], None)])).expect("all fields are there");
            decoded(&mut decoder, &sample(1, 1, &bytes));
        }
    }
}
