//! The only clock of a run: CLOCK_MONOTONIC in nanoseconds. It is compared with wall time once, so that results can
//! show wall time; no code computes a duration from wall time.

use serde::Serialize;

/// One moment on both clocks, CLOCK_MONOTONIC and wall time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Anchor {
    /// The moment on CLOCK_MONOTONIC, in nanoseconds.
    #[serde(rename = "monotonic_start_ns")]
    pub monotonic_ns: u64,
    /// The same moment in UTC, as RFC 3339 with microseconds.
    #[serde(rename = "wall_start")]
    pub wall_utc: String,
}

impl Anchor {
    /// Reads both clocks now, as nearly at the same moment as possible.
    pub fn now() -> Self {
        // Each attempt reads the wall clock between two monotonic reads, so its error is below half their distance,
        // also when the thread is descheduled. The attempt with the shortest distance counts.
        let (_, monotonic_ns, wall_ns) = (0..5).map(|_| attempt()).min().unwrap_or_else(attempt);
        Self { monotonic_ns, wall_utc: rfc3339_utc(wall_ns) }
    }
}

/// Returns nanoseconds on CLOCK_MONOTONIC.
pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC).unwrap_or(0)
}

/// Returns nanoseconds on any clock, or None if the clock does not exist (a thread that has ended).
pub(crate) fn clock_ns(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec to write; an unknown clock makes the call return -1.
    let status = unsafe { libc::clock_gettime(clock, &raw mut time) };
    if status != 0 {
        return None;
    }
    let seconds = u64::try_from(time.tv_sec).ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(u64::try_from(time.tv_nsec).ok()?)
}

/// Returns (uncertainty, monotonic, wall), all in nanoseconds.
fn attempt() -> (u64, u64, u64) {
    let before = monotonic_ns();
    let wall = clock_ns(libc::CLOCK_REALTIME).unwrap_or(0);
    let after = monotonic_ns();
    (after - before, before + (after - before) / 2, wall)
}

/// Returns nanoseconds since 1970 as `2024-02-29T23:59:59.000001Z`.
fn rfc3339_utc(nanoseconds: u64) -> String {
    let seconds = nanoseconds / 1_000_000_000;
    let microseconds = nanoseconds / 1_000 % 1_000_000;
    let (year, month, day) = civil_date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{microseconds:06}Z")
}

/// Returns the Gregorian (year, month, day) of a number of days since 1970-01-01.
fn civil_date(days_since_1970: u64) -> (u64, u64, u64) {
    // Count years from March, so that the leap day is the last day of its year and every 400-year cycle of 146,097 days
    // has the same shape. 719,468 days lie between 0000-03-01 and 1970-01-01.
    let days = days_since_1970 + 719_468;
    let (cycle, day_of_cycle) = (days / 146_097, days % 146_097);
    let year_of_cycle = (day_of_cycle - day_of_cycle / 1_460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = 400 * cycle + year_of_cycle + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_time_is_written_as_rfc_3339_also_on_leap_days_and_year_ends() {
        // Expected texts come from `date -u -d @SECONDS`.
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_399, "2000-02-28T23:59:59.000000Z"),
            (951_782_400, "2000-02-29T00:00:00.000000Z"),
            (1_704_067_199, "2023-12-31T23:59:59.000000Z"),
            (1_709_164_800, "2024-02-29T00:00:00.000000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000000Z"),
        ] {
            assert_eq!(rfc3339_utc(seconds * 1_000_000_000), text);
        }
        assert_eq!(rfc3339_utc(1_999), "1970-01-01T00:00:00.000001Z");
    }

    #[test]
    fn the_monotonic_clock_advances_and_the_anchor_lies_on_it() {
        let before = monotonic_ns();
        let anchor = Anchor::now();
        let after = monotonic_ns();
        assert!(before <= anchor.monotonic_ns && anchor.monotonic_ns <= after);
    }
}
