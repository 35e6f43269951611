//! The server's answer to a command: an end, an error, or columns and rows; and further ones while it says there are more.

use std::io::{Error, Read};

use mysql::MySqlError;

use super::bytes::{Bytes, broken};
use super::packets::Packets;
use super::row::{Columns, Row};

const OK: u8 = 0x00;
const LOCAL_FILE: u8 = 0xfb;
const EOF: u8 = 0xfe;
const ERR: u8 = 0xff;
/// An end of rows is shorter than this; a longer packet that begins like one is a row of text.
const EOF_LENGTH: usize = 9;
const MORE_RESULTS: u16 = 0x0008;
/// A table, and a query's result, has at most so many columns.
const MOST_COLUMNS: u64 = 4096;

/// The end of one result.
struct End {
    affected: u64,
    more: bool,
}

/// Reads the answer to an execution. Passes rows of the first result to `take`, and ignores those of further ones.
pub(super) fn read(
    packets: &mut Packets,
    stream: &mut impl Read,
    columns: &mut Columns,
    take: &mut impl FnMut(Row<'_>),
) -> Result<u64, mysql::Error> {
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

/// Reads an answer, and all that follow it, and checks only how they end.
pub(super) fn skip(packets: &mut Packets, stream: &mut impl Read) -> Result<(), mysql::Error> {
    loop {
        let end = result(packets, stream, |packets, stream, _| {
            // Definitions up to the first end, rows up to the second.
            while end_of_rows(packets.next(stream)?)?.is_none() {}
            loop {
                if let Some(more) = end_of_rows(packets.next(stream)?)? {
                    return Ok(more);
                }
            }
        })?;
        if !end.more {
            return Ok(());
        }
    }
}

/// Reads one result; returns its end, or what `rows` makes of a set of rows whose first packet is its head.
fn result<R: Read>(
    packets: &mut Packets,
    stream: &mut R,
    rows: impl FnOnce(&mut Packets, &mut R, Head) -> Result<bool, mysql::Error>,
) -> Result<End, mysql::Error> {
    let packet = packets.next(stream)?;
    let mut rest = Bytes(packet);
    match rest.u8()? {
        OK => {
            let (affected, _inserted) = (rest.length()?, rest.length()?);
            Ok(End { affected, more: rest.u16()? & MORE_RESULTS != 0 })
        }
        ERR => Err(refused(packet)),
        LOCAL_FILE => Err(broken("it asks for a file of this host").into()),
        _ => {
            let head = Head::of(packet)?;
            Ok(End { affected: 0, more: rows(packets, stream, head)? })
        }
    }
}

/// The first packet of a set of rows.
#[derive(Clone, Copy)]
struct Head {
    columns: usize,
    /// Whether MariaDB left the definitions out, because it sent the same ones before.
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
) -> Result<(), mysql::Error> {
    if !head.as_before {
        columns.clear();
        for _ in 0..head.columns {
            columns.push(packets.next(stream)?)?;
        }
    }
    if columns.len() != head.columns {
        return Err(broken("another number of columns than it described").into());
    }
    match end_of_rows(packets.next(stream)?)? {
        Some(_) => Ok(()),
        None => Err(broken("no end of the columns' definitions").into()),
    }
}

/// Returns whether more results follow, when this packet is the end of definitions or rows.
fn end_of_rows(packet: &[u8]) -> Result<Option<bool>, mysql::Error> {
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

/// Returns the server's error: a number, a state, a message.
fn refused(packet: &[u8]) -> mysql::Error {
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
    mysql::Error::MySqlError(MySqlError { state, message: String::from_utf8_lossy(rest.0).into_owned(), code })
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

    fn answer(packets: &[&[u8]], columns: &mut Columns) -> Result<(u64, Vec<i64>), mysql::Error> {
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
                Err(mysql::Error::MySqlError(error)) => {
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
            [&[&[0xfb][..]][..], &[&[]], &[&[0xfd, 1, 0, 1]], &[&[1], COLUMN, COLUMN], &[&[0, 1]], &[&[0xff]]]
        {
            let error = answer(packets, &mut Columns::default()).expect_err("it is broken");
            assert!(matches!(error, mysql::Error::IoError(_)), "{error:?}");
        }
    }

    proptest! {
        #[test]
        fn any_answer_is_read_or_refused(packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..30), 0..8)) {
            let bytes = stream(&packets.iter().map(Vec::as_slice).collect::<Vec<_>>());
            let mut rest = &bytes[..];
            let _ = read(&mut Packets::new(), &mut rest, &mut Columns::default(), &mut |row| row.values().for_each(drop));
            let _ = skip(&mut Packets::new(), &mut &bytes[..]);
        }
    }
}
