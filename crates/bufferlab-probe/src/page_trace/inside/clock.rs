//! Ties the processor's time-stamp counter to CLOCK_MONOTONIC.

use crate::clock::monotonic_ns;

/// Times between two looks at both clocks lie on the line through them.
#[derive(Debug)]
pub(super) struct Clock {
    before: (u64, u64),
    ns_per_count: f64,
}

impl Clock {
    pub fn new() -> Self {
        Self { before: look(), ns_per_count: 0.0 }
    }

    /// Looks at both clocks; records made since the last look have their times on the new line.
    pub fn look(&mut self) -> impl Fn(u64) -> u64 + use<> {
        let now = look();
        let (counts, ns) = (now.0.saturating_sub(self.before.0), now.1.saturating_sub(self.before.1));
        if counts > 0 && ns > 0 {
            self.ns_per_count = ns as f64 / counts as f64;
        }
        let (first, first_ns) = self.before;
        // The factor is in units of 2^-32 ns: a product of whole numbers takes a third of the time that conversions
        // take.
        let slope = i128::from((self.ns_per_count * 4_294_967_296.0) as i64);
        self.before = now;
        move |count| {
            let counts = count.wrapping_sub(first).cast_signed();
            first_ns.saturating_add_signed(((i128::from(counts) * slope) >> 32) as i64)
        }
    }
}

/// Returns counter and clock of one moment: of several tries the one that took least.
fn look() -> (u64, u64) {
    let tries = (0..4).map(|_| {
        let before = counter();
        let ns = monotonic_ns();
        let after = counter();
        (after.wrapping_sub(before), before.wrapping_add(after.wrapping_sub(before) / 2), ns)
    });
    tries.min().map_or((0, 0), |(_, count, ns)| (count, ns))
}

#[cfg(target_arch = "x86_64")]
fn counter() -> u64 {
    bufferlab_inside::sys::counter()
}

#[cfg(not(target_arch = "x86_64"))]
fn counter() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_between_two_looks_is_a_time_between_them() {
        let mut clock = Clock::new();
        for _ in 0..20 {
            let before = monotonic_ns();
            let count = counter();
            let after = monotonic_ns();
            std::thread::sleep(std::time::Duration::from_millis(2));
            let found = clock.look()(count);
            assert!((before.saturating_sub(20_000)..=after + 20_000).contains(&found), "{before} {found} {after}");
        }
    }
}
