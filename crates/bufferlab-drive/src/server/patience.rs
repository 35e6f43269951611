//! Limits how long a client waits for a server's bytes: until a moment, and only while the client's process may go on.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

/// The longest wait before a client checks whether its process may go on.
const LONGEST_STEP: Duration = Duration::from_millis(500);

/// A time limit for a whole exchange with a server, which holds even if the server sends single bytes slowly.
#[derive(Clone, Copy)]
pub struct Patience {
    until: Option<Instant>,
    may_go_on: fn() -> bool,
}

/// The error of a wait that the process itself ended.
#[derive(Debug, thiserror::Error)]
#[error("the wait was ended")]
struct Ended;

impl Patience {
    /// Makes a limit that begins now. Without `within` it has no end. The client calls `may_go_on` a few times a
    /// second, and gives up when it returns false.
    pub fn new(within: Option<Duration>, may_go_on: fn() -> bool) -> Self {
        Patience { until: within.map(|within| Instant::now() + within), may_go_on }
    }

    /// Makes a limit only of time, which begins now.
    pub fn of(within: Duration) -> Self {
        Patience::new(Some(within), || true)
    }

    /// Returns the time that is left; none if the limit has no end.
    pub fn left(&self) -> Option<Duration> {
        self.until.map(|until| until.saturating_duration_since(Instant::now()))
    }

    /// Returns the longest time of the client's next wait, at most 0.5 s.
    ///
    /// # Errors
    /// `TimedOut` when no time is left; an error for which [`was_ended`] is true when the process must end.
    pub fn step(&self) -> io::Result<Duration> {
        if !(self.may_go_on)() {
            return Err(io::Error::other(Ended));
        }
        match self.left() {
            Some(left) if left.is_zero() => Err(ErrorKind::TimedOut.into()),
            left => Ok(left.map_or(LONGEST_STEP, |left| left.min(LONGEST_STEP))),
        }
    }
}

/// Returns true for an error of a read that only ends one step of the wait, after which a client reads again.
pub fn is_a_step(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Returns true when the client's own process ended the wait.
pub fn was_ended(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|error| error.is::<Ended>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_goes_in_steps_to_its_limit() {
        let patience = Patience::of(Duration::from_millis(700));
        assert_eq!(patience.step().expect("it has begun"), LONGEST_STEP);
        let over = Patience::of(Duration::ZERO).step().expect_err("it is over");
        assert!(over.kind() == ErrorKind::TimedOut && !was_ended(&over));
        assert_eq!(Patience::new(None, || true).step().expect("it has no limit"), LONGEST_STEP);
    }

    #[test]
    fn a_process_that_may_not_go_on_waits_no_longer() {
        let ended = Patience::new(None, || false).step().expect_err("it may not");
        assert!(was_ended(&ended) && !is_a_step(&ended));
    }
}
