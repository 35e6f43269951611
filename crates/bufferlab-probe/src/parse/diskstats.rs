//! /proc/diskstats: one line of counters per block device. Layout: Documentation/admin-guide/iostats.rst. Eleven
//! counters; four of discards since Linux 4.18; two of flushes since 5.5.

use super::{fields, lines, number};

/// Sectors in this file are 512 bytes on every device, at any block size.
pub const SECTOR_BYTES: u64 = 512;

/// The counters after the name, in the kernel's order; a column the kernel does not have is None.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskCounters {
    columns: [Option<u64>; COLUMNS],
}

const COLUMNS: usize = 17;

/// A column of the file, named as iostats.rst names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Column {
    Reads,
    ReadsMerged,
    ReadSectors,
    ReadMs,
    Writes,
    WritesMerged,
    WriteSectors,
    WriteMs,
    InFlight,
    BusyMs,
    WeightedMs,
    Discards,
    DiscardsMerged,
    DiscardSectors,
    DiscardMs,
    Flushes,
    FlushMs,
}

impl DiskCounters {
    /// Returns the column's value, if the kernel has the column.
    pub fn get(&self, column: Column) -> Option<u64> {
        self.columns[column as usize]
    }
}

/// Returns the counters of the device with these numbers. It searches by numbers, because a name may change or contain
/// escapes.
pub fn find(text: &[u8], major: u32, minor: u32) -> Option<DiskCounters> {
    lines(text).find_map(|line| {
        let mut fields = fields(line);
        let line_major = number(fields.next()?)?;
        let line_minor = number(fields.next()?)?;
        let _name = fields.next()?;
        if (line_major, line_minor) != (u64::from(major), u64::from(minor)) {
            return None;
        }
        let mut columns = [None; COLUMNS];
        for (column, field) in columns.iter_mut().zip(&mut fields) {
            *column = number(field);
        }
        // Require this column: kernels before 2.6.25 wrote only four columns for a partition, which are other counters.
        columns[Column::WeightedMs as usize]?;
        Some(DiskCounters { columns })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use Column::*;
    use proptest::prelude::*;

    /// Linux 3.10: a SCSI disk, its partitions, a device-mapper and an md device.
    const LINUX_3_10: &[u8] = include_bytes!("../../testdata/diskstats-3.10");
    /// Linux 4.19: nvme with partitions, zram; four columns of discards.
    const LINUX_4_19: &[u8] = include_bytes!("../../testdata/diskstats-4.19");
    /// Linux 6.18: a virtio disk, loop devices, zram; two columns of flushes.
    const LINUX_6_18: &[u8] = include_bytes!("../../testdata/diskstats-6.18");

    #[test]
    fn linux_3_10_has_eleven_counters_and_no_discards_or_flushes() {
        let sda = find(LINUX_3_10, 8, 0).expect("sda is in the file");
        assert_eq!(sda.get(Reads), Some(4_921));
        assert_eq!(sda.get(ReadSectors), Some(331_218));
        assert_eq!(sda.get(WriteMs), Some(70_311));
        assert_eq!(sda.get(WeightedMs), Some(89_002));
        assert_eq!((sda.get(Discards), sda.get(FlushMs)), (None, None));
        assert_eq!(find(LINUX_3_10, 253, 1).and_then(|dm| dm.get(Reads)), Some(130));
        assert_eq!(find(LINUX_3_10, 9, 127).and_then(|md| md.get(WriteSectors)), Some(61_440));
    }

    #[test]
    fn linux_4_19_adds_discards_and_tells_a_partition_from_its_disk() {
        let disk = find(LINUX_4_19, 259, 0).expect("nvme0n1 is in the file");
        let partition = find(LINUX_4_19, 259, 1).expect("nvme0n1p1 is in the file");
        assert_eq!((disk.get(Reads), partition.get(Reads)), (Some(812_345), Some(811_900)));
        assert_eq!(disk.get(DiscardSectors), Some(40_960));
        assert_eq!(disk.get(Flushes), None);
    }

    #[test]
    fn linux_6_18_adds_flushes() {
        let vda = find(LINUX_6_18, 254, 0).expect("vda is in the file");
        assert_eq!(vda.get(Reads), Some(50_701));
        assert_eq!(vda.get(InFlight), Some(0));
        assert_eq!(vda.get(BusyMs), Some(4_520));
        assert_eq!(vda.get(DiscardSectors), Some(3_288_824));
        assert_eq!((vda.get(Flushes), vda.get(FlushMs)), (Some(377), Some(4)));
        assert!(find(LINUX_6_18, 253, 0).is_some(), "zram0 has counters too");
        assert_eq!(find(LINUX_6_18, 253, 9), None);
    }

    #[test]
    fn a_partition_line_of_linux_2_6_18_is_not_taken_for_disk_counters() {
        assert_eq!(find(b"   8    1 sda1 100 800 200 1600\n", 8, 1), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(text in proptest::collection::vec(any::<u8>(), 0..400)) {
            find(&text, 8, 0);
        }

        #[test]
        fn a_damaged_file_is_survived(cut in 0..900_usize, at in 0..900_usize, byte: u8) {
            let mut text = LINUX_6_18[..cut.min(LINUX_6_18.len())].to_vec();
            if let Some(place) = text.get_mut(at) { *place = byte; }
            find(&text, 254, 0);
        }
    }
}
