//! A shim over SQLite's own `unix` VFS that counts page I/O and, in direct mode, does it with O_DIRECT.
//!
//! The parent VFS does locks, shared memory, sizes and syncs. Only reads and writes of the main database file go
//! through a second descriptor opened with O_DIRECT, so that SQLite's page cache is the only cache of those pages. The
//! WAL stays buffered: it is a log, and its size is bounded by the checkpoint knob. See <https://sqlite.org/vfs.html>.
//!
//! POSIX drops a process's locks on a file when *any* descriptor of it is closed. Therefore the direct descriptor is
//! closed only together with the database file, and a process opens a database through only one connection.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use rusqlite::ffi;

use super::aligned_file::{AlignedFile, Transfer};
use crate::counter::Counter;

/// How the shim reads and writes the database file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoMode {
    /// O_DIRECT with this logical block size: the kernel keeps no copy of a page.
    Direct {
        /// Alignment in bytes that the file system demands of a direct I/O.
        block_bytes: usize,
    },
    /// Ordinary reads and writes through the kernel's page cache.
    Buffered,
}

/// Counters of the VFS, cumulative since its registration. Only the connection's thread writes them.
#[derive(Debug, Default)]
pub struct VfsCounters {
    /// Whole-page reads of the database file.
    pub pages_read: Counter,
    /// Whole-page writes of the database file.
    pub pages_written: Counter,
    /// Reads of the database file that are not whole pages (its header).
    pub db_other_reads: Counter,
    /// Bytes that the device reads for the database file. They include the bytes that alignment adds, and the blocks
    /// that are read before a part of them is written.
    pub db_read_bytes: Counter,
    /// Bytes that the device writes for the database file, including the bytes that alignment adds.
    pub db_write_bytes: Counter,
    /// Time that SQLite waited for reads of the database file, in nanoseconds.
    pub db_read_ns: Counter,
    /// Time that SQLite waited for writes of the database file, in nanoseconds.
    pub db_write_ns: Counter,
    /// Calls of sync on the database file.
    pub db_syncs: Counter,
    /// Reads of the write-ahead log.
    pub wal_reads: Counter,
    /// Bytes read from the write-ahead log.
    pub wal_read_bytes: Counter,
    /// Writes to the write-ahead log.
    pub wal_writes: Counter,
    /// Bytes written to the write-ahead log.
    pub wal_write_bytes: Counter,
    /// Calls of sync on the write-ahead log.
    pub wal_syncs: Counter,
    /// Whole-page reads through a bounce buffer, because SQLite's buffer was not aligned.
    pub bounce_reads: Counter,
    /// Whole-page writes through a bounce buffer, because SQLite's buffer was not aligned.
    pub bounce_writes: Counter,
}

/// The state that the callbacks share with the owner of the shim.
struct Shared {
    parent: *mut ffi::sqlite3_vfs,
    io_mode: IoMode,
    page_bytes: u64,
    counters: Arc<VfsCounters>,
    last_error: Mutex<Option<String>>,
}

/// A registered shim. It lives until the process ends, because SQLite may hold it that long.
#[derive(Clone)]
pub struct Vfs {
    name: &'static CStr,
    shared: &'static Shared,
}

// SAFETY: the shared part is written through atomics and a mutex; the parent VFS is SQLite's static table.
unsafe impl Send for Vfs {}
// SAFETY: atomics and a mutex guard everything that threads share and write.
unsafe impl Sync for Vfs {}

impl Vfs {
    /// Registers a new shim under `name` over the platform's `unix` VFS.
    ///
    /// # Errors
    /// When SQLite has no `unix` VFS or refuses the registration.
    pub fn register(name: &str, io_mode: IoMode, page_bytes: u32) -> io::Result<Vfs> {
        // SAFETY: the name is a static C string; the call initialises SQLite if need be.
        let parent = unsafe { ffi::sqlite3_vfs_find(c"unix".as_ptr()) };
        if parent.is_null() {
            return Err(io::Error::other("this SQLite has no \"unix\" VFS"));
        }
        let name: &'static CStr = Box::leak(CString::new(name)?.into_boxed_c_str());
        let shared: &'static Shared = Box::leak(Box::new(Shared {
            parent,
            io_mode,
            page_bytes: u64::from(page_bytes),
            counters: Arc::default(),
            last_error: Mutex::new(None),
        }));
        // SAFETY: parent is a valid VFS; the copy keeps its entry points except the four set here, and adds the shim's
        // size.
        let vfs = unsafe {
            let mut vfs = *parent;
            vfs.szOsFile = size_of::<ShimFile>() as c_int + (*parent).szOsFile;
            vfs.pNext = std::ptr::null_mut();
            vfs.zName = name.as_ptr();
            vfs.pAppData = std::ptr::from_ref(shared).cast_mut().cast();
            vfs.xOpen = Some(open);
            vfs.xDelete = Some(delete);
            vfs.xAccess = Some(access);
            vfs.xFullPathname = Some(full_pathname);
            vfs
        };
        // SAFETY: the leaked table lives as long as the process, as SQLite requires.
        let code = unsafe { ffi::sqlite3_vfs_register(Box::leak(Box::new(vfs)), 0) };
        if code != ffi::SQLITE_OK {
            return Err(io::Error::other(format!("sqlite3_vfs_register answered {code}")));
        }
        Ok(Vfs { name, shared })
    }

    /// Returns the shim's name, with which a caller opens a connection.
    pub fn name(&self) -> &'static CStr {
        self.name
    }

    /// Returns the shim's counters.
    pub fn counters(&self) -> Arc<VfsCounters> {
        Arc::clone(&self.shared.counters)
    }

    /// Returns the operating system's message for the last I/O error, which SQLite reports only as "disk I/O error".
    pub fn take_last_error(&self) -> Option<String> {
        self.shared.last_error.lock().ok().and_then(|mut error| error.take())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Database,
    Wal,
    Other,
}

struct FileState {
    shared: &'static Shared,
    kind: Kind,
    direct: Option<AlignedFile<std::fs::File>>,
}

/// The memory that SQLite allocates for a file: the shim's part, then the parent's file.
#[repr(C)]
struct ShimFile {
    base: ffi::sqlite3_file,
    state: *mut FileState,
}

unsafe fn parent_file(file: *mut ffi::sqlite3_file) -> *mut ffi::sqlite3_file {
    // SAFETY: xOpen gets szOsFile bytes, in which the parent's file follows ShimFile.
    unsafe { file.cast::<u8>().add(size_of::<ShimFile>()).cast() }
}

unsafe fn state_of<'a>(file: *mut ffi::sqlite3_file) -> &'a mut FileState {
    // SAFETY: SQLite calls file methods only on files that xOpen has opened, one call at a time per file.
    unsafe { &mut *(*file.cast::<ShimFile>()).state }
}

unsafe fn shared_of(vfs: *mut ffi::sqlite3_vfs) -> &'static Shared {
    // SAFETY: pAppData was set to a leaked Shared in register().
    unsafe { &*(*vfs).pAppData.cast::<Shared>() }
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    // Version 2 has shared memory, which WAL needs. It has no memory mapping, through which SQLite would read pages
    // past its page cache.
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

/// Calls the parent file's method. If the parent lacks the method, which would be a bug in SQLite's build, returns an
/// I/O error.
macro_rules! parent_call {
    ($file:expr, $method:ident $(, $argument:expr)*) => {{
        // SAFETY: the parent file was opened by its own xOpen and stays open until our xClose; SQLite's own arguments
        // are handed on unchanged.
        unsafe {
            let parent = parent_file($file);
            match (*(*parent).pMethods).$method {
                Some(method) => method(parent $(, $argument)*),
                None => ffi::SQLITE_IOERR,
            }
        }
    }};
}

unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite calls this with the VFS that register() has registered.
    let shared = unsafe { shared_of(vfs) };
    // SAFETY: the file is szOsFile bytes; with a null pMethods SQLite does not call xClose.
    unsafe { (*file).pMethods = std::ptr::null() };
    // SAFETY: the parent's xOpen gets its own part of the allocation and the same arguments.
    let code = unsafe {
        match (*shared.parent).xOpen {
            Some(parent_open) => parent_open(shared.parent, name, parent_file(file), flags, out_flags),
            None => ffi::SQLITE_CANTOPEN,
        }
    };
    if code != ffi::SQLITE_OK {
        return code;
    }
    let kind = match flags {
        f if f & ffi::SQLITE_OPEN_MAIN_DB != 0 => Kind::Database,
        f if f & ffi::SQLITE_OPEN_WAL != 0 => Kind::Wal,
        _ => Kind::Other,
    };
    let mut direct = None;
    if let (Kind::Database, IoMode::Direct { block_bytes }, false) = (kind, shared.io_mode, name.is_null()) {
        // SAFETY: SQLite gives a NUL-terminated path for a main database.
        let path = unsafe { CStr::from_ptr(name) };
        match open_direct(path) {
            Ok(raw) => direct = Some(AlignedFile::new(raw, block_bytes)),
            Err(error) => {
                remember(shared, "open with O_DIRECT", 0, &error);
                // SAFETY: this function has opened the parent file, and may close it again.
                parent_call!(file, xClose);
                return ffi::SQLITE_CANTOPEN;
            }
        }
    }
    let state = Box::into_raw(Box::new(FileState { shared, kind, direct }));
    // SAFETY: this writes only the shim's part of the allocation.
    unsafe {
        (*file.cast::<ShimFile>()).state = state;
        (*file).pMethods = &raw const METHODS;
    }
    ffi::SQLITE_OK
}

fn open_direct(path: &CStr) -> io::Result<std::fs::File> {
    use std::os::unix::ffi::OsStrExt;
    let path = Path::new(std::ffi::OsStr::from_bytes(path.to_bytes()));
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).open(path)
}

/// Keeps the system's error, with the action and the offset, for the message of the run's failure.
fn remember(shared: &Shared, action: &str, offset: i64, error: &io::Error) {
    if let Ok(mut last) = shared.last_error.lock() {
        *last = Some(format!("{action} at byte {offset}: {error}"));
    }
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    let code = parent_call!(file, xClose);
    // SAFETY: the state was made by xOpen and is not used after xClose. Dropping it closes the direct descriptor
    // after the parent's, so that no lock is lost while the connection still counts on it.
    drop(unsafe { Box::from_raw((*file.cast::<ShimFile>()).state) });
    code
}

unsafe extern "C" fn read(file: *mut ffi::sqlite3_file, out: *mut c_void, bytes: c_int, offset: i64) -> c_int {
    // SAFETY: SQLite calls this only on a file that xOpen has opened (see state_of).
    let state = unsafe { state_of(file) };
    let counters = &state.shared.counters;
    match state.kind {
        Kind::Other => parent_call!(file, xRead, out, bytes, offset),
        Kind::Wal => {
            counters.wal_reads.add(1);
            counters.wal_read_bytes.add(bytes as u64);
            parent_call!(file, xRead, out, bytes, offset)
        }
        Kind::Database => {
            let started = Instant::now();
            let (code, transfer) = match &mut state.direct {
                // SAFETY: SQLite gives a buffer of `bytes` writable bytes.
                Some(direct) => unsafe { read_direct(state.shared, direct, out, bytes, offset) },
                None => {
                    let code = parent_call!(file, xRead, out, bytes, offset);
                    (code, Transfer { device_read_bytes: bytes as u64, ..Transfer::default() })
                }
            };
            counters.db_read_ns.add(started.elapsed().as_nanos() as u64);
            counters.db_read_bytes.add(transfer.device_read_bytes);
            if is_whole_page(state.shared, bytes, offset) {
                counters.pages_read.add(1);
                counters.bounce_reads.add(u64::from(transfer.bounced));
            } else {
                counters.db_other_reads.add(1);
            }
            code
        }
    }
}

fn is_whole_page(shared: &Shared, bytes: c_int, offset: i64) -> bool {
    bytes as u64 == shared.page_bytes && (offset as u64).is_multiple_of(shared.page_bytes)
}

unsafe fn read_direct(
    shared: &Shared,
    direct: &mut AlignedFile<std::fs::File>,
    out: *mut c_void,
    bytes: c_int,
    offset: i64,
) -> (c_int, Transfer) {
    // SAFETY: the caller gives a buffer of `bytes` bytes; the kernel or a copy writes it before anyone reads it.
    let buffer = unsafe { std::slice::from_raw_parts_mut(out.cast::<u8>(), bytes as usize) };
    match direct.read(buffer, offset as u64) {
        Ok(transfer) if transfer.filled == buffer.len() => (ffi::SQLITE_OK, transfer),
        Ok(transfer) => {
            // SQLite requires zeros in the part of the buffer that was not read.
            buffer[transfer.filled..].fill(0);
            (ffi::SQLITE_IOERR_SHORT_READ, transfer)
        }
        Err(error) => {
            remember(shared, "read of the database file", offset, &error);
            (ffi::SQLITE_IOERR_READ, Transfer::default())
        }
    }
}

unsafe extern "C" fn write(file: *mut ffi::sqlite3_file, data: *const c_void, bytes: c_int, offset: i64) -> c_int {
    // SAFETY: SQLite calls this only on a file that xOpen has opened (see state_of).
    let state = unsafe { state_of(file) };
    let counters = &state.shared.counters;
    match state.kind {
        Kind::Other => parent_call!(file, xWrite, data, bytes, offset),
        Kind::Wal => {
            counters.wal_writes.add(1);
            counters.wal_write_bytes.add(bytes as u64);
            parent_call!(file, xWrite, data, bytes, offset)
        }
        Kind::Database => {
            let started = Instant::now();
            let (code, transfer) = match &mut state.direct {
                // SAFETY: SQLite gives `bytes` readable bytes.
                Some(direct) => unsafe { write_direct(state.shared, direct, data, bytes, offset) },
                None => {
                    let code = parent_call!(file, xWrite, data, bytes, offset);
                    (code, Transfer { device_write_bytes: bytes as u64, ..Transfer::default() })
                }
            };
            counters.db_write_ns.add(started.elapsed().as_nanos() as u64);
            counters.db_write_bytes.add(transfer.device_write_bytes);
            counters.db_read_bytes.add(transfer.device_read_bytes);
            if is_whole_page(state.shared, bytes, offset) {
                counters.pages_written.add(1);
                counters.bounce_writes.add(u64::from(transfer.bounced));
            }
            code
        }
    }
}

unsafe fn write_direct(
    shared: &Shared,
    direct: &mut AlignedFile<std::fs::File>,
    data: *const c_void,
    bytes: c_int,
    offset: i64,
) -> (c_int, Transfer) {
    // SAFETY: the caller gives a buffer of `bytes` initialised bytes.
    let buffer = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), bytes as usize) };
    match direct.write(buffer, offset as u64) {
        Ok(transfer) => (ffi::SQLITE_OK, transfer),
        Err(error) => {
            remember(shared, "write of the database file", offset, &error);
            let full = matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT));
            (if full { ffi::SQLITE_FULL } else { ffi::SQLITE_IOERR_WRITE }, Transfer::default())
        }
    }
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: SQLite calls this only on a file that xOpen has opened (see state_of).
    let state = unsafe { state_of(file) };
    match state.kind {
        Kind::Database => state.shared.counters.db_syncs.add(1),
        Kind::Wal => state.shared.counters.wal_syncs.add(1),
        Kind::Other => {}
    }
    parent_call!(file, xSync, flags)
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, bytes: i64) -> c_int {
    parent_call!(file, xTruncate, bytes)
}

unsafe extern "C" fn file_size(file: *mut ffi::sqlite3_file, bytes: *mut i64) -> c_int {
    parent_call!(file, xFileSize, bytes)
}

unsafe extern "C" fn lock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    parent_call!(file, xLock, level)
}

unsafe extern "C" fn unlock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    parent_call!(file, xUnlock, level)
}

unsafe extern "C" fn check_reserved_lock(file: *mut ffi::sqlite3_file, out: *mut c_int) -> c_int {
    parent_call!(file, xCheckReservedLock, out)
}

unsafe extern "C" fn file_control(file: *mut ffi::sqlite3_file, operation: c_int, argument: *mut c_void) -> c_int {
    parent_call!(file, xFileControl, operation, argument)
}

unsafe extern "C" fn sector_size(file: *mut ffi::sqlite3_file) -> c_int {
    parent_call!(file, xSectorSize)
}

unsafe extern "C" fn device_characteristics(file: *mut ffi::sqlite3_file) -> c_int {
    // Without this bit SQLite reads overflow pages through the pool. With the bit it reads them directly from the file
    // whenever no page is dirty (sqlite3PagerDirectReadOk). At pages of 512 B four of five reads were such reads, which
    // no pool saw.
    parent_call!(file, xDeviceCharacteristics) & !ffi::SQLITE_IOCAP_SUBPAGE_READ
}

unsafe extern "C" fn shm_map(
    file: *mut ffi::sqlite3_file,
    region: c_int,
    bytes: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    parent_call!(file, xShmMap, region, bytes, extend, out)
}

unsafe extern "C" fn shm_lock(file: *mut ffi::sqlite3_file, offset: c_int, count: c_int, flags: c_int) -> c_int {
    parent_call!(file, xShmLock, offset, count, flags)
}

unsafe extern "C" fn shm_barrier(file: *mut ffi::sqlite3_file) {
    // SAFETY: the parent file is open.
    unsafe {
        let parent = parent_file(file);
        if let Some(barrier) = (*(*parent).pMethods).xShmBarrier {
            barrier(parent);
        }
    }
}

unsafe extern "C" fn shm_unmap(file: *mut ffi::sqlite3_file, delete: c_int) -> c_int {
    parent_call!(file, xShmUnmap, delete)
}

unsafe extern "C" fn delete(vfs: *mut ffi::sqlite3_vfs, name: *const c_char, sync_directory: c_int) -> c_int {
    // SAFETY: the call goes to the parent with the parent's own VFS and unchanged arguments.
    unsafe {
        let parent = shared_of(vfs).parent;
        (*parent).xDelete.map_or(ffi::SQLITE_IOERR_DELETE, |method| method(parent, name, sync_directory))
    }
}

unsafe extern "C" fn access(vfs: *mut ffi::sqlite3_vfs, name: *const c_char, flags: c_int, out: *mut c_int) -> c_int {
    // SAFETY: the call goes to the parent with the parent's own VFS and unchanged arguments.
    unsafe {
        let parent = shared_of(vfs).parent;
        (*parent).xAccess.map_or(ffi::SQLITE_IOERR_ACCESS, |method| method(parent, name, flags, out))
    }
}

unsafe extern "C" fn full_pathname(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    bytes: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: the call goes to the parent with the parent's own VFS and unchanged arguments.
    unsafe {
        let parent = shared_of(vfs).parent;
        (*parent).xFullPathname.map_or(ffi::SQLITE_CANTOPEN, |method| method(parent, name, bytes, out))
    }
}
