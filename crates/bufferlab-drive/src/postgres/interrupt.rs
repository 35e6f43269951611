//! Interrupts statements that other connections are executing.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use postgres_protocol::message::frontend;

use super::startup::transport;
use super::target::Target;
use super::wire::HangUp;

/// How a connection can be interrupted: what the server calls it, and its socket.
#[derive(Clone)]
pub struct Handle {
    /// Process of the server that serves it.
    pub process_id: i32,
    /// Proof that one may interrupt it.
    pub secret_key: i32,
    /// Ends it from this side.
    pub hang_up: HangUp,
}

/// How long a server may take to take a request to interrupt.
const CANCEL_TIMEOUT: Duration = Duration::from_millis(500);
/// Statements that were asked to end this long ago and have not are left with their connections.
const HANG_UP_AFTER: Duration = Duration::from_secs(3);

/// Interrupts whatever statements some connections are executing: asks the server first, and when that does not help, which
/// is when the server is frozen, ends the connections from this side.
pub struct Interrupter {
    target: Target,
    connections: Mutex<(Vec<Handle>, Option<Instant>)>,
    /// Connections that execute nothing long: they are ended with the others, and not asked to be interrupted.
    watching: Vec<HangUp>,
}

impl Interrupter {
    /// Nobody's statements yet.
    #[must_use]
    pub fn new(target: &Target) -> Self {
        Interrupter { target: target.clone(), connections: Mutex::default(), watching: Vec::new() }
    }

    /// When connections have to be ended, these are too: who waits for a frozen server on one of them must not wait longer.
    #[must_use]
    pub fn with_watching(mut self, watching: Vec<HangUp>) -> Self {
        self.watching = watching;
        self
    }

    /// From now on the statements of these connections.
    pub fn set(&self, handles: Vec<Handle>) {
        *self.connections.lock().unwrap_or_else(PoisonError::into_inner) = (handles, None);
    }

    /// Those of one more connection too.
    pub fn add(&self, handle: Handle) {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner).0.push(handle);
    }

    /// Interrupts them. A connection that executes nothing, or is gone, is left as it is.
    pub fn interrupt(&self) {
        let (handles, first) = {
            let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
            let first = *connections.1.get_or_insert_with(Instant::now);
            (connections.0.clone(), first)
        };
        let hang_up = first.elapsed() >= HANG_UP_AFTER;
        if hang_up {
            self.watching.iter().for_each(|watching| watching());
        }
        for handle in &handles {
            if hang_up {
                (handle.hang_up)();
            } else if self.cancel(handle).is_err() {
                // Whoever does not take one request does not take the others either.
                break;
            }
        }
    }

    fn cancel(&self, handle: &Handle) -> std::io::Result<()> {
        let mut stream = transport(&self.target)?;
        stream.set_timeout(CANCEL_TIMEOUT)?;
        let mut request = BytesMut::new();
        frontend::cancel_request(handle.process_id, handle.secret_key, &mut request);
        stream.write_all(&request)?;
        // The server hangs up once it has passed the request on.
        stream.read(&mut [0]).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn a_server_that_takes_no_requests_is_left() {
        let place = tempfile::tempdir().expect("a directory");
        let target = Target {
            socket_dir: Some(place.path().display().to_string()),
            host: None,
            port: None,
            user: String::new(),
            password: String::new(),
            database: String::new(),
        };
        // It takes connections and never says a word, as a stopped process does.
        let _frozen = std::os::unix::net::UnixListener::bind(target.socket_path().expect("it has one")).expect("free");
        let hung_up = Arc::new(AtomicU32::new(0));
        let interrupter = Interrupter::new(&target);
        let handle = || {
            let hung_up = Arc::clone(&hung_up);
            let hang_up = Arc::new(move || _ = hung_up.fetch_add(1, Ordering::Relaxed));
            Handle { process_id: 1, secret_key: 2, hang_up }
        };
        interrupter.set(vec![handle(), handle()]);
        let begun = Instant::now();
        while hung_up.load(Ordering::Relaxed) == 0 {
            assert!(begun.elapsed() < Duration::from_secs(30), "nobody hangs up");
            interrupter.interrupt();
        }
        assert!(begun.elapsed() >= HANG_UP_AFTER, "it is asked first");
        assert_eq!(hung_up.load(Ordering::Relaxed), 2);
    }
}
