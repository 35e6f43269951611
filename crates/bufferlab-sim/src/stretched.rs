//! Computes the times of a run at another speed: multiplies its times by one factor before its window, and by another
//! factor in the window.

/// Returns the microseconds between accesses. Those before the access `first` are multiplied by `before`, the others by
/// `within`. It rounds the times since the first access, not their differences, because rounding errors of differences
/// would add up.
pub fn stretched(delta_us: &[u32], first: usize, before: f64, within: f64) -> Vec<u32> {
    let (mut time_us, mut edge_us, mut last_us) = (0.0, 0.0, 0.0);
    let told = delta_us.iter().enumerate().map(|(row, &delta)| {
        if row == first {
            edge_us = time_us;
        }
        time_us += f64::from(delta);
        let own = if row < first { time_us * before } else { edge_us * before + (time_us - edge_us) * within };
        // The cast saturates: a difference of more than 71 minutes becomes the largest number of 32 bits.
        let delta_us = (own.floor() - last_us) as u32;
        last_us = own.floor();
        delta_us
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use super::stretched;

    #[test]
    fn times_before_and_in_the_window_have_their_own_speeds() {
        assert_eq!(stretched(&[0, 3, 3, 3, 3, 3, 3], 4, 2.0, 0.5), [0, 6, 6, 6, 1, 2, 1]);
        assert_eq!(stretched(&[5, 7, 1], 2, 1.0, 1.0), [5, 7, 1]);
        assert_eq!(stretched(&[1, u32::MAX], 0, 1.0, 10.0), [10, u32::MAX], "a gap has 32 bits");
        assert!(stretched(&[], 0, 2.0, 2.0).is_empty());
    }
}
