//! Tests of the records that the kernel's program makes of this test program, with both ways to attach it: values,
//! processes, and records lost to a full buffer.

use std::arch::asm;

use proptest::prelude::*;

use super::super::test_program::{Probed, address, bufferlab_test_probed, call, is_probed};
use super::*;

/// This kernel's release, and a release for which the recorder attaches the program in its other way.
const RELEASES: [Option<&str>; 2] = [None, Some("5.15.0-91-generic")];

fn reader(pid: u32, forks: bool, release: Option<&str>, settings: &Settings) -> SiteReader {
    let server = Server { pid, forks, addresses: vec![address()], release };
    SiteReader::open(&server, settings).expect("it can be switched on")
}

/// Returns settings with a new file each time.
fn settings(probed: &Probed) -> Settings {
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    probed.settings(&format!("spool-{}", NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed)))
}

#[test]
fn a_kernel_that_is_too_old_is_refused_by_name_and_others_have_the_way_that_sees_all_threads() {
    let way = |release| way_of(release, false).expect("it is new enough");
    assert_eq!(way("5.8.0"), (Way::Events, true));
    assert_eq!(way("5.10.0-28-amd64"), (Way::Events, true));
    assert_eq!(way("5.15.0-91-generic"), (Way::Events, false));
    assert_eq!(way("6.6.30"), (Way::Events, false));
    let unbound = |release| way_of(release, true).expect("it is new enough").0;
    assert_eq!([unbound("6.1.0"), unbound("6.6.30"), unbound("6.18.4")], [Way::Events, Way::Link, Way::Link]);
    assert_eq!(way("6.10.0-rc1+"), (Way::Link, false));
    assert_eq!(way("7.0"), (Way::Link, false));
    for release in ["5.7.19", "4.18.0-553.el8.x86_64", "", "linux"] {
        let refused = way_of(release, true).expect_err("it is too old, or unknown");
        assert!(refused.what.contains("5.8 or later") && refused.what.ends_with(&format!("is {release}")), "{refused}");
        assert!(check(Some(release)).is_err());
    }
}

#[test]
fn the_program_reads_every_register_that_a_site_may_name() {
    let program = include_str!("../../../bpf/sites.bpf.c");
    for name in "ax bx cx dx si di bp sp r8 r9 r10 r11 r12 r13 r14 r15 zf".split(' ') {
        let fetch = Fetch::parse(&format!("%{name}")).expect("it is a register");
        let place = fetch.place_in_registers().expect("the kernel keeps it");
        assert!(program.contains(&format!("    REGISTER({place})\n")), "{name}");
    }
}

#[test]
fn records_that_find_no_room_are_lost_and_counted_and_nothing_is_left() {
    let Some(probed) = Probed::new() else { return };
    let mut reader = reader(std::process::id(), false, None, &settings(&probed));
    assert!(is_probed());
    call(800_000);
    reader.close();
    assert!(!is_probed());
    let seen = reader.seen();
    assert!(seen.own > 690_000 && seen.lost > 90_000, "{seen:?}");
    assert_eq!((seen.own + seen.lost, seen.others), (800_000, 0));
    let told = reader.finish();
    assert_eq!(told.spooled.events.get("get"), Some(&seen.own));
    assert_eq!((told.lost, told.spooled.problem), (seen.lost, None));
}

#[test]
fn whether_it_goes_on_is_asked_while_the_buffer_is_full() {
    let Some(probed) = Probed::new() else { return };
    let mut reader = reader(std::process::id(), false, None, &settings(&probed));
    let calls = 5 * RECORDS_AT_ONCE as u64;
    call(calls);
    let mut seen = Vec::new();
    reader.read_while(|reader, _| {
        seen.push(reader.records);
        reader.records < calls
    });
    assert!(seen.windows(2).all(|two| two[1] - two[0] <= RECORDS_AT_ONCE as u64), "{seen:?}");
    reader.close();
    assert_eq!((reader.records, reader.seen().lost), (calls, 0));
}

/// Runs code in a child of this process. Waits for the child's end, and returns its process ID.
fn in_a_child(body: impl FnOnce()) -> u32 {
    // SAFETY: the child runs the body, which allocates nothing, and ends without destructors.
    let child = unsafe { libc::fork() };
    if child == 0 {
        body();
        // SAFETY: the child ends here, without destructors.
        unsafe { libc::_exit(0) };
    }
    // SAFETY: it is our child, and no other code waits for it.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    u32::try_from(child).expect("a child")
}

#[test]
fn threads_and_children_that_begin_later_are_recorded_where_sessions_are_processes() {
    let Some(probed) = Probed::new() else { return };
    for release in RELEASES {
        let mut reader = reader(std::process::id(), true, release, &settings(&probed));
        call(100);
        std::thread::spawn(|| call(200)).join().expect("it ends");
        let sessions = [in_a_child(|| call(400)), in_a_child(|| call(800))];
        // The child of a session is not a session.
        let grandchild = in_a_child(|| {
            in_a_child(|| call(1));
        });
        reader.close();
        let seen = reader.seen();
        assert_eq!((seen.own, seen.others, seen.lost), (1500, 1, 0), "{release:?}");
        assert!(seen.strangers.len() == 1 && seen.strangers[0] > grandchild, "{seen:?}");
        assert_eq!(reader.finish().threads.len(), 2 + sessions.len());
    }
}

#[test]
fn another_process_of_the_binary_is_counted_where_sessions_are_processes_and_else_not_stopped() {
    let Some(probed) = Probed::new() else { return };
    for release in RELEASES {
        // SAFETY: the child waits for a signal and ends without destructors.
        let server = unsafe { libc::fork() };
        if server == 0 {
            loop {
                // SAFETY: as above.
                unsafe { libc::pause() };
            }
        }
        let pid = u32::try_from(server).expect("a child");
        let mut all = reader(pid, true, release, &settings(&probed));
        assert!(is_probed());
        call(100);
        all.close();
        let seen = all.seen();
        let told = (seen.own, seen.others, seen.strangers);
        assert_eq!(told, (0, 100, vec![std::process::id()]));
        let mut bound = reader(pid, false, release, &settings(&probed));
        assert!(!is_probed(), "{release:?}");
        call(100);
        bound.close();
        let seen = bound.seen();
        assert_eq!((seen.own, seen.others), (0, 0));
        // SAFETY: it is our child, which is not reaped yet.
        unsafe {
            libc::kill(server, libc::SIGKILL);
            libc::waitpid(server, std::ptr::null_mut(), 0);
        }
    }
}

/// Calls the function with these registers; bx is the compiler's own. The register dx holds no valid address.
fn call_with(di: u64, si: u64, r8: u64, bx: u64) {
    // SAFETY: the function changes nothing, and what the call itself changes is named or put back.
    unsafe {
        asm!(
            "xchg rbx, r9",
            "call {function}",
            "xchg rbx, r9",
            function = sym bufferlab_test_probed,
            in("rdi") di, in("rsi") si, in("r8") r8, in("rdx") 1_u64, in("r9") bx,
            clobber_abi("C"),
        );
    }
}

/// The values of the registers of [`call_with`], and the memory to which they point.
struct Place {
    memory: Box<[u64; 4]>,
    di: u64,
    bx: u64,
}

impl Place {
    /// Returns the notation with which a site fetches a value, and the value; `shape` chooses them.
    fn named(&self, shape: usize) -> (&'static str, u64) {
        let [first, second, third, _] = *self.memory;
        match shape {
            0 => ("%di", self.di),
            1 => ("%bx", self.bx),
            2 => ("\\77", 77),
            // The register si leads to the second number; after the third is the address of the first.
            3 => ("-8(%si)", first),
            4 => ("+8(%si)", third),
            5 => ("+8(+16(%si))", second),
            // The register r8 is null, and no memory is mapped in the first 4 KiB.
            6 => ("+8(%r8)", 0),
            7 => ("+0(+8(%r8))", 0),
            _ => ("+1(%dx)", 0),
        }
    }

    fn call(&self) {
        call_with(self.di, &raw const self.memory[1] as u64, 0, self.bx);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_values_of_a_site_are_those_of_its_registers_and_memory(
        memory in any::<[u64; 3]>(), di in any::<u64>(), bx in any::<u64>(), is_other in any::<bool>(),
        shapes in prop::collection::vec((0..9_usize, 0..5_usize), 2..7),
    ) {
        let Some(probed) = Probed::new() else { return Ok(()) };
        let [first, second, third] = memory;
        let mut place = Place { memory: Box::new([first, second, third, 0]), di, bx };
        place.memory[3] = place.memory.as_ptr() as u64;
        // Types and the bytes that a record keeps of each, 0 if a record keeps only whether it is zero. The decoder
        // needs the first two fields whole.
        let types = [("u8", 1), ("u16", 2), ("u32", 4), ("u64", 8), ("u64", 0)];
        let mut asked = settings(&probed);
        let mut expected = Vec::new();
        for (number, (shape, kind)) in shapes.into_iter().enumerate() {
            let kind = if number < 2 { 2 } else { kind };
            let ((text, value), (word, bytes)) = (place.named(shape), types[kind]);
            let name = match (number, bytes) {
                (0, _) => "space".to_owned(),
                (1, _) => "page".to_owned(),
                (2, 0) => "held".to_owned(),
                _ => format!("value{number}"),
            };
            let bytes = if name == "held" { 0 } else { bytes.max(1) };
            let word = if bytes == 1 { "u8" } else { word };
            asked.fields.truncate(number);
            asked.fields.push(format!("{name}:{word}"));
            asked.sites[0].fetch.truncate(number);
            asked.sites[0].fetch.push(text.to_owned());
            let value = if bytes == 0 { u64::from(value != 0) } else { value & u64::MAX >> (64 - 8 * bytes) };
            expected.push((name, value));
        }
        // Skip fields that do not fit into a record.
        let Ok(parts) = fetch::parts(&asked) else { return Ok(()) };
        let release = if is_other { RELEASES[1] } else { RELEASES[0] };
        let mut reader = reader(std::process::id(), false, release, &asked);
        place.call();
        reader.bound = None;
        let record = reader.ring.next().expect("a record").to_vec();
        prop_assert!(reader.ring.next().is_none());
        for (name, value) in expected {
            let part = parts.iter().find(|part| part.name == name).expect("it has a place");
            let found = Field { offset: part.at, size: part.kept.bytes(), signed: false }.number(&record);
            prop_assert_eq!(found, Some(value), "{}", name);
        }
        prop_assert_eq!(record[SITE_AT], 0);
    }
}
