//! A storage engine of MariaDB other than InnoDB, as a job declares it: the server's status variables that count its
//! reads, and its files. python/bufferlab/engines/innodb/storage_engines.py explains them.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use serde::Deserialize;

/// A storage engine. Its declaration names the status variables, so that a further engine needs no code here.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StorageEngine {
    /// The name in `ENGINE =`.
    pub name: String,
    /// For each shared metric the status variables, in small letters, whose values add up to it.
    pub counters: BTreeMap<String, Vec<String>>,
    /// The bytes of each block that the engine reads. The bytes read are the number of blocks read times this size.
    pub block_size_bytes: u64,
    /// The folder of its files in the data directory; without one, its files are in the schema's folder.
    pub folder: Option<PathBuf>,
    /// The endings of its files' names.
    pub endings: Vec<String>,
}

impl StorageEngine {
    /// Returns the status variables of a metric.
    pub fn variables(&self, metric: &str) -> Vec<&str> {
        self.counters.get(metric).into_iter().flatten().map(String::as_str).collect()
    }

    /// Returns the metric from the server's status; none if the engine does not count the metric, or the server lacks
    /// one of its variables.
    pub fn value(&self, metric: &str, status: &HashMap<String, i64>) -> Option<i64> {
        self.counters.get(metric)?.iter().map(|name| status.get(name).copied()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aria() -> StorageEngine {
        serde_json::from_str(
            r#"{"name": "Aria", "block_size_bytes": 8192, "folder": null, "endings": ["MAD", "MAI"],
                "counters": {"page_gets": ["read_requests", "write_requests"], "pages_read": ["reads"]}}"#,
        )
        .expect("it is a storage engine")
    }

    #[test]
    fn a_metric_is_the_sum_of_its_variables_and_none_if_one_is_missing() {
        let mut status: HashMap<String, i64> = [("read_requests".to_owned(), 40), ("reads".to_owned(), 3)].into();
        assert_eq!((aria().value("page_gets", &status), aria().value("pages_read", &status)), (None, Some(3)));
        status.insert("write_requests".to_owned(), 2);
        assert_eq!((aria().value("page_gets", &status), aria().value("pages_created", &status)), (Some(42), None));
    }
}
