//! SQLite's page-cache plug-in interface (`sqlite3_pcache_methods2`) over [`Pool`].
//!
//! The configuration is global to the process and must precede SQLite's initialisation. This is one reason why each run
//! has its own worker process. Only the pool of the database file is *purgeable*. In-memory temporary databases get
//! separate pools with separate counters. See <https://sqlite.org/c3ref/pcache_methods2.html>.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::{Arc, OnceLock};

use rusqlite::ffi::{self, sqlite3_pcache, sqlite3_pcache_page};

use super::frames::Frame;
use super::page_trace::Holder;
use super::pool::{Create, Pool, PoolCounters};

static MAIN_COUNTERS: OnceLock<Arc<PoolCounters>> = OnceLock::new();
static RECORDER: OnceLock<Holder> = OnceLock::new();
static INSTALLED: OnceLock<Result<(), c_int>> = OnceLock::new();

/// Installs the pool as SQLite's page cache, once, and returns the counters of the database file's pool.
///
/// # Errors
/// SQLite's code, when SQLite was already initialised before the first call.
pub fn install() -> Result<Arc<PoolCounters>, c_int> {
    let counters = Arc::clone(MAIN_COUNTERS.get_or_init(Arc::default));
    INSTALLED.get_or_init(configure).map(|()| counters)
}

/// Makes the pool of the next database that this process opens report every access to this recorder.
pub fn record(recorder: Holder) {
    // Ignore a second recorder: a process opens one database for one run.
    let _only_the_first = RECORDER.set(recorder);
}

fn configure() -> Result<(), c_int> {
    let methods = ffi::sqlite3_pcache_methods2 {
        iVersion: 1,
        pArg: std::ptr::null_mut(),
        xInit: Some(init),
        xShutdown: None,
        xCreate: Some(create),
        xCachesize: Some(cache_size),
        xPagecount: Some(page_count),
        xFetch: Some(fetch),
        xUnpin: Some(unpin),
        xRekey: Some(rekey),
        xTruncate: Some(truncate),
        xDestroy: Some(destroy),
        xShrink: Some(shrink),
    };
    // SAFETY: SQLite copies the table; every method keeps the contract of the interface.
    let code = unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_PCACHE2, &raw const methods) };
    if code == ffi::SQLITE_OK { Ok(()) } else { Err(code) }
}

unsafe extern "C" fn init(_: *mut c_void) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn create(page_bytes: c_int, extra_bytes: c_int, purgeable: c_int) -> *mut sqlite3_pcache {
    let purgeable = purgeable != 0;
    let counters = match MAIN_COUNTERS.get() {
        Some(counters) if purgeable => Arc::clone(counters),
        _ => Arc::default(),
    };
    let mut pool = Pool::new(page_bytes as usize, extra_bytes as usize, purgeable, counters);
    if let Some(holder) = RECORDER.get().filter(|_| purgeable) {
        pool.record(Arc::clone(holder));
    }
    Box::into_raw(Box::new(pool)).cast()
}

unsafe fn pool<'a>(cache: *mut sqlite3_pcache) -> &'a mut Pool {
    // SAFETY: SQLite passes the pointer that create() returned, and makes one call at a time for each cache.
    unsafe { &mut *cache.cast::<Pool>() }
}

unsafe extern "C" fn cache_size(cache: *mut sqlite3_pcache, frames: c_int) {
    // SAFETY: SQLite passes the pointer that create() returned (see pool()).
    unsafe { pool(cache) }.set_capacity(frames.max(0) as usize);
}

unsafe extern "C" fn page_count(cache: *mut sqlite3_pcache) -> c_int {
    // SAFETY: SQLite passes the pointer that create() returned (see pool()).
    unsafe { pool(cache) }.len() as c_int
}

unsafe extern "C" fn fetch(cache: *mut sqlite3_pcache, key: c_uint, create: c_int) -> *mut sqlite3_pcache_page {
    let create = match create {
        0 => Create::No,
        1 => Create::IfEasy,
        _ => Create::Always,
    };
    // SAFETY: SQLite passes the pointer that create() returned (see pool()). A frame begins with the structure that
    // SQLite knows.
    unsafe { pool(cache) }.fetch(key, create).cast()
}

unsafe extern "C" fn unpin(cache: *mut sqlite3_pcache, page: *mut sqlite3_pcache_page, discard: c_int) {
    // SAFETY: SQLite unpins pages that it fetched.
    unsafe { pool(cache).unpin(page.cast::<Frame>(), discard != 0) }
}

unsafe extern "C" fn rekey(cache: *mut sqlite3_pcache, page: *mut sqlite3_pcache_page, _old: c_uint, new: c_uint) {
    // SAFETY: SQLite renames pages that it fetched.
    unsafe { pool(cache).rekey(page.cast::<Frame>(), new) }
}

unsafe extern "C" fn truncate(cache: *mut sqlite3_pcache, limit: c_uint) {
    // SAFETY: SQLite passes the pointer that create() returned (see pool()).
    unsafe { pool(cache) }.truncate(limit);
}

unsafe extern "C" fn destroy(cache: *mut sqlite3_pcache) {
    // SAFETY: create() made the pool, and SQLite does not use it again.
    drop(unsafe { Box::from_raw(cache.cast::<Pool>()) });
}

unsafe extern "C" fn shrink(cache: *mut sqlite3_pcache) {
    // SAFETY: SQLite passes the pointer that create() returned (see pool()).
    unsafe { pool(cache) }.shrink();
}
