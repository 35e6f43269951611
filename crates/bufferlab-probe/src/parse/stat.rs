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

/// Clock ticks of one processor since boot, in the kernel's order; an absent column is None.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct CpuTicks {
    pub user: Option<u64>,
    pub nice: Option<u64>,
    pub system: Option<u64>,
    pub idle: Option<u64>,
    pub iowait: Option<u64>,
    pub irq: Option<u64>,
    pub softirq: Option<u64>,
    pub steal: Option<u64>,
    pub guest: Option<u64>,
    pub guest_nice: Option<u64>,
}

/// The counts of the scheduler and the interrupt controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Scheduling {
    pub context_switches: Option<u64>,
    pub interrupts: Option<u64>,
    pub running: Option<u64>,
    pub blocked: Option<u64>,
}

/// Returns the processors' lines, in the file's order (the sum first; processors taken offline have none).
pub fn processors(text: &[u8]) -> impl Iterator<Item = (Processor, CpuTicks)> {
    // The processors' lines come first; the interrupt line after them can be many kilobytes.
    lines(text).map_while(|line| {
        let mut fields = fields(line);
        let processor = match fields.next()?.strip_prefix(b"cpu")? {
            b"" => Processor::All,
            digits => Processor::Core(u32::try_from(number(digits)?).ok()?),
        };
        let mut next = || fields.next().and_then(number);
        let ticks = CpuTicks {
            user: next(),
            nice: next(),
            system: next(),
            idle: next(),
            iowait: next(),
            irq: next(),
            softirq: next(),
            steal: next(),
            guest: next(),
            guest_nice: next(),
        };
        Some((processor, ticks))
    })
}

/// Returns context switches, interrupts, and the numbers of runnable and blocked tasks.
pub fn scheduling(text: &[u8]) -> Scheduling {
    // `intr` has the total as its first value; no code reads the counts per interrupt after it.
    let [context_switches, interrupts, running, blocked] =
        super::named_numbers(text, ["ctxt", "intr", "procs_running", "procs_blocked"]);
    Scheduling { context_switches, interrupts, running, blocked }
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
        assert_eq!((ticks.user, ticks.steal), (Some(107_318), Some(12)));
        assert_eq!((ticks.guest, ticks.guest_nice), (None, None));
    }

    #[test]
    fn a_new_kernel_has_every_column_and_one_line_per_online_processor() {
        let lines: Vec<_> = processors(LINUX_6_18).collect();
        let names: Vec<_> = lines.iter().map(|(processor, _)| *processor).collect();
        // Processor 2 is offline in this excerpt.
        assert_eq!(names, [Processor::All, Processor::Core(0), Processor::Core(1), Processor::Core(3)]);
        assert_eq!(lines[0].1.guest, Some(700));
        assert_eq!(lines[0].1.guest_nice, Some(30));
    }

    #[test]
    fn scheduling_is_read_from_behind_the_interrupt_line() {
        let scheduling = scheduling(LINUX_6_18);
        assert_eq!(scheduling.context_switches, Some(302_223));
        assert_eq!(scheduling.interrupts, Some(182_780));
        assert_eq!((scheduling.running, scheduling.blocked), (Some(3), Some(1)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(text in proptest::collection::vec(any::<u8>(), 0..400)) {
            processors(&text).for_each(drop);
            scheduling(&text);
        }

        #[test]
        fn a_damaged_file_is_survived(cut in 0..600_usize, at in 0..600_usize, byte: u8) {
            let mut text = LINUX_6_18[..cut.min(LINUX_6_18.len())].to_vec();
            if let Some(place) = text.get_mut(at) { *place = byte; }
            processors(&text).for_each(drop);
            scheduling(&text);
        }
    }
}
