//! The driver's clock. A wait sleeps for most of its time and spins at its end.
//!
//! A sleep ends tens of microseconds late, and spinning all the time would take a core. In an open loop the driver's
//! CPU time contains the spinning: at most 50 us for each arrival for which it waited. The clock is a trait, so that
//! tests can simulate hours without waiting. Every run uses CLOCK_MONOTONIC.

use std::hint::spin_loop;

use bufferlab_probe::clock;

/// The last part of a wait, in which the driver spins instead of sleeping.
const SPIN_NS: u64 = 50_000;

/// A clock on which a driver can wait.
pub trait Clock {
    /// Returns the nanoseconds since some fixed moment.
    fn now_ns(&self) -> u64;

    /// Sleeps until about `deadline_ns`; returns at once when it has passed.
    fn sleep_until(&self, deadline_ns: u64);

    /// Waits until `deadline_ns` as exactly as the host allows, but never ends earlier.
    fn wait_until(&self, deadline_ns: u64);
}

/// The system's clock CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, Default)]
pub struct Monotonic;

impl Clock for Monotonic {
    #[inline]
    fn now_ns(&self) -> u64 {
        clock::monotonic_ns()
    }

    fn sleep_until(&self, deadline_ns: u64) {
        sleep_until(deadline_ns);
    }

    fn wait_until(&self, deadline_ns: u64) {
        if self.now_ns() + SPIN_NS < deadline_ns {
            sleep_until(deadline_ns - SPIN_NS);
        }
        while self.now_ns() < deadline_ns {
            spin_loop();
        }
    }
}

/// Asks the kernel to wake this thread on time: by default the kernel joins timers within 50 us of each other.
pub fn wake_on_time() {
    // SAFETY: the call sets a property of the calling thread. If the kernel refuses, the default stays, with which
    // waits end later.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64, 0_u64, 0_u64, 0_u64) };
}

/// Sleeps until a moment on CLOCK_MONOTONIC, or until a signal, so the caller must read the clock again.
fn sleep_until(deadline_ns: u64) {
    let deadline = libc::timespec {
        tv_sec: (deadline_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (deadline_ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: the timespec is valid, and the call writes no remaining time.
    unsafe {
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const deadline, std::ptr::null_mut())
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_never_ends_early_and_a_past_moment_is_no_wait() {
        wake_on_time();
        for wait_ns in [0, 1_000, 49_000, 200_000, 3_000_000] {
            let deadline_ns = Monotonic.now_ns() + wait_ns;
            Monotonic.wait_until(deadline_ns);
            assert!(Monotonic.now_ns() >= deadline_ns, "woken before {wait_ns} ns had passed");
        }
        let before_ns = Monotonic.now_ns();
        Monotonic.wait_until(before_ns - 1_000_000);
        assert!(Monotonic.now_ns() - before_ns < 1_000_000_000, "a moment in the past was waited for");
    }
}
