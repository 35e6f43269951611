//! Records a server's page accesses by code in the server's own process. This needs neither root nor the kernel, and
//! costs some nanoseconds an access.
//!
//! The worker makes shared memory and writes a plan into it ([`plan`]). The loader maps a small library of bufferlab
//! into the server (crate `bufferlab-inside`), which executes the plan before `main`. A thread of the worker moves the
//! records into a spool. If the worker is killed, the server continues to work, and overwrites the oldest records of
//! its ring buffers.

pub mod plan;
mod reader;
mod shared;
#[cfg(all(test, target_arch = "x86_64"))]
mod tests;
mod trampoline;

use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use bufferlab_inside::layout::{State, VARIABLE};
use serde::Serialize;

use super::binary::segments;
use super::decode::Decoder;
use super::recording::Spool;
use super::recording::{Settings, Told, spawned};
use crate::tracefs::{Format, TraceError};
use plan::{Mapped, Plan, Program, plan};
use reader::Reader;
use shared::Shared;

/// The library made by build.rs; empty on processors without one.
static LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/bufferlab_inside.so"));
const FILE: &str = "bufferlab-inside.so";
const REPORT: &str = "please report this with the server's version";

/// The environment and descriptor with which a server must be started so that it records itself.
#[derive(Clone, Debug, Serialize)]
pub struct Preload {
    /// Environment variables with which the server must be started.
    pub environment: Vec<(String, String)>,
    /// The descriptor of the shared memory, which the server must inherit.
    pub descriptor: i32,
}

/// A trace of a server that records itself. Dropping it leaves nothing behind.
pub struct Inside {
    reader: Option<JoinHandle<Told>>,
    stop: Arc<AtomicBool>,
    shared: Arc<Shared>,
    format: Format,
    settings: Settings,
}

/// Checks whether a build can be recorded from inside on this host.
///
/// # Errors
/// When it cannot, with the reason.
pub fn check(settings: &Settings) -> Result<(), TraceError> {
    plan_of(settings)?;
    Shared::new().map(drop)
}

/// Reads a program's segments.
fn program(binary: &Path) -> Result<Program, TraceError> {
    let unread = |error| TraceError::io("the server's binary cannot be read", binary, &error);
    let file = File::open(binary).map_err(unread)?;
    let mut program = Program::default();
    for segment in segments(binary)? {
        if !segment.executable {
            program.data.push((segment.offset, segment.address, segment.bytes));
            continue;
        }
        let mut bytes = vec![0; usize::try_from(segment.bytes).unwrap_or(0)];
        file.read_exact_at(&mut bytes, segment.offset).map_err(unread)?;
        program.code.push(Mapped { offset: segment.offset, address: segment.address, bytes });
    }
    Ok(program)
}

/// Returns the source and target of each direct branch in a build whose target lies within bytes that the plan
/// overwrites. There must be none.
///
/// # Errors
/// When the build cannot be recorded from inside.
pub fn branches(settings: &Settings) -> Result<Vec<(u64, u64)>, TraceError> {
    let program = program(&settings.binary)?;
    Ok(plan::branches_into(&program, &plan_of(settings)?))
}

/// Refuses a processor without a library.
fn require_library(library: &[u8], processor: &str) -> Result<(), TraceError> {
    if library.is_empty() {
        let hint = "leave the trace out, or use a machine with an x86-64 processor";
        return Err(TraceError::new("servers on this processor cannot record themselves", processor, hint));
    }
    Ok(())
}

fn plan_of(settings: &Settings) -> Result<Plan, TraceError> {
    require_library(LIBRARY, std::env::consts::ARCH)?;
    plan(&program(&settings.binary)?, settings)
        .map_err(|why| TraceError::new(why, settings.binary.display().to_string(), REPORT))
}

impl Inside {
    /// Makes the plan and the memory, and records nothing yet.
    ///
    /// # Errors
    /// When this build cannot be recorded from inside, or the system refuses the shared memory.
    pub fn arm(settings: Settings) -> Result<Self, TraceError> {
        let plan = plan_of(&settings)?;
        let shared = Shared::new()?;
        shared.put(&plan);
        Ok(Self { reader: None, stop: Arc::default(), shared: Arc::new(shared), format: plan.format, settings })
    }

    fn join(&mut self) -> Option<Told> {
        self.stop.store(true, Ordering::Release);
        let spool = &self.settings.spool.path;
        Some(self.reader.take()?.join().unwrap_or_else(|_| {
            self.shared.close();
            Told::broken(spool)
        }))
    }

    /// Writes the library into the server's folder and begins to read the server's records; returns how the server must
    /// be started.
    ///
    /// # Errors
    /// When the loader cannot take the folder's path, the library cannot be written there, or the spool cannot be made.
    pub fn begin(&mut self, folder: &Path) -> Result<Preload, TraceError> {
        let path = folder.join(FILE);
        let text = path.to_str().filter(|path| path.starts_with('/') && !path.contains([' ', ':', '$']));
        let text = text.ok_or_else(|| {
            let hint = "name a directory without spaces, colons and dollars with --data-dir";
            TraceError::new("the loader cannot be told this path", path.display().to_string(), hint)
        })?;
        // The server may run as another user, so every user must be able to read the library, even if the umask forbids
        // it.
        let _ = std::fs::remove_file(&path);
        let file = File::options().write(true).create_new(true).mode(0o444).open(&path);
        file.and_then(|mut file| {
            file.set_permissions(Permissions::from_mode(0o444))?;
            file.write_all(LIBRARY)
        })
        .map_err(|error| TraceError::io("the server's recorder cannot be written", &path, &error))?;
        self.read()?;
        let descriptor = self.shared.descriptor();
        let environment = [("LD_PRELOAD", text.to_owned()), (VARIABLE, descriptor.to_string())];
        let environment = environment.map(|(name, value)| (name.to_owned(), value)).to_vec();
        Ok(Preload { environment, descriptor })
    }

    fn read(&mut self) -> Result<(), TraceError> {
        let decoder = Decoder::new(&self.format, &self.settings)
            .ok_or_else(|| TraceError::new("the sites do not tell the page", "page_sites.toml", REPORT))?;
        let path = &self.settings.spool.path;
        let spool = Spool::create(&self.settings.spool)
            .map_err(|error| TraceError::io("the spool cannot be made", path, &error))?;
        let (stop, shared) = (Arc::clone(&self.stop), Arc::clone(&self.shared));
        self.reader = Some(spawned(path, move || Reader::new(shared, decoder, spool).read_until(&stop))?);
        Ok(())
    }

    /// Checks that the server records itself. The server must have started and answer statements.
    ///
    /// # Errors
    /// When the server is not recorded, with the reason.
    pub fn require_on(&self) -> Result<(), TraceError> {
        let (state, error) = self.shared.state();
        let error = if error == 0 { String::new() } else { format!(": {}", std::io::Error::from_raw_os_error(error)) };
        let (why, hint) = match state {
            State::Patched => return Ok(()),
            State::Absent => (
                "the loader did not take the recorder into it",
                "name a directory from which programs may be run (no noexec) with --data-dir; see the server's log",
            ),
            State::OtherText => ("its code is not that of its file", "fetch the server again, and start nothing else"),
            State::NoRoom => ("there is no free memory near its code", REPORT),
            State::NoCode | State::TextFixed => (
                "this system lets no program change its own code",
                "allow it (SELinux: execmod and execmem), or leave the trace out",
            ),
            State::NoXsave => ("this processor cannot save its state (xsave)", "use another machine"),
            State::NoFork => ("its C library does not tell of its children", REPORT),
        };
        let what = format!("the server does not record its page accesses: {why}{error}");
        Err(TraceError::new(what, self.settings.binary.display().to_string(), hint))
    }

    /// Ends the trace and returns the result.
    #[must_use]
    pub fn finish(mut self) -> Told {
        self.join().unwrap_or_default()
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.join();
        self.shared.close();
    }
}
