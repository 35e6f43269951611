//! /proc/PID/stat: processor time in ticks and page faults of one process. Layout: proc(5).

use super::{fields, number};

/// The values that probes take from /proc/PID/stat.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ProcessStat {
    pub minor_faults: Option<u64>,
    pub major_faults: Option<u64>,
    pub user_ticks: Option<u64>,
    pub system_ticks: Option<u64>,
    /// Minor faults of children that have ended and for which the process has waited.
    pub children_minor_faults: Option<u64>,
    pub children_major_faults: Option<u64>,
    pub children_user_ticks: Option<u64>,
    pub children_system_ticks: Option<u64>,
}

/// Reads /proc/PID/stat. The name of the program is in brackets, and may contain blanks and brackets itself.
pub fn process_stat(text: &[u8]) -> ProcessStat {
    let Some(end) = text.iter().rposition(|byte| *byte == b')') else { return ProcessStat::default() };
    // The field after the name is the third.
    let field = |number_in_manual: usize| fields(&text[end + 1..]).nth(number_in_manual - 3).and_then(number);
    ProcessStat {
        minor_faults: field(10),
        major_faults: field(12),
        user_ticks: field(14),
        system_ticks: field(15),
        children_minor_faults: field(11),
        children_major_faults: field(13),
        children_user_ticks: field(16),
        children_system_ticks: field(17),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_name_with_blanks_and_brackets_moves_no_field() {
        let text = b"4711 (my) sql (d)) S 1 4711 4711 0 -1 4194560 15001 7 33 9 1200 340 1 2 20 0 38 0 99 1 2";
        let stat = process_stat(text);
        assert_eq!((stat.minor_faults, stat.major_faults), (Some(15_001), Some(33)));
        assert_eq!((stat.user_ticks, stat.system_ticks), (Some(1_200), Some(340)));
        assert_eq!((stat.children_minor_faults, stat.children_major_faults), (Some(7), Some(9)));
        assert_eq!((stat.children_user_ticks, stat.children_system_ticks), (Some(1), Some(2)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            process_stat(&text);
        }
    }
}
