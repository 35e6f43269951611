//! Reads a server's own counters. This file has the list of metrics, the expression for each on every version, and the
//! query.
//!
//! A sample is one query over the statistics views, prepared once. A metric that a version lacks is null with a reason
//! in every sample. `tests/postgres_run.rs` compares the list with a real server.
//!
//! Each process of a server collects counts in its own memory, and flushes them to shared memory when a transaction
//! ends, at most once a second. A query reads only flushed counts. So at the edges of a window every driver's
//! connection flushes its counts (`pg_stat_force_next_flush`). Between the edges a sample's counts are up to a second
//! old. The background writer flushes after each of its rounds, the checkpointer while it writes.
//!
//! The server does not count waits. pg_stat_activity shows which connections wait at the moment of a sample, by
//! wait_event_type. A session copies that view once in a transaction, and the reader's transaction lasts as long as the
//! run. So each sample clears the copy first.
//!
//! Names differ between versions: from 17 on, pg_stat_checkpointer has the counts of checkpoints. Meanings differ, too:
//!
//! - Up to 15, blks_read also counts the pages by which tables and indexes grow (ReadBufferExtended with P_NEW in
//!   bufmgr.c); from 16 on it does not. This file subtracts them ([`GROWTH`]), so that the shared metrics hold only
//!   reads on every version.
//! - From 17 on, blks_read counts a page again if another session has read it meanwhile. On every version it counts
//!   pages of temporary tables. From 16 on the shared metrics take reads from pg_stat_io, which counts neither.
//! - `pages_written` counts pages that checkpoints, the background writer and connections wrote. On 15, the pages of
//!   connections come from buffers_backend, which includes pages appended to a file. From 16 on they come from
//!   pg_stat_io, which counts appended pages separately (extends).
//! - Up to 17, reads and writes of pg_stat_io count pages. From 18 on they count operations of several pages each;
//!   `pages_written` and `postgres_io_pages_read` are then computed from the operations' bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bufferlab_probe::Reading;

use super::control::{Control, Reader};
use crate::failure::{Failure, FailureKind};
use crate::sampler::EngineCounters;

const PROBE: &str = "engine";
/// Names of the reader's prepared statements at the server.
const SAMPLE: &str = "sample";
const MISSES: &str = "misses";
const CLEAR: &str = "clear";
const CLEAR_SQL: &str = "SELECT pg_stat_clear_snapshot()";

/// A metric's kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Counter,
    /// A counter that could fall from one sample to the next, so samples report its largest value so far. It falls if a
    /// table grows: the growth, which is subtracted, shows at once, but blks_read includes it up to a second later.
    Held,
    Gauge,
}

use Kind::{Counter, Gauge, Held};

/// The source of a metric on one version of PostgreSQL.
#[derive(Clone, Copy, Debug)]
enum Told {
    /// An expression over the views of [`from_sql`].
    By(&'static str),
    /// The reason why the version has no source for the metric.
    Not(&'static str),
}

use Told::{By, Not};

const NO_GROWTH: Told = By("0");
const NO_STAT_IO: Told = Not("pg_stat_io exists from PostgreSQL 16 on");
const BACKEND_WRITES_MOVED: Told = Not("from PostgreSQL 17 on pg_stat_io tells what connections wrote");

/// Pages that connections read, from PostgreSQL 18 on. There pg_stat_io's `reads` counts operations of several pages,
/// so the pages are computed from its bytes.
const READ: Told = By("i.read_bytes / current_setting('block_size')::bigint");

type Metric = (&'static str, Kind, &'static [(u32, Told)]);

/// Every metric: bufferlab's name, the kind, and the source from each major version on.
const METRICS: &[Metric] = &[
    ("page_gets", Held, &[(15, By("d.blks_hit + d.blks_read - g.pages")), (16, By("d.blks_hit + d.blks_read"))]),
    ("demand_misses", Held, &[(15, By("d.blks_read - g.pages")), (16, By("i.reads")), (18, READ)]),
    ("pages_read", Held, &[(15, By("d.blks_read - g.pages")), (16, By("i.reads")), (18, READ)]),
    (
        "pages_written",
        Counter,
        &[
            (15, By("b.buffers_checkpoint + b.buffers_clean + b.buffers_backend")),
            (16, By("b.buffers_checkpoint + b.buffers_clean + i.writes")),
            (17, By("c.buffers_written + b.buffers_clean + i.writes")),
            (18, By("c.buffers_written + b.buffers_clean + i.write_bytes / current_setting('block_size')::bigint")),
        ],
    ),
    ("pool_frames", Gauge, &[(15, By("(SELECT setting FROM pg_settings WHERE name = 'shared_buffers')"))]),
    ("db_bytes", Gauge, &[(15, By("pg_database_size(d.datid)"))]),
    (
        "postgres_bgwriter_buffers_checkpoint",
        Counter,
        &[(15, By("b.buffers_checkpoint")), (17, By("c.buffers_written"))],
    ),
    ("postgres_bgwriter_buffers_clean", Counter, &[(15, By("b.buffers_clean"))]),
    ("postgres_bgwriter_maxwritten_clean", Counter, &[(15, By("b.maxwritten_clean"))]),
    ("postgres_bgwriter_buffers_backend", Counter, &[(15, By("b.buffers_backend")), (17, BACKEND_WRITES_MOVED)]),
    (
        "postgres_bgwriter_buffers_backend_fsync",
        Counter,
        &[(15, By("b.buffers_backend_fsync")), (17, BACKEND_WRITES_MOVED)],
    ),
    ("postgres_bgwriter_buffers_alloc", Counter, &[(15, By("b.buffers_alloc"))]),
    ("postgres_checkpointer_num_timed", Counter, &[(15, By("b.checkpoints_timed")), (17, By("c.num_timed"))]),
    ("postgres_checkpointer_num_requested", Counter, &[(15, By("b.checkpoints_req")), (17, By("c.num_requested"))]),
    ("postgres_wal_records", Counter, &[(15, By("w.wal_records"))]),
    ("postgres_wal_fpi", Counter, &[(15, By("w.wal_fpi"))]),
    ("postgres_wal_bytes", Counter, &[(15, By("w.wal_bytes"))]),
    (XACT_COMMIT, Counter, &[(15, By("d.xact_commit"))]),
    ("postgres_database_blks_read", Counter, &[(15, By("d.blks_read"))]),
    ("postgres_database_blks_hit", Counter, &[(15, By("d.blks_hit"))]),
    ("postgres_growth_pages", Counter, &[(15, By("g.pages")), (16, NO_GROWTH)]),
    ("postgres_growth_heap_pages", Counter, &[(15, By("g.heap")), (16, NO_GROWTH)]),
    ("postgres_growth_idx_pages", Counter, &[(15, By("g.idx")), (16, NO_GROWTH)]),
    ("postgres_database_xact_rollback", Counter, &[(15, By("d.xact_rollback"))]),
    ("postgres_database_tup_returned", Counter, &[(15, By("d.tup_returned"))]),
    ("postgres_database_tup_fetched", Counter, &[(15, By("d.tup_fetched"))]),
    ("postgres_database_tup_inserted", Counter, &[(15, By("d.tup_inserted"))]),
    ("postgres_database_tup_updated", Counter, &[(15, By("d.tup_updated"))]),
    ("postgres_database_tup_deleted", Counter, &[(15, By("d.tup_deleted"))]),
    ("postgres_database_deadlocks", Counter, &[(15, By("d.deadlocks"))]),
    ("postgres_database_temp_bytes", Counter, &[(15, By("d.temp_bytes"))]),
    ("postgres_io_pages_read", Counter, &[(15, NO_STAT_IO), (16, By("i.reads")), (18, READ)]),
    ("postgres_io_normal_reads", Counter, &[(15, NO_STAT_IO), (16, By("i.normal_reads"))]),
    ("postgres_io_normal_writes", Counter, &[(15, NO_STAT_IO), (16, By("i.normal_writes"))]),
    ("postgres_io_normal_extends", Counter, &[(15, NO_STAT_IO), (16, By("i.normal_extends"))]),
    ("postgres_io_normal_hits", Counter, &[(15, NO_STAT_IO), (16, By("i.normal_hits"))]),
    ("postgres_io_normal_evictions", Counter, &[(15, NO_STAT_IO), (16, By("i.normal_evictions"))]),
    ("postgres_io_normal_reuses", Counter, &[(15, NO_STAT_IO), (16, By("i.normal_reuses"))]),
    ("postgres_io_bulkread_reads", Counter, &[(15, NO_STAT_IO), (16, By("i.bulkread_reads"))]),
    ("postgres_io_bulkread_writes", Counter, &[(15, NO_STAT_IO), (16, By("i.bulkread_writes"))]),
    ("postgres_io_bulkread_extends", Counter, &[(15, NO_STAT_IO), (16, By("i.bulkread_extends"))]),
    ("postgres_io_bulkread_hits", Counter, &[(15, NO_STAT_IO), (16, By("i.bulkread_hits"))]),
    ("postgres_io_bulkread_evictions", Counter, &[(15, NO_STAT_IO), (16, By("i.bulkread_evictions"))]),
    ("postgres_io_bulkread_reuses", Counter, &[(15, NO_STAT_IO), (16, By("i.bulkread_reuses"))]),
    ("postgres_activity_lock", Gauge, &[(15, By("a.lock"))]),
    ("postgres_activity_lwlock", Gauge, &[(15, By("a.lwlock"))]),
    ("postgres_activity_io", Gauge, &[(15, By("a.io"))]),
    ("postgres_statio_heap_blks_read", Counter, &[(15, By("t.heap_read"))]),
    ("postgres_statio_heap_blks_hit", Counter, &[(15, By("t.heap_hit"))]),
    ("postgres_statio_idx_blks_read", Counter, &[(15, By("t.idx_read"))]),
    ("postgres_statio_idx_blks_hit", Counter, &[(15, By("t.idx_hit"))]),
];

/// The counter of commits. Samples subtract from it bufferlab's own transactions, which flush counters.
const XACT_COMMIT: &str = "postgres_database_xact_commit";
const FRAMES_USED: &str = "pool_frames_used";

/// Columns of pg_stat_io, which a sample reads from the rows of two contexts. A value is NULL if the operation does not
/// exist in that context.
const IO_COLUMNS: [&str; 6] = ["reads", "writes", "extends", "hits", "evictions", "reuses"];

/// Returns the source of a metric on this major version of PostgreSQL.
fn told(metric: &Metric, major: u32) -> Told {
    let known = metric.2.iter().rev().find(|(from, _)| *from <= major);
    known.map_or(Not("bufferlab does not know this version"), |(_, told)| *told)
}

/// The last major version whose blks_read also counts the pages by which tables and indexes grow.
const LAST_WITH_GROWTH: u32 = 15;
/// The query for the pages in the main forks of all tables and indexes outside of the catalogues; blks_read does not
/// count the growth of other forks. The query waits while a session has an exclusive lock on a table.
const GROWTH: &str = "SELECT coalesce(sum(pages), 0) AS pages, \
    coalesce(sum(pages) FILTER (WHERE relkind IN ('r', 'm')), 0) AS heap, \
    coalesce(sum(pages) FILTER (WHERE relkind = 'i' AND relnamespace <> 'pg_toast'::regnamespace), 0) AS idx \
    FROM (SELECT relkind, relnamespace, pg_relation_size(oid) / current_setting('block_size')::bigint AS pages \
    FROM pg_class WHERE oid >= 16384 AND relkind IN ('r', 'm', 't', 'i', 'S')) AS c";

/// Returns SQL, under the name `g`, for the pages by which tables and indexes have grown since this call. Returns none
/// if the version's blks_read does not count growth. The growth counts from this call on, so that it is never more than
/// blks_read.
fn growth_sql(control: &mut Control, major: u32) -> Result<Option<String>, Failure> {
    if major > LAST_WITH_GROWTH {
        return Ok(None);
    }
    let before = control.number("adding up the sizes of tables", GROWTH)?;
    Ok(Some(format!("(SELECT pages - {before} AS pages, heap, idx FROM ({GROWTH}) AS sizes) AS g")))
}

/// Returns the FROM clause: the views of one version, under short names. From pg_stat_io it takes the rows for tables
/// and indexes, for two types of processes: those of connections, and the workers that read a table in parallel with
/// them. The statistics of tables exclude catalogues.
fn from_sql(major: u32, growth: Option<&str>) -> String {
    let mut sql = "FROM pg_stat_database AS d CROSS JOIN pg_stat_bgwriter AS b CROSS JOIN pg_stat_wal AS w \
        CROSS JOIN (SELECT coalesce(sum(heap_blks_read), 0) AS heap_read, coalesce(sum(heap_blks_hit), 0) AS heap_hit, \
        coalesce(sum(idx_blks_read), 0) AS idx_read, coalesce(sum(idx_blks_hit), 0) AS idx_hit \
        FROM pg_statio_user_tables) AS t CROSS JOIN LATERAL (SELECT \
        count(*) FILTER (WHERE wait_event_type = 'Lock') AS lock, \
        count(*) FILTER (WHERE wait_event_type IN ('LWLock', 'Buffer')) AS lwlock, \
        count(*) FILTER (WHERE wait_event_type = 'IO') AS io \
        FROM pg_stat_activity WHERE datid = d.datid AND backend_type = 'client backend') AS a"
        .to_owned();
    if let Some(growth) = growth {
        sql += &format!(" CROSS JOIN {growth}");
    }
    if major >= 16 {
        let of = |context: &str, column: &str| {
            format!("coalesce(sum({column}) FILTER (WHERE context = '{context}'), 0) AS {context}_{column}")
        };
        let columns =
            ["normal", "bulkread"].into_iter().flat_map(|context| IO_COLUMNS.map(|column| of(context, column)));
        let summed = if major >= 18 { "reads, writes, read_bytes, write_bytes" } else { "reads, writes" };
        let sums = summed.split(", ").map(|column| format!("coalesce(sum({column}), 0) AS {column}"));
        let columns: Vec<String> = columns.chain(sums).collect();
        let columns = columns.join(", ");
        sql += &format!(
            " CROSS JOIN (SELECT {columns} FROM pg_stat_io \
             WHERE backend_type IN ('client backend', 'background worker') AND object = 'relation') AS i"
        );
    }
    if major >= 17 {
        sql += " CROSS JOIN pg_stat_checkpointer AS c";
    }
    sql
}

/// Returns the query of a sample. It has a column for each metric of this version, then the used frames if
/// `tells_frames`, then the time at which the counters were reset.
fn sample_sql(major: u32, growth: Option<&str>, tells_frames: bool) -> String {
    let mut columns: Vec<String> = Vec::new();
    for metric in METRICS {
        if let By(expression) = told(metric, major) {
            columns.push(format!("({expression})::bigint"));
        }
    }
    if tells_frames {
        columns.push("(SELECT buffers_used FROM pg_buffercache_summary())::bigint".to_owned());
    }
    columns.push("(extract(epoch FROM d.stats_reset) * 1000000)::bigint".to_owned());
    format!("SELECT {} {} WHERE d.datname = current_database()", columns.join(", "), from_sql(major, growth))
}

/// Reads only the demand misses, for the warm-up gate: this costs less than a whole sample.
pub struct DemandMisses {
    reader: Reader,
    last: u64,
}

impl DemandMisses {
    /// Makes a reader over this connection.
    ///
    /// # Errors
    /// When the server is older than PostgreSQL 15, does not answer, or refuses a query.
    pub fn new(mut control: Control) -> Result<Self, Failure> {
        let oid = "SELECT oid FROM pg_database WHERE datname = current_database()";
        let oid = control.number("looking for the database", oid)?;
        let mut sql = format!("SELECT pg_stat_get_db_blocks_fetched({oid}) - pg_stat_get_db_blocks_hit({oid})");
        let major = control.major()?;
        if let Some(growth) = growth_sql(&mut control, major)? {
            sql += &format!(" - g.pages FROM {growth}");
        }
        Ok(DemandMisses { reader: Reader::new(control, &[(MISSES, &sql)])?, last: 0 })
    }

    /// Returns the demand misses since the server started, as far as its processes have flushed them; they never fall.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn read(&mut self) -> Result<u64, Failure> {
        let misses = self.reader.numbers(MISSES)?.first().copied().flatten().unwrap_or(0);
        self.last = self.last.max(misses.max(0) as u64);
        Ok(self.last)
    }
}

/// A reader of all counters of one server.
pub struct Counters {
    reader: Reader,
    major: u32,
    own_commits: Arc<AtomicU64>,
    no_frames: Option<Arc<str>>,
    /// The largest value so far of each counter of the kind [`Kind::Held`], by its place in [`METRICS`].
    held: Vec<i64>,
    /// The time at which the server's counters were last set to zero, as the first sample read it; none before the
    /// first sample. The inner option is none for a server that never reset its counters.
    reset_us: Option<Option<i64>>,
    no_subject: Arc<str>,
}

impl Counters {
    /// Makes a reader over this connection. `own_commits` counts commits of bufferlab itself.
    ///
    /// # Errors
    /// When the server is older than PostgreSQL 15, does not answer, or refuses a query.
    pub fn new(mut control: Control, own_commits: Arc<AtomicU64>) -> Result<Self, Failure> {
        let major = control.major()?;
        let no_frames = frames_untold(&mut control, major)?;
        let growth = growth_sql(&mut control, major)?;
        let sql = sample_sql(major, growth.as_deref(), no_frames.is_none());
        let reader = Reader::new(control, &[(SAMPLE, &sql), (CLEAR, CLEAR_SQL)])?;
        let no_frames = no_frames.map(Arc::from);
        let held = vec![0; METRICS.len()];
        Ok(Counters { reader, major, own_commits, no_frames, held, reset_us: None, no_subject: Arc::from("") })
    }

    fn push(&self, out: &mut Vec<Reading>, (metric, kind): (&'static str, Kind), value: Result<i64, Arc<str>>) {
        out.push(match kind {
            Counter | Held => Reading::counter_or(PROBE, metric, &self.no_subject, value),
            Gauge => Reading::gauge_or(PROBE, metric, &self.no_subject, value.map(|value| value as f64)),
        });
    }
}

/// Returns the reason why no query can count used frames; none if one can. Creates the extension pg_buffercache, if the
/// server offers it and the role may.
fn frames_untold(control: &mut Control, major: u32) -> Result<Option<String>, Failure> {
    if major < 16 {
        return Ok(Some("pg_buffercache_summary() exists from PostgreSQL 16 on".to_owned()));
    }
    let there = "SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_buffercache'";
    if control.number("looking for pg_buffercache", there)? == 0 {
        return Ok(Some("this server is built without the extension pg_buffercache".to_owned()));
    }
    let tried = control
        .try_execute("CREATE EXTENSION IF NOT EXISTS pg_buffercache")
        .and_then(|()| control.try_execute("SELECT buffers_used FROM pg_buffercache_summary()"));
    match tried {
        Ok(()) => Ok(None),
        Err(error) if error.leaves_the_connection_whole() => {
            Ok(Some(format!("pg_buffercache cannot be used: {error}")))
        }
        Err(error) => Err(super::error::failure("looking for pg_buffercache", control.place(), &error)),
    }
}

impl EngineCounters for Counters {
    fn read(&mut self, out: &mut Vec<Reading>) -> Result<(), Failure> {
        // The client counts a commit of its own after the server has counted it, so a sample never subtracts more than
        // the counter's value.
        let own = self.own_commits.load(Ordering::Relaxed) as i64;
        self.reader.numbers(CLEAR)?;
        let mut values = self.reader.numbers(SAMPLE)?.into_iter();
        let silent: Arc<str> = "the server did not tell this metric".into();
        for (place, row) in METRICS.iter().enumerate() {
            let (metric, kind, _) = *row;
            let mut value = match told(row, self.major) {
                By(_) => values.next().flatten().ok_or_else(|| Arc::clone(&silent)),
                Not(reason) => Err(reason.into()),
            };
            if metric == XACT_COMMIT {
                value = value.map(|commits| commits - own);
            }
            if kind == Held
                && let Ok(count) = &mut value
            {
                *count = self.held[place].max(*count);
                self.held[place] = *count;
            }
            self.push(out, (metric, kind), value);
        }
        let used = match &self.no_frames {
            None => values.next().flatten().ok_or(silent),
            Some(reason) => Err(Arc::clone(reason)),
        };
        self.push(out, (FRAMES_USED, Gauge), used);
        let reset_us = values.next().flatten();
        if *self.reset_us.get_or_insert(reset_us) != reset_us {
            let what = "somebody reset the server's counters during the run (pg_stat_reset)";
            return Err(Failure::new(FailureKind::Environment, what, "pg_stat_database", "run again without that"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::connection::tests::connection;
    use super::super::control::tests::control;
    use super::super::wire::tests::message;
    use super::*;

    #[test]
    fn no_name_is_emitted_twice_and_every_figure_is_known_on_every_version() {
        let mut names: Vec<&str> = METRICS.iter().map(|(metric, ..)| *metric).chain([FRAMES_USED]).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        for metric in METRICS {
            assert!(metric.2.windows(2).all(|pair| pair[0].0 < pair[1].0), "{} is not in order", metric.0);
            assert_eq!(metric.2[0].0, 15, "{} is unknown on the oldest version", metric.0);
        }
    }

    #[test]
    fn a_sample_asks_a_version_only_for_what_it_has() {
        let sql = |major| sample_sql(major, (major <= LAST_WITH_GROWTH).then_some("growth AS g"), major >= 16);
        assert!(sql(15).contains("d.blks_read - g.pages") && sql(15).contains("growth AS g"));
        assert!(!sql(16).contains("g.pages") && !sql(16).contains("AS g"));
        assert!(!sql(15).contains("pg_stat_io") && sql(15).contains("buffers_backend"));
        assert!(sql(16).contains("pg_stat_io") && sql(16).contains("buffers_backend"));
        assert!(!sql(17).contains("buffers_backend") && sql(17).contains("c.buffers_written"));
        assert!(!sql(17).contains("write_bytes") && sql(18).contains("write_bytes"));
        assert!(!sql(17).contains("i.read_bytes") && sql(18).contains("i.read_bytes"));
        let of_the_database = |major| sql(major).matches("(d.blks_read)::bigint").count();
        assert_eq!((16..=19).map(of_the_database).sum::<usize>(), 4, "from 16 on pg_stat_io has the shared reads");
        assert!(sql(19).contains("IN ('LWLock', 'Buffer')"), "waits for a buffer's content have a type from 19 on");
        assert!(sql(16).contains("'background worker'"), "a scan's parallel workers read for a connection");
        assert!((15..=19).all(|major| sql(major).contains("(a.lock)::bigint")), "waits are told on every version");
        assert!(sql(19).contains("pg_stat_checkpointer"), "a newer one is taken to be like the newest known");
    }

    #[test]
    fn a_sample_asks_last_when_the_counters_were_reset() {
        for (major, tells_frames) in [(15, false), (16, true), (17, false), (18, true)] {
            let sql = sample_sql(major, None, tells_frames);
            let views = format!(" {}", from_sql(major, None));
            let (columns, _) = sql.split_once(&views).expect("columns, and then the views that have them");
            assert!(columns.ends_with(", (extract(epoch FROM d.stats_reset) * 1000000)::bigint"), "{columns}");
            assert_eq!(columns.contains("buffers_used"), tells_frames);
        }
    }

    /// Returns the reader of a scripted PostgreSQL 15 whose counters are all 1. Each sample has the next of these times
    /// of a reset.
    fn counters(resets: &[Option<&str>]) -> Counters {
        let described = [message(b'1', b""), message(b't', b"\0\0"), message(b'n', b""), message(b'Z', b"I")].concat();
        let bytes = |value: &Option<&str>| match value {
            Some(text) => [&(text.len() as i32).to_be_bytes()[..], text.as_bytes()].concat(),
            None => (-1i32).to_be_bytes().to_vec(),
        };
        let row = |values: &[Option<&str>]| {
            let body = [(values.len() as i16).to_be_bytes().to_vec(), values.iter().flat_map(bytes).collect()].concat();
            [message(b'2', b""), message(b'D', &body), message(b'Z', b"T")].concat()
        };
        let figures = METRICS.iter().filter(|metric| matches!(told(metric, 15), By(_))).count();
        let sample = |&reset: &Option<&str>| [row(&[None]), row(&[vec![Some("1"); figures], vec![reset]].concat())];
        let cues = [described.clone(), described, message(b'Z', b"T")];
        let control = control(connection(cues.into_iter().chain(resets.iter().flat_map(sample))));
        Counters {
            reader: Reader::new(control, &[(SAMPLE, "SELECT 1"), (CLEAR, CLEAR_SQL)]).expect("it is scripted"),
            major: 15,
            own_commits: Arc::default(),
            no_frames: Some(Arc::from("15 counts none")),
            held: vec![0; METRICS.len()],
            reset_us: None,
            no_subject: Arc::from(""),
        }
    }

    #[test]
    fn counters_that_were_reset_before_a_run_are_read_and_a_reset_during_it_ends_it() {
        for before in [None, Some("5")] {
            let (mut counters, mut rows) = (counters(&[before, before, Some("7")]), Vec::new());
            counters.read(&mut rows).expect("the first sample");
            counters.read(&mut rows).expect("nobody has reset them since");
            let failure = counters.read(&mut rows).expect_err("they begin from zero again");
            assert_eq!(failure.kind, FailureKind::Environment, "{failure}");
            assert!(failure.what.contains("pg_stat_reset"), "{failure}");
        }
    }
}
