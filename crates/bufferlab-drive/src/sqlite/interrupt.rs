//! Stops a long statement of SQLite by a flag, which SQLite's virtual machine polls.

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::ffi;

/// Steps of SQLite's virtual machine between two polls of the flag. That many steps take well under a millisecond if
/// the pages that they need are in memory.
const STEPS_BETWEEN_LOOKS: c_int = 10_000;

/// A guard of a connection. While the guard lives, the connection's statements end with `SQLITE_INTERRUPT` once the
/// flag is set.
pub struct Interruptible<'a> {
    connection: *mut ffi::sqlite3,
    flag: PhantomData<&'a AtomicBool>,
}

impl<'a> Interruptible<'a> {
    /// Begins polling the flag.
    ///
    /// # Safety
    /// The connection stays open, and the caller sets no other handler on it, as long as the guard lives.
    pub unsafe fn begin(connection: *mut ffi::sqlite3, cancelled: &'a AtomicBool) -> Self {
        unsafe extern "C" fn is_cancelled(flag: *mut c_void) -> c_int {
            // SAFETY: the flag outlives the guard, whose end removes this handler.
            c_int::from(unsafe { &*flag.cast::<AtomicBool>() }.load(Ordering::Relaxed))
        }
        let flag = std::ptr::from_ref(cancelled).cast_mut().cast();
        // SAFETY: the connection is open, by the caller's promise.
        unsafe { ffi::sqlite3_progress_handler(connection, STEPS_BETWEEN_LOOKS, Some(is_cancelled), flag) };
        Interruptible { connection, flag: PhantomData }
    }
}

impl Drop for Interruptible<'_> {
    fn drop(&mut self) {
        // SAFETY: the connection is open, by the promise to `begin`.
        unsafe { ffi::sqlite3_progress_handler(self.connection, 0, None, std::ptr::null_mut()) };
    }
}
