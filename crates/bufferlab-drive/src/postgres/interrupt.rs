//! Interrupts statements that other connections execute at a PostgreSQL server.

use std::io::{Read, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use postgres_protocol::message::frontend;

use super::startup::secured;
use super::wire::{HangUp, Transport};
use crate::lock;
use crate::server::patience::Patience;
use crate::server::target::Target;

/// A handle that interrupts a connection: its numbers at the server, and its socket.
#[derive(Clone)]
pub struct Handle {
    /// The number of the server's process for the connection.
    pub process_id: i32,
    /// The key without which the server refuses to interrupt the connection.
    pub secret_key: i32,
    /// A function that ends the connection from this side, without the server's help.
    pub hang_up: HangUp,
}

/// Longest time that a server may take to accept a request to interrupt.
const CANCEL_TIMEOUT: Duration = Duration::from_millis(500);
/// Time that statements get to end on request. Then the interrupter ends their connections.
const HANG_UP_AFTER: Duration = Duration::from_secs(3);

/// An interrupter of the running statements of some connections. It first asks the server. If that does not help within
/// 3 s, because the server is frozen, it ends the connections from this side.
pub struct Interrupter {
    target: Target,
    connections: Mutex<(Vec<Handle>, Option<Instant>)>,
    /// Connections without long statements. The interrupter ends them together with the interrupted connections, but
    /// does not ask the server to interrupt their statements.
    watching: Vec<HangUp>,
}

impl Interrupter {
    /// Makes an interrupter that interrupts no connection yet.
    pub fn new(target: &Target) -> Self {
        Interrupter { target: target.clone(), connections: Mutex::default(), watching: Vec::new() }
    }

    /// Adds connections that end together with the interrupted connections, so that no thread waits for ever on them
    /// for a frozen server.
    #[must_use]
    pub fn with_watching(mut self, watching: Vec<HangUp>) -> Self {
        self.watching = watching;
        self
    }

    /// Sets the connections that the interrupter interrupts.
    pub fn set(&self, handles: Vec<Handle>) {
        *lock(&self.connections) = (handles, None);
    }

    /// Adds a connection that the interrupter interrupts.
    pub fn add(&self, handle: Handle) {
        lock(&self.connections).0.push(handle);
    }

    /// Interrupts the running statements of the interrupter's connections. If 3 s have passed since the first call, it
    /// ends the connections instead. Ignores a connection that executes no statement or has ended.
    pub fn interrupt(&self) {
        let (handles, first) = {
            let mut connections = lock(&self.connections);
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
                // A server that refuses one request to cancel refuses the other requests, too.
                break;
            }
        }
    }

    fn cancel(&self, handle: &Handle) -> std::io::Result<()> {
        let mut stream = secured(&self.target, Patience::of(CANCEL_TIMEOUT)).map_err(std::io::Error::other)?;
        stream.set_timeout(CANCEL_TIMEOUT)?;
        let mut request = BytesMut::new();
        frontend::cancel_request(handle.process_id, handle.secret_key, &mut request);
        stream.write_all(&request)?;
        // The server closes this connection once it has passed the request on.
        stream.read(&mut [0]).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::server::target::Place;

    #[test]
    fn a_server_that_takes_no_requests_is_left() {
        let place = tempfile::tempdir().expect("a directory");
        let socket = place.path().join("socket").display().to_string();
        let target = Target {
            place: Place::Socket(socket.clone()),
            user: String::new(),
            password: String::new(),
            database: String::new(),
            security: None,
        };
        // The socket takes connections and never answers, as the socket of a stopped process does.
        let _frozen = std::os::unix::net::UnixListener::bind(socket).expect("free");
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
