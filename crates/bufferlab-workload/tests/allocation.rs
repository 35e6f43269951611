//! Proof that transactions allocate nothing once the driver's buffers have grown.
//!
//! Alone in its test crate, because the counting allocator sees every thread.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use bufferlab_workload::client::Workload;
use bufferlab_workload::tpcc::TpccDriver;
use support::canned::Canned;
use support::config;

/// The system's allocator, counting.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed on to the system's allocator with its arguments unchanged; counting has no effect on
// the memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`, which is the system's too.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the memory came from the system's allocator with this layout.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the memory came from the system's allocator with this layout; the size is the caller's concern.
        unsafe { System.realloc(memory, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn no_transaction_allocates_after_the_warm_up() {
    let mut driver = TpccDriver::new(config(3, 1, 1), 0, 1).expect("one driver");
    let mut client = Canned::default();
    let mut execute = |transactions: u32| {
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        for _ in 0..transactions {
            driver.plan();
            driver.execute(&mut client).expect("canned answers are right");
        }
        ALLOCATIONS.load(Ordering::Relaxed) - before
    };
    let warm_up = execute(2_300);
    assert!(warm_up > 0, "the counter counts nothing");
    assert_eq!(execute(23_000), 0, "allocations after the warm-up");
}
