//! How long a client waits for a server's bytes: until a moment, and while its process may go on.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

/// The longest wait before a client looks whether it may go on.
const LONGEST_STEP: Duration = Duration::from_millis(500);

/// A limit for one exchange with a server, however slowly its bytes come.
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
    /// Makes a limit that begins now. `within`: none for any time; `may_go_on` is asked a few times a second.
    pub fn new(within: Option<Duration>, may_go_on: fn() -> bool) -> Self {
        Patience { until: within.map(|within| Instant::now() + within), may_go_on }
    }

    /// Makes a limit by time alone.
    pub fn of(within: Duration) -> Self {
        Patience::new(Some(within), || true)
    }

    /// Returns the time that is left; none for any time.
    pub fn left(&self) -> Option<Duration> {
        self.until.map(|until| until.saturating_duration_since(Instant::now()))
    }

    /// Returns how long the next wait may take.
    ///
    /// # Errors
    /// `TimedOut` at the limit, and an error for which [`was_ended`] is true when the process may not go on.
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

/// Returns true for an error of reading after which a client waits further.
pub fn is_a_step(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Returns true when the process itself ended the wait.
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
