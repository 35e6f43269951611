//! Reads and writes packets of MySQL's protocol: a length of three bytes, a sequence number of one byte, and as many
//! bytes as the length says.

use std::io::{Error, ErrorKind, Read, Write};
use std::ops::Range;

use super::bytes::broken;

const HEADER: usize = 4;
/// A packet of this length is continued by the next packet. Rows of workloads and statements with their parameters are
/// far shorter.
const LONGEST: usize = 0xff_ffff;
const FIRST_CAPACITY: usize = 16 * 1024;

/// Begins a request: clears the buffer, and leaves room for the packet's header.
pub(super) fn begin(request: &mut Vec<u8>) {
    request.clear();
    request.extend_from_slice(&[0; HEADER]);
}

/// Writes the header of a complete request that begins an exchange.
pub(super) fn end(request: &mut [u8]) -> Result<(), Error> {
    end_at(request, 0)
}

/// Writes the header of a complete packet, with its number in the exchange.
pub(super) fn end_at(request: &mut [u8], sequence: u8) -> Result<(), Error> {
    let length = request.len() - HEADER;
    if length >= LONGEST {
        let what = "a statement with its parameters is larger than a packet (16 MiB)";
        return Err(Error::new(ErrorKind::InvalidInput, what));
    }
    request[..3].copy_from_slice(&(length as u32).to_le_bytes()[..3]);
    request[3] = sequence;
    Ok(())
}

/// Writes a request of any length that begins an exchange, in as many packets as it needs. The last packet is shorter
/// than [`LONGEST`].
pub(super) fn write_long(stream: &mut impl Write, request: &[u8]) -> Result<(), Error> {
    let whole = request.len() / LONGEST;
    for (number, piece) in (0..=whole).map(|piece| (piece, &request[piece * LONGEST..])) {
        let piece = &piece[..piece.len().min(LONGEST)];
        let mut header = (piece.len() as u32).to_le_bytes();
        header[3] = number as u8;
        stream.write_all(&[&header, piece].concat())?;
    }
    stream.flush()
}

/// The received packets, in one buffer that grows to the largest answer.
pub(super) struct Packets {
    buffer: Vec<u8>,
    /// The range of bytes that are read and not yet used.
    unused: Range<usize>,
    /// Reading fails at a packet of this length or more. So a server cannot make this process allocate any amount of
    /// memory.
    limit: usize,
    /// The number of the packet that was read or sent last, in its exchange.
    sequence: u8,
}

impl Packets {
    pub(super) fn new() -> Self {
        Packets { buffer: vec![0; FIRST_CAPACITY], unused: 0..0, limit: LONGEST, sequence: 0 }
    }

    /// Makes the packets of a login, which must be short.
    pub(super) fn of_login() -> Self {
        Packets { limit: FIRST_CAPACITY, ..Packets::new() }
    }

    /// Allows packets below `limit_bytes` from now on, up to the protocol's longest.
    pub(super) fn logged_in(&mut self, limit_bytes: usize) {
        self.limit = limit_bytes.min(LONGEST);
    }

    /// Returns the number of the packet that the client sends next, and counts it as sent.
    pub(super) fn next_number(&mut self) -> u8 {
        self.sequence = self.sequence.wrapping_add(1);
        self.sequence
    }

    /// Returns true when bytes have come that no caller has used yet.
    pub(super) fn has_unused(&self) -> bool {
        !self.unused.is_empty()
    }

    /// Returns the next packet's bytes.
    pub(super) fn next(&mut self, stream: &mut impl Read) -> Result<&[u8], Error> {
        self.need(HEADER, stream)?;
        let at = self.unused.start;
        let length = u32::from_le_bytes([self.buffer[at], self.buffer[at + 1], self.buffer[at + 2], 0]) as usize;
        if length >= self.limit {
            return Err(broken(&format!(
                "a row or message of {} KiB or more, which nothing here reads",
                self.limit >> 10
            )));
        }
        self.sequence = self.buffer[at + 3];
        self.need(HEADER + length, stream)?;
        let start = self.unused.start + HEADER;
        self.unused.start = start + length;
        Ok(&self.buffer[start..start + length])
    }

    /// Reads until the buffer has at least `bytes` unused bytes.
    fn need(&mut self, bytes: usize, stream: &mut impl Read) -> Result<(), Error> {
        if self.unused.is_empty() {
            self.unused = 0..0;
        }
        while self.unused.len() < bytes {
            if self.unused.start + bytes > self.buffer.len() {
                self.buffer.copy_within(self.unused.clone(), 0);
                self.unused = 0..self.unused.len();
                // Grow the buffer as bytes come, so that memory grows with the bytes that a server sends and not with
                // the length that it announces.
                if self.unused.end == self.buffer.len() {
                    self.buffer.resize(bytes.min(2 * self.buffer.len()), 0);
                }
            }
            match stream.read(&mut self.buffer[self.unused.end..]) {
                Ok(0) => return Err(Error::new(ErrorKind::UnexpectedEof, "the server closed the connection")),
                Ok(count) => self.unused.end += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that returns its bytes in pieces of one size, as sockets do.
    struct Pieces<'a>(&'a [u8], usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
            let count = self.1.min(self.0.len()).min(buffer.len());
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    fn packet(bytes: &[u8]) -> Vec<u8> {
        let mut whole = Vec::new();
        begin(&mut whole);
        whole.extend_from_slice(bytes);
        end(&mut whole).expect("it fits");
        whole
    }

    #[test]
    fn packets_come_out_as_they_went_in_whatever_the_pieces() {
        let sent: Vec<Vec<u8>> = [0, 1, 5, 300, 40_000, 2, 70_000, 0, 9]
            .iter()
            .enumerate()
            .map(|(at, &length)| vec![at as u8; length])
            .collect();
        let stream: Vec<u8> = sent.iter().flat_map(|bytes| packet(bytes)).collect();
        for size in [1, 3, 4, 5, 1000, 1 << 20] {
            let (mut packets, mut pieces) = (Packets::new(), Pieces(&stream, size));
            for bytes in &sent {
                assert_eq!(packets.next(&mut pieces).expect("it is there"), bytes);
            }
            assert_eq!(packets.next(&mut pieces).expect_err("the end").kind(), ErrorKind::UnexpectedEof);
        }
    }

    #[test]
    fn a_packet_that_goes_on_and_a_request_that_does_not_fit_are_refused() {
        let mut pieces = Pieces(&[0xff, 0xff, 0xff, 0, 1, 2], 9);
        assert_eq!(Packets::new().next(&mut pieces).expect_err("too large").kind(), ErrorKind::InvalidData);
        assert!(end(&mut vec![0; LONGEST + HEADER]).is_err());
        let mut announced = Packets::of_login();
        let mut pieces = Pieces(&[0xff, 0xff, 0x3f, 0, 1, 2], 9);
        assert_eq!(announced.next(&mut pieces).expect_err("too large").kind(), ErrorKind::InvalidData);
        assert_eq!(announced.buffer.len(), FIRST_CAPACITY, "what is only announced takes no memory");
    }

    #[test]
    fn a_long_request_goes_in_packets_of_which_the_last_is_short() {
        for (length, pieces) in [(0, vec![0]), (LONGEST - 1, vec![LONGEST - 1]), (LONGEST, vec![LONGEST, 0])] {
            let mut sent = Vec::new();
            write_long(&mut sent, &vec![7; length]).expect("it is memory");
            let (mut rest, mut found) = (&sent[..], Vec::new());
            while let [a, b, c, number, more @ ..] = rest {
                assert_eq!(usize::from(*number), found.len());
                found.push(u32::from_le_bytes([*a, *b, *c, 0]) as usize);
                rest = &more[found[found.len() - 1]..];
            }
            assert_eq!(found, pieces);
        }
    }

    #[test]
    fn an_answer_counts_on_from_the_packet_before_it() {
        let mut request = packet(b"ab");
        end_at(&mut request, 255).expect("it fits");
        let mut packets = Packets::new();
        assert_eq!(packets.next(&mut Pieces(&request, 9)).expect("it is there"), b"ab");
        assert_eq!((packets.next_number(), packets.next_number(), packets.has_unused()), (0, 1, false));
    }
}
