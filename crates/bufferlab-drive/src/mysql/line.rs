//! A second handle of a connection's socket. With it other code limits or ends the time for which the wire waits for an
//! answer.
//!
//! A stopped server (SIGSTOP, a frozen cgroup or virtual machine) keeps its connections open and does not answer.
//! Statements that wait for no lock must be answered within [`ANSWER_WITHIN`](super::error::ANSWER_WITHIN). Other
//! statements have no time limit, because they may wait for locks. They end when another connection finds that the
//! server does not answer.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::time::Duration;

use super::connection::Conn;
use super::error::SERVER_SILENT_HINT;
use crate::failure::Failure;
use crate::lock;

/// The socket of one connection. A socket's options belong to the socket and not to a descriptor, so they hold for the
/// wire's reads, too.
pub struct Line(UnixStream);

impl Line {
    /// Returns the socket of this connection. It may be a TCP socket: this file makes only calls that Unix and TCP
    /// sockets both have.
    ///
    /// # Errors
    /// When the process has no more descriptors.
    pub fn of(conn: &Conn) -> io::Result<Self> {
        Ok(Line(UnixStream::from(conn.wire.stream().socket()?)))
    }

    /// Sets the time within which each part of an answer must come; none removes the limit.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn answer_within(&self, limit: Option<Duration>) -> io::Result<()> {
        self.0.set_read_timeout(limit)
    }

    /// Ends the connection, and with it the wait for an answer on it.
    pub(super) fn cut(&self) {
        // The connection may have ended already.
        let _ = self.0.shutdown(Shutdown::Both);
    }

    fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Line)
    }
}

/// All connections of a run. They end together when the server no longer answers.
#[derive(Default)]
pub struct Lines {
    held: Mutex<Vec<Line>>,
    silence: Mutex<Option<Failure>>,
}

impl Lines {
    /// Adds a connection's socket. Cuts it at once if another connection has already found that the server does not
    /// answer.
    fn hold(&self, line: &Line) -> io::Result<()> {
        let line = line.try_clone()?;
        let mut held = lock(&self.held);
        if lock(&self.silence).is_some() {
            line.cut();
        }
        held.push(line);
        Ok(())
    }

    /// Adds a connection of the run, and returns its socket.
    ///
    /// # Errors
    /// When the process has no more descriptors.
    pub fn hold_of(&self, conn: &Conn) -> io::Result<Line> {
        let line = Line::of(conn)?;
        self.hold(&line)?;
        Ok(line)
    }

    /// Handles the failure of a connection. If the server did not answer in time, cuts all connections, because a wait
    /// on any of them would last for ever.
    pub fn met(&self, failure: &Failure) {
        if failure.hint != SERVER_SILENT_HINT {
            return;
        }
        let held = lock(&self.held);
        lock(&self.silence).get_or_insert_with(|| failure.clone());
        held.iter().for_each(Line::cut);
    }

    /// Returns the failure of the connection that found that the server does not answer, if there is one. It is the
    /// cause of the other connections' failures.
    pub fn silence(&self) -> Option<Failure> {
        lock(&self.silence).clone()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::time::Instant;

    use super::*;
    use crate::failure::FailureKind;

    fn silent() -> Failure {
        Failure::new(FailureKind::Io, "no answer", "a socket", SERVER_SILENT_HINT)
    }

    fn pair() -> (UnixStream, Line) {
        let (ours, theirs) = UnixStream::pair().expect("two ends");
        // Keep the other end of the socket open, as a stopped server's end is.
        std::mem::forget(theirs);
        let line = Line(ours.try_clone().expect("a descriptor"));
        (ours, line)
    }

    #[test]
    fn a_limit_set_on_the_line_holds_for_the_one_who_reads() {
        let (mut reader, line) = pair();
        line.answer_within(Some(Duration::from_millis(20))).expect("it can be set");
        let error = reader.read(&mut [0; 8]).expect_err("nobody answers");
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        line.answer_within(None).expect("it can be lifted");
        assert_eq!(reader.read_timeout().expect("it can be asked"), None);
    }

    #[test]
    fn silence_ends_every_wait_and_other_failures_none() {
        let lines = Lines::default();
        let (mut reader, line) = pair();
        lines.hold(&line).expect("a descriptor");
        lines.met(&Failure::new(FailureKind::Io, "another", "a socket", "another hint"));
        assert_eq!(lines.silence(), None);
        let begun = Instant::now();
        let waiting = std::thread::spawn(move || reader.read(&mut [0; 8]));
        std::thread::sleep(Duration::from_millis(50));
        assert!(!waiting.is_finished());
        lines.met(&silent());
        assert_eq!(waiting.join().expect("no panic").expect("an end, no error"), 0);
        assert!(begun.elapsed() < Duration::from_secs(10));
        assert_eq!(lines.silence(), Some(silent()));
    }

    #[test]
    fn a_connection_made_after_the_silence_is_cut_at_once() {
        let lines = Lines::default();
        lines.met(&silent());
        let (mut reader, line) = pair();
        lines.hold(&line).expect("a descriptor");
        assert_eq!(reader.read(&mut [0; 8]).expect("an end"), 0);
    }
}
