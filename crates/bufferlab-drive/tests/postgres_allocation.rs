//! Tests that the client allocates no memory in a transaction once its buffers have grown: at a server with fixed
//! answers, and with TPC-C at a real server, if there is one (`support/postgres_server.rs`).
//!
//! The counting allocator counts separately for each thread.

#[path = "support/postgres_server.rs"]
mod server;

use std::alloc::{GlobalAlloc, Layout as MemoryLayout, System};
use std::cell::Cell;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;

use bufferlab_drive::postgres::client::PostgresClient;
use bufferlab_drive::postgres::startup::connect;
use bufferlab_drive::postgres::wire::Silence;
use bufferlab_drive::server::Sending;
use bufferlab_drive::server::target::{Place, Target};
use bufferlab_workload::client::Workload;
use bufferlab_workload::hot_rows::{HotRowsConfig, HotRowsDriver, Layout};
use bufferlab_workload::tpcc::population::TpccPopulation;
use bufferlab_workload::tpcc::{TpccConfig, TpccDriver};

/// The system's allocator with a count of allocations.
struct Counting;

thread_local! {
    /// The number of allocations of this thread only, because the test harness and the server also allocate.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system's allocator with its arguments unchanged; counting has no effect on
// the memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: MemoryLayout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`, which the system's allocator has, too.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: MemoryLayout) {
        // SAFETY: the memory came from the system's allocator with this layout.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: MemoryLayout, new_size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the memory came from the system's allocator with this layout; the size is the caller's concern.
        unsafe { System.realloc(memory, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(driver: &mut dyn Workload, client: &mut PostgresClient, transactions: u32) -> u64 {
    let before = ALLOCATIONS.get();
    for _ in 0..transactions {
        driver.plan();
        driver.execute(client).expect("the answers are right");
    }
    ALLOCATIONS.get() - before
}

fn client(target: &Target, workload: &mut dyn Workload, sending: Sending) -> PostgresClient {
    let connection = connect(target, Silence::Fatal).expect("the server is there");
    PostgresClient::of_workload(connection, workload, sending, Arc::default()).expect("every statement is prepared")
}

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    [&[tag][..], &(body.len() as i32 + 4).to_be_bytes(), body].concat()
}

/// Acts as a server that knows sysbench's two statements. It answers a select with one row of 119 digits, and an update
/// with one row written.
fn serve(mut stream: UnixStream) {
    let mut startup = [0; 4];
    stream.read_exact(&mut startup).expect("a client starts");
    stream.read_exact(&mut vec![0; i32::from_be_bytes(startup) as usize - 4]).expect("a client starts");
    stream
        .write_all(&[message(b'R', &[0; 4]), message(b'K', &[0; 8]), message(b'Z', b"I")].concat())
        .expect("it reads");
    let (mut answer, mut described, mut bound) = (Vec::new(), (0, 0), false);
    let mut header = [0; 5];
    while stream.read_exact(&mut header).is_ok() {
        let length = i32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize - 4;
        let mut body = vec![0; length];
        stream.read_exact(&mut body).expect("a message is whole");
        match header[0] {
            b'Q' => answer.extend([message(b'C', b"SET\0"), message(b'Z', b"I")].concat()),
            b'P' => {
                let text = String::from_utf8_lossy(&body).into_owned();
                described = (text.matches('$').count(), usize::from(text.contains("SELECT")));
                answer.extend(message(b'1', b""));
            }
            b'D' => {
                let types: Vec<u8> = (0..described.0).flat_map(|_| 23_u32.to_be_bytes()).collect();
                let types = if described.0 == 2 { [1_042_u32, 23].map(u32::to_be_bytes).concat() } else { types };
                answer.extend(message(b't', &[&(described.0 as i16).to_be_bytes()[..], &types].concat()));
                let column = [&b"\0\x01c\0\0\0\0\0\0\0"[..], &1_042_u32.to_be_bytes(), &[0; 8]].concat();
                answer.extend(if described.1 == 1 { message(b'T', &column) } else { message(b'n', b"") });
            }
            b'B' => {
                bound = body.starts_with(b"\0s0\0");
                answer.extend(message(b'2', b""));
            }
            b'E' if bound => {
                answer.extend(message(b'D', &[&b"\0\x01\0\0\0\x78"[..], &[b'7'; 119], b" "].concat()));
                answer.extend(message(b'C', b"SELECT 1\0"));
            }
            b'E' => answer.extend(message(b'C', b"UPDATE 1\0")),
            b'S' => answer.extend(message(b'Z', b"I")),
            _ => return,
        }
        if matches!(header[0], b'S' | b'Q') {
            stream.write_all(&answer).expect("the client reads");
            answer.clear();
        }
    }
}

#[test]
fn hot_rows_allocate_nothing_after_the_warm_up() {
    let place = tempfile::tempdir().expect("a directory");
    let socket = place.path().join("socket").display().to_string();
    let target = Target {
        place: Place::Socket(socket.clone()),
        user: "u".to_owned(),
        password: String::new(),
        database: "d".to_owned(),
        security: None,
    };
    let listener = UnixListener::bind(socket).expect("the place is free");
    let config = HotRowsConfig {
        rows: 1_000_000,
        run_seed: 1,
        hot_rows: 10_000,
        layout: Layout::Scattered,
        zipf: 0.8,
        update_percent: 10,
    };
    std::thread::scope(|scope| {
        for sending in [Sending::Spec, Sending::Batched] {
            scope.spawn(|| serve(listener.accept().expect("a client comes").0));
            let mut driver = HotRowsDriver::new(&config).expect("the configuration is valid");
            let mut client = client(&target, &mut driver, sending);
            while driver.prefill_step(&mut client).expect("the answers are right") {}
            allocations(&mut driver, &mut client, 100);
            assert_eq!(allocations(&mut driver, &mut client, 5_000), 0, "allocations after the warm-up");
        }
    });
}

#[test]
fn tpcc_allocates_nothing_after_the_warm_up() {
    let Some(target) = server::target("allocation") else { return };
    let config = TpccConfig::new(1, 7, 3).expect("the scale is valid");
    server::loaded(&target, TpccPopulation::new(config));
    for sending in [Sending::Spec, Sending::Batched] {
        let mut driver = TpccDriver::new(config, 0, 1).expect("there is such a driver");
        let mut client = client(&target, &mut driver, sending);
        assert!(allocations(&mut driver, &mut client, 2_300) > 0, "the counter counts nothing");
        assert_eq!(allocations(&mut driver, &mut client, 2_300), 0, "allocations after the warm-up");
    }
    server::drop_database(&target);
}
