//! Tests that transactions allocate no memory once the driver's buffers have grown.
//!
//! The counting allocator counts separately for each thread.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use bufferlab_workload::client::{Batch, Client, ClientError, Value, Workload};
use bufferlab_workload::hot_rows::{self, HotRowsConfig, HotRowsDriver};
use bufferlab_workload::tpcc::TpccDriver;
use support::canned::Canned;
use support::config;

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

/// A client that answers each select with a text as long as sysbench's, and each update with one row.
struct OneRow;

impl Client for OneRow {
    fn begin(&mut self, _read_only: bool) -> Result<(), ClientError> {
        Ok(())
    }

    fn commit(&mut self) -> Result<(), ClientError> {
        Ok(())
    }

    fn rollback(&mut self) -> Result<(), ClientError> {
        Ok(())
    }

    fn execute(&mut self, batch: &mut Batch) -> Result<(), ClientError> {
        for call in 0..batch.len() {
            batch.begin_rows(call);
            batch.push_column(Value::Text(std::str::from_utf8(&[b'7'; 119]).expect("digits")));
            batch.end_row(call);
            batch.set_affected(call, 1);
        }
        Ok(())
    }

    fn rows_returned(&self) -> u64 {
        0
    }
}

#[test]
fn no_transaction_allocates_after_the_warm_up() {
    tpcc_allocates_nothing();
    hot_rows_allocate_nothing();
}

fn allocations(driver: &mut impl Workload, client: &mut impl Client, transactions: u32) -> u64 {
    let before = ALLOCATIONS.get();
    for _ in 0..transactions {
        driver.plan();
        driver.execute(client).expect("canned answers are right");
    }
    ALLOCATIONS.get() - before
}

fn hot_rows_allocate_nothing() {
    let config = HotRowsConfig {
        rows: 1_000_000,
        run_seed: 1,
        hot_rows: 10_000,
        layout: hot_rows::Layout::Scattered,
        zipf: 0.8,
        update_percent: 10,
    };
    let mut driver = HotRowsDriver::new(&config).expect("the configuration is valid");
    while driver.prefill_step(&mut OneRow).expect("canned answers are right") {}
    allocations(&mut driver, &mut OneRow, 100);
    assert_eq!(allocations(&mut driver, &mut OneRow, 20_000), 0, "allocations after the warm-up");
}

fn tpcc_allocates_nothing() {
    let mut driver = TpccDriver::new(config(3, 1, 1), 0, 1).expect("one driver");
    let mut client = Canned::default();
    let mut execute = |transactions: u32| allocations(&mut driver, &mut client, transactions);
    let warm_up = execute(2_300);
    assert!(warm_up > 0, "the counter counts nothing");
    assert_eq!(execute(23_000), 0, "allocations after the warm-up");
}
