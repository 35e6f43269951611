//! Learns the pages of frames from a list of all pages in the pool that the server itself gives, such as PostgreSQL's
//! pg_buffercache.
//!
//! A list has numbers of buffers and no addresses. The address of the first buffer follows from reads of listed pages.

use bufferlab_model::trace::latch::NO_RING;
use bufferlab_model::trace::{Kind, Record};

use super::{Frames, Map, Page};

/// The fewest listed pages whose reads must give the same address of the first buffer. They must also be more than half
/// of all listed pages that were read.
const LEAST_AGREEING: u64 = 20;

/// The buffers of a pool and their pages, as a server listed them.
#[derive(Clone, Debug, Default)]
pub struct Buffers {
    /// The moment of the query to the server, in nanoseconds on CLOCK_MONOTONIC. Calls after this moment are newer than
    /// the list.
    pub asked_ns: u64,
    /// Device and inode of each file that has a listed page.
    pub files: Vec<(u32, u64)>,
    /// The number of each listed buffer, from 0 on.
    pub buffer: Vec<u32>,
    /// The file of each buffer's page, as a place in `files`.
    pub file: Vec<u32>,
    /// The number of each buffer's page in its file.
    pub page: Vec<u32>,
}

impl Frames {
    /// Processes a server's list; passes the records of pages that came without a read to `take`.
    pub fn listed(&mut self, buffers: &Buffers, take: &mut impl FnMut(Record)) {
        let files: Vec<_> = buffers.files.iter().map(|&file| self.object(file)).collect();
        let rows = buffers.buffer.iter().zip(&buffers.file).zip(&buffers.page);
        let listed: Vec<(u64, Page)> = rows
            .filter_map(|((&buffer, &file), &page)| Some((u64::from(buffer), (*files.get(file as usize)?, page))))
            .collect();
        let Some(first) = self.first_buffer(&listed, buffers.asked_ns) else { return };
        self.counts.used_lists += 1;
        let size = self.pool.page_size_bytes;
        let t_ns = self.last_ns;
        for (buffer, page) in listed {
            let frame = first.wrapping_add(buffer * size);
            let is_older = |held: &super::Held| held.seen_ns < buffers.asked_ns;
            let is_inside = self.pool.regions.iter().any(|&(begin, end)| begin <= frame && frame < end);
            let elsewhere = self.frame_of.get(&page).filter(|&&other| other != frame);
            if is_inside
                && self.held.get(&frame).is_none_or(is_older)
                && elsewhere.is_none_or(|other| self.held.get(other).is_none_or(is_older))
            {
                self.counts.listed_frames += 1;
                let mut tell = |kind, (object, page): Page, latch, site| {
                    take(Record { t_ns, object, page, thread: 0, kind, latch, site });
                };
                if self.held.get(&frame).is_some_and(|held| held.page.is_none()) {
                    // The page is in the pool again, and no read of it was seen.
                    tell(Kind::Create, page, NO_RING, 0);
                }
                // Keep the time of the last call, so that a later list can correct the page that this list gave.
                let seen_ns = self.held.get(&frame).map_or(0, |held| held.seen_ns);
                self.holds(frame, page, seen_ns, &mut tell);
            }
        }
    }

    /// Returns the address of the first buffer that most frames of known pages give; none if too few frames agree.
    fn first_buffer(&self, listed: &[(u64, Page)], asked_ns: u64) -> Option<u64> {
        let mut votes = Map::<u64, u64>::default();
        let mut all = 0;
        for (buffer, page) in listed {
            if let Some(frame) = self.frame_of.get(page)
                && self.held[frame].seen_ns < asked_ns
            {
                *votes.entry(frame.wrapping_sub(buffer * self.pool.page_size_bytes)).or_default() += 1;
                all += 1;
            }
        }
        let (first, most) = votes.into_iter().max_by_key(|&(first, votes)| (votes, first))?;
        (most >= LEAST_AGREEING && 2 * most > all).then_some(first)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Call, Pool};
    use super::*;

    const SIZE: u64 = 8192;
    const BEGIN: u64 = 0x7f00_0000_1000;
    const FILE: (u32, u64) = (8, 7);

    fn frames(count: u64) -> Frames {
        Frames::new(Pool {
            page_size_bytes: SIZE,
            regions: vec![(BEGIN, BEGIN + count * SIZE)],
            ring_reads: 0,
            sweep_reads: 0,
            is_shared: false,
        })
    }

    fn read(frame: u64, page: u64, t_ns: u64) -> Call {
        let (address, offset, (device, inode)) = (BEGIN + frame * SIZE, page * SIZE, FILE);
        Call { t_ns, address, offset, inode, device, process: 9, bytes: SIZE as u32, writes: false, folder: [0; 8] }
    }

    fn list(asked_ns: u64, held: impl IntoIterator<Item = (u64, u64)>) -> Buffers {
        let (buffer, page) = held.into_iter().map(|(frame, page)| (frame as u32, page as u32)).unzip();
        let buffers = Buffers { asked_ns, files: vec![FILE], buffer, file: Vec::new(), page };
        Buffers { file: vec![0; buffers.page.len()], ..buffers }
    }

    #[test]
    fn twenty_reads_place_a_list_and_then_it_names_frames_that_no_call_showed() {
        for (reads, is_used) in [(19, false), (20, true)] {
            let mut frames = frames(100);
            let mut found = Vec::new();
            for place in 0..reads {
                frames.call(&read(place, place, 1), &mut |_| ());
            }
            frames.listed(&list(2, (0..60).map(|place| (place, place))), &mut |_| ());
            assert_eq!((frames.counts.used_lists, frames.counts.listed_frames), if is_used { (1, 60) } else { (0, 0) });
            frames.call(&read(50, 99, 3), &mut |record| found.push((record.kind, record.page)));
            let named = [(Kind::Evict, 50), (Kind::Read, 99)];
            assert_eq!(found, if is_used { &named[..] } else { &named[1..] });
        }
    }

    #[test]
    fn a_list_whose_places_disagree_is_not_used() {
        let mut frames = frames(200);
        for place in 0..60 {
            frames.call(&read(place, place, 1), &mut |_| ());
        }
        // Half of the pages give other addresses, each a different one.
        frames.listed(&list(2, (0..60).map(|place| (place + 2 * place * (place % 2), place))), &mut |_| ());
        assert_eq!(frames.counts.used_lists, 0);
    }

    proptest! {
        /// Tests a pool into which some pages come by a read and some without one. Its writes do not show their frames,
        /// as with PostgreSQL's checksums.
        #[test]
        fn behind_each_list_every_frame_that_was_not_touched_meanwhile_is_known(
            steps in prop::collection::vec((0_u64..48, 0_u8..10, 0_u8..40), 60..400),
        ) {
            let mut frames = frames(48);
            let mut held: Vec<u64> = (1000..1048).collect();
            let mut next = 2000;
            for frame in 0..24 {
                held[frame as usize] = frame;
                frames.call(&read(frame, frame, 1), &mut |_| ());
            }
            for (at, (frame, kind, asks)) in steps.into_iter().enumerate() {
                let t_ns = 10 + 10 * at as u64;
                next += 1;
                held[frame as usize] = next;
                if kind > 0 {
                    frames.call(&read(frame, next, t_ns), &mut |_| ());
                }
                if asks == 0 {
                    let asked_ns = t_ns + 5;
                    // One more page is read while the server answers.
                    let mut late = held.clone();
                    late[(frame as usize + 1) % 48] = next + 5000;
                    frames.call(&read((frame + 1) % 48, next + 5000, t_ns + 6), &mut |_| ());
                    let (known, used) = (frames.frame_of.len(), frames.counts.used_lists);
                    let listed: Vec<_> = (0..).zip(held.iter().copied()).collect();
                    frames.listed(&list(asked_ns, listed), &mut |_| ());
                    held = late;
                    if frames.counts.used_lists > used {
                        for (at, &page) in held.iter().enumerate() {
                            let address = BEGIN + at as u64 * SIZE;
                            prop_assert_eq!(frames.held[&address].page, Some((0, page as u32)));
                            prop_assert_eq!(frames.frame_of[&(0, page as u32)], address);
                        }
                        prop_assert_eq!(frames.frame_of.len(), 48);
                    } else {
                        prop_assert_eq!(frames.frame_of.len(), known);
                    }
                }
            }
        }
    }
}
