//! A connection's bytes: a socket, bytes to write to it, and messages read from it.
//!
//! Reads and writes are synchronous, and buffers keep the largest size that they needed. No read or write waits for
//! ever: after [`SILENCE`] without a byte, the connection's rule for silence decides whether the connection counts as
//! lost.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;

use super::error::PgError;
use super::message::{HEADER_BYTES, Malformed, message_bytes, server_error};
use crate::server::input::has_input;
use crate::server::patience::{Patience, was_ended};
use crate::server::stream::Stream;

/// Longest time without a byte before a connection applies its rule for silence.
pub const SILENCE: Duration = Duration::from_secs(60);

const FIRST_INPUT_BYTES: usize = 16 * 1024;
const FIRST_OUTPUT_BYTES: usize = 16 * 1024;
/// The most bytes of a message during the login, then (`LIMIT_BYTES`) after the login. No workload reads rows of nearly
/// 256 MiB.
const LOGIN_LIMIT_BYTES: usize = 64 * 1024;
const LIMIT_BYTES: usize = 256 << 20;
/// The most notices and settings that a server may send during a login. Today's servers send 15 settings.
pub(super) const LOGIN_MESSAGES: usize = 1_000;

/// A socket, or a test's replacement for one.
pub trait Transport: Read + Write + Send {
    /// Sets the time after which reads and writes fail.
    ///
    /// # Errors
    /// The system's error.
    fn set_timeout(&self, timeout: Duration) -> io::Result<()>;

    /// Returns a function that ends the connection from another thread: a read or write then fails.
    ///
    /// # Errors
    /// The system's error.
    fn hang_up(&self) -> io::Result<HangUp>;

    /// Returns true when something can be read without waiting.
    fn has_input(&mut self) -> bool;

    /// Returns the hash of the server's certificate, to which a login over TLS is bound; none if it has no such hash.
    fn endpoint(&self) -> Option<&[u8]> {
        None
    }

    /// Returns the socket's descriptor; none for a test's replacement.
    fn descriptor(&self) -> Option<RawFd> {
        None
    }
}

/// A function that ends a connection from another thread.
pub type HangUp = Arc<dyn Fn() + Send + Sync>;

impl Transport for Stream {
    fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.set_timeouts(Some(timeout), Some(timeout))
    }

    fn hang_up(&self) -> io::Result<HangUp> {
        // shutdown(2) is the same for sockets of any kind.
        let other = UnixStream::from(self.socket()?);
        // A connection that has already ended needs no shutdown.
        Ok(Arc::new(move || _ = other.shutdown(Shutdown::Both)))
    }

    fn has_input(&mut self) -> bool {
        match self {
            Stream::Tls(tls) => tls.has_input(),
            socket => has_input(socket, Duration::ZERO),
        }
    }

    fn endpoint(&self) -> Option<&[u8]> {
        match self {
            Stream::Tls(tls) => tls.endpoint(),
            _ => None,
        }
    }

    fn descriptor(&self) -> Option<RawFd> {
        Some(self.as_fd().as_raw_fd())
    }
}

/// The rule for a server that has sent nothing for [`SILENCE`].
pub enum Silence {
    /// The connection counts as lost, because its statements take only milliseconds.
    Fatal,
    /// Statements may take long. The function says whether the server still answers other connections.
    Unless(Box<dyn FnMut() -> bool + Send>),
}

/// A socket with its buffers.
pub struct Wire {
    transport: Box<dyn Transport>,
    silence: Silence,
    timeout: Duration,
    /// The bytes that the next [`Wire::flush`] writes.
    pub out: BytesMut,
    input: Vec<u8>,
    /// Ranges in `input`: the bytes not yet taken, and the body of the message taken last.
    unread: std::ops::Range<usize>,
    body: std::ops::Range<usize>,
    /// The most bytes of a message; reading fails at a longer one.
    limit: usize,
    /// The time limit of all reads and writes together, instead of `silence`; none if `silence` applies.
    patience: Option<Patience>,
}

impl Wire {
    /// Makes a wire over this socket, which applies `silence` after `timeout` without a byte.
    ///
    /// # Errors
    /// The system's error.
    pub fn new(transport: Box<dyn Transport>, silence: Silence, timeout: Duration) -> Result<Self, PgError> {
        transport.set_timeout(timeout)?;
        Ok(Wire {
            transport,
            silence,
            timeout,
            out: BytesMut::with_capacity(FIRST_OUTPUT_BYTES),
            input: vec![0; FIRST_INPUT_BYTES],
            unread: 0..0,
            body: 0..0,
            limit: LOGIN_LIMIT_BYTES,
            // Limit the whole login, because a server could also send its messages very slowly.
            patience: Some(Patience::of(timeout)),
        })
    }

    /// Sets the time limit of all later reads and writes.
    pub fn set_patience(&mut self, patience: Patience) {
        self.patience = Some(patience);
    }

    /// Sets the rule for silence.
    pub fn set_silence(&mut self, silence: Silence) {
        self.silence = silence;
    }

    /// Ends the login: from now on messages may be long, and `silence` limits the wait.
    ///
    /// # Errors
    /// The system's error.
    pub fn logged_in(&mut self) -> Result<(), PgError> {
        self.limit = LIMIT_BYTES;
        self.patience = None;
        Ok(self.transport.set_timeout(self.timeout)?)
    }

    /// Sets the limit of later messages' length in bytes.
    pub fn set_limit(&mut self, limit_bytes: usize) {
        self.limit = limit_bytes;
    }

    /// Returns the hash of the server's certificate, to which a login over TLS is bound; none if it has no such hash.
    pub fn endpoint(&self) -> Option<&[u8]> {
        self.transport.endpoint()
    }

    /// Returns the socket's descriptor; none for a test's replacement.
    pub fn descriptor(&self) -> Option<RawFd> {
        self.transport.descriptor()
    }

    /// Returns a function that ends the connection from another thread.
    ///
    /// # Errors
    /// The system's error.
    pub fn hang_up(&self) -> Result<HangUp, PgError> {
        Ok(self.transport.hang_up()?)
    }

    /// Returns true when a message, or the connection's end, has come.
    pub fn has_input(&mut self) -> bool {
        !self.unread.is_empty() || self.transport.has_input()
    }

    /// Writes the bytes in `out`.
    ///
    /// # Errors
    /// The server's last message, else the socket's error.
    pub fn flush(&mut self) -> Result<(), PgError> {
        let out = std::mem::take(&mut self.out);
        let written = self.write_all(&out);
        self.out = out;
        self.out.clear();
        written
    }

    /// Writes the bytes in `out`, and then `bytes`, which it does not copy.
    ///
    /// # Errors
    /// The errors of [`Wire::flush`].
    pub fn flush_with(&mut self, bytes: &[u8]) -> Result<(), PgError> {
        self.flush()?;
        self.write_all(bytes)
    }

    fn write_all(&mut self, mut bytes: &[u8]) -> Result<(), PgError> {
        while !bytes.is_empty() {
            self.begin_step()?;
            match self.transport.write(bytes) {
                Ok(0) => return Err(self.last_words(PgError::Closed)),
                Ok(written) => bytes = &bytes[written..],
                Err(error) if is_silence(&error) => self.survive_silence()?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.last_words(error.into())),
            }
        }
        Ok(())
    }

    /// Returns the server's last message, or else `error`. A server sends the reason of its end before it closes the
    /// connection, and a client that only writes would not read that message.
    fn last_words(&mut self, error: PgError) -> PgError {
        while self.has_input() {
            match self.read() {
                Ok(b'E') => return server_error(self.body()).map_or(error, |said| PgError::Server(Box::new(said))),
                Ok(_) => {}
                Err(_) => break,
            }
        }
        error
    }

    /// Waits for the next message that is an answer and returns its type; [`Wire::body`] has its body until the next
    /// call. Notices, notifications and changed settings are not answers.
    ///
    /// # Errors
    /// When the connection ends or is silent for too long. Also when the server sends bytes that are not a message, a
    /// message longer than the limit, or notices without end during a login.
    pub fn read(&mut self) -> Result<u8, PgError> {
        let mut passed = 0;
        loop {
            let tag = self.read_any()?;
            if !matches!(tag, b'N' | b'A' | b'S') {
                return Ok(tag);
            }
            passed += 1;
            if self.limit == LOGIN_LIMIT_BYTES && passed > LOGIN_MESSAGES {
                return Err(Malformed("a login of notices without end".into()).into());
            }
        }
    }

    /// Waits for the next message of any kind and returns its type.
    ///
    /// # Errors
    /// The errors of [`Wire::read`].
    pub fn read_any(&mut self) -> Result<u8, PgError> {
        let length = loop {
            match message_bytes(&self.input[self.unread.clone()])? {
                Some(length) if length <= self.unread.len() => break length,
                Some(length) if length > self.limit => {
                    let what = format!("a message of {} KiB, which nothing here reads", length >> 10);
                    return Err(Malformed(what.into()).into());
                }
                _ => self.fill()?,
            }
        };
        let start = self.unread.start;
        self.body = start + HEADER_BYTES..start + length;
        self.unread.start += length;
        Ok(self.input[start])
    }

    /// Returns the body of the message read last.
    pub fn body(&self) -> &[u8] {
        &self.input[self.body.clone()]
    }

    /// Reads the available bytes, at least one.
    fn fill(&mut self) -> Result<(), PgError> {
        if self.unread.start > 0 {
            self.input.copy_within(self.unread.clone(), 0);
            self.unread = 0..self.unread.len();
        }
        if self.unread.end == self.input.len() {
            // Grow the buffer as bytes come, so that memory grows with the bytes that a server sends and not with the
            // length that it announces.
            self.input.resize(2 * self.input.len(), 0);
        }
        loop {
            self.begin_step()?;
            match self.transport.read(&mut self.input[self.unread.end..]) {
                Ok(0) => return Err(PgError::Closed),
                Ok(bytes) => {
                    self.unread.end += bytes;
                    return Ok(());
                }
                Err(error) if is_silence(&error) => self.survive_silence()?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sets the socket's time limit for the next read or write to the time that the patience leaves, if there is one.
    fn begin_step(&self) -> Result<(), PgError> {
        match &self.patience {
            Some(patience) => match patience.step() {
                Err(error) if !was_ended(&error) => Err(PgError::Silent(self.timeout.as_secs())),
                step => Ok(self.transport.set_timeout(step?)?),
            },
            None => Ok(()),
        }
    }

    fn survive_silence(&mut self) -> Result<(), PgError> {
        if self.patience.is_some() {
            return self.begin_step();
        }
        let survived = match &mut self.silence {
            Silence::Fatal => false,
            Silence::Unless(answers) => answers(),
        };
        if survived { Ok(()) } else { Err(PgError::Silent(self.timeout.as_secs())) }
    }
}

fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

impl Drop for Wire {
    /// Sends the message that ends the connection, and ignores a server that no longer listens.
    fn drop(&mut self) {
        let _ = self.transport.set_timeout(Duration::from_millis(100));
        let _ = self.transport.write(b"X\0\0\0\x04");
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;

    use super::*;

    /// One step of a scripted server: it sends bytes, or it stays silent.
    pub enum Cue {
        Bytes(Vec<u8>),
        Silence,
    }

    /// A server that sends its script for any request of the client, and then closes the connection.
    #[derive(Default)]
    pub struct Scripted {
        pub cues: VecDeque<Cue>,
        pub heard: Arc<Mutex<Vec<u8>>>,
    }

    impl Scripted {
        pub fn new(cues: impl IntoIterator<Item = Cue>) -> Self {
            Scripted { cues: cues.into_iter().collect(), ..Scripted::default() }
        }
    }

    impl Read for Scripted {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match self.cues.pop_front() {
                None => Ok(0),
                Some(Cue::Silence) => Err(io::ErrorKind::WouldBlock.into()),
                Some(Cue::Bytes(mut bytes)) => {
                    let rest = bytes.split_off(bytes.len().min(buffer.len()));
                    buffer[..bytes.len()].copy_from_slice(&bytes);
                    if !rest.is_empty() {
                        self.cues.push_front(Cue::Bytes(rest));
                    }
                    Ok(bytes.len())
                }
            }
        }
    }

    impl Write for Scripted {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.heard.lock().expect("nobody panics").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Transport for Scripted {
        fn set_timeout(&self, _timeout: Duration) -> io::Result<()> {
            Ok(())
        }

        fn hang_up(&self) -> io::Result<HangUp> {
            Ok(Arc::new(|| {}))
        }

        fn has_input(&mut self) -> bool {
            !self.cues.is_empty()
        }
    }

    /// Returns the bytes of a server's message.
    pub fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![tag];
        bytes.extend_from_slice(&(body.len() as i32 + 4).to_be_bytes());
        bytes.extend_from_slice(body);
        bytes
    }

    fn wire(cues: impl IntoIterator<Item = Cue>) -> Wire {
        Wire::new(Box::new(Scripted::new(cues)), Silence::Fatal, SILENCE).expect("a script is always there")
    }

    #[test]
    fn messages_are_found_however_they_are_cut() {
        let bytes: Vec<u8> = [message(b'D', b"first"), message(b'N', b"notice"), message(b'D', &[7; 40_000])].concat();
        for piece in [1, 3, 7, 1_000, 100_000] {
            let mut wire = wire(bytes.chunks(piece).map(|piece| Cue::Bytes(piece.to_vec())));
            assert_eq!(wire.read().expect("it is whole"), b'D');
            assert_eq!(wire.body(), b"first");
            assert_eq!(wire.read().expect("it is whole"), b'D');
            assert_eq!(wire.body(), &[7; 40_000]);
            assert!(matches!(wire.read(), Err(PgError::Closed)));
        }
    }

    #[test]
    fn a_message_that_breaks_off_is_a_lost_connection() {
        let mut bytes = message(b'D', b"first");
        bytes.pop();
        assert!(matches!(wire([Cue::Bytes(bytes)]).read(), Err(PgError::Closed)));
    }

    #[test]
    fn an_announced_length_takes_no_memory_and_an_impossible_one_is_refused() {
        for (announcement, is_too_long) in [(b"D\x3f\xff\xff\xff", true), (b"D\x0f\xff\xff\xff", false)] {
            let mut announced = wire([Cue::Bytes(announcement.to_vec())]);
            announced.logged_in().expect("a script takes any time");
            let error = announced.read().expect_err("it does not come");
            assert_eq!(matches!(error, PgError::Malformed(_)), is_too_long, "{error}");
            assert!(announced.input.len() <= FIRST_INPUT_BYTES);
        }
        let mut greeting = wire([Cue::Bytes(b"R\0\x01\0\0".to_vec())]);
        assert!(matches!(greeting.read(), Err(PgError::Malformed(_))), "no login needs so much");
        assert!(matches!(wire([Cue::Bytes(b"D\xff\xff\xff\xff".to_vec())]).read(), Err(PgError::Malformed(_))));
        assert!(matches!(wire([Cue::Bytes(b"HTTP/1.1 400".to_vec())]).read(), Err(PgError::Malformed(_))));
    }

    #[test]
    fn a_login_that_dribbles_is_given_up_and_a_statement_that_does_is_not() {
        let slow = || Scripted::new([Cue::Bytes(b"Z".to_vec()), Cue::Bytes(b"\0\0\0\x05I".to_vec())]);
        let wire = || Wire::new(Box::new(slow()), Silence::Fatal, Duration::ZERO).expect("a script is always there");
        assert!(matches!(wire().read(), Err(PgError::Silent(0))));
        let mut statement = wire();
        statement.logged_in().expect("a script takes any time");
        assert_eq!(statement.read().expect("it comes"), b'Z');
    }

    #[test]
    fn silence_is_survived_only_while_the_server_answers_others() {
        let answer = || Cue::Bytes(message(b'Z', b"I"));
        let wire = |cues: Vec<Cue>| {
            let mut wire = wire(cues);
            wire.logged_in().expect("a script takes any time");
            wire
        };
        assert!(matches!(wire(vec![Cue::Silence, answer()]).read(), Err(PgError::Silent(60))));
        let mut patient = wire(vec![Cue::Silence, Cue::Silence, answer(), Cue::Silence, answer()]);
        let mut asked = 0;
        patient.set_silence(Silence::Unless(Box::new(move || {
            asked += 1;
            asked <= 2
        })));
        assert_eq!(patient.read().expect("it answers others"), b'Z');
        assert!(matches!(patient.read(), Err(PgError::Silent(60))));
    }
}
