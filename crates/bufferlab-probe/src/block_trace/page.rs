//! A page of the kernel's ring buffer: events one after another, each with the time since the event before. Follows
//! kernel/trace/ring_buffer.c and include/linux/ring_buffer.h (enum ring_buffer_type).

use crate::tracefs::PageLayout;

/// Flags of a page: events before it were lost (RB_MISSED_EVENTS), and their number follows its data
/// (RB_MISSED_STORED).
const MISSED_EVENTS: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;
const LENGTH: u64 = (1 << 30) - 1;

const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// An absolute time in an event has only its lowest 59 bits; the higher bits are those of the page's time.
const STAMP_BITS: u32 = 59;

/// Whether events are missing before a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PageFacts {
    /// Whether events before this page were lost.
    pub missed: bool,
    /// The number of lost events, if the kernel had room for it.
    pub missed_events: Option<u64>,
}

/// The reason why a page cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Damaged(pub &'static str);

/// Returns whether events before this page were lost, and how many.
pub(super) fn facts(layout: &PageLayout, page: &[u8]) -> Result<PageFacts, Damaged> {
    let commit = layout.commit.number(page).ok_or(Damaged("it ends within its header"))?;
    let missed = commit & MISSED_EVENTS != 0;
    let end = layout.data + (commit & LENGTH) as usize;
    let stored = || page.get(end..end + 8)?.try_into().ok().map(u64::from_le_bytes);
    let missed_events = if missed && commit & MISSED_STORED != 0 { stored() } else { None };
    Ok(PageFacts { missed, missed_events })
}

/// Passes every event of a page to `take`: its time in nanoseconds, and its bytes.
pub(super) fn walk(layout: &PageLayout, page: &[u8], mut take: impl FnMut(u64, &[u8])) -> Result<(), Damaged> {
    let page_time = layout.timestamp.number(page).ok_or(Damaged("it ends within its header"))?;
    let commit = layout.commit.number(page).ok_or(Damaged("it ends within its header"))?;
    let end = layout.data.checked_add((commit & LENGTH) as usize).filter(|&end| end <= page.len());
    let end = end.ok_or(Damaged("its data are longer than itself"))?;
    let word = |at: usize| -> Result<u32, Damaged> {
        let bytes = page.get(at..at + 4).filter(|_| at + 4 <= end).ok_or(Damaged("an event is cut"))?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    };
    let (mut at, mut time) = (layout.data, page_time);
    while at + 4 <= end {
        let head = word(at)?;
        let (kind, delta) = (head & 31, u64::from(head >> 5));
        match kind {
            // Nothing follows on this page.
            PADDING if delta == 0 => break,
            PADDING => {
                // A discarded event; its time still counts.
                time = time.wrapping_add(delta);
                at = at.checked_add(4 + word(at + 4)? as usize).ok_or(Damaged("an event is too long"))?;
            }
            TIME_EXTEND => {
                time = time.wrapping_add((u64::from(word(at + 4)?) << 27) + delta);
                at += 8;
            }
            TIME_STAMP => {
                let low = ((u64::from(word(at + 4)?) << 27) + delta) & ((1 << STAMP_BITS) - 1);
                time = low | (page_time >> STAMP_BITS << STAMP_BITS);
                at += 8;
            }
            _ => {
                time = time.wrapping_add(delta);
                // Long events have their length in a separate word, and the length includes it.
                let (first, length) = if kind == 0 {
                    let length = (word(at + 4)? as usize).checked_sub(4).ok_or(Damaged("an event has no length"))?;
                    (at + 8, length)
                } else {
                    (at + 4, kind as usize * 4)
                };
                let last = first.checked_add(length).filter(|&last| last <= end).ok_or(Damaged("an event is cut"))?;
                take(time, &page[first..last]);
                at = first + length.next_multiple_of(4);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracefs::Field;
    use proptest::prelude::*;

    const LAYOUT: PageLayout = PageLayout {
        timestamp: Field { offset: 0, size: 8, signed: false },
        commit: Field { offset: 8, size: 8, signed: true },
        data: 16,
        page_bytes: 4096,
    };

    fn page(time: u64, flags: u64, data: &[u8]) -> Vec<u8> {
        let mut page = time.to_le_bytes().to_vec();
        page.extend((data.len() as u64 | flags).to_le_bytes());
        page.extend(data);
        page.resize(LAYOUT.page_bytes, 0);
        page
    }

    fn head(kind: u32, delta: u32) -> [u8; 4] {
        (kind | delta << 5).to_le_bytes()
    }

    fn events(page: &[u8]) -> Result<Vec<(u64, Vec<u8>)>, Damaged> {
        let mut events = Vec::new();
        walk(&LAYOUT, page, |time, data| events.push((time, data.to_vec()))).map(|()| events)
    }

    #[test]
    fn events_carry_the_sum_of_distances_and_long_ones_a_length_of_their_own() {
        let mut data = head(2, 5).to_vec();
        data.extend([1; 8]);
        data.extend(head(0, 7));
        data.extend(12_u32.to_le_bytes());
        data.extend([2; 8]);
        assert_eq!(events(&page(1000, 0, &data)), Ok(vec![(1005, vec![1; 8]), (1012, vec![2; 8])]));
    }

    #[test]
    fn time_is_extended_set_and_kept_over_events_that_were_taken_back() {
        let mut data = head(TIME_EXTEND, 3).to_vec();
        data.extend(2_u32.to_le_bytes());
        data.extend(head(1, 1));
        data.extend([1; 4]);
        let extended = 1000 + (2 << 27) + 3 + 1;
        data.extend(head(PADDING, 10));
        data.extend(8_u32.to_le_bytes());
        data.extend([9; 4]);
        data.extend(head(1, 0));
        data.extend([2; 4]);
        data.extend(head(TIME_STAMP, 44));
        data.extend(1_u32.to_le_bytes());
        data.extend(head(1, 0));
        data.extend([3; 4]);
        data.extend(head(PADDING, 0));
        data.extend([7; 40]);
        let expected = vec![(extended, vec![1; 4]), (extended + 10, vec![2; 4]), ((1 << 27) + 44, vec![3; 4])];
        assert_eq!(events(&page(1000, 0, &data)), Ok(expected));
    }

    #[test]
    fn a_page_says_that_events_before_it_were_lost() {
        assert_eq!(facts(&LAYOUT, &page(1, 0, &[])), Ok(PageFacts::default()));
        let mut lost = page(1, MISSED_EVENTS | MISSED_STORED, &[0; 8]);
        lost[24..32].copy_from_slice(&77_u64.to_le_bytes());
        assert_eq!(facts(&LAYOUT, &lost), Ok(PageFacts { missed: true, missed_events: Some(77) }));
        let untold = PageFacts { missed: true, missed_events: None };
        assert_eq!(facts(&LAYOUT, &page(1, MISSED_EVENTS, &[])), Ok(untold));
    }

    #[test]
    fn a_cut_page_is_damaged_and_no_panic() {
        assert!(events(&[0; 10]).is_err());
        assert!(events(&page(1, 0, &head(20, 1))).is_err());
        let mut whole = page(1, 0, &[]);
        whole[8..16].copy_from_slice(&5000_u64.to_le_bytes());
        assert_eq!(events(&whole), Err(Damaged("its data are longer than itself")));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(time: u64, flags: u64, data in proptest::collection::vec(any::<u8>(), 0..300)) {
            let page = page(time, flags & !LENGTH, &data);
            let _ = events(&page);
            let _ = facts(&LAYOUT, &page);
        }
    }
}
