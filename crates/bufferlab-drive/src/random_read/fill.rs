//! Makes a file for runs that read a file. Its bytes are random numbers drawn from a seed, so that no device and no
//! file system can compress them.
//!
//! Every MiB has a separate stream of random numbers, so that the same seed gives the same bytes on every host.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use bufferlab_workload::random::Random;
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, FailureKind};
use crate::loaded::LoadProgress;

/// The version of the generator: raise it when a seed no longer gives the same bytes.
pub const VERSION: u32 = 1;

const CHUNK_BYTES: u64 = 1 << 20;
/// The number of MiB after which the load syncs, so that dirty pages do not fill memory and stall the load at its end.
const SYNC_EVERY: u64 = 64;

/// The job of making a file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// The path of the new file. It must not exist.
    pub path: PathBuf,
    /// The size of the file in bytes.
    pub bytes: u64,
    /// The seed of the file's bytes.
    pub seed: u64,
}

/// The result of making a file.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Filled {
    /// Bytes written to the file, which are all of its bytes.
    pub bytes: u64,
    /// Wall time in seconds until the bytes were on the device.
    pub seconds: f64,
}

/// Makes a new file. Passes the bytes written so far to `on_progress`.
///
/// # Errors
/// When the file exists or cannot be written, the disk is full, or the user asks to stop.
pub fn load(load: &Load, cancelled: &AtomicBool, on_progress: &mut dyn FnMut(LoadProgress)) -> Result<Filled, Failure> {
    let Load { path, bytes, seed } = load;
    let (bytes, seed) = (*bytes, *seed);
    let begun = Instant::now();
    let fail = |error: std::io::Error| Failure::from_io("the file to read cannot be made", path, &error);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(fail)?;
    let mut chunk = vec![0_u8; CHUNK_BYTES as usize];
    for number in 0..bytes.div_ceil(CHUNK_BYTES) {
        if cancelled.load(Ordering::Relaxed) {
            let what = "the file to read was not finished";
            return Err(Failure::new(FailureKind::Interrupted, what, path.display().to_string(), "run it again"));
        }
        chunk_of(seed, number, &mut chunk);
        let part = (bytes - number * CHUNK_BYTES).min(CHUNK_BYTES) as usize;
        file.write_all(&chunk[..part]).map_err(fail)?;
        if number % SYNC_EVERY == SYNC_EVERY - 1 {
            file.sync_data().map_err(fail)?;
        }
        on_progress(LoadProgress { rows: bytes.min((number + 1) * CHUNK_BYTES), total: bytes });
    }
    finish(&file).map_err(fail)?;
    Ok(Filled { bytes, seconds: begun.elapsed().as_secs_f64() })
}

fn finish(file: &File) -> std::io::Result<()> {
    use std::os::fd::AsRawFd;
    file.sync_all()?;
    // SAFETY: advice about an open file changes no memory.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    Ok(())
}

/// Fills `chunk` with the bytes of the file's MiB `number`.
fn chunk_of(seed: u64, number: u64, chunk: &mut [u8]) {
    let mut random = Random::stream(seed, "bytes of a file to read", &[number]);
    for word in chunk.chunks_exact_mut(8) {
        word.copy_from_slice(&random.bits().to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
        let directory = tempfile::tempdir().expect("a directory");
        let made = |name: &str, bytes, seed| {
            let path = directory.path().join(name);
            load(&Load { path: path.clone(), bytes, seed }, &AtomicBool::new(false), &mut |_| {}).expect("made");
            std::fs::read(path).expect("read")
        };
        let whole = made("a", 3_000_000, 5);
        assert_eq!(whole.len(), 3_000_000);
        assert_eq!(whole, made("b", 3_000_000, 5));
        assert_eq!(whole[..1_500_000], made("c", 1_500_000, 5), "a smaller file is the beginning of a larger one");
        assert_ne!(whole, made("d", 3_000_000, 6));
        let ones: u32 = whole.iter().map(|byte| byte.count_ones()).sum();
        let share = f64::from(ones) / (8.0 * whole.len() as f64);
        assert!((share - 0.5).abs() < 0.001, "half of all bits are set: {share}");
    }

    #[test]
    fn a_stopped_fill_and_a_file_that_is_there_are_errors() {
        let directory = tempfile::tempdir().expect("a directory");
        let job = Load { path: directory.path().join("a"), bytes: 1 << 20, seed: 1 };
        let failure = load(&job, &AtomicBool::new(true), &mut |_| {}).expect_err("stopped");
        assert_eq!(failure.kind, FailureKind::Interrupted);
        load(&job, &AtomicBool::new(false), &mut |_| {}).expect_err("the file is there already");
    }
}
