//! The database server's process: processor time, bytes through the storage layer, page faults, resident memory.
//! Sources: /proc/PID/stat (time in ticks of 10 ms), /proc/PID/io (needs the same user, or root), /proc/PID/statm.
//! A sample reads three small files: about 10 us on the developers' machine.

use crate::cpu::microseconds_per_tick;
use crate::parse::{io, process_stat};
use crate::proc_file::ProcFile;
use crate::reading::{Probe, Reading};
use std::sync::Arc;

const NAME: &str = "server";

/// Reads the accounts of another process.
pub struct ServerProbe {
    io: ProcFile,
    stat: ProcFile,
    statm: ProcFile,
    page_bytes: f64,
    microseconds_per_tick: u64,
    subject: Arc<str>,
}

impl ServerProbe {
    /// A probe of the process `pid`. The files are opened once: another process of the same number is not mistaken for it.
    pub fn new(pid: u32) -> Self {
        let open = |file: &str| ProcFile::open(&format!("/proc/{pid}/{file}"));
        // SAFETY: sysconf only reads a constant of the system.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        Self {
            io: open("io"),
            stat: open("stat"),
            statm: open("statm"),
            page_bytes: page_bytes as f64,
            microseconds_per_tick: microseconds_per_tick(),
            subject: "".into(),
        }
    }

    fn push(&self, out: &mut Vec<Reading>, metric: &'static str, value: Result<Option<u64>, Arc<str>>) {
        let count = value.and_then(|value| {
            value.and_then(|value| i64::try_from(value).ok()).ok_or_else(|| "the kernel does not tell it".into())
        });
        out.push(match count {
            Ok(count) => Reading::counter(NAME, metric, &self.subject, count),
            Err(reason) => Reading::missing(NAME, metric, &self.subject, &reason),
        });
    }
}

impl Probe for ServerProbe {
    fn name(&self) -> &'static str {
        NAME
    }

    fn sample(&mut self, out: &mut Vec<Reading>) {
        let bytes = self.io.read().map(io::storage_bytes);
        let stat = self.stat.read().map(process_stat::process_stat);
        let resident_pages = self.statm.read().map(io::resident_pages);
        let us = |ticks: Option<u64>| ticks.and_then(|ticks| ticks.checked_mul(self.microseconds_per_tick));
        self.push(out, "server_read_bytes", bytes.clone().map(|bytes| bytes.read_bytes));
        self.push(out, "server_write_bytes", bytes.map(|bytes| bytes.write_bytes));
        self.push(out, "server_user_us", stat.clone().map(|stat| us(stat.user_ticks)));
        self.push(out, "server_system_us", stat.clone().map(|stat| us(stat.system_ticks)));
        self.push(out, "server_minor_faults", stat.clone().map(|stat| stat.minor_faults));
        self.push(out, "server_major_faults", stat.map(|stat| stat.major_faults));
        out.push(match resident_pages {
            Ok(Some(pages)) => {
                Reading::gauge(NAME, "server_resident_bytes", &self.subject, pages as f64 * self.page_bytes)
            }
            Ok(None) => {
                let reason = "the kernel does not tell it".into();
                Reading::missing(NAME, "server_resident_bytes", &self.subject, &reason)
            }
            Err(reason) => Reading::missing(NAME, "server_resident_bytes", &self.subject, &reason),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn another_process_is_read_while_it_lives_and_null_with_a_reason_afterwards() {
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().expect("sleep is everywhere");
        let mut probe = ServerProbe::new(child.id());
        let mut out = Vec::new();
        probe.sample(&mut out);
        assert_eq!(out.len(), 7);
        assert!(out.iter().all(|row| row.reason.is_none()), "{out:?}");
        assert!(out.iter().any(|row| row.metric == "server_resident_bytes" && row.value > Some(0.0)));
        child.kill().expect("it lives");
        child.wait().expect("it was a child");
        out.clear();
        probe.sample(&mut out);
        assert!(out.iter().all(|row| row.reason.is_some()), "{out:?}");
    }
}
