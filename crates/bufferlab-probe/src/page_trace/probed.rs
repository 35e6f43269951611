//! A function of this test program that the kernel can probe, for tests in which a trace begins and ends.

use std::arch::global_asm;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bufferlab_model::trace::Kind;

use super::live::mapped_code;
use super::recorder::{Settings, Site};
use super::recording::SpoolAsked;
use super::sites::check;

/// A nop of one byte, which the kernel emulates.
const NOP: u8 = 0x90;

global_asm!(
    ".pushsection .text",
    ".globl bufferlab_test_probed",
    "bufferlab_test_probed:",
    "nop",
    "ret",
    ".popsection",
);

// SAFETY: it is the code above, which takes nothing, changes nothing and returns.
unsafe extern "C" {
    pub(super) safe fn bufferlab_test_probed();
}

/// Returns the function's address.
pub(super) fn address() -> u64 {
    bufferlab_test_probed as *const () as u64
}

/// Calls the function `times` times.
pub(super) fn call(times: u64) {
    (0..times).for_each(|_| bufferlab_test_probed());
}

/// Returns whether the function has a probe now.
pub(super) fn is_probed() -> bool {
    let mut byte = [0];
    File::open("/proc/self/mem").expect("our memory").read_exact_at(&mut byte, address()).expect("our code");
    byte != [NOP]
}

/// The tools of a test that traces the function. Such tests take turns.
pub(super) struct Probed {
    site: Site,
    folder: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl Probed {
    /// Makes the tools. Returns none, and prints why, if this user cannot trace.
    pub fn new() -> Option<Self> {
        static ALONE: Mutex<()> = Mutex::new(());
        if let Err(error) = check(None) {
            eprintln!("NOT TESTED: {error}");
            return None;
        }
        let (alone, folder) = (ALONE.lock().unwrap_or_else(PoisonError::into_inner), tempfile::tempdir().ok()?);
        let program = fs::read_link("/proc/self/exe").expect("our program").display().to_string();
        let code = mapped_code(&fs::read_to_string("/proc/self/maps").expect("our maps"), &program);
        let code = code.iter().find(|code| (code.address..code.address + code.bytes).contains(&address()));
        let code = code.expect("the function is in the program's file");
        let site = Site {
            at: "bufferlab_test_probed".into(),
            kinds: vec![Kind::Get],
            kinds_if_flag: None,
            offset: code.offset + (address() - code.address),
            byte: NOP,
            semaphore: None,
            fetch: vec!["\\5".into(), "\\7".into()],
        };
        Some(Self { site, folder, _alone: alone })
    }

    /// Returns the settings of a trace that records a get for each call, with its own file.
    pub fn settings(&self, file: &str) -> Settings {
        Settings {
            binary: format!("/proc/{}/exe", std::process::id()).into(),
            spool: SpoolAsked { path: self.folder.path().join(file), limit_bytes: 1 << 30 },
            fields: vec!["space:u32".into(), "page:u32".into()],
            modes_if_in_pool: Vec::new(),
            sites: vec![self.site.clone()],
        }
    }
}
