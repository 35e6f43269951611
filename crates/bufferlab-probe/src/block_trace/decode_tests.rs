//! Tests of decoding: of pages that the tests make, and of pages recorded from a kernel.

use super::*;
use proptest::prelude::*;

const HEADER: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
    \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
const COMMON: &str = "format:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";
const OF_DEVICE: &str = "\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n\
    \tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n\
    \tfield:unsigned int nr_sector;\toffset:24;\tsize:4;\tsigned:0;\n\
    \tfield:char rwbs[8];\toffset:28;\tsize:8;\tsigned:0;\n";
const KINDS: [(&str, u16); 6] = [
    ("block_bio_queue", 1),
    ("block_getrq", 2),
    ("block_plug", 3),
    ("block_unplug", 4),
    ("block_rq_issue", 5),
    ("block_rq_complete", 6),
];
const DEVICE: u32 = 7 << 20;

/// A spool whose events have twenty-eight or thirty-six bytes.
struct Made {
    place: tempfile::TempDir,
}

impl Made {
    fn new() -> Self {
        let place = tempfile::tempdir().expect("a directory");
        fs::write(place.path().join(HEADER_PAGE), HEADER).expect("the header");
        for (name, id) in KINDS {
            let fields = match name {
                "block_plug" => "",
                "block_unplug" => "\tfield:int nr_rq;\toffset:8;\tsize:4;\tsigned:1;\n",
                _ => OF_DEVICE,
            };
            let text = format!("name: {name}\nID: {id}\n{COMMON}{fields}\nprint fmt: \"\"\n");
            fs::write(place.path().join(format!("{name}.{FORMAT}")), text).expect("a format");
        }
        Self { place }
    }

    /// Returns a spool without allocations and plugs.
    fn without_steps() -> Self {
        let made = Self::new();
        for name in ["block_getrq", "block_plug"] {
            fs::remove_file(made.place.path().join(format!("{name}.{FORMAT}"))).expect("it was written");
        }
        made
    }

    /// Writes one page of one processor: (time, letter, task, sector or requests).
    fn page(&self, cpu: u32, events: &[(u64, u8, i32, u64)]) -> &Self {
        let mut data = Vec::new();
        let start = events.first().map_or(0, |event| event.0);
        let mut time = start;
        for &(t_ns, action, pid, number) in events {
            data.extend((9 | ((t_ns - time) as u32) << 5).to_le_bytes());
            data.extend(payload(action, pid, number));
            time = t_ns;
        }
        let mut page = start.to_le_bytes().to_vec();
        page.extend((data.len() as u64).to_le_bytes());
        page.extend(data);
        page.resize(4096, 0);
        let path = pages_of(self.place.path(), cpu);
        let mut file = fs::OpenOptions::new().create(true).append(true).open(path).expect("the pages");
        file.write_all(&page).expect("a page");
        self
    }

    fn decoded(&self) -> (Vec<Event>, Decoded) {
        let mut all = Vec::new();
        let decoded = events(self.place.path(), &mut |event| {
            all.push(*event);
            Ok(())
        });
        (all, decoded.expect("a whole spool"))
    }
}

fn payload(action: u8, pid: i32, number: u64) -> [u8; 36] {
    let id = match action {
        b'Q' => 1_u16,
        b'G' => 2,
        b'P' => 3,
        b'U' => 4,
        b'D' => 5,
        _ => 6,
    };
    let mut data = [0; 36];
    data[..2].copy_from_slice(&id.to_le_bytes());
    data[4..8].copy_from_slice(&pid.to_le_bytes());
    if action == b'U' {
        data[8..12].copy_from_slice(&(number as u32).to_le_bytes());
    } else if action != b'P' {
        data[8..12].copy_from_slice(&DEVICE.to_le_bytes());
        data[16..24].copy_from_slice(&number.to_le_bytes());
        data[24..28].copy_from_slice(&8_u32.to_le_bytes());
        data[28..30].copy_from_slice(b"RA");
    }
    data
}

fn letters(events: &[Event]) -> String {
    events.iter().map(|event| char::from(event.action)).collect()
}

#[test]
fn without_allocations_an_unplug_has_the_device_of_what_its_task_queued() {
    let made = Made::without_steps();
    // Task 9 queued no request of this device. Task 5 queued two requests, of which one was issued at once. Its unplug
    // releases the other one.
    let told = [(1, b'Q', 5, 8), (2, b'D', 5, 8), (3, b'Q', 5, 16), (4, b'U', 9, 2), (5, b'U', 5, 1), (6, b'U', 5, 1)];
    let (all, decoded) = made.page(0, &told).decoded();
    assert_eq!((letters(&all).as_str(), decoded.plugs_elsewhere), ("QDQU", 2));
    assert_eq!(all[3].device, DEVICE);
}

#[test]
fn two_processors_events_come_in_the_order_of_time() {
    let made = Made::new();
    made.page(0, &[(10, b'Q', 5, 100), (30, b'D', 5, 100)]);
    made.page(1, &[(20, b'Q', 6, 200), (40, b'C', 0, 100)]);
    made.page(0, &[(50, b'C', 0, 200)]);
    let (all, decoded) = made.decoded();
    assert_eq!(all.iter().map(|event| event.t_ns).collect::<Vec<_>>(), [10, 20, 30, 40, 50]);
    assert_eq!((decoded.events, decoded.events_read), (5, 5));
    assert_eq!(decoded.actions, BTreeMap::from([('C', 2), ('D', 1), ('Q', 2)]));
    let first = all[0];
    assert_eq!((first.device, first.sector, first.sectors, first.pid, first.cpu), (DEVICE, 100, 8, 5, 0));
    assert_eq!(&first.flags[..3], b"RA\0");
}

#[test]
fn an_unplug_has_the_device_of_the_requests_that_its_task_held_back() {
    let made = Made::new();
    // Task 9 never had a request of this device; task 5 plugs twice.
    made.page(
        0,
        &[(1, b'G', 5, 8), (2, b'P', 5, 0), (3, b'P', 9, 0), (4, b'U', 9, 3), (5, b'U', 5, 1), (6, b'U', 5, 1)],
    );
    let (all, decoded) = made.decoded();
    assert_eq!(letters(&all), "GPU");
    assert!(all.iter().all(|event| event.device == DEVICE));
    assert_eq!(decoded.plugs_elsewhere, 3);
}

#[test]
fn a_request_that_fills_the_list_is_held_back_after_the_others_are_gone() {
    let made = Made::new();
    let events =
        [(1, b'G', 5, 8), (2, b'P', 5, 0), (3, b'G', 5, 16), (4, b'U', 5, 1), (5, b'P', 5, 0), (6, b'U', 5, 1)];
    let (all, decoded) = made.page(0, &events).decoded();
    assert_eq!((letters(&all).as_str(), decoded.plugs_elsewhere), ("GPGUPU", 0));
}

#[test]
fn a_request_that_was_issued_at_once_is_not_held_back() {
    let made = Made::new();
    let (all, decoded) = made.page(0, &[(1, b'G', 5, 8), (2, b'D', 5, 8), (3, b'U', 5, 1)]).decoded();
    assert_eq!((letters(&all).as_str(), decoded.plugs_elsewhere), ("GD", 1));
}

#[test]
fn a_spool_without_a_format_or_with_strange_events_is_an_error_that_names_the_file() {
    let made = Made::new();
    made.page(0, &[(1, b'Q', 5, 8)]);
    fs::remove_file(made.place.path().join("block_rq_issue.format")).expect("it was there");
    let error = decode(made.place.path(), &made.place.path().join("out")).expect_err("not whole");
    assert!(error.place.contains("block_rq_issue.format"), "{error}");

    let made = Made::new();
    made.page(0, &[(1, b'Q', 5, 8)]);
    fs::remove_file(made.place.path().join("block_getrq.format")).expect("it was there");
    made.page(1, &[(1, b'G', 5, 8)]);
    let error = decode(made.place.path(), &made.place.path().join("out")).expect_err("an unknown kind");
    assert!(error.what.contains("unknown kind"), "{error}");
}

#[test]
fn the_file_holds_one_record_for_each_event() {
    let made = Made::new();
    made.page(0, &[(1, b'Q', 5, 8), (2, b'C', 0, 8)]);
    let out = made.place.path().join("events");
    let decoded = decode(made.place.path(), &out).expect("a whole spool");
    let bytes = fs::read(out).expect("the file");
    assert_eq!(bytes.len() as u64, decoded.events * super::super::RECORD_BYTES as u64);
}

proptest! {
    #[test]
    fn damaged_pages_end_in_an_error_and_never_in_a_panic(
        at in 0..4096_usize, bytes in proptest::collection::vec(any::<u8>(), 1..40)
    ) {
        let made = Made::new();
        made.page(0, &[(1, b'Q', 5, 8), (2, b'G', 5, 8), (3, b'D', 5, 8), (4, b'C', 0, 8)]);
        let path = pages_of(made.place.path(), 0);
        let mut pages = fs::read(&path).expect("the pages");
        let end = (at + bytes.len()).min(pages.len());
        pages[at..end].copy_from_slice(&bytes[..end - at]);
        fs::write(&path, pages).expect("the pages");
        let _ = events(made.place.path(), &mut |_| Ok(()));
    }
}

/// Pages of Linux 6.18 on two processors: five direct reads of a loop device, 64 KiB written through the page cache and
/// synced. `testdata/block-trace` is the tracer's unchanged spool.
#[test]
fn pages_recorded_from_a_kernel_give_the_requests_that_were_made() {
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/block-trace");
    let mut all = Vec::new();
    let decoded = events(&recorded, &mut |event| {
        all.push(*event);
        Ok(())
    })
    .expect("a whole spool");
    // The first number is the kernel's own count, from per_cpu/*/stats.
    assert_eq!((decoded.events_read, decoded.events, decoded.plugs_elsewhere), (222, 71, 151));
    let of = |action: u8, way: u8| -> Vec<(u64, u32)> {
        let wanted = all.iter().filter(|event| event.action == action && event.flags[0] == way);
        wanted.map(|event| (event.sector, event.sectors)).collect()
    };
    let reads = vec![(80, 16), (14_400, 16), (48, 16), (1_232, 16), (1_001, 8)];
    for action in [b'Q', b'G', b'D', b'C'] {
        assert_eq!(of(action, b'R'), reads, "{}", char::from(action));
    }
    // Sixteen pages, merged into one request.
    assert_eq!((of(b'Q', b'W').len(), of(b'M', b'W').len()), (16, 15));
    assert_eq!(of(b'D', b'W'), [(0, 128)]);
    assert!(all.is_sorted_by_key(|event| event.t_ns));
    assert!(all.iter().all(|event| event.device == 7 << 20));
    let queued = all.iter().find(|event| event.action == b'Q').expect("five of them");
    assert_eq!(&queued.comm[..7], b"python\0");
    let unplugs = all.iter().filter(|event| event.action == b'U').map(|event| (event.pid, event.requests));
    assert!(unplugs.eq(std::iter::repeat_n((queued.pid, 1), 6)));
}
