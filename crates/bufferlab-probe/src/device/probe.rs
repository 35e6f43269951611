//! The device's counters at each sample, with times in the kernel's milliseconds and sizes in bytes. The probe does not
//! compute iostat's averages (r_await, aqu-sz, %util): results make them from differences of stored samples.

use super::{Device, Disk, resolve};
use crate::parse::diskstats::{self, Column, DiskCounters, SECTOR_BYTES};
use crate::proc_file::ProcFile;
use crate::reading::{Probe, Reading};
use std::path::Path;
use std::sync::Arc;

const NAME: &str = "device";

/// Cumulative counters: the metric, its column, and the factor from the column's unit to the metric's.
const COUNTERS: [(&str, Column, u64); 16] = [
    ("device_reads", Column::Reads, 1),
    ("device_reads_merged", Column::ReadsMerged, 1),
    ("device_read_bytes", Column::ReadSectors, SECTOR_BYTES),
    ("device_read_ms", Column::ReadMs, 1),
    ("device_writes", Column::Writes, 1),
    ("device_writes_merged", Column::WritesMerged, 1),
    ("device_write_bytes", Column::WriteSectors, SECTOR_BYTES),
    ("device_write_ms", Column::WriteMs, 1),
    ("device_busy_ms", Column::BusyMs, 1),
    ("device_queue_ms", Column::WeightedMs, 1),
    ("device_discards", Column::Discards, 1),
    ("device_discards_merged", Column::DiscardsMerged, 1),
    ("device_discard_bytes", Column::DiscardSectors, SECTOR_BYTES),
    ("device_discard_ms", Column::DiscardMs, 1),
    ("device_flushes", Column::Flushes, 1),
    ("device_flush_ms", Column::FlushMs, 1),
];
const IN_FLIGHT: &str = "device_in_flight";

/// The counters of each whole disk below a stacked device. They have names that differ from the device's: requests of a
/// stacked device and of its disks are the same work counted twice, and must not be added up.
const DISK_COUNTERS: [(&str, Column, u64); 8] = [
    ("disk_reads", Column::Reads, 1),
    ("disk_read_bytes", Column::ReadSectors, SECTOR_BYTES),
    ("disk_read_ms", Column::ReadMs, 1),
    ("disk_writes", Column::Writes, 1),
    ("disk_write_bytes", Column::WriteSectors, SECTOR_BYTES),
    ("disk_write_ms", Column::WriteMs, 1),
    ("disk_busy_ms", Column::BusyMs, 1),
    ("disk_queue_ms", Column::WeightedMs, 1),
];

/// The probe of one whole device. It reads its line in /proc/diskstats, and those of the disks below a stacked device.
pub struct DeviceProbe {
    subject: Arc<str>,
    line: Result<DiskLine, Arc<str>>,
    disks: Vec<DiskBelow>,
}

struct DiskBelow {
    name: Arc<str>,
    line: Result<DiskLine, Arc<str>>,
}

struct DiskLine {
    file: ProcFile,
    major: u32,
    minor: u32,
    no_column: Arc<str>,
    gone: Arc<str>,
}

impl DeviceProbe {
    /// Makes a probe of the device that holds the path. Without such a device every reading is a null with the reason.
    pub fn for_path(path: &Path) -> Self {
        Self::for_device(&resolve(path))
    }

    /// Makes a probe of a device already resolved.
    pub fn for_device(device: &Device) -> Self {
        let subject = device.name.as_deref().unwrap_or_default().into();
        let below = |disk: &Disk| DiskBelow { name: Arc::from(disk.name.as_str()), line: line(&Device::of_disk(disk)) };
        Self { subject, line: line(device), disks: device.disks.iter().map(below).collect() }
    }

    fn push(&self, out: &mut Vec<Reading>, read: &ReadLine) {
        push(out, &self.subject, read, &COUNTERS);
        let requests = value(read, Column::InFlight, 1).map(|requests| requests as f64);
        out.push(Reading::gauge_or(NAME, IN_FLIGHT, &self.subject, requests));
    }
}

impl Probe for DeviceProbe {
    fn name(&self) -> &'static str {
        NAME
    }

    fn sample(&mut self, out: &mut Vec<Reading>) {
        let own = read(&mut self.line);
        self.push(out, &own);
        for disk in &mut self.disks {
            push(out, &disk.name, &read(&mut disk.line), &DISK_COUNTERS);
        }
    }
}

/// A line's counters, and the reason for columns that it lacks; or the reason why it cannot be read.
type ReadLine = Result<(DiskCounters, Arc<str>), Arc<str>>;

fn push(out: &mut Vec<Reading>, subject: &Arc<str>, read: &ReadLine, metrics: &[(&'static str, Column, u64)]) {
    let reading = |&(metric, column, unit): &_| Reading::counter_or(NAME, metric, subject, value(read, column, unit));
    out.extend(metrics.iter().map(reading));
}

fn value(read: &ReadLine, column: Column, unit: u64) -> Result<i64, Arc<str>> {
    let (counters, no_column) = read.as_ref().map_err(Arc::clone)?;
    let value = counters.get(column).and_then(|value| i64::try_from(value.checked_mul(unit)?).ok());
    value.ok_or_else(|| Arc::clone(no_column))
}

fn read(line: &mut Result<DiskLine, Arc<str>>) -> ReadLine {
    line.as_mut().map_err(|reason| Arc::clone(reason))?.read()
}

impl Device {
    fn of_disk(disk: &Disk) -> Self {
        Device { name: Some(disk.name.clone()), major_minor: Some(disk.major_minor.clone()), ..Device::default() }
    }
}

impl DiskLine {
    fn read(&mut self) -> ReadLine {
        let text = self.file.read()?;
        let counters = diskstats::find(text, self.major, self.minor).ok_or_else(|| Arc::clone(&self.gone))?;
        Ok((counters, Arc::clone(&self.no_column)))
    }
}

fn line(device: &Device) -> Result<DiskLine, Arc<str>> {
    let (Some(name), Some(number)) = (&device.name, &device.major_minor) else {
        return Err(device.reason.as_deref().unwrap_or("the device has no name").into());
    };
    let numbers = number.split_once(':');
    let Some((Ok(major), Ok(minor))) = numbers.map(|(major, minor)| (major.parse(), minor.parse())) else {
        return Err(format!("{number} is not the number of a device").into());
    };
    Ok(DiskLine {
        file: ProcFile::open("/proc/diskstats"),
        major,
        minor,
        no_column: "this kernel's /proc/diskstats does not have the column".into(),
        gone: format!("{name} ({number}) is not in /proc/diskstats").into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_device_every_metric_is_a_null_with_the_same_reason() {
        let mut out = Vec::new();
        DeviceProbe::for_path(Path::new("/proc/self/status")).sample(&mut out);
        assert_eq!(out.len(), 17);
        for reading in &out {
            assert_eq!((reading.count, reading.value), (None, None));
            assert!(reading.reason.as_deref().is_some_and(|reason| reason.contains("proc")));
        }
    }

    #[test]
    fn an_old_kernels_missing_columns_are_nulls_beside_the_columns_it_has() {
        let text = include_bytes!("../../testdata/diskstats-3.10");
        let counters = diskstats::find(text, 8, 0).expect("sda");
        let device = Device { name: Some("sda".into()), ..Device::default() };
        let mut out = Vec::new();
        DeviceProbe::for_device(&device).push(&mut out, &Ok((counters, "no column".into())));
        let find = |metric| out.iter().find(|reading| reading.metric == metric).expect("emitted");
        assert_eq!(find("device_read_bytes").count, Some(331_218 * 512));
        assert_eq!(&*find("device_read_bytes").subject, "sda");
        assert_eq!(find("device_flushes").reason.as_deref(), Some("no column"));
        assert_eq!(find("device_in_flight").value, Some(0.0));
    }

    #[test]
    fn the_disks_below_a_stacked_device_are_counted_under_names_of_their_own() {
        let disk = |name: &str, number: &str| Disk { name: name.into(), major_minor: number.into() };
        let device = Device {
            name: Some("dm-0".into()),
            major_minor: Some("4095:0".into()),
            disks: vec![disk("gone1", "4095:1"), disk("gone2", "4095:2")],
            ..Device::default()
        };
        let mut out = Vec::new();
        DeviceProbe::for_device(&device).sample(&mut out);
        let of_disks: Vec<_> = out.iter().filter(|reading| reading.metric.starts_with("disk_")).collect();
        assert_eq!(of_disks.len(), 2 * DISK_COUNTERS.len());
        assert!(of_disks.iter().all(|reading| ["gone1", "gone2"].contains(&&*reading.subject)));
        assert!(out.iter().filter(|reading| reading.metric.starts_with("device_")).all(|r| &*r.subject == "dm-0"));
        assert_eq!(of_disks[0].reason.as_deref(), Some("gone1 (4095:1) is not in /proc/diskstats"));
    }

    #[test]
    fn a_device_that_vanished_says_so() {
        let device =
            Device { name: Some("gone0".into()), major_minor: Some("4095:1048575".into()), ..Device::default() };
        let mut out = Vec::new();
        DeviceProbe::for_device(&device).sample(&mut out);
        let reason = out[0].reason.as_deref().expect("a reason");
        assert_eq!(reason, "gone0 (4095:1048575) is not in /proc/diskstats");
    }
}
