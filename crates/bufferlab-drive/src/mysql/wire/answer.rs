//! Reads the server's answer to a command. A result is an end, an error, or columns with rows; an answer may have
//! several results, each of which says whether another one follows.

use std::io::{Error, Read};

use super::bytes::{Bytes, broken};
use super::packets::Packets;
use super::row::{Columns, Row};
use crate::mysql::error::{MysqlError, ServerError};
use crate::server::python_session::{Kind, Table};
use crate::server::refusal::Refusal;

const OK: u8 = 0x00;
pub(super) const LOCAL_FILE: u8 = 0xfb;
/// The byte that represents NULL in a row of the text protocol.
const NULL: u8 = 0xfb;
const EOF: u8 = 0xfe;
const ERR: u8 = 0xff;
/// The packet after the last row (EOF) is shorter than this number of bytes. A longer packet that begins with the same
/// byte is a row of the text protocol.
const EOF_LENGTH: usize = 9;
const MORE_RESULTS: u16 = 0x0008;
/// The number of the character set `binary`, which columns of bytes have.
const BINARY: u16 = 63;
/// The most columns of a table, and of a query's result.
const MOST_COLUMNS: u64 = 4096;

/// Rows of values as text; a value is none for NULL.
pub type TextRows = Vec<Vec<Option<String>>>;

/// The most bytes of rows that one answer may have as text. The largest answer, InnoDB's metrics, has 30 KiB.
const MOST_TEXT_BYTES: usize = 32 << 20;

/// The counts in the packet that ends one result of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// Rows that a writing statement affected.
    pub affected: u64,
    /// Warnings that the statement left.
    pub warnings: u16,
    more: bool,
}

/// Reads the answer to an execution. Passes the rows of the first result to `take`, and ignores the rows of further
/// results. Returns the rows that the first result affected.
pub(super) fn read(
    packets: &mut Packets,
    stream: &mut impl Read,
    columns: &mut Columns,
    take: &mut impl FnMut(Row<'_>),
) -> Result<u64, MysqlError> {
    let first = result(packets, stream, |packets, stream, head| {
        described(packets, stream, head, columns)?;
        loop {
            let packet = packets.next(stream)?;
            if let Some(more) = end_of_rows(packet)? {
                return Ok(more);
            }
            if packet.first() != Some(&OK) {
                return Err(broken("a row that does not begin like one").into());
            }
            take(Row::of(columns, packet)?);
        }
    })?;
    if first.more {
        skip(packets, stream)?;
    }
    Ok(first.affected)
}

/// Reads all results of an answer, and discards their rows. Returns the end of the first result.
pub(super) fn skip(packets: &mut Packets, stream: &mut impl Read) -> Result<End, MysqlError> {
    each(packets, stream, &mut |_| Ok(()))
}

/// Reads all results of an answer in text; returns the rows of all of them.
pub(super) fn text(packets: &mut Packets, stream: &mut impl Read) -> Result<TextRows, MysqlError> {
    let (mut rows, mut bytes) = (TextRows::new(), 0);
    each(packets, stream, &mut |packet| {
        bytes += packet.len().max(size_of::<TextRows>());
        if bytes > MOST_TEXT_BYTES {
            return Err(broken("more rows than the question can have").into());
        }
        rows.push(text_row(packet)?);
        Ok(())
    })?;
    Ok(rows)
}

/// Reads all results of an answer, and passes every row's packet to `take`. Returns the end of the first result.
pub(super) fn each(
    packets: &mut Packets,
    stream: &mut impl Read,
    take: &mut dyn FnMut(&[u8]) -> Result<(), MysqlError>,
) -> Result<End, MysqlError> {
    let mut first = None;
    loop {
        let end = result(packets, stream, |packets, stream, head| {
            if !head.as_before {
                definitions(packets, stream, head.columns, &mut |_| Ok(()))?;
            } else {
                end_of_definitions(packets, stream)?;
            }
            loop {
                let packet = packets.next(stream)?;
                match end_of_rows(packet)? {
                    Some(more) => return Ok(more),
                    None => take(packet)?,
                }
            }
        })?;
        let first = *first.get_or_insert(end);
        if !end.more {
            return Ok(first);
        }
    }
}

/// Reads all results of an answer in text; returns the columns and rows of the first result.
pub(super) fn table(packets: &mut Packets, stream: &mut impl Read, most_bytes: usize) -> Result<Table, MysqlError> {
    let mut first = None;
    loop {
        let mut table = Table::default();
        let end = result(packets, stream, |packets, stream, head| {
            definitions(packets, stream, head.columns, &mut |packet| {
                let (name, kind) = described_kind(packet)?;
                table.push_column(name, kind);
                bounded(&table, most_bytes)
            })?;
            loop {
                let packet = packets.next(stream)?;
                if let Some(more) = end_of_rows(packet)? {
                    return Ok(more);
                }
                if !table.push_row(text_values(packet))? {
                    return Err(broken("a row of another number of columns than it described").into());
                }
                bounded(&table, most_bytes)?;
            }
        })?;
        let first = first.get_or_insert(table);
        if !end.more {
            return Ok(std::mem::take(first));
        }
    }
}

fn bounded(table: &Table, most_bytes: usize) -> Result<(), Error> {
    if table.bytes() <= most_bytes {
        return Ok(());
    }
    Err(broken(&format!("it is longer than {most_bytes} bytes")))
}

/// Returns the name and the type of a column from its definition.
fn described_kind(definition: &[u8]) -> Result<(&[u8], Kind), Error> {
    let mut rest = Bytes(definition);
    // The definition has the catalog, the schema and the table twice; then the name twice.
    for _other in 0..4 {
        rest.string()?;
    }
    let (name, _original) = (rest.string()?, rest.string()?);
    let _length_of_the_rest = rest.length()?;
    let (charset, _longest, kind) = (rest.u16()?, rest.u32()?, rest.u8()?);
    Ok((name, kind_of(kind, charset)))
}

/// Returns the type of values for a type's number (mysql's include/field_types.h).
fn kind_of(kind: u8, charset: u16) -> Kind {
    match kind {
        1..=3 | 8 | 9 | 13 => Kind::Integer,
        4 | 5 => Kind::Float,
        0 | 246 => Kind::Decimal,
        16 => Kind::Bytes,
        15 | 249..=255 if charset == BINARY => Kind::Bytes,
        _ => Kind::Text,
    }
}

/// Returns the values of a row in text; a value is none for NULL. The first error ends the values.
fn text_values(row: &[u8]) -> impl Iterator<Item = Result<Option<&[u8]>, Error>> {
    let mut rest = Bytes(row);
    std::iter::from_fn(move || match rest.0.split_first()? {
        (&NULL, behind) => {
            rest = Bytes(behind);
            Some(Ok(None))
        }
        _ => Some(rest.string().map(Some).inspect_err(|_| rest = Bytes(&[]))),
    })
}

/// Reads `count` definitions of parameters or columns, and the packet that ends them.
pub(super) fn definitions(
    packets: &mut Packets,
    stream: &mut impl Read,
    count: usize,
    take: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
) -> Result<(), MysqlError> {
    for _ in 0..count {
        let packet = packets.next(stream)?;
        if end_of_rows(packet)?.is_some() {
            return Err(broken("fewer columns than it announced").into());
        }
        take(packet)?;
    }
    end_of_definitions(packets, stream)
}

fn end_of_definitions(packets: &mut Packets, stream: &mut impl Read) -> Result<(), MysqlError> {
    match end_of_rows(packets.next(stream)?)? {
        Some(_) => Ok(()),
        None => Err(broken("no end of the columns' definitions").into()),
    }
}

fn text_row(packet: &[u8]) -> Result<Vec<Option<String>>, Error> {
    let text = |value: Option<&[u8]>| value.map(|value| String::from_utf8_lossy(value).into_owned());
    text_values(packet).map(|value| value.map(text)).collect()
}

/// Reads one result, and returns its end. If it has rows, `rows` reads them, and returns whether more results follow.
fn result<R: Read>(
    packets: &mut Packets,
    stream: &mut R,
    rows: impl FnOnce(&mut Packets, &mut R, Head) -> Result<bool, MysqlError>,
) -> Result<End, MysqlError> {
    let packet = packets.next(stream)?;
    let mut rest = Bytes(packet);
    match rest.u8()? {
        OK => {
            let (affected, _inserted) = (rest.length()?, rest.length()?);
            Ok(End { affected, more: rest.u16()? & MORE_RESULTS != 0, warnings: rest.u16()? })
        }
        ERR => Err(refused(packet)),
        LOCAL_FILE => Err(MysqlError::Refused(Refusal::local_file())),
        _ => {
            let head = Head::of(packet)?;
            Ok(End { more: rows(packets, stream, head)?, ..End::default() })
        }
    }
}

/// The first packet of a result with rows.
#[derive(Clone, Copy)]
struct Head {
    columns: usize,
    /// Whether MariaDB left the columns' definitions out, because it has already sent the same definitions.
    as_before: bool,
}

impl Head {
    fn of(packet: &[u8]) -> Result<Self, Error> {
        let mut rest = Bytes(packet);
        let columns = rest.length()?;
        if columns == 0 || columns > MOST_COLUMNS {
            return Err(broken("a number of columns that no table has"));
        }
        Ok(Head { columns: columns as usize, as_before: rest.0.first() == Some(&0) })
    }
}

fn described(
    packets: &mut Packets,
    stream: &mut impl Read,
    head: Head,
    columns: &mut Columns,
) -> Result<(), MysqlError> {
    if !head.as_before {
        columns.clear();
        return definitions(packets, stream, head.columns, &mut |packet| columns.push(packet));
    }
    if columns.len() != head.columns {
        return Err(broken("another number of columns than it described").into());
    }
    end_of_definitions(packets, stream)
}

/// Returns whether more results follow, if this packet ends definitions or rows; none for another packet.
fn end_of_rows(packet: &[u8]) -> Result<Option<bool>, MysqlError> {
    match packet.first() {
        Some(&ERR) => Err(refused(packet)),
        Some(&EOF) if packet.len() < EOF_LENGTH => {
            let mut rest = Bytes(&packet[1..]);
            let _warnings = rest.u16()?;
            Ok(Some(rest.u16()? & MORE_RESULTS != 0))
        }
        _ => Ok(None),
    }
}

/// Parses the packet of a server's error, which has a number, an SQLSTATE and a message.
pub(super) fn refused(packet: &[u8]) -> MysqlError {
    let mut rest = Bytes(&packet[1..]);
    let code = match rest.u16() {
        Ok(code) => code,
        Err(error) => return error.into(),
    };
    let state = match rest.0.split_at_checked(6) {
        Some((state, words)) if state[0] == b'#' => {
            rest = Bytes(words);
            String::from_utf8_lossy(&state[1..]).into_owned()
        }
        _ => "HY000".to_owned(),
    };
    MysqlError::Server(ServerError { state, message: String::from_utf8_lossy(rest.0).into_owned(), code })
}

#[cfg(test)]
mod tests {
    use bufferlab_workload::client::Value;
    use proptest::prelude::*;

    use super::super::packets;
    use super::*;

    const COLUMN: &[u8] = b"\x03def\x01s\x01t\x01t\x01c\x01c\x0c\x3f\x00\x0b\x00\x00\x00\x08\x00\x00\x00\x00\x00";
    const END: &[u8] = &[0xfe, 0, 0, 2, 0];
    const END_AND_MORE: &[u8] = &[0xfe, 0, 0, 0x0a, 0];
    const DONE: &[u8] = &[0, 0, 0, 2, 0, 0, 0];

    fn stream(packets: &[&[u8]]) -> Vec<u8> {
        let mut all = Vec::new();
        for packet in packets {
            let mut one = Vec::new();
            packets::begin(&mut one);
            one.extend_from_slice(packet);
            packets::end(&mut one).expect("it fits");
            all.extend_from_slice(&one);
        }
        all
    }

    fn row(int: i64) -> Vec<u8> {
        let mut row = vec![0, 0];
        row.extend_from_slice(&int.to_le_bytes());
        row
    }

    fn answer(packets: &[&[u8]], columns: &mut Columns) -> Result<(u64, Vec<i64>), MysqlError> {
        let bytes = stream(packets);
        let (mut rest, mut rows) = (&bytes[..], Vec::new());
        let affected = read(&mut Packets::new(), &mut rest, columns, &mut |row: Row<'_>| {
            rows.extend(row.values().map(|value| match value {
                Ok(Value::Int(int)) => int,
                other => panic!("{other:?}"),
            }));
        })?;
        assert!(rest.is_empty(), "{} bytes of the answer were not read", rest.len());
        Ok((affected, rows))
    }

    #[test]
    fn a_writing_statement_says_how_many_rows_it_affected() {
        assert_eq!(answer(&[&[0, 0xfc, 0x2c, 1, 0, 2, 0, 0, 0]], &mut Columns::default()).expect("ok"), (300, vec![]));
    }

    #[test]
    fn rows_are_taken_and_their_description_is_kept_for_an_answer_without_one() {
        let (mut columns, first, second) = (Columns::default(), row(5), row(-6));
        let whole: [&[u8]; 6] = [&[1], COLUMN, END, &first, &second, END];
        assert_eq!(answer(&whole, &mut columns).expect("whole"), (0, vec![5, -6]));
        let bare: [&[u8]; 4] = [&[1, 0], END, &second, END];
        assert_eq!(answer(&bare, &mut columns).expect("whole"), (0, vec![-6]));
        assert!(answer(&bare, &mut Columns::default()).is_err());
    }

    #[test]
    fn further_results_are_read_and_forgotten() {
        let (first, second) = (row(5), row(7));
        let call: [&[u8]; 10] = [&[1], COLUMN, END, &first, END_AND_MORE, &[1], COLUMN, END, &second, END_AND_MORE];
        let mut packets = call.to_vec();
        packets.push(DONE);
        assert_eq!(answer(&packets, &mut Columns::default()).expect("whole").1, [5]);
    }

    #[test]
    fn an_error_has_its_number_state_and_words_wherever_it_comes() {
        let deadlock: &[u8] = b"\xff\xbd\x04#40001Deadlock found";
        let mut columns = Columns::default();
        let first = row(5);
        for packets in [vec![deadlock], vec![&[1], COLUMN, END, &first, deadlock], vec![&[1], COLUMN, deadlock]] {
            match answer(&packets, &mut columns) {
                Err(MysqlError::Server(error)) => {
                    assert_eq!(
                        (error.code, error.state.as_str(), error.message.as_str()),
                        (1213, "40001", "Deadlock found")
                    );
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn what_is_not_the_protocol_is_refused() {
        for packets in
            [&[&[][..]][..], &[&[0xfd, 1, 0, 1]], &[&[1], COLUMN, COLUMN], &[&[1], END, END], &[&[0, 1]], &[&[0xff]]]
        {
            let error = answer(packets, &mut Columns::default()).expect_err("it is broken");
            assert!(matches!(error, MysqlError::Io(_)), "{error:?}");
        }
    }

    #[test]
    fn rows_in_text_are_read_and_a_first_result_tells_what_it_affected() {
        let bytes = stream(&[&[2, 1], COLUMN, COLUMN, END, b"\x0215\xfb", b"\x00\x01x", END]);
        let rows = text(&mut Packets::new(), &mut &bytes[..]).expect("whole");
        assert_eq!(rows, [[Some("15".to_owned()), None], [Some(String::new()), Some("x".to_owned())]]);
        let bytes = stream(&[&[0, 3, 0, 0x0a, 0, 7, 0], DONE]);
        let end = skip(&mut Packets::new(), &mut &bytes[..]).expect("whole");
        assert_eq!((end.affected, end.warnings), (3, 7));
    }

    #[test]
    fn a_table_has_its_columns_and_rows_and_a_bound() {
        let whole: [&[u8]; 9] = [&[1], COLUMN, END, b"\x0215", b"\xfb", END_AND_MORE, &[1], COLUMN, END];
        let bytes = stream(&[&whole[..], &[b"\x011", END]].concat());
        let read = |most_bytes| table(&mut Packets::new(), &mut &bytes[..], most_bytes);
        let first = read(1 << 20).expect("whole");
        assert_eq!(first.columns, [("c".to_owned(), Kind::Integer)]);
        assert!(first.values().eq([Some(&b"15"[..]), None]));
        assert!(read(300).expect_err("two rows count more").to_string().contains("longer than 300 bytes"));
        let wide = stream(&[&[1], COLUMN, END, b"\x011\x011", END]);
        let error = table(&mut Packets::new(), &mut &wide[..], 1 << 20).expect_err("it has two values");
        assert!(error.to_string().contains("another number of columns"), "{error}");
    }

    #[test]
    fn endless_rows_and_a_request_for_a_file_are_refused() {
        let (head, row) = (stream(&[&[1], COLUMN, END]), stream(&[&[1, b'x']]));
        let mut endless = (&head[..]).chain(Endless(row));
        let error = text(&mut Packets::new(), &mut endless).expect_err("nobody keeps them all");
        assert!(error.to_string().contains("more rows than the question can have"), "{error}");
        let asked = answer(&[&[0xfb, b'/', b'e']], &mut Columns::default()).expect_err("it is no answer");
        assert!(matches!(&asked, MysqlError::Refused(why) if why.what.contains("LOCAL INFILE")), "{asked}");
    }

    /// A stream that repeats the same bytes without end.
    struct Endless(Vec<u8>);

    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
            let whole = self.0.len();
            let pieces = buffer.chunks_exact_mut(whole);
            let count = pieces.len() * whole;
            pieces.for_each(|piece| piece.copy_from_slice(&self.0));
            if count == 0 {
                buffer[..1].copy_from_slice(&self.0[..1]);
                self.0.rotate_left(1);
                return Ok(1);
            }
            Ok(count)
        }
    }

    proptest! {
        #[test]
        fn any_answer_is_read_or_refused(packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..30), 0..8)) {
            let bytes = stream(&packets.iter().map(Vec::as_slice).collect::<Vec<_>>());
            let mut rest = &bytes[..];
            let _ = read(&mut Packets::new(), &mut rest, &mut Columns::default(), &mut |row| row.values().for_each(drop));
            let _ = skip(&mut Packets::new(), &mut &bytes[..]);
            let _ = text(&mut Packets::new(), &mut &bytes[..]);
            let _ = table(&mut Packets::new(), &mut &bytes[..], 1 << 20);
        }
    }
}
