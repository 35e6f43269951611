//! One stream of accesses from the rings of all processors, in the order of time.

use std::collections::VecDeque;

use bufferlab_model::trace::Record;

/// Longest delay of a record in its ring, because something interrupts the processor before it writes. A later record
/// leaves its order, and gets the time of its predecessor.
const LATE_NS: u64 = 50_000_000;

/// Accesses that wait for those of other processors.
#[derive(Debug)]
pub(super) struct Merge {
    of_cpu: Vec<VecDeque<Record>>,
    last_ns: u64,
}

impl Merge {
    pub fn new(cpus: usize) -> Self {
        Self { of_cpu: vec![VecDeque::new(); cpus], last_ns: 0 }
    }

    pub fn push(&mut self, cpu: usize, access: Record) {
        self.of_cpu[cpu].push_back(access);
    }

    /// Takes out the accesses that nothing can precede any more, because the thread read all rings after `read_ns`. At
    /// the end of a trace it takes everything.
    pub fn take(&mut self, read_ns: Option<u64>, out: &mut impl FnMut(&Record)) {
        let until = read_ns.map_or(u64::MAX, |read_ns| read_ns.saturating_sub(LATE_NS));
        loop {
            let heads = self.of_cpu.iter().enumerate().filter_map(|(cpu, waiting)| Some((waiting.front()?.t_ns, cpu)));
            let Some((t_ns, cpu)) = heads.min() else { return };
            if t_ns > until {
                return;
            }
            let Some(mut access) = self.of_cpu[cpu].pop_front() else { return };
            self.last_ns = self.last_ns.max(access.t_ns);
            access.t_ns = self.last_ns;
            out(&access);
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
    fn accesses_of_two_processors_come_in_the_order_of_time_and_the_newest_wait() {
        let mut merge = Merge::new(2);
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
        let mut merge = Merge::new(2);
        merge.push(0, access(100));
        assert_eq!(taken(&mut merge, None), [(100, 100)]);
        merge.push(1, access(90));
        assert_eq!(taken(&mut merge, None), [(100, 90)]);
    }
}
