//! The formats of tracefs's binary data: the places of fields in an event (events/*/format) and in a page
//! (events/header_page). The code assumes no offsets: kernels add fields and widen them.

use std::collections::BTreeMap;

/// The place of a field in the bytes of an event or of a page's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub offset: usize,
    pub size: usize,
    pub signed: bool,
}

impl Field {
    /// Returns the bytes of the field; none when the data end before it does.
    #[inline]
    pub(crate) fn bytes<'a>(&self, data: &'a [u8]) -> Option<&'a [u8]> {
        data.get(self.offset..self.offset.checked_add(self.size)?)
    }

    /// Returns the field as a number of up to eight bytes, in this machine's order.
    #[inline]
    pub(crate) fn number(&self, data: &[u8]) -> Option<u64> {
        let bytes = self.bytes(data)?;
        // The sizes of fields in page accesses, which come a million times a second.
        match (self.signed, bytes) {
            (false, &[byte]) => return Some(u64::from(byte)),
            (false, &[a, b, c, d]) => return Some(u64::from(u32::from_le_bytes([a, b, c, d]))),
            _ => (),
        }
        let mut whole = [0_u8; 8];
        if bytes.is_empty() || bytes.len() > whole.len() {
            return None;
        }
        whole[..bytes.len()].copy_from_slice(bytes);
        let value = u64::from_le_bytes(whole);
        let unused = 64 - 8 * bytes.len() as u32;
        Some(if self.signed { ((value << unused).cast_signed() >> unused).cast_unsigned() } else { value })
    }

    /// Returns the field as text that ends at its first zero byte.
    pub(crate) fn text<'a>(&self, data: &'a [u8]) -> Option<&'a [u8]> {
        let bytes = self.bytes(data)?;
        Some(bytes.split(|byte| *byte == 0).next().unwrap_or_default())
    }
}

/// The format of one kind of event: its name, its number and its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    pub name: String,
    pub id: u64,
    fields: BTreeMap<String, Field>,
}

impl Format {
    /// Reads events/*/format; none when the text is not a format.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let line = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        Some(Self { name: line("name:")?.to_owned(), id: line("ID:")?.parse().ok()?, fields: fields(text) })
    }

    /// Makes the format of records that do not come from the kernel's tracefs.
    pub(crate) fn of(name: &str, fields: BTreeMap<String, Field>) -> Self {
        Self { name: name.to_owned(), id: 0, fields }
    }

    pub(crate) fn field(&self, name: &str) -> Option<Field> {
        self.fields.get(name).copied()
    }

    /// Returns the bytes of an event: all fields are in them.
    pub(crate) fn bytes(&self) -> usize {
        self.fields.values().map(|field| field.offset.saturating_add(field.size)).max().unwrap_or(0)
    }
}

/// The header of a page of the ring buffer, and the length of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageLayout {
    pub timestamp: Field,
    pub commit: Field,
    pub data: usize,
    pub page_bytes: usize,
}

impl PageLayout {
    /// Reads events/header_page; none when the text is not such a header.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let fields = fields(text);
        let data = fields.get("data")?;
        let page_bytes = data.offset.checked_add(data.size)?;
        let layout = Self {
            timestamp: *fields.get("timestamp")?,
            commit: *fields.get("commit")?,
            data: data.offset,
            page_bytes,
        };
        // Pages are powers of two from 4 KiB on; another size would lead to wrong offsets without end.
        (page_bytes.is_power_of_two() && (4096..=1 << 24).contains(&page_bytes)).then_some(layout)
    }
}

/// Parses lines such as `field:unsigned int nr_sector;  offset:24;  size:4;  signed:0;`.
fn fields(text: &str) -> BTreeMap<String, Field> {
    text.lines().filter_map(field).collect()
}

fn field(line: &str) -> Option<(String, Field)> {
    let mut parts = line.trim().strip_prefix("field:")?.split(';').map(str::trim);
    let declared = parts.next()?;
    let mut numbers = BTreeMap::new();
    for part in parts {
        if let Some((key, value)) = part.split_once(':') {
            numbers.insert(key, value.trim().parse::<usize>().ok()?);
        }
    }
    let name = declared.split_whitespace().next_back()?;
    let name = name.split_once('[').map_or(name, |(name, _)| name);
    let found =
        Field { offset: *numbers.get("offset")?, size: *numbers.get("size")?, signed: *numbers.get("signed")? != 0 };
    Some((name.to_owned(), found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const QUEUE: &str = "name: block_bio_queue\nID: 2097\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n\
        \tfield:char rwbs[10];\toffset:28;\tsize:10;\tsigned:0;\n\n\
        print fmt: \"%d,%d %s\", ((unsigned int) ((REC->dev) >> 20))\n";
    const PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
        \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
        \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
        \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

    #[test]
    fn an_events_format_gives_its_number_and_where_its_fields_lie() {
        let format = Format::parse(QUEUE).expect("it is one");
        assert_eq!((format.name.as_str(), format.id), ("block_bio_queue", 2097));
        assert_eq!(format.field("sector"), Some(Field { offset: 16, size: 8, signed: false }));
        assert_eq!(format.field("rwbs"), Some(Field { offset: 28, size: 10, signed: false }));
        assert_eq!(format.field("comm"), None);
    }

    #[test]
    fn a_pages_header_gives_its_length() {
        let layout = PageLayout::parse(PAGE).expect("it is one");
        assert_eq!((layout.data, layout.page_bytes), (16, 4096));
        assert_eq!(PageLayout::parse(&PAGE.replace("4080", "4000")), None);
    }

    #[test]
    fn numbers_keep_their_sign_and_end_with_the_data() {
        let int = Field { offset: 1, size: 4, signed: true };
        assert_eq!(int.number(&[9, 0xfb, 0xff, 0xff, 0xff]).map(u64::cast_signed), Some(-5));
        assert_eq!(Field { signed: false, ..int }.number(&[9, 0xfb, 0xff, 0xff, 0xff]), Some(0xffff_fffb));
        assert_eq!(int.number(&[9, 0xfb, 0xff]), None);
        assert_eq!(Field { offset: usize::MAX, size: 4, signed: false }.number(&[1]), None);
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "[a-z:;\\[\\] 0-9\n\t]{0,300}") {
            Format::parse(&text);
            PageLayout::parse(&text);
        }
    }
}
