//! Block-aligned reads and writes over a file opened with O_DIRECT.
//!
//! The kernel needs offset, length and address of a direct I/O aligned to the device's logical block. Aligned requests
//! transfer data directly between the caller's memory and the device. Other requests use a bounce buffer, and their
//! result says so. This file continues after short transfers and EINTR, so that callers see whole transfers or errors.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The four file operations that direct I/O needs. Tests substitute files that misbehave.
pub trait RawFile {
    /// Reads at `offset`; the transfer may be short.
    ///
    /// # Errors
    /// The system call's error.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes at `offset`; the transfer may be short.
    ///
    /// # Errors
    /// The system call's error.
    fn write_at(&self, buffer: &[u8], offset: u64) -> io::Result<usize>;
    /// Returns the length of the file in bytes.
    ///
    /// # Errors
    /// The system call's error.
    fn length_bytes(&self) -> io::Result<u64>;
    /// Cuts or extends the file to `bytes` bytes.
    ///
    /// # Errors
    /// The system call's error.
    fn set_len(&self, bytes: u64) -> io::Result<()>;
}

impl RawFile for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, buffer, offset)
    }
    fn write_at(&self, buffer: &[u8], offset: u64) -> io::Result<usize> {
        FileExt::write_at(self, buffer, offset)
    }
    fn length_bytes(&self) -> io::Result<u64> {
        self.metadata().map(|metadata| metadata.len())
    }
    fn set_len(&self, bytes: u64) -> io::Result<()> {
        File::set_len(self, bytes)
    }
}

/// The cost of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfer {
    /// Bytes of the request that were transferred; fewer than asked only at the end of the file.
    pub filled: usize,
    /// Bytes read from the device, with those that alignment and partly written blocks add.
    pub device_read_bytes: u64,
    /// Bytes written to the device, with those that alignment adds.
    pub device_write_bytes: u64,
    /// True when the data passed through the bounce buffer.
    pub bounced: bool,
}

/// Zeroed memory at a chosen alignment. Dropping it frees it.
pub struct AlignedBuffer {
    start: *mut u8,
    layout: Layout,
}

impl AlignedBuffer {
    /// Allocates `bytes` bytes, at least one, at an address that is a multiple of `alignment`, a power of two.
    ///
    /// # Panics
    /// When `alignment` is not a power of two.
    pub fn new(bytes: usize, alignment: usize) -> Self {
        #[expect(clippy::expect_used, reason = "documented panic on a caller's mistake")]
        let layout = Layout::from_size_align(bytes.max(1), alignment).expect("alignment is a power of two");
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            handle_alloc_error(layout);
        }
        AlignedBuffer { start, layout }
    }

    /// Returns the buffer's memory.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: start points to layout.size() initialised bytes that we own exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.layout.size()) }
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        // SAFETY: new() allocated the memory with this layout.
        unsafe { dealloc(self.start, self.layout) }
    }
}

/// A file whose every transfer is aligned to `block_bytes`.
pub struct AlignedFile<F: RawFile> {
    raw: F,
    block_bytes: usize,
    bounce: AlignedBuffer,
    bounce_bytes: usize,
}

impl<F: RawFile> AlignedFile<F> {
    /// Wraps a file opened with O_DIRECT on a device of `block_bytes` logical blocks.
    pub fn new(raw: F, block_bytes: usize) -> Self {
        // Room for two pages of 64 KiB, and for the two blocks at their ends that they cover only in part.
        let bounce_bytes = 2 * 65_536 + 2 * block_bytes;
        AlignedFile { raw, block_bytes, bounce: AlignedBuffer::new(bounce_bytes, block_bytes.max(4096)), bounce_bytes }
    }

    fn is_aligned(&self, address: usize, length: usize, offset: u64) -> bool {
        let block = self.block_bytes;
        address.is_multiple_of(block) && length.is_multiple_of(block) && offset.is_multiple_of(block as u64)
    }

    fn covering(&self, offset: u64, length: usize) -> (u64, usize) {
        let block = self.block_bytes as u64;
        let start = offset / block * block;
        let end = (offset + length as u64).div_ceil(block) * block;
        (start, (end - start) as usize)
    }

    /// Reads `buffer.len()` bytes at `offset`.
    ///
    /// # Errors
    /// The system call's error. If the file ends before the requested bytes do, that is not an error: `filled` is
    /// smaller.
    pub fn read(&mut self, buffer: &mut [u8], offset: u64) -> io::Result<Transfer> {
        if self.is_aligned(buffer.as_ptr() as usize, buffer.len(), offset) {
            let filled = read_whole(&self.raw, buffer, offset, self.block_bytes)?;
            return Ok(Transfer { filled, device_read_bytes: filled as u64, ..Transfer::default() });
        }
        let mut transfer = Transfer { bounced: true, ..Transfer::default() };
        while transfer.filled < buffer.len() {
            let at = offset + transfer.filled as u64;
            let wanted = (buffer.len() - transfer.filled).min(self.bounce_bytes - 2 * self.block_bytes);
            let (start, span) = self.covering(at, wanted);
            let blocks = &mut self.bounce.as_mut_slice()[..span];
            let got = read_whole(&self.raw, blocks, start, self.block_bytes)?;
            transfer.device_read_bytes += got as u64;
            let skip = (at - start) as usize;
            let usable = got.saturating_sub(skip).min(wanted);
            buffer[transfer.filled..transfer.filled + usable].copy_from_slice(&blocks[skip..skip + usable]);
            transfer.filled += usable;
            if usable < wanted {
                break;
            }
        }
        Ok(transfer)
    }

    /// Writes all of `buffer` at `offset`. First reads the blocks that the buffer covers only in part.
    ///
    /// # Errors
    /// The system call's error; `WriteZero` when the device accepts no whole block in nine writes. Bytes written before
    /// the error stay written, as with any torn write.
    pub fn write(&mut self, buffer: &[u8], offset: u64) -> io::Result<Transfer> {
        if self.is_aligned(buffer.as_ptr() as usize, buffer.len(), offset) {
            write_whole(&self.raw, buffer, offset, self.block_bytes)?;
            let written = buffer.len();
            return Ok(Transfer { filled: written, device_write_bytes: written as u64, ..Transfer::default() });
        }
        let mut transfer = Transfer { bounced: true, ..Transfer::default() };
        while transfer.filled < buffer.len() {
            let at = offset + transfer.filled as u64;
            let chunk = (buffer.len() - transfer.filled).min(self.bounce_bytes - 2 * self.block_bytes);
            self.write_bounced(&buffer[transfer.filled..transfer.filled + chunk], at, &mut transfer)?;
            transfer.filled += chunk;
        }
        Ok(transfer)
    }

    fn write_bounced(&mut self, chunk: &[u8], at: u64, transfer: &mut Transfer) -> io::Result<()> {
        let (start, span) = self.covering(at, chunk.len());
        let skip = (at - start) as usize;
        let partial = skip != 0 || span != chunk.len();
        // Only a write that ends inside a block can make the file longer than requested.
        let length_after = if partial { Some(self.raw.length_bytes()?.max(at + chunk.len() as u64)) } else { None };
        let blocks = &mut self.bounce.as_mut_slice()[..span];
        if partial {
            let got = read_whole(&self.raw, blocks, start, self.block_bytes)?;
            blocks[got..].fill(0);
            transfer.device_read_bytes += got as u64;
        }
        blocks[skip..skip + chunk.len()].copy_from_slice(chunk);
        write_whole(&self.raw, blocks, start, self.block_bytes)?;
        transfer.device_write_bytes += span as u64;
        if let Some(length) = length_after.filter(|&length| length < start + span as u64) {
            self.raw.set_len(length)?;
        }
        Ok(())
    }
}

/// Reads until the buffer is full or the file ends. A read that returns a number of bytes that is not a multiple of a
/// block has reached the end.
fn read_whole(raw: &impl RawFile, buffer: &mut [u8], offset: u64, block_bytes: usize) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match raw.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => {
                filled += count;
                if !count.is_multiple_of(block_bytes) {
                    break;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Writes the whole buffer. If a write ends inside a block, writes this block again.
fn write_whole(raw: &impl RawFile, buffer: &[u8], offset: u64, block_bytes: usize) -> io::Result<()> {
    let mut done = 0;
    let mut stalled = 0;
    while done < buffer.len() {
        match raw.write_at(&buffer[done..], offset + done as u64) {
            Ok(count) => {
                let whole = count / block_bytes * block_bytes;
                // Count writes without a whole block: a device that never completes a block would make this loop
                // endless.
                stalled = if whole == 0 { stalled + 1 } else { 0 };
                if stalled > 8 {
                    return Err(io::Error::new(io::ErrorKind::WriteZero, "the device accepts no whole block"));
                }
                done += whole;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::{Cell, RefCell};

    const BLOCK: usize = 512;

    /// A file in memory that demands alignment as O_DIRECT does, and in which calls may be short, interrupted or fail.
    struct Unreliable {
        bytes: RefCell<Vec<u8>>,
        calls: Cell<u32>,
        /// The outcomes of the calls, one after the other; the script repeats.
        script: Vec<u8>,
    }

    impl Unreliable {
        fn step(&self) -> u8 {
            let call = self.calls.get();
            self.calls.set(call + 1);
            if self.script.is_empty() { 0 } else { self.script[call as usize % self.script.len()] }
        }
        fn demand_alignment(address: *const u8, length: usize, offset: u64) -> io::Result<()> {
            let aligned = (address as usize).is_multiple_of(BLOCK)
                && length.is_multiple_of(BLOCK)
                && offset.is_multiple_of(BLOCK as u64);
            if aligned { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EINVAL)) }
        }
    }

    impl RawFile for Unreliable {
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
            Self::demand_alignment(buffer.as_ptr(), buffer.len(), offset)?;
            let bytes = self.bytes.borrow();
            let limit = match self.step() {
                1 => return Err(io::ErrorKind::Interrupted.into()),
                2 => BLOCK,
                _ => buffer.len(),
            };
            let start = (offset as usize).min(bytes.len());
            let count = limit.min(buffer.len()).min(bytes.len() - start);
            buffer[..count].copy_from_slice(&bytes[start..start + count]);
            Ok(count)
        }
        fn write_at(&self, buffer: &[u8], offset: u64) -> io::Result<usize> {
            Self::demand_alignment(buffer.as_ptr(), buffer.len(), offset)?;
            let count = match self.step() {
                1 => return Err(io::ErrorKind::Interrupted.into()),
                2 => BLOCK,
                3 => BLOCK / 2, // a torn block
                4 => return Err(io::Error::from_raw_os_error(libc::ENOSPC)),
                _ => buffer.len(),
            };
            let count = count.min(buffer.len());
            let mut bytes = self.bytes.borrow_mut();
            let end = offset as usize + count;
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[offset as usize..end].copy_from_slice(&buffer[..count]);
            Ok(count)
        }
        fn length_bytes(&self) -> io::Result<u64> {
            Ok(self.bytes.borrow().len() as u64)
        }
        fn set_len(&self, bytes: u64) -> io::Result<()> {
            self.bytes.borrow_mut().resize(bytes as usize, 0);
            Ok(())
        }
    }

    fn unreliable(bytes: Vec<u8>, script: Vec<u8>) -> AlignedFile<Unreliable> {
        AlignedFile::new(Unreliable { bytes: RefCell::new(bytes), calls: Cell::new(0), script }, BLOCK)
    }

    #[test]
    fn a_part_of_a_block_as_large_as_a_page_can_be_is_read_and_written() {
        let plain: Vec<u8> = (0..3 * 65_536).map(|at| (at % 251) as u8).collect();
        let raw = Unreliable { bytes: RefCell::new(plain.clone()), calls: Cell::new(0), script: vec![] };
        let mut file = AlignedFile::new(raw, 65_536);
        let mut buffer = vec![0; 65_536];
        assert_eq!(file.read(&mut buffer, 100).expect("it is there").filled, 65_536);
        assert_eq!(buffer, plain[100..100 + 65_536]);
        file.write(&[7; 100], 65_500).expect("it can be written");
        assert!(file.raw.bytes.borrow()[65_500..65_600].iter().all(|&byte| byte == 7));
        assert_eq!(file.raw.bytes.borrow()[..65_500], plain[..65_500]);
    }

    proptest! {
        #[test]
        fn any_mix_of_reads_and_writes_equals_an_ordinary_file(
            script in proptest::collection::vec(0u8..4, 0..7),
            operations in proptest::collection::vec((any::<bool>(), 0usize..6000, 1usize..5000, any::<u8>(), 0usize..3), 1..40),
        ) {
            // Replace a script of only interruptions or torn blocks: with it no call would make progress, as calls on
            // real devices do.
            let script = if script.iter().all(|&step| step == 1 || step == 3) { vec![] } else { script };
            let mut plain: Vec<u8> = vec![];
            let mut file = unreliable(vec![], script);
            let mut memory = AlignedBuffer::new(3 * 8192, 4096);
            for (is_write, offset, length, fill, shift) in operations {
                // shift 0: aligned request; 1: unaligned address; 2: everything as drawn.
                let (offset, length) = if shift == 2 { (offset, length) } else { (offset / BLOCK * BLOCK, length.div_ceil(BLOCK) * BLOCK) };
                let start = if shift == 0 { 0 } else { 8 };
                let buffer = &mut memory.as_mut_slice()[start..start + length];
                if is_write {
                    buffer.fill(fill);
                    file.write(buffer, offset as u64).expect("no error is scripted");
                    if plain.len() < offset + length {
                        plain.resize(offset + length, 0);
                    }
                    plain[offset..offset + length].fill(fill);
                    prop_assert_eq!(&*file.raw.bytes.borrow(), &plain);
                } else {
                    buffer.fill(0xEE);
                    let transfer = file.read(buffer, offset as u64).expect("no error is scripted");
                    let expected = &plain[offset.min(plain.len())..(offset + length).min(plain.len())];
                    prop_assert_eq!(transfer.filled, expected.len());
                    prop_assert_eq!(&buffer[..transfer.filled], expected);
                    prop_assert_eq!(transfer.bounced, shift != 0);
                }
            }
        }
    }

    #[test]
    fn a_full_disk_is_reported_as_such() {
        let mut file = unreliable(vec![], vec![4]);
        let mut memory = AlignedBuffer::new(4096, 4096);
        let error = file.write(memory.as_mut_slice(), 0).expect_err("the script says ENOSPC");
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
    }

    #[test]
    fn a_device_that_completes_no_block_is_an_error_and_not_a_loop() {
        let mut file = unreliable(vec![], vec![3]);
        let mut memory = AlignedBuffer::new(4096, 4096);
        let error = file.write(memory.as_mut_slice(), 0).expect_err("no block is ever completed");
        assert_eq!(error.kind(), io::ErrorKind::WriteZero);
    }

    #[test]
    fn an_aligned_read_is_not_copied() {
        let mut file = unreliable(vec![7; 8192], vec![]);
        let mut memory = AlignedBuffer::new(4096, 4096);
        let transfer = file.read(memory.as_mut_slice(), 4096).expect("reads");
        assert_eq!(transfer, Transfer { filled: 4096, device_read_bytes: 4096, ..Transfer::default() });
    }
}
