//! One stream of accesses from several, in the order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use bufferlab_model::trace::Record;

/// Passes the accesses of all streams to `out` in the order of time; of one moment, those of the first stream first.
///
/// A stream keeps its order. An access whose maker was interrupted between looking at the clock and writing it comes
/// after a later one, and gets the time of that.
///
/// # Errors
/// The first of `out`.
pub(super) fn merge<S: IntoIterator<Item = Record>, E>(
    streams: Vec<S>,
    mut out: impl FnMut(&Record) -> Result<(), E>,
) -> Result<(), E> {
    let mut streams: Vec<_> = streams.into_iter().map(|stream| stream.into_iter().peekable()).collect();
    let heads = streams.iter_mut().enumerate();
    let mut heads: BinaryHeap<_> =
        heads.filter_map(|(number, stream)| Some(Reverse((stream.peek()?.t_ns, number)))).collect();
    let mut last_ns = 0;
    while let Some(Reverse((_, number))) = heads.pop() {
        // Threads take turns on a processor, so that a stream often has many accesses before the next stream's first.
        let next = heads.peek().map_or((u64::MAX, usize::MAX), |Reverse(next)| *next);
        let stream = &mut streams[number];
        while let Some(access) = stream.next_if(|access| (access.t_ns, number) < next) {
            last_ns = access.t_ns.max(last_ns);
            out(&Record { t_ns: last_ns, ..access })?;
        }
        heads.extend(stream.peek().map(|access| Reverse((access.t_ns, number))));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use bufferlab_model::trace::Kind;
    use proptest::prelude::*;

    use super::*;

    fn access(stream: usize, (page, t_ns): (usize, &u64)) -> Record {
        let (page, thread) = (page as u32, stream as u32);
        Record { t_ns: *t_ns, object: 0, page, thread, kind: Kind::Get, latch: 0, site: 0 }
    }

    fn accesses(streams: &[Vec<u64>]) -> Vec<VecDeque<Record>> {
        let of =
            |(number, times): (usize, &Vec<u64>)| times.iter().enumerate().map(|one| access(number, one)).collect();
        streams.iter().enumerate().map(of).collect()
    }

    fn merged(streams: &[Vec<u64>]) -> Vec<Record> {
        let mut out = Vec::new();
        let done: Result<(), ()> = merge(accesses(streams), |access| {
            out.push(*access);
            Ok(())
        });
        done.expect("it is taken");
        out
    }

    /// Looks at every stream for each access.
    fn slowly_merged(streams: &[Vec<u64>]) -> Vec<Record> {
        let (mut streams, mut out, mut last_ns) = (accesses(streams), Vec::new(), 0);
        while let Some(stream) = streams
            .iter_mut()
            .filter(|stream| !stream.is_empty())
            .min_by_key(|stream| (stream[0].t_ns, stream[0].thread))
        {
            let access = stream.pop_front().expect("it is not empty");
            last_ns = last_ns.max(access.t_ns);
            out.push(Record { t_ns: last_ns, ..access });
        }
        out
    }

    #[test]
    fn accesses_of_two_streams_come_in_the_order_of_time() {
        let out = merged(&[vec![10, 40, 60], vec![20, 30, 50]]);
        assert!(out.iter().map(|access| access.t_ns).eq([10, 20, 30, 40, 50, 60]));
        assert!(out.iter().map(|access| access.thread).eq([0, 1, 1, 0, 1, 0]));
    }

    #[test]
    fn an_access_behind_a_later_one_gets_the_time_of_that() {
        let out = merged(&[vec![10, 100, 90, 110], vec![95, 105]]);
        let told: Vec<_> = out.iter().map(|access| (access.t_ns, access.thread, access.page)).collect();
        assert_eq!(told, [(10, 0, 0), (95, 1, 0), (100, 0, 1), (100, 0, 2), (105, 1, 1), (110, 0, 3)]);
    }

    proptest! {
        #[test]
        fn any_streams_are_merged_as_by_looking_at_all_of_them(
            streams in prop::collection::vec(prop::collection::vec(0..30_u64, 0..20), 0..6),
        ) {
            let out = merged(&streams);
            prop_assert!(out.is_sorted_by_key(|access| access.t_ns));
            prop_assert_eq!(out, slowly_merged(&streams));
        }
    }
}
