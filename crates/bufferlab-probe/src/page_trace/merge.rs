//! One stream of accesses from many rings, in the order of time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use bufferlab_model::trace::Record;

/// Longest delay of a record in its ring, because something interrupts its maker before it is written. A later record
/// leaves its order, and gets the time of its predecessor.
const LATE_NS: u64 = 50_000_000;

/// Accesses that wait for those of other rings.
#[derive(Debug)]
pub(super) struct Merge {
    of_ring: Vec<VecDeque<Record>>,
    last_ns: u64,
}

impl Merge {
    pub fn new() -> Self {
        Self { of_ring: Vec::new(), last_ns: 0 }
    }

    #[inline]
    pub fn push(&mut self, ring: usize, access: Record) {
        if ring >= self.of_ring.len() {
            self.of_ring.resize(ring + 1, VecDeque::new());
        }
        self.of_ring[ring].push_back(access);
    }

    /// Takes out the accesses that nothing can precede any more, because the thread read all rings after `read_ns`. At
    /// the end of a trace it takes everything.
    pub fn take(&mut self, read_ns: Option<u64>, out: &mut impl FnMut(&Record)) {
        let until = read_ns.map_or(u64::MAX, |read_ns| read_ns.saturating_sub(LATE_NS));
        let heads = self.of_ring.iter().enumerate();
        let mut heads: BinaryHeap<_> =
            heads.filter_map(|(ring, waiting)| Some(Reverse((waiting.front()?.t_ns, ring)))).collect();
        while let Some(Reverse((_, ring))) = heads.pop() {
            // Threads take turns on a processor, so that a ring often has many records before the next ring's first.
            let next_ns = heads.peek().map_or(u64::MAX, |Reverse((t_ns, _))| *t_ns).min(until);
            let waiting = &mut self.of_ring[ring];
            let due = waiting.iter().take_while(|access| access.t_ns <= next_ns).count();
            for access in waiting.drain(..due) {
                self.last_ns = self.last_ns.max(access.t_ns);
                out(&Record { t_ns: self.last_ns, ..access });
            }
            let head_ns = waiting.front().map(|access| access.t_ns);
            heads.extend(head_ns.filter(|t_ns| *t_ns <= until).map(|t_ns| Reverse((t_ns, ring))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bufferlab_model::trace::Kind;

    fn access(t_ns: u64) -> Record {
        Record { t_ns, object: 0, page: t_ns as u32, thread: 0, kind: Kind::Get, latch: 0, site: 0 }
    }

    fn taken(merge: &mut Merge, read_ns: Option<u64>) -> Vec<(u64, u32)> {
        let mut out = Vec::new();
        merge.take(read_ns, &mut |access| out.push((access.t_ns, access.page)));
        out
    }

    #[test]
    fn accesses_of_two_rings_come_in_the_order_of_time_and_the_newest_wait() {
        let mut merge = Merge::new();
        for t_ns in [10, 40, LATE_NS] {
            merge.push(0, access(t_ns));
        }
        for t_ns in [20, 30, 50] {
            merge.push(1, access(t_ns));
        }
        assert_eq!(taken(&mut merge, Some(LATE_NS + 45)), [(10, 10), (20, 20), (30, 30), (40, 40)]);
        assert_eq!(taken(&mut merge, None), [(50, 50), (LATE_NS, LATE_NS as u32)]);
    }

    #[test]
    fn time_never_runs_backwards() {
        let mut merge = Merge::new();
        merge.push(0, access(100));
        assert_eq!(taken(&mut merge, None), [(100, 100)]);
        merge.push(1, access(90));
        assert_eq!(taken(&mut merge, None), [(100, 90)]);
    }
}
