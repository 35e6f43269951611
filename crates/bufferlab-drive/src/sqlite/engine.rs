//! An open SQLite database, and the engine's counters. Opening applies the settings; [`Engine::actual`] reads them
//! back.
//!
//! A process opens one connection only: the page cache's configuration is global, and closing a second descriptor of
//! the file would drop POSIX locks.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bufferlab_model::PageSize;
use rusqlite::{Connection, OpenFlags, ffi};
use serde_json::json;

use super::direct_io;
use super::interrupt::Interruptible;
use super::knobs::{IoChoice, LockingMode, Pcache, SqliteKnobs, Synchronous};
use super::pcache;
use super::pool::PoolCounters;
use super::vfs::{IoMode, Vfs, VfsCounters};
use crate::failure::{DEVICE_ERROR_HINT, FULL_DISK_HINT, Failure, FailureKind, RELOAD_HINT};
use crate::finished::Settings;

/// An open database, ready for transactions.
pub struct Engine {
    /// The connection. [`Engine::close`] closes it before it drops the other fields.
    connection: Connection,
    path: PathBuf,
    vfs: Vfs,
    vfs_counters: Arc<VfsCounters>,
    pool_counters: Option<Arc<PoolCounters>>,
    page_size: PageSize,
    pages_at_open: i64,
    page_gets: u64,
    demand_misses: u64,
    pages_spilled: u64,
}

impl Engine {
    /// Opens a loaded database with these settings.
    ///
    /// # Errors
    /// When the file is missing or is not a database of this page size, or the file system refuses or ignores O_DIRECT.
    /// Also when SQLite cannot open the file, refuses a setting, or was initialised before it got bufferlab's pool.
    pub fn open(path: &Path, knobs: &SqliteKnobs) -> Result<Self, Failure> {
        Self::open_recorded(path, knobs, |_| Ok(()))
    }

    /// Opens a loaded database; calls `record` with the counters of the VFS before SQLite makes the pool.
    ///
    /// # Errors
    /// The errors of [`Engine::open`] and of `record`.
    pub fn open_recorded(
        path: &Path,
        knobs: &SqliteKnobs,
        record: impl FnOnce(Arc<VfsCounters>) -> Result<(), Failure>,
    ) -> Result<Self, Failure> {
        check_header(path, knobs.page_size)?;
        let io_mode = io_mode(path, knobs)?;
        let pool_counters = match knobs.pcache {
            Pcache::Ours => Some(pcache::install().map_err(|code| {
                let what = format!("SQLite refused the page-cache plug-in (code {code}): it is already initialised");
                Failure::new(FailureKind::Internal, what, "sqlite3_config", "run each point in a separate process")
            })?),
            Pcache::Stock => None,
        };
        let name = format!("bufferlab-{}", path.display());
        let vfs = Vfs::register(&name, io_mode, knobs.page_size.bytes())
            .map_err(|error| Failure::from_io("registering the VFS", path, &error))?;
        record(vfs.counters())?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags_and_vfs(path, flags, vfs.name())
            .map_err(|error| sqlite_failure("opening the database", path, &vfs, &error))?;
        let mut engine = Engine {
            connection,
            path: path.to_owned(),
            vfs_counters: vfs.counters(),
            vfs,
            pool_counters,
            page_size: knobs.page_size,
            pages_at_open: 0,
            page_gets: 0,
            demand_misses: 0,
            pages_spilled: 0,
        };
        engine.apply(knobs).map_err(|error| engine.failure("applying the settings", &error))?;
        engine.pages_at_open = engine.pragma_int("page_count").map_err(|error| engine.failure("reading it", &error))?;
        Ok(engine)
    }

    fn apply(&self, knobs: &SqliteKnobs) -> rusqlite::Result<()> {
        // SQLite's own cache of size N holds N-1 pages once it recycles (pcache1FetchStage2), so ask for one page more.
        let cache_size = knobs.pool_frames() + u64::from(knobs.pcache == Pcache::Stock);
        let frame_bytes = u64::from(knobs.page_size.bytes()) + WAL_FRAME_HEADER_BYTES;
        let checkpoint_frames = (knobs.wal_autocheckpoint_bytes / frame_bytes).max(1);
        let synchronous = match knobs.synchronous {
            Synchronous::Off => 0,
            Synchronous::Normal => 1,
            Synchronous::Full => 2,
        };
        let locking_mode = match knobs.locking_mode {
            LockingMode::Normal => "normal",
            LockingMode::Exclusive => "exclusive",
        };
        let settings = [
            ("locking_mode", locking_mode.to_owned()),
            ("journal_mode", "wal".to_owned()),
            ("synchronous", synchronous.to_string()),
            ("cache_size", cache_size.to_string()),
            ("wal_autocheckpoint", checkpoint_frames.to_string()),
            // Pages may come only from the pool: no memory mapping, and sorters' tables stay in memory.
            ("mmap_size", "0".to_owned()),
            ("temp_store", "memory".to_owned()),
            ("foreign_keys", "off".to_owned()),
        ];
        for (name, value) in settings {
            // Accept an answer with a row or without one: some of these pragmas return a row, others do not.
            self.connection.pragma_update_and_check(None, name, value, |_| Ok(())).or_else(|error| match error {
                rusqlite::Error::QueryReturnedNoRows => Ok(()),
                other => Err(other),
            })?;
        }
        Ok(())
    }

    /// Returns every setting as SQLite reports it now, under the experiment's names.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn actual(&self, knobs: &SqliteKnobs) -> Result<Settings, Failure> {
        self.read_back(knobs).map_err(|error| self.failure("reading the settings back", &error))
    }

    fn read_back(&self, knobs: &SqliteKnobs) -> rusqlite::Result<Settings> {
        let page_bytes = self.pragma_int("page_size")?;
        let frames = self.pragma_int("cache_size")? - i64::from(knobs.pcache == Pcache::Stock);
        let frame_bytes = page_bytes + WAL_FRAME_HEADER_BYTES as i64;
        let synchronous = match self.pragma_int("synchronous")? {
            0 => "off",
            1 => "normal",
            _ => "full",
        };
        let word = |name| self.connection.pragma_query_value(None, name, |row| row.get::<_, String>(0));
        Ok(BTreeMap::from([
            ("page_size_bytes", json!(page_bytes)),
            ("pool_size_bytes", json!(frames * page_bytes)),
            ("pool_frames", json!(frames)),
            ("io_mode", json!(knobs.io_mode)),
            ("pcache", json!(knobs.pcache)),
            ("synchronous", json!(synchronous)),
            ("wal_autocheckpoint_bytes", json!(self.pragma_int("wal_autocheckpoint")? * frame_bytes)),
            ("locking_mode", json!(word("locking_mode")?)),
            ("journal_mode", json!(word("journal_mode")?)),
            ("mmap_size_bytes", json!(self.pragma_int("mmap_size").unwrap_or(0))),
        ]))
    }

    fn pragma_int(&self, name: &str) -> rusqlite::Result<i64> {
        self.connection.pragma_query_value(None, name, |row| row.get(0))
    }

    /// Executes all statements of a script, which may take long. Returns false when `cancelled` was set before the end.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn execute_script_unless(&self, cancelled: &AtomicBool, sql: &str) -> Result<bool, Failure> {
        // SAFETY: the connection is open; the guard ends with this function.
        let _guard = unsafe { Interruptible::begin(self.handle(), cancelled) };
        match self.connection.execute_batch(sql) {
            Ok(()) => Ok(true),
            Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::OperationInterrupted) => Ok(false),
            Err(error) => Err(self.failure("executing a script", &error)),
        }
    }

    /// Returns the lines that EXPLAIN QUERY PLAN gives for a statement, in order.
    ///
    /// # Errors
    /// SQLite's error, also when SQLite cannot use an index that the statement forces.
    pub fn query_plan(&self, sql: &str) -> Result<Vec<String>, Failure> {
        let explain = || -> rusqlite::Result<Vec<String>> {
            let mut statement = self.connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}"))?;
            statement.query_map([], |row| row.get("detail"))?.collect()
        };
        explain().map_err(|error| self.failure("explaining a statement", &error))
    }

    /// Returns the connection's handle, for statements that are prepared over the C interface.
    pub fn handle(&self) -> *mut ffi::sqlite3 {
        // SAFETY: the handle is used only while this engine is alive (clients borrow it).
        unsafe { self.connection.handle() }
    }

    /// Returns the operating system's message for the last I/O error, which SQLite does not report; none without an
    /// error.
    pub fn take_io_error(&self) -> Option<String> {
        self.vfs.take_last_error()
    }

    /// Returns the path of the database.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn failure(&self, action: &str, error: &rusqlite::Error) -> Failure {
        sqlite_failure(action, &self.path, &self.vfs, error)
    }

    /// Returns the number of pages that the pool has read so far, which measures its filling and turnover.
    pub fn demand_misses(&mut self) -> u64 {
        self.collect_status();
        self.demand_misses
    }

    /// Returns the number of pages that the pool has dropped so far because their content was no longer valid. Returns
    /// zero for `SQLite`'s own pool, which does not count them.
    pub fn dropped_pages(&self) -> u64 {
        let left = |pool: &PoolCounters| {
            let stayed = pool.evictions.get() + pool.frames_used.get();
            pool.admissions.get().saturating_sub(stayed)
        };
        self.pool_counters.as_deref().map_or(0, left)
    }

    /// Adds SQLite's own counters to the totals. SQLite's counters have only 32 bits, so each read resets them to zero.
    fn collect_status(&mut self) {
        let hits = self.status_and_reset(ffi::SQLITE_DBSTATUS_CACHE_HIT);
        let misses = self.status_and_reset(ffi::SQLITE_DBSTATUS_CACHE_MISS);
        self.page_gets += hits + misses;
        self.demand_misses += misses;
        self.pages_spilled += self.status_and_reset(ffi::SQLITE_DBSTATUS_CACHE_SPILL);
    }

    fn status_and_reset(&self, operation: i32) -> u64 {
        let (mut current, mut highest) = (0, 0);
        // SAFETY: the connection is open, and only this thread uses it.
        unsafe { ffi::sqlite3_db_status(self.handle(), operation, &raw mut current, &raw mut highest, 1) };
        u64::from(current as u32)
    }

    /// Returns cumulative counters by their names in the table of metrics.
    pub fn counters(&mut self) -> Vec<(&'static str, u64)> {
        self.collect_status();
        let vfs = &self.vfs_counters;
        let pages = self.pragma_int("page_count").unwrap_or(self.pages_at_open);
        let mut counters = vec![
            ("page_gets", self.page_gets),
            ("demand_misses", self.demand_misses),
            ("pages_spilled", self.pages_spilled),
            ("pages_created", (pages - self.pages_at_open).max(0) as u64),
            ("pages_read", vfs.pages_read.get()),
            ("pages_written", vfs.pages_written.get()),
            ("db_other_reads", vfs.db_other_reads.get()),
            ("db_read_bytes", vfs.db_read_bytes.get()),
            ("db_write_bytes", vfs.db_write_bytes.get()),
            ("db_read_ns", vfs.db_read_ns.get()),
            ("db_write_ns", vfs.db_write_ns.get()),
            ("db_syncs", vfs.db_syncs.get()),
            ("wal_reads", vfs.wal_reads.get()),
            ("wal_read_bytes", vfs.wal_read_bytes.get()),
            ("wal_writes", vfs.wal_writes.get()),
            ("wal_write_bytes", vfs.wal_write_bytes.get()),
            ("wal_syncs", vfs.wal_syncs.get()),
            ("bounce_reads", vfs.bounce_reads.get()),
            ("bounce_writes", vfs.bounce_writes.get()),
        ];
        if let Some(pool) = &self.pool_counters {
            counters.extend([
                ("pool_fetches", pool.fetches.get()),
                ("pool_hits", pool.hits.get()),
                ("pool_admissions", pool.admissions.get()),
                ("pool_evictions", pool.evictions.get()),
                ("pool_recycled", pool.recycled.get()),
            ]);
        }
        counters
    }

    /// Returns the present values of gauges, by their names in the table of metrics.
    pub fn gauges(&self) -> Vec<(&'static str, u64)> {
        let pages = self.pragma_int("page_count").unwrap_or(0).max(0) as u64;
        let mut wal = self.path.clone().into_os_string();
        wal.push("-wal");
        let wal_bytes = std::fs::metadata(&wal).map_or(0, |metadata| metadata.len());
        let mut gauges = vec![("db_bytes", pages * u64::from(self.page_size.bytes())), ("wal_bytes", wal_bytes)];
        if let Some(pool) = &self.pool_counters {
            gauges.extend([
                ("pool_frames", pool.frames.get()),
                ("pool_frames_used", pool.frames_used.get()),
                ("pool_overflow_frames", pool.overflow_frames.get()),
            ]);
        }
        gauges
    }

    /// Closes the connection. SQLite then copies the WAL back into the database and removes it.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn close(self) -> Result<(), Failure> {
        let Engine { connection, path, vfs, .. } = self;
        connection.close().map_err(|(_, error)| sqlite_failure("closing the database", &path, &vfs, &error))
    }
}

/// Bytes before each page in the WAL (<https://sqlite.org/fileformat.html>, section 4.1).
const WAL_FRAME_HEADER_BYTES: u64 = 24;

fn sqlite_failure(action: &str, path: &Path, vfs: &Vfs, error: &rusqlite::Error) -> Failure {
    let cause = vfs.take_last_error().map(|cause| format!(" ({cause})")).unwrap_or_default();
    let what = format!("{action}: {error}{cause}");
    let place = path.display().to_string();
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DiskFull) => Failure::new(FailureKind::FullDisk, what, place, FULL_DISK_HINT),
        Some(rusqlite::ErrorCode::DatabaseCorrupt | rusqlite::ErrorCode::NotADatabase) => {
            Failure::new(FailureKind::Data, what, place, RELOAD_HINT)
        }
        Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked) => {
            Failure::new(FailureKind::Environment, what, place, "another program has this database open: close it")
        }
        _ => Failure::new(FailureKind::Io, what, place, DEVICE_ERROR_HINT),
    }
}

/// Checks that the file is a database with the given page size.
fn check_header(path: &Path, page_size: PageSize) -> Result<(), Failure> {
    let place = path.display().to_string();
    let mut header = [0u8; 100];
    let mut file = File::open(path).map_err(|error| Failure::from_io("opening the database", path, &error))?;
    if file.read_exact(&mut header).is_err() || &header[..16] != b"SQLite format 3\0" {
        return Err(Failure::new(FailureKind::Data, "this file is not a SQLite database", place, RELOAD_HINT));
    }
    // Offset 16: the page size, big-endian; 1 means 65,536 (file format, section 1.3.2).
    let stored = match u16::from_be_bytes([header[16], header[17]]) {
        1 => 65_536,
        bytes => u32::from(bytes),
    };
    if stored != page_size.bytes() {
        let what = format!("this database has pages of {stored} bytes, not {page_size}");
        return Err(Failure::new(FailureKind::Data, what, place, RELOAD_HINT));
    }
    Ok(())
}

fn io_mode(path: &Path, knobs: &SqliteKnobs) -> Result<IoMode, Failure> {
    if knobs.io_mode == IoChoice::Buffered {
        return Ok(IoMode::Buffered);
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let trial =
        direct_io::check(directory).map_err(|error| Failure::from_io("trying direct I/O", directory, &error))?;
    let place = format!("{} (file system {})", directory.display(), direct_io::filesystem_name(directory));
    if !trial.honoured {
        let what = format!("O_DIRECT does not work here: {}", trial.reason);
        let hint = "name a directory on a disk file system (ext4, XFS) with --data-dir, or use --set io_mode=buffered \
                    and read device figures with care";
        return Err(Failure::new(FailureKind::Environment, what, place, hint));
    }
    if (knobs.page_size.bytes() as usize) < trial.alignment_bytes {
        let what = format!(
            "pages of {} cannot be read with O_DIRECT: the device wants multiples of {} bytes",
            knobs.page_size, trial.alignment_bytes
        );
        let hint = "choose a page size of at least that, or --set io_mode=buffered";
        return Err(Failure::new(FailureKind::Usage, what, place, hint));
    }
    Ok(IoMode::Direct { block_bytes: trial.alignment_bytes })
}
