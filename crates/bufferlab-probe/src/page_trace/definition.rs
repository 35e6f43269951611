//! One event at many places of a program, defined in tracefs (Documentation/trace/uprobetracer.rst).
//!
//! All places belong to one event, so that a switch of threads costs one event a processor. A definition alone costs
//! nothing: the kernel replaces no instruction before a process opens the event. A definition survives its maker; the
//! next trace, or `doctor`, removes it.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use crate::tracefs::{Format, Owner, TraceError, Tracing, is_dead, namespace};

use super::recorder::{Settings, Site};

/// Names of our groups begin with this; then come the process, its start time, a number, and its PID namespace.
const PREFIX: &str = "bufferlab_";
const EVENT: &str = "page";
const DEFINITIONS: &str = "uprobe_events";
/// The target in /proc/PID/fd of an open event (perf_event_open of kernel/events/core.c).
const PERF_EVENT: &str = "anon_inode:[perf_event]";
/// Looks before a definition is left to the next command, 20 ms apart.
const REMOVE_ATTEMPTS: u32 = 50;
/// Time between the end of a process and the removal of its definitions ([`remove_stale`]).
const GRACE: Duration = Duration::from_secs(1);

/// Returns a tracefs in which this user can define events of programs.
///
/// # Errors
/// When it lacks something, or this user has none.
fn tracing() -> Result<Tracing, TraceError> {
    let tracing = Tracing::open()?;
    if !tracing.root().join(DEFINITIONS).exists() {
        let hint = "use a kernel with CONFIG_UPROBE_EVENTS; containers may hide tracefs";
        return Err(TraceError::new("this kernel cannot watch programs", format!("tracefs:{DEFINITIONS}"), hint));
    }
    Ok(tracing)
}

/// Checks whether this user may define events. Removes those of dead processes, and returns their groups.
///
/// # Errors
/// When this user may not.
pub fn check() -> Result<Vec<String>, TraceError> {
    let tracing = tracing()?;
    open(&tracing)?;
    remove_stale(&tracing)
}

/// A defined event. Dropping it removes it, or leaves it to the next command.
#[derive(Debug)]
pub(super) struct Definition {
    tracing: Tracing,
    group: String,
}

impl Definition {
    /// Defines the event at all sites of a binary.
    pub fn make(settings: &Settings) -> Result<Self, TraceError> {
        check_instructions(&settings.binary, &settings.sites)?;
        let tracing = tracing()?;
        remove_stale(&tracing)?;
        let Owner { pid, started, number, namespace } = Owner::new();
        let definition = Self { tracing, group: format!("{PREFIX}{pid}_{started}_{number}_{namespace}") };
        let mut file = open(&definition.tracing)?;
        for (number, site) in settings.sites.iter().enumerate() {
            let line = definition.line(settings, number, site)?;
            file.write_all(line.as_bytes()).map_err(|error| {
                let hint = "please report this with the kernel's version (uname -r)";
                TraceError::new(
                    format!("the kernel does not take the probe at {}: {error}", site.at),
                    line.trim(),
                    hint,
                )
            })?;
        }
        Ok(definition)
    }

    /// Returns the definition of one site, in the form that tracefs takes. Each event carries its site's number.
    fn line(&self, settings: &Settings, number: usize, site: &Site) -> Result<String, TraceError> {
        let binary = settings.binary.to_str().filter(|path| !path.contains([' ', '\t', '\n', ':', '#']));
        let binary = binary.ok_or_else(|| {
            let place = settings.binary.display().to_string();
            let hint = "fetch the servers elsewhere: set BUFFERLAB_CACHE to a path without spaces, colons and hashes";
            TraceError::new("the kernel cannot be told this path", place, hint)
        })?;
        let semaphore = site.semaphore.map(|offset| format!("({offset:#x})")).unwrap_or_default();
        let fetched = settings.fields.iter().zip(&site.fetch).map(|(field, fetch)| {
            let (name, kind) = field.split_once(':').unwrap_or((field, "u64"));
            format!(" {name}={fetch}:{kind}")
        });
        let fetched: String = fetched.collect();
        let (group, offset) = (&self.group, site.offset);
        Ok(format!("p:{group}/{EVENT} {binary}:{offset:#x}{semaphore}{fetched} site=\\{number}:u8\n"))
    }

    /// Returns the places of a record's fields, and the event's number.
    pub fn format(&self) -> Result<Format, TraceError> {
        let name = format!("events/{}/{EVENT}/format", self.group);
        let hint = "please report this with the kernel's version (uname -r)";
        Format::parse(&self.tracing.read(&name)?)
            .ok_or_else(|| TraceError::new("this is no format of an event", format!("tracefs:{name}"), hint))
    }
}

impl Drop for Definition {
    /// Looks at our children first, for the server's sake ([`remove_stale`]). A definition that stays is inert; the
    /// next command removes it.
    fn drop(&mut self) {
        for _ in 0..REMOVE_ATTEMPTS {
            if !a_child_has_events(Path::new("/proc")) {
                match remove(&self.tracing, &self.group) {
                    Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
                    _ => return,
                }
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Returns whether a child of this process has a perf event of ours open: one that another thread forked has our files
/// until it begins its program. Until then its command line is ours; with another, its events are its own.
fn a_child_has_events(proc: &Path) -> bool {
    let Ok(threads) = fs::read_dir(proc.join("self/task")) else { return false };
    let command = |process: &Path| fs::read(process.join("cmdline")).unwrap_or_default();
    let ours = command(&proc.join("self"));
    threads.flatten().any(|thread| {
        let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        let mut processes = children.split_whitespace().map(|child| proc.join(child));
        processes.any(|child| command(&child) == ours && has_events(&child.join("fd")))
    })
}

fn has_events(files: &Path) -> bool {
    let is_event = |file: fs::DirEntry| fs::read_link(file.path()).is_ok_and(|it| it == Path::new(PERF_EVENT));
    fs::read_dir(files).is_ok_and(|files| files.flatten().any(is_event))
}

fn open(tracing: &Tracing) -> Result<File, TraceError> {
    let path = tracing.root().join(DEFINITIONS);
    // Writing without appending would remove the definitions of all programs.
    let file = OpenOptions::new().append(true).open(&path);
    file.map_err(|error| TraceError::io("probes cannot be defined", &path, &error))
}

fn remove(tracing: &Tracing, group: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().append(true).open(tracing.root().join(DEFINITIONS))?;
    file.write_all(format!("-:{group}/{EVENT}\n").as_bytes())
}

/// Removes our definitions whose process has ended; returns their groups.
///
/// With Linux 6.18 threads of a server have ended within the kernel. So it waits for [`GRACE`] once their process has
/// ended. Processes of other PID namespaces cannot be seen, so their definitions stay.
///
/// # Errors
/// When this user has no tracefs, and so no definitions either.
pub fn remove_stale(tracing: &Tracing) -> Result<Vec<String>, TraceError> {
    if !tracing.root().join(DEFINITIONS).exists() {
        return Ok(Vec::new());
    }
    let mut groups: Vec<String> = tracing.read(DEFINITIONS)?.lines().filter_map(group_of_the_dead).collect();
    if groups.is_empty() {
        return Ok(groups);
    }
    std::thread::sleep(GRACE);
    groups.sort();
    groups.dedup();
    groups.retain(|group| remove(tracing, group).is_ok());
    Ok(groups)
}

/// Returns the group in a line of definitions, when it is ours and its maker has ended.
fn group_of_the_dead(line: &str) -> Option<String> {
    let (group, _) = line.strip_prefix("p:")?.split_once('/')?;
    let mut parts = group.strip_prefix(PREFIX)?.split('_');
    let pid = parts.next()?.parse().ok()?;
    let started = parts.next().and_then(|started| started.parse().ok());
    let is_seen = parts.nth(1).is_none_or(|there| there.parse() == Ok(namespace()));
    (is_seen && is_dead(pid, started)).then(|| group.to_owned())
}

/// Refuses sites at which the binary has other instructions, or some that the kernel would have to single-step.
fn check_instructions(binary: &Path, sites: &[Site]) -> Result<(), TraceError> {
    let unread = |error: std::io::Error| TraceError::io("the server's binary cannot be read", binary, &error);
    let file = File::open(binary).map_err(unread)?;
    for site in sites {
        let mut found = [0; 2];
        file.read_exact_at(&mut found, site.offset).map_err(unread)?;
        if found[0] != site.byte || !is_emulated(found) {
            let what = format!("the instruction at {} ({:#x}) is not the expected one", site.at, site.offset);
            let hint = "fetch the server again; please report this if it stays so";
            return Err(TraceError::new(what, binary.display().to_string(), hint));
        }
    }
    Ok(())
}

/// Returns true when the kernel emulates an instruction: a push, a near jump, a conditional one, a call, a one-byte
/// nop.
///
/// It single-steps others, which costs twenty times as much on a virtual machine. See `branch_setup_xol_ops` and
/// `push_setup_xol_ops` of arch/x86/kernel/uprobes.c.
fn is_emulated(instruction: [u8; 2]) -> bool {
    matches!(
        instruction,
        [0x50..=0x57 | 0x70..=0x7f | 0x90 | 0xe8 | 0xe9 | 0xeb, _] | [0x0f, 0x80..=0x8f] | [0x41, 0x50..=0x57]
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use bufferlab_model::trace::Kind;

    use super::super::recording::SpoolAsked;

    fn site(offset: u64, byte: u8) -> Site {
        let fetch = vec!["+0(%di)".to_owned(), "%r8".to_owned()];
        Site {
            at: "a_function".into(),
            kinds: vec![Kind::Get],
            kinds_if_flag: None,
            offset,
            byte,
            semaphore: None,
            fetch,
        }
    }

    fn settings(binary: &Path, sites: Vec<Site>) -> Settings {
        let fields = vec!["space:u32".to_owned(), "mode:u8".to_owned()];
        Settings {
            binary: binary.to_owned(),
            spool: SpoolAsked::default(),
            fields,
            modes_if_in_pool: Vec::new(),
            sites,
        }
    }

    #[test]
    fn a_definition_names_its_place_what_it_fetches_and_which_site_it_is() {
        let root = tempfile::tempdir().expect("a directory");
        let definition = Definition { tracing: Tracing::at(root.path()), group: "bufferlab_1_2_3".into() };
        let asked = settings(Path::new("/bin/server"), Vec::new());
        let line = definition.line(&asked, 7, &Site { semaphore: Some(0x20), ..site(0x10, 0x55) });
        let expected = "p:bufferlab_1_2_3/page /bin/server:0x10(0x20) space=+0(%di):u32 mode=%r8:u8 site=\\7:u8\n";
        assert_eq!(line.expect("a plain path"), expected);
        let odd = settings(Path::new("/my servers/server"), Vec::new());
        assert!(definition.line(&odd, 0, &site(0, 0)).expect_err("a space").hint.contains("BUFFERLAB_CACHE"));
    }

    #[test]
    fn definitions_of_the_dead_are_ours_and_those_of_the_living_and_of_others_are_not() {
        let Owner { pid, started, .. } = Owner::new();
        let line = |group: &str| group_of_the_dead(&format!("p:{group}/page /bin/server:0x10 site=\\0:u8"));
        assert_eq!(line(&format!("bufferlab_{pid}_{started}_0")), None);
        assert_eq!(line("probe_99999999_1_0"), None);
        assert_eq!(line("bufferlab_x_1_0"), None);
        for dead in ["bufferlab_99999999_1_0".to_owned(), format!("bufferlab_{pid}_1_0")] {
            assert_eq!(line(&dead), Some(dead));
        }
        let here = format!("bufferlab_99999999_1_0_{}", namespace());
        assert_eq!(line(&here), Some(here.clone()));
        assert_eq!(line("bufferlab_99999999_1_0_1"), None, "of another PID namespace");
        assert_eq!(group_of_the_dead("r:bufferlab_99999999_1_0/page /bin/server:0x10"), None);
    }

    #[test]
    fn an_event_that_a_forked_child_has_open_is_seen_and_other_files_are_not() {
        let proc = tempfile::tempdir().expect("a directory");
        let at = |name: &str| proc.path().join(name);
        for folder in ["self/task/1", "self/task/2", "71/fd", "72/fd"] {
            fs::create_dir_all(at(folder)).expect("a directory");
        }
        assert!(!a_child_has_events(proc.path()), "a kernel that tells no children");
        fs::write(at("self/task/1/children"), "").expect("a file");
        fs::write(at("self/task/2/children"), "71 72 ").expect("a file");
        std::os::unix::fs::symlink("anon_inode:[eventfd]", at("72/fd/3")).expect("a link");
        assert!(!a_child_has_events(proc.path()));
        std::os::unix::fs::symlink(PERF_EVENT, at("72/fd/4")).expect("a link");
        assert!(a_child_has_events(proc.path()));
        fs::write(at("self/cmdline"), "python\0tests").expect("a file");
        assert!(!a_child_has_events(proc.path()), "a child with a program of its own");
        fs::write(at("72/cmdline"), "python\0tests").expect("a file");
        assert!(a_child_has_events(proc.path()));
        assert!(!a_child_has_events(Path::new("/nowhere")));
    }

    #[test]
    fn an_instruction_that_is_another_or_would_be_single_stepped_is_refused() {
        let folder = tempfile::tempdir().expect("a directory");
        let binary = folder.path().join("server");
        // push %rbp; mov; push %r14; addq.
        std::fs::write(&binary, [0x55, 0x48, 0x89, 0xe5, 0x41, 0x56, 0x48, 0x83, 0x80]).expect("a file");
        let refused = |offset, byte| check_instructions(&binary, &[site(offset, byte)]).is_err();
        assert_eq!([refused(0, 0x55), refused(4, 0x41)], [false, false]);
        assert_eq!([refused(0, 0xe8), refused(1, 0x48), refused(6, 0x48), refused(100, 0x55)], [true; 4]);
    }
}
