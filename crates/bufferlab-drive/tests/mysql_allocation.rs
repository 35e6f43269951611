//! Tests that transactions on a real server allocate no memory once every statement has been executed.
//! `support/mysql_server.rs` names the server.

#[path = "support/mysql_server.rs"]
#[allow(dead_code, reason = "checksums are another test's")]
mod server;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use bufferlab_drive::mysql::client::{MysqlClient, Sending};
use bufferlab_drive::mysql::connection::connect;
use bufferlab_workload::client::Workload;
use bufferlab_workload::tpcc::population::TpccPopulation;
use bufferlab_workload::tpcc::{TpccConfig, TpccDriver};

use server::{drop_database, loaded, target};

/// The system's allocator with a count of allocations.
struct Counting;

thread_local! {
    /// The number of allocations of this thread only, because the test harness also allocates, at any time.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system's allocator with its arguments unchanged; counting has no effect on
// the memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`, which the system's allocator has, too.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the memory came from the system's allocator with this layout.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the memory came from the system's allocator with this layout; the size is the caller's concern.
        unsafe { System.realloc(memory, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const WARM_UP: usize = 3000;
const COUNTED: usize = 500;

#[test]
fn transactions_allocate_nothing_once_every_statement_has_run() {
    for sending in [Sending::Spec, Sending::Batched] {
        let Some(target) = target("allocation") else { return };
        let config = || TpccConfig::new(1, 7, 3).expect("the scale is valid");
        loaded(&target, TpccPopulation::new(config()), None);
        let mut driver = TpccDriver::new(config(), 0, 1).expect("there is such a driver");
        let conn = connect(&target).expect("the database is there");
        let mut client = MysqlClient::of_workload(conn, &mut driver, sending).expect("every statement is prepared");
        let mut run = |count: usize| {
            for _ in 0..count {
                driver.plan();
                driver.execute(&mut client).unwrap_or_else(|error| panic!("{error}"));
            }
        };
        // The warm-up is so long that the client has prepared the coalesced statements for all numbers of calls.
        run(WARM_UP);
        let before = ALLOCATIONS.get();
        run(COUNTED);
        assert_eq!(ALLOCATIONS.get() - before, 0, "{sending:?}: allocations in {COUNTED} transactions");
        drop_database(&target);
    }
}
