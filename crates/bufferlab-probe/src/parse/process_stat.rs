//! /proc/PID/stat: processor time in ticks and page faults of one process. Layout: proc(5).

use super::{fields, number};

/// Returns values of /proc/PID/stat: clock ticks in user and in system mode, minor and major faults. Each is a pair of
/// the process's own value and that of children that have ended and for which it has waited. The name of the program is
/// in brackets, and may contain blanks and brackets itself.
pub fn process_stat(text: &[u8]) -> [[Option<u64>; 2]; 4] {
    let end = text.iter().rposition(|byte| *byte == b')').unwrap_or(text.len());
    // The field after the name is the third.
    let field = |number_in_manual: usize| fields(text.get(end + 1..)?).nth(number_in_manual - 3).and_then(number);
    [[14, 16], [15, 17], [10, 11], [12, 13]].map(|both| both.map(field))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_name_with_blanks_and_brackets_moves_no_field() {
        let text = b"4711 (my) sql (d)) S 1 4711 4711 0 -1 4194560 15001 7 33 9 1200 340 1 2 20 0 38 0 99 1 2";
        let [user, system, minor_faults, major_faults] = process_stat(text);
        assert_eq!((minor_faults, major_faults), ([Some(15_001), Some(7)], [Some(33), Some(9)]));
        assert_eq!((user, system), ([Some(1_200), Some(1)], [Some(340), Some(2)]));
        assert_eq!(process_stat(b"4711 (my sqld"), [[None; 2]; 4]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            process_stat(&text);
        }
    }
}
