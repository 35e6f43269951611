//! The offsets of reads: drawn from a seed, multiples of an alignment, such that no read goes beyond the range's end.
//!
//! A clone of a reader's offsets draws the same offsets again, so that the run can compute their expected cost after
//! the window.

use bufferlab_workload::permutation::Permutation;
use bufferlab_workload::random::Random;
use bufferlab_workload::zipf::Zipf;

use super::job::{Order, Reads};

/// A generator of one reader's offsets.
#[derive(Clone, Debug)]
pub struct Offsets {
    alignment: u64,
    places: u64,
    random: Random,
    drawing: Drawing,
}

#[derive(Clone, Debug)]
enum Drawing {
    Uniform,
    /// Places in their order in the range. The number is that of the next place.
    Sequential(u64),
    /// A distribution of ranks by Zipf's law, and a permutation that gives each rank a place in the range.
    Zipf(Zipf, Box<Permutation>),
}

impl Offsets {
    /// Makes the offsets of reader `index` of `readers` readers, in a range of `range_bytes` bytes. Each part of a run
    /// (`part`) has a separate random stream.
    ///
    /// # Panics
    /// When the range is shorter than one read.
    pub fn new(reads: &Reads, range_bytes: u64, part: u64, index: usize, readers: usize) -> Self {
        assert!(range_bytes >= reads.io_size_bytes, "{range_bytes} bytes do not hold one read");
        // The last place is the last multiple of the alignment from which a whole read still fits.
        let places = (range_bytes - reads.io_size_bytes) / reads.alignment_bytes + 1;
        let drawing = match reads.order {
            Order::Random => Drawing::Uniform,
            Order::Sequential => {
                let first = u128::from(places) * index as u128 / readers.max(1) as u128;
                Drawing::Sequential(first as u64)
            }
            Order::Zipf(exponent) => {
                // One permutation serves all readers and parts: popular places are the same for every reader.
                let mut scatter = Random::stream(reads.seed, "places of popular reads", &[]);
                Drawing::Zipf(Zipf::new(places, exponent), Box::new(Permutation::new(places, &mut scatter)))
            }
        };
        let random = Random::stream(reads.seed, "offsets of a reader", &[part, index as u64]);
        Offsets { alignment: reads.alignment_bytes, places, random, drawing }
    }

    /// Returns the next offset.
    #[inline]
    pub fn draw(&mut self) -> u64 {
        let place = match &mut self.drawing {
            Drawing::Uniform => self.random.below(self.places),
            Drawing::Sequential(next) => {
                let place = *next;
                *next = if place + 1 == self.places { 0 } else { place + 1 };
                place
            }
            Drawing::Zipf(zipf, scatter) => scatter.at(zipf.draw(&mut self.random) - 1),
        };
        place * self.alignment
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use statrs::distribution::{ChiSquared, ContinuousCDF};

    use super::*;

    fn reads(io_size_bytes: u64, alignment_bytes: u64, order: Order) -> Reads {
        Reads { io_size_bytes, alignment_bytes, order, queue_depth: 1, threads: 1, seed: 7 }
    }

    fn order() -> impl Strategy<Value = Order> {
        prop_oneof![Just(Order::Random), Just(Order::Sequential), Just(Order::Zipf(0.9))]
    }

    proptest! {
        #[test]
        fn every_read_is_aligned_and_inside(
            order in order(),
            sectors in 1_u64..=64,
            alignment in prop_oneof![Just(512_u64), Just(4096), Just(0)],
            more in 0_u64..100_000,
            index in 0_usize..4,
        ) {
            let io_size = sectors * 512;
            let alignment = if alignment == 0 { io_size } else { alignment };
            let range = io_size + more;
            let mut offsets = Offsets::new(&reads(io_size, alignment, order), range, 0, index, 4);
            for _ in 0..200 {
                let offset = offsets.draw();
                prop_assert_eq!(offset % alignment, 0);
                prop_assert!(offset + io_size <= range);
            }
        }
    }

    #[test]
    fn random_places_are_drawn_alike_the_first_and_the_last_among_them() {
        let (io_size, alignment, places) = (8192, 512, 1000);
        let range = io_size + (places - 1) * alignment;
        let mut offsets = Offsets::new(&reads(io_size, alignment, Order::Random), range, 0, 0, 1);
        let mut observed = vec![0_u32; places as usize];
        for _ in 0..200_000 {
            observed[(offsets.draw() / alignment) as usize] += 1;
        }
        let statistic: f64 = observed.iter().map(|&count| (f64::from(count) - 200.0).powi(2) / 200.0).sum();
        let p = ChiSquared::new(999.0).expect("there are places").sf(statistic);
        assert!(p > 0.001, "p = {p}");
        assert!(observed[0] > 0 && observed[999] > 0);
    }

    #[test]
    fn sequential_readers_share_the_range_out_and_begin_anew_at_its_end() {
        let mut second = Offsets::new(&reads(4096, 4096, Order::Sequential), 4 * 4096, 0, 1, 2);
        let drawn: Vec<u64> = (0..5).map(|_| second.draw() / 4096).collect();
        assert_eq!(drawn, [2, 3, 0, 1, 2]);
    }

    #[test]
    fn popular_places_are_the_same_for_all_readers_and_lie_anywhere() {
        let most_popular = |part, index| {
            let mut offsets = Offsets::new(&reads(4096, 4096, Order::Zipf(1.2)), 1000 * 4096, part, index, 2);
            let mut counts = vec![0_u32; 1000];
            (0..20_000).for_each(|_| counts[(offsets.draw() / 4096) as usize] += 1);
            (0..1000).max_by_key(|&place| counts[place]).expect("there are places")
        };
        let place = most_popular(0, 0);
        assert_eq!([most_popular(0, 1), most_popular(1, 0)], [place, place]);
        assert_ne!(place, 0, "ranks are scattered");
    }

    #[test]
    fn a_clone_draws_what_its_original_draws_and_other_readers_do_not() {
        let of = |part, index| Offsets::new(&reads(512, 512, Order::Random), 1 << 30, part, index, 2);
        let mut original = of(1, 0);
        let mut clone = original.clone();
        let drawn: Vec<u64> = (0..10).map(|_| original.draw()).collect();
        assert_eq!(drawn, (0..10).map(|_| clone.draw()).collect::<Vec<_>>());
        for mut other in [of(1, 1), of(0, 0)] {
            assert_ne!(drawn, (0..10).map(|_| other.draw()).collect::<Vec<_>>());
        }
    }
}
