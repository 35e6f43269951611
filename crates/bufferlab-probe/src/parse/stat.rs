//! /proc/stat: clock ticks per processor, context switches, interrupts, run queue.
//! Layout: proc(5). Ten columns since Linux 2.6.33; steal came with 2.6.11, guest with 2.6.24, guest_nice with 2.6.33.

use super::{fields, lines, number};

/// The processor of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Processor {
    /// The sum line, `cpu`.
    All,
    /// A line `cpuN`.
    Core(u32),
}

/// Clock ticks of one processor since boot, in the kernel's order: user, nice, system, idle, iowait, irq, softirq, steal,
/// guest, guest_nice. An absent column is None.
pub type CpuTicks = [Option<u64>; 10];

/// Returns the processors' lines, in the file's order (the sum first; processors taken offline have none).
pub fn processors(text: &[u8]) -> impl Iterator<Item = (Processor, CpuTicks)> {
    // The processors' lines come first; the interrupt line after them can be many kilobytes.
    lines(text).map_while(|line| {
        let mut fields = fields(line);
        let processor = match fields.next()?.strip_prefix(b"cpu")? {
            b"" => Processor::All,
            digits => Processor::Core(u32::try_from(number(digits)?).ok()?),
        };
        let ticks = std::array::from_fn(|_| fields.next().and_then(number));
        Some((processor, ticks))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Linux 2.6.18 (eight columns, no guest).
    const LINUX_2_6_18: &[u8] = include_bytes!("../../testdata/stat-2.6.18");
    /// Linux 6.18, with guests running.
    const LINUX_6_18: &[u8] = include_bytes!("../../testdata/stat-6.18");

    #[test]
    fn an_old_kernel_has_no_guest_columns_and_that_is_not_zero() {
        let lines: Vec<_> = processors(LINUX_2_6_18).collect();
        assert_eq!(lines.len(), 3);
        let (processor, ticks) = lines[1];
        assert_eq!(processor, Processor::Core(0));
        let [user, .., steal, guest, guest_nice] = ticks;
        assert_eq!((user, steal), (Some(107_318), Some(12)));
        assert_eq!((guest, guest_nice), (None, None));
    }

    #[test]
    fn a_new_kernel_has_every_column_and_one_line_per_online_processor() {
        let lines: Vec<_> = processors(LINUX_6_18).collect();
        let names: Vec<_> = lines.iter().map(|(processor, _)| *processor).collect();
        // Processor 2 is offline in this excerpt.
        assert_eq!(names, [Processor::All, Processor::Core(0), Processor::Core(1), Processor::Core(3)]);
        let [.., guest, guest_nice] = lines[0].1;
        assert_eq!((guest, guest_nice), (Some(700), Some(30)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(text in proptest::collection::vec(any::<u8>(), 0..400)) {
            processors(&text).for_each(drop);
        }

        #[test]
        fn a_damaged_file_is_survived(cut in 0..600_usize, at in 0..600_usize, byte: u8) {
            let mut text = LINUX_6_18[..cut.min(LINUX_6_18.len())].to_vec();
            if let Some(place) = text.get_mut(at) { *place = byte; }
            processors(&text).for_each(drop);
        }
    }
}
