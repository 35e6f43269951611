//! Reads a server's own counters. This file has the list of metrics, the names that versions of the server have for
//! each, and the queries.
//!
//! A sample is two queries: SHOW GLOBAL STATUS for status variables, and information_schema.INNODB_METRICS for InnoDB's
//! metrics, which are off in every server. The run switches them on by name when it begins. A metric that a version
//! lacks is null with a reason in every sample. `tests/mysql_run.rs` compares the list with a real server.
//!
//! For a sample the server returns 55 to 65 rows and uses 0.3 to 0.6 ms of processor time, measured on a busy machine.
//! A sample accesses no page (none in 500 samples on 5.6, 5.7, 8.0, 10.2, 10.11 and 11.4).
//!
//! Names differ between versions: MySQL 5.7 to 8.0 and MariaDB 10.2 count LRU batches as buffer_LRU_batches_flush and
//! _evict. MySQL 5.6 has buffer_LRU_batches and buffer_LRU_batch_total_pages, and evicts clean pages in no batch.
//! Meanings differ, too:
//!
//! - Demand misses are reads without read-ahead. Innodb_buffer_pool_reads of MySQL and of MariaDB up to 10.4 counts
//!   random read-ahead, but not linear read-ahead. From MariaDB 10.5 on it counts every page read
//!   (buf_pool.stat.n_pages_read). So this file always subtracts random read-ahead, and from MariaDB 10.5 on also
//!   linear read-ahead. Seen in a scan through a cold table of 4,500 leaves: 5.7.22 reports 96 reads, 4,407 pages of
//!   read-ahead and 4,503 pages read; 10.11.19 reports 4,703 reads, 4,543 pages of read-ahead and 4,703 pages read.
//!   Seen in point selects with random read-ahead on: 5.7.22 reports 1,794 reads, 177 pages of random read-ahead and
//!   1,794 pages read; 5.6.24, 8.0.15 and MariaDB 10.2.11 do the same.
//! - `db_write_bytes`, Innodb_data_written, holds the pages and their copies in the doublewrite area. MySQL and MariaDB
//!   10.2 add the redo log to it; MariaDB from 10.5 on does not. Seen in 2,000 small commits: 5.7.22 wrote 127 pages,
//!   127 copies and 2.1 MB of redo, and counted 6.25 MB; 10.11.19 wrote 0.4 MB of redo, and counted no byte.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bufferlab_probe::Reading;

use super::control::Control;
use super::version::Version;
use crate::failure::Failure;
use crate::sampler::EngineCounters;
use crate::server::storage_engine::StorageEngine;

pub(super) const PROBE: &str = "engine";
pub(super) const DEMAND_MISSES: &str = "demand_misses";

/// Metrics that all engines share, each with the status variable that gives it.
const SHARED: &[(&str, &str)] = &[
    ("page_gets", "innodb_buffer_pool_read_requests"),
    ("pages_read", "innodb_pages_read"),
    ("pages_written", "innodb_pages_written"),
    ("pages_created", "innodb_pages_created"),
    ("db_read_bytes", "innodb_data_read"),
    ("db_write_bytes", "innodb_data_written"),
];

/// Returns the names of the metrics that all engines share, without the demand misses.
pub(super) fn shared_metrics() -> impl Iterator<Item = &'static str> {
    SHARED.iter().map(|(metric, _)| *metric)
}

/// Status variables that only grow. Their metrics have the same names, in small letters.
const STATUS_COUNTERS: &[&str] = &[
    "innodb_buffer_pool_wait_free",
    "innodb_buffer_pool_read_ahead",
    "innodb_buffer_pool_read_ahead_rnd",
    "innodb_buffer_pool_read_ahead_evicted",
    "innodb_buffer_pool_write_requests",
    "innodb_buffer_pool_pages_flushed",
    "innodb_data_reads",
    "innodb_data_writes",
    "innodb_data_fsyncs",
    "innodb_os_log_written",
    "innodb_log_waits",
    "innodb_dblwr_pages_written",
    "innodb_dblwr_writes",
    "innodb_row_lock_waits",
    "innodb_row_lock_time",
    "innodb_rows_read",
    "innodb_rows_inserted",
    "innodb_rows_updated",
    "innodb_rows_deleted",
    "com_commit",
    "com_rollback",
    "questions",
];

/// Status variables that are levels, which may fall.
const STATUS_LEVELS: &[&str] = &[
    "innodb_buffer_pool_pages_total",
    "innodb_buffer_pool_pages_free",
    "innodb_buffer_pool_pages_data",
    "innodb_buffer_pool_pages_dirty",
    "innodb_buffer_pool_pages_misc",
    "innodb_buffer_pool_bytes_data",
];

/// Metrics of InnoDB: bufferlab's name for each, and the names that versions of the server have for it.
const METRICS: &[(&str, &[&str])] = &[
    ("innodb_metric_buffer_lru_get_free_search", &["buffer_lru_get_free_search"]),
    ("innodb_metric_buffer_lru_get_free_loops", &["buffer_lru_get_free_loops"]),
    ("innodb_metric_buffer_lru_get_free_waits", &["buffer_lru_get_free_waits"]),
    ("innodb_metric_buffer_lru_search_scanned", &["buffer_lru_search_scanned"]),
    ("innodb_metric_buffer_lru_search_num_scan", &["buffer_lru_search_num_scan"]),
    ("innodb_metric_buffer_lru_single_flush_num_scan", &["buffer_lru_single_flush_num_scan"]),
    ("innodb_metric_buffer_lru_single_flush_scanned", &["buffer_lru_single_flush_scanned"]),
    ("innodb_metric_buffer_lru_single_flush_failure_count", &["buffer_lru_single_flush_failure_count"]),
    ("innodb_metric_buffer_lru_batch_scanned", &["buffer_lru_batch_scanned"]),
    ("innodb_metric_buffer_lru_batch_num_scan", &["buffer_lru_batch_num_scan"]),
    (
        "innodb_metric_buffer_lru_batch_flush_total_pages",
        &["buffer_lru_batch_flush_total_pages", "buffer_lru_batch_total_pages"],
    ),
    ("innodb_metric_buffer_lru_batch_flush_count", &["buffer_lru_batches_flush", "buffer_lru_batches"]),
    ("innodb_metric_buffer_lru_batch_evict_total_pages", &["buffer_lru_batch_evict_total_pages"]),
    ("innodb_metric_buffer_lru_batch_evict_count", &["buffer_lru_batches_evict"]),
    ("innodb_metric_buffer_flush_batch_total_pages", &["buffer_flush_batch_total_pages"]),
    ("innodb_metric_buffer_flush_batch_num_scan", &["buffer_flush_batch_num_scan"]),
    ("innodb_metric_buffer_flush_adaptive_total_pages", &["buffer_flush_adaptive_total_pages"]),
    ("innodb_metric_buffer_flush_background_total_pages", &["buffer_flush_background_total_pages"]),
    ("innodb_metric_buffer_flush_neighbor_total_pages", &["buffer_flush_neighbor_total_pages"]),
    ("innodb_metric_buffer_flush_sync_total_pages", &["buffer_flush_sync_total_pages"]),
    ("innodb_metric_buffer_flush_n_to_flush_requested", &["buffer_flush_n_to_flush_requested"]),
    ("innodb_metric_buffer_pages_created", &["buffer_pages_created"]),
    ("innodb_metric_buffer_pages_read", &["buffer_pages_read"]),
    ("innodb_metric_buffer_pages_written", &["buffer_pages_written"]),
    ("innodb_metric_index_page_splits", &["index_page_splits"]),
    ("innodb_metric_trx_rseg_history_len", &["trx_rseg_history_len"]),
    ("innodb_metric_ibuf_merges", &["ibuf_merges"]),
    ("innodb_metric_adaptive_hash_searches", &["adaptive_hash_searches"]),
    ("innodb_metric_adaptive_hash_searches_btree", &["adaptive_hash_searches_btree"]),
    ("innodb_metric_log_lsn_current", &["log_lsn_current"]),
    ("innodb_metric_log_max_modified_age_async", &["log_max_modified_age_async"]),
    ("innodb_metric_log_max_modified_age_sync", &["log_max_modified_age_sync"]),
];

/// Metrics that the server sets to its latest value instead of adding to them: levels, which may fall.
const METRIC_LEVELS: [&str; 4] = [
    "innodb_metric_buffer_flush_n_to_flush_requested",
    "innodb_metric_trx_rseg_history_len",
    "innodb_metric_log_max_modified_age_async",
    "innodb_metric_log_max_modified_age_sync",
];

/// Metrics that switch others: InnoDB counts the members of a set of metrics only while the set's owner is on. The
/// other owners are in [`METRICS`].
const OWNERS: [&str; 1] = ["buffer_flush_batch_scanned"];

const READS: &str = "innodb_buffer_pool_reads";
/// The status variables of linear and of random read-ahead.
const READ_AHEAD: [&str; 2] = ["innodb_buffer_pool_read_ahead", "innodb_buffer_pool_read_ahead_rnd"];
/// The LSN minus the last checkpoint's, in bytes: a status variable of MariaDB from 10.5 on, elsewhere the difference
/// of the two metrics in `LSN`.
const CHECKPOINT_AGE: &str = "innodb_checkpoint_age";
const LSN: [&str; 2] = ["log_lsn_current", "log_lsn_last_checkpoint"];

/// The metric of the LSN at which the oldest dirty page became dirty: its name in MySQL up to 5.7 and in MariaDB, then
/// its name from MySQL 8.0 on. The LSN is zero while no page is dirty.
const OLDEST_LSN: [&str; 2] = ["log_lsn_buf_pool_oldest", "log_lsn_buf_pool_oldest_approx"];

pub(super) type Values = HashMap<String, i64>;

/// Reads only the demand misses, for the warm-up gate: this costs less than a whole sample.
pub struct DemandMisses {
    control: Control,
    one_pool: bool,
    /// The storage engine of the tables, if it is not InnoDB.
    engine: Option<StorageEngine>,
    last: u64,
}

impl DemandMisses {
    /// Makes a reader of a server of this version over its control connection.
    pub fn new(control: Control, version: &Version, engine: Option<StorageEngine>) -> Self {
        DemandMisses { control, one_pool: version.has_one_pool(), engine, last: 0 }
    }

    /// Returns the demand misses since the server started. They never fall.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn read(&mut self) -> Result<u64, Failure> {
        Ok(self.read_with(&[])?.0)
    }

    /// Returns the demand misses, and the sum of the status variables named `variables`.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn read_with(&mut self, variables: &[&str]) -> Result<(u64, u64), Failure> {
        let names: Vec<&str> = [READS].iter().chain(&READ_AHEAD).chain(variables).copied().collect();
        let values = status(&mut self.control, &names)?;
        let misses = match &self.engine {
            None => demand_misses(&values, self.one_pool).unwrap_or(0).max(0) as u64,
            Some(engine) => {
                let values = status(&mut self.control, &engine.variables(DEMAND_MISSES))?;
                engine.value(DEMAND_MISSES, &values).unwrap_or(0).max(0) as u64
            }
        };
        self.last = self.last.max(misses);
        let sum = variables.iter().filter_map(|name| values.get(*name)).sum::<i64>();
        Ok((self.last, sum.max(0) as u64))
    }

    /// Returns the connection, for other statements at the edges of windows.
    pub fn control(&mut self) -> &mut Control {
        &mut self.control
    }
}

/// Returns the number of pages for whose reads statements had to wait, that is, without read-ahead; none if the server
/// does not count reads.
fn demand_misses(values: &Values, one_pool: bool) -> Option<i64> {
    let reads = *values.get(READS)?;
    let ahead = READ_AHEAD.map(|name| values.get(name).copied().unwrap_or(0));
    Some(reads - ahead[1] - if one_pool { ahead[0] } else { 0 })
}

/// Returns every metric that the server has, by its name in small letters, with the value 1 if it is on. Later versions
/// of MariaDB have another column (ENABLED) for the state.
fn metrics_known(control: &mut Control) -> Result<Values, Failure> {
    let ask = |on: &str| format!("SELECT LOWER(NAME), IF({on}, '1', '0') FROM information_schema.INNODB_METRICS");
    let action = "listing InnoDB's metrics";
    let known = control.pairs(action, &ask("STATUS = 'enabled'"));
    Ok(values(known.or_else(|_| control.pairs(action, &ask("ENABLED = 1")))?))
}

/// Returns the redo bytes since the oldest dirty page became dirty; 0 if no page is dirty, none if the server does not
/// report it.
fn oldest_change_age(metrics: &Values) -> Option<i64> {
    let (current, oldest) = (*metrics.get(LSN[0])?, OLDEST_LSN.iter().find_map(|name| metrics.get(*name))?);
    Some(if *oldest == 0 { 0 } else { (current - oldest).max(0) })
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ")
}

/// Returns the values of status variables, by their names in small letters.
pub(super) fn status(control: &mut Control, names: &[&str]) -> Result<Values, Failure> {
    let sql = format!("SHOW GLOBAL STATUS WHERE Variable_name IN ({})", quoted(names));
    Ok(values(control.pairs("reading the server's status", &sql)?))
}

fn values(pairs: Vec<(String, String)>) -> Values {
    let parsed = pairs.into_iter().map(|(name, value)| Some((name.to_ascii_lowercase(), value.parse().ok()?)));
    parsed.flatten().collect()
}

/// A reader of all counters of one server.
pub struct Counters {
    control: Control,
    one_pool: bool,
    status_sql: String,
    metrics_sql: Option<String>,
    /// The server's name for each of `METRICS`, or the reason why the server has no such metric.
    metrics: Vec<Result<&'static str, Arc<str>>>,
    /// The reason that samples give for a status variable that the server lacks.
    no_status: Arc<str>,
    tablespaces: Result<PathBuf, Arc<str>>,
    last_demand_misses: i64,
    no_subject: Arc<str>,
}

impl Counters {
    /// Makes a reader of all counters. It switches InnoDB's metrics on if the run may change the server's settings;
    /// else it reads only those that are on already. `schema` is the directory of the run's tables, if this host can
    /// read it.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn new(
        mut control: Control,
        version: &Version,
        schema: Option<&Path>,
        may_change_settings: bool,
    ) -> Result<Self, Failure> {
        let known = metrics_known(&mut control)?;
        let mut enable = |name: &str| -> Result<(), Arc<str>> {
            if !may_change_settings {
                let off = "it is off at this server, and bufferlab does not change this server's settings";
                return if known.get(name) == Some(&1) { Ok(()) } else { Err(off.into()) };
            }
            let sql = format!("SET GLOBAL innodb_monitor_enable = '{name}'");
            control
                .execute("switching a metric on", &sql)
                .map_err(|error| format!("the server does not switch it on: {}", error.what).into())
        };
        let absent: Arc<str> = format!("server {} has no such metric", version.text).into();
        let mut metrics = Vec::with_capacity(METRICS.len());
        for (_, names) in METRICS {
            let found = names.iter().find(|name| known.contains_key(**name)).ok_or_else(|| Arc::clone(&absent));
            metrics.push(found.and_then(|name| enable(name).map(|()| *name)));
        }
        for name in OWNERS.iter().chain(&LSN).chain(&OLDEST_LSN).filter(|name| known.contains_key(**name)) {
            let _ = enable(name);
        }
        let read: Vec<&str> = metrics.iter().flatten().copied().chain(LSN).chain(OLDEST_LSN).collect();
        let shared = SHARED.iter().map(|(_, variable)| variable);
        let own = STATUS_COUNTERS.iter().chain(STATUS_LEVELS).chain(&[READS, CHECKPOINT_AGE]);
        let variables: Vec<&str> = shared.chain(own).copied().collect();
        Ok(Counters {
            control,
            one_pool: version.has_one_pool(),
            status_sql: format!("SHOW GLOBAL STATUS WHERE Variable_name IN ({})", quoted(&variables)),
            metrics_sql: (!known.is_empty()).then(|| {
                let names = quoted(&read);
                format!(
                    "SELECT NAME, CAST(`COUNT` AS CHAR) FROM information_schema.INNODB_METRICS WHERE NAME IN ({names})"
                )
            }),
            metrics,
            no_status: format!("server {} has no such status variable", version.text).into(),
            tablespaces: schema
                .map(Path::to_owned)
                .ok_or_else(|| "bufferlab does not know the server's data directory".into()),
            last_demand_misses: 0,
            no_subject: Arc::from(""),
        })
    }

    fn counter(&self, out: &mut Vec<Reading>, metric: &'static str, value: Option<i64>, reason: &Arc<str>) {
        let value = value.ok_or_else(|| Arc::clone(reason));
        out.push(Reading::counter_or(PROBE, metric, &self.no_subject, value));
    }

    fn gauge(&self, out: &mut Vec<Reading>, metric: &'static str, value: Option<i64>, reason: &Arc<str>) {
        let value = value.map(|value| value as f64).ok_or_else(|| Arc::clone(reason));
        out.push(Reading::gauge_or(PROBE, metric, &self.no_subject, value));
    }
}

impl EngineCounters for Counters {
    fn read(&mut self, out: &mut Vec<Reading>) -> Result<(), Failure> {
        let status = values(self.control.pairs("reading the server's status", &self.status_sql)?);
        let metrics = match &self.metrics_sql {
            Some(sql) => values(self.control.pairs("reading InnoDB's metrics", sql)?),
            None => Values::new(),
        };
        let absent = Arc::clone(&self.no_status);
        for (metric, variable) in SHARED {
            self.counter(out, metric, status.get(*variable).copied(), &absent);
        }
        let misses = demand_misses(&status, self.one_pool).map(|misses| misses.max(self.last_demand_misses));
        self.last_demand_misses = misses.unwrap_or(0);
        self.counter(out, DEMAND_MISSES, misses, &absent);
        for variable in STATUS_COUNTERS {
            self.counter(out, variable, status.get(*variable).copied(), &absent);
        }
        for variable in STATUS_LEVELS {
            self.gauge(out, variable, status.get(*variable).copied(), &absent);
        }
        let total = status.get("innodb_buffer_pool_pages_total").copied();
        let free = status.get("innodb_buffer_pool_pages_free").copied();
        self.gauge(out, "pool_frames", total, &absent);
        self.gauge(out, "pool_frames_used", total.zip(free).map(|(total, free)| total - free), &absent);
        let age = status.get(CHECKPOINT_AGE).copied().or_else(|| Some(metrics.get(LSN[0])? - metrics.get(LSN[1])?));
        self.gauge(out, "innodb_lsn_age_bytes", age, &absent);
        self.gauge(out, "innodb_oldest_change_age_bytes", oldest_change_age(&metrics), &absent);
        let db_bytes = self.tablespaces.clone().and_then(|schema| file_bytes(&schema, &["ibd"]));
        out.push(Reading::gauge_or(PROBE, "db_bytes", &self.no_subject, db_bytes.map(|bytes| bytes as f64)));
        let silent: Arc<str> = "the server did not tell this metric".into();
        for ((metric, _), name) in METRICS.iter().zip(&self.metrics) {
            match name {
                Ok(name) if METRIC_LEVELS.contains(metric) => {
                    self.gauge(out, metric, metrics.get(*name).copied(), &silent);
                }
                Ok(name) => self.counter(out, metric, metrics.get(*name).copied(), &silent),
                Err(reason) => self.counter(out, metric, None, reason),
            }
        }
        Ok(())
    }
}

/// Returns the bytes of the files of a folder whose names end in one of `endings`. A tablespace of InnoDB is one file
/// for each table, and for each partition.
pub(super) fn file_bytes(folder: &Path, endings: &[&str]) -> Result<u64, Arc<str>> {
    let unreadable =
        |error: std::io::Error| -> Arc<str> { format!("cannot read {}: {error}", folder.display()).into() };
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        if entry.path().extension().is_some_and(|ending| endings.iter().any(|each| ending == *each)) {
            bytes += entry.metadata().map_err(unreadable)?.len();
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_ahead_is_no_demand_whichever_of_it_a_server_counts_as_reads() {
        let values: Values = [(READS, 4_703), (READ_AHEAD[0], 4_500), (READ_AHEAD[1], 43)]
            .map(|(name, value)| (name.to_owned(), value))
            .into();
        assert_eq!(demand_misses(&values, true), Some(160));
        assert_eq!(demand_misses(&values, false), Some(4_660));
        assert_eq!(demand_misses(&Values::new(), true), None);
    }

    #[test]
    fn the_oldest_change_has_no_age_while_no_page_is_dirty() {
        let age = |name: &'static str, oldest| {
            oldest_change_age(&[(LSN[0], 900), (name, oldest)].map(|(name, value)| (name.to_owned(), value)).into())
        };
        assert_eq!(OLDEST_LSN.map(|name| age(name, 700)), [Some(200); 2]);
        assert_eq!((age(OLDEST_LSN[0], 0), age(OLDEST_LSN[0], 901)), (Some(0), Some(0)));
        assert_eq!(age("log_lsn_last_checkpoint", 700), None);
    }

    #[test]
    fn no_name_is_emitted_twice() {
        let of_status = STATUS_COUNTERS.iter().chain(STATUS_LEVELS);
        let named = SHARED.iter().map(|(metric, _)| metric).chain(METRICS.iter().map(|(metric, _)| metric));
        let mut names: Vec<&str> = of_status.chain(named).copied().collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn only_tablespaces_are_summed() {
        let schema = tempfile::tempdir().expect("a directory");
        for (name, bytes) in [("stock.ibd", 300), ("item.ibd", 20), ("stock.frm", 4_000)] {
            std::fs::write(schema.path().join(name), vec![0; bytes]).expect("writable");
        }
        assert_eq!(file_bytes(schema.path(), &["ibd"]), Ok(320));
        assert!(file_bytes(&schema.path().join("none"), &["ibd"]).is_err());
    }
}
