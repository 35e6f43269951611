//! Tests the counters against known I/O: a file that is read and written with O_DIRECT must move them by its size. The
//! test runs on the machine's own disk. If the file has no block device, it fails with the reason.

use bufferlab_probe::{DeviceProbe, Probe, ProcessProbe, Reading, device};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

const FILE_BYTES: i64 = 64 << 20;
const BLOCK_BYTES: usize = 1 << 20;
/// Other programs use the device too, and their I/O between two samples counts. Repeat for up to a minute, until they
/// are quiet.
const ATTEMPTS: usize = 60;
const TOLERANCE: f64 = 0.05;

/// Other I/O would move the device's counters too, so ./test runs the tests in modules of this name by themselves.
mod alone {
    use super::*;

    #[test]
    fn a_file_read_past_the_page_cache_moves_device_and_process_bytes_by_its_size() {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let resolved = device::resolve(directory);
        assert!(
            resolved.name.is_some(),
            "this test needs a target directory on a block device (set CARGO_TARGET_DIR): {resolved:?}"
        );
        let file = tempfile::NamedTempFile::new_in(directory).expect("a file in the target directory");
        let direct = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_DIRECT)
            .open(file.path())
            .expect("the target directory's file system takes O_DIRECT");
        let mut block = AlignedBlock::new();
        let mut probes = Probes::for_path(file.path());

        let (device_written, process_written) =
            probes.quietest(["device_write_bytes", "process_write_bytes"], || write_all(&direct, &mut block));
        assert_eq!(process_written, FILE_BYTES, "process_write_bytes of {FILE_BYTES} bytes written");
        assert_close("device_write_bytes", device_written);

        direct.sync_all().expect("the file is on the device");
        let (device_read, process_read) =
            probes.quietest(["device_read_bytes", "process_read_bytes"], || read_all(&direct, &mut block));
        assert_eq!(process_read, FILE_BYTES, "process_read_bytes of {FILE_BYTES} bytes read");
        assert_close("device_read_bytes", device_read);
    }
}

fn assert_close(metric: &str, bytes: i64) {
    let excess = bytes as f64 / FILE_BYTES as f64 - 1.0;
    assert!(
        (0.0..=TOLERANCE).contains(&excess),
        "{metric} moved by {bytes} for {FILE_BYTES} bytes ({:+.1} %), the least of {ATTEMPTS} attempts: \
         either the counter is wrong or something else uses the device all the time",
        100.0 * excess
    );
}

struct Probes {
    device: DeviceProbe,
    process: ProcessProbe,
}

impl Probes {
    fn for_path(path: &Path) -> Self {
        Self { device: DeviceProbe::for_path(path), process: ProcessProbe::new() }
    }

    /// Returns the growth of `[device metric, process metric]` over the work, at the quietest of several attempts.
    fn quietest(&mut self, metrics: [&str; 2], mut work: impl FnMut()) -> (i64, i64) {
        let mut least = (i64::MAX, i64::MAX);
        for _ in 0..ATTEMPTS {
            let before = self.sample();
            work();
            let after = self.sample();
            let [of_device, of_process] = metrics.map(|metric| count(&after, metric) - count(&before, metric));
            // Other I/O can only increase the growth, so a growth below the size means that the counter misses I/O.
            assert!(of_device >= FILE_BYTES, "{} moved by only {of_device}", metrics[0]);
            least = least.min((of_device, of_process));
            if (least.0 as f64) < FILE_BYTES as f64 * (1.0 + TOLERANCE) && least.1 == FILE_BYTES {
                break;
            }
            sleep(Duration::from_secs(1));
        }
        least
    }

    fn sample(&mut self) -> Vec<Reading> {
        let mut out = Vec::new();
        self.device.sample(&mut out);
        self.process.sample(&mut out);
        out
    }
}

fn count(readings: &[Reading], metric: &str) -> i64 {
    let reading = readings.iter().find(|reading| reading.metric == metric);
    let reading = reading.unwrap_or_else(|| panic!("{metric} was emitted"));
    reading.count.unwrap_or_else(|| panic!("{metric} has no value: {:?}", reading.reason))
}

fn write_all(file: &File, block: &mut AlignedBlock) {
    for_each_block(|offset| file.write_all_at(block.bytes(), offset));
}

fn read_all(file: &File, block: &mut AlignedBlock) {
    for_each_block(|offset| file.read_exact_at(block.bytes(), offset));
}

fn for_each_block(mut transfer: impl FnMut(u64) -> std::io::Result<()>) {
    for offset in (0..FILE_BYTES as u64).step_by(BLOCK_BYTES) {
        transfer(offset).expect("a direct transfer of an aligned block");
    }
}

/// Memory on a page boundary, as direct transfers want it.
struct AlignedBlock {
    pointer: *mut u8,
}

impl AlignedBlock {
    const LAYOUT: Layout = match Layout::from_size_align(BLOCK_BYTES, 4096) {
        Ok(layout) => layout,
        Err(_) => panic!("a megabyte on a page boundary is a valid layout"),
    };

    fn new() -> Self {
        // SAFETY: the layout's size is not zero.
        let pointer = unsafe { alloc_zeroed(Self::LAYOUT) };
        if pointer.is_null() {
            handle_alloc_error(Self::LAYOUT);
        }
        Self { pointer }
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the pointer owns BLOCK_BYTES initialised bytes, borrowed through `self` alone.
        unsafe { std::slice::from_raw_parts_mut(self.pointer, BLOCK_BYTES) }
    }
}

impl Drop for AlignedBlock {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, freed once.
        unsafe { dealloc(self.pointer, Self::LAYOUT) };
    }
}
