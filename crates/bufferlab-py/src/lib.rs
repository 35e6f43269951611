//! The Python extension module `bufferlab._native`: takes and returns JSON, maps errors to Python's, and releases the
//! GIL. This crate only translates: the other crates measure, and define jobs and answers. maturin builds the module
//! against Python's stable ABI (3.11 and later).

mod block_trace;
mod error;
mod generate;
mod page_trace;
mod replay;
mod sessions;
mod watch;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bufferlab_drive::data::{Data, Recipe};
use bufferlab_drive::event::{Event, Phase};
use bufferlab_drive::failure::Failure;
use bufferlab_drive::loaded::LoadProgress;
use bufferlab_drive::sqlite::{direct_io, shape};
use bufferlab_drive::{mysql, postgres, random_read, sqlite};
use bufferlab_probe::{device, host};
use bufferlab_workload::script::{Number, Script};
use pyo3::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use error::{NativeError, guarded, json_text, parse, unusable};

/// The flag that `cancel` sets for good: a worker process does only one job, and a request to stop may come before that
/// job begins.
static CANCELLED: AtomicBool = AtomicBool::new(false);

/// The least time between two events of a load.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

/// Passes an event to Python as JSON. Stops the job if Python's function raises an exception.
fn deliver(on_event: &Py<PyAny>, event: &Event) {
    let Ok(text) = serde_json::to_string(event) else { return };
    Python::attach(|py| {
        if let Err(error) = on_event.call1(py, (text,)) {
            error.print(py);
            CANCELLED.store(true, Ordering::Relaxed);
        }
    });
}

/// Does a job, given as JSON, without the GIL. Returns the job's answer as JSON.
fn done<J, A>(py: Python<'_>, job: &str, work: impl FnOnce(&J) -> Result<A, Failure> + Send) -> PyResult<String>
where
    J: DeserializeOwned + Send + Sync,
    A: Serialize + Send,
{
    let job = parse(job)?;
    json_text(&py.detach(|| guarded(|| work(&job)))?)
}

fn unknown(engine: &str) -> PyErr {
    unusable(format!("the core has no engine {engine}"), "engine")
}

/// Does one run. The job is the engine's `job::Run`, the answer is `Finished`, and each event is an `Event`, all as
/// JSON.
#[pyfunction]
fn run(py: Python<'_>, engine: &str, job: &str, on_event: Py<PyAny>) -> PyResult<String> {
    let sink = |event: Event| deliver(&on_event, &event);
    match engine {
        "sqlite" => done(py, job, |job| sqlite::run::run(job, &sink, &CANCELLED)),
        "mysql" | "mariadb" => done(py, job, |job| mysql::run::run(job, &sink, &CANCELLED)),
        "postgres" => done(py, job, |job| postgres::run::run(job, &sink, &CANCELLED)),
        "file" => done(py, job, |job| random_read::run::run(job, &sink, &CANCELLED)),
        other => Err(unknown(other)),
    }
}

/// Loads new data. The job is the engine's `Load`, and the answer is `Loaded`, or `Filled` for a file, all as JSON.
#[pyfunction]
fn load(py: Python<'_>, engine: &str, job: &str, on_event: Py<PyAny>) -> PyResult<String> {
    let begun = Instant::now();
    let mut last: Option<Instant> = None;
    let mut told = |LoadProgress { rows, total }: LoadProgress| {
        if last.is_none_or(|last| last.elapsed() >= PROGRESS_INTERVAL) {
            last = Some(Instant::now());
            let (phase, t_s) = (Phase::Extra(Arc::from("load")), begun.elapsed().as_secs_f64());
            deliver(&on_event, &Event::Progress { phase, done: rows, total, t_s });
        }
    };
    match engine {
        "sqlite" => done(py, job, |job| sqlite::loader::load(job, &CANCELLED, &mut told)),
        "mysql" | "mariadb" => done(py, job, |job| mysql::loader::load(job, &CANCELLED, &mut told)),
        "postgres" => done(py, job, |job| postgres::loader::load(job, &CANCELLED, &mut told)),
        "file" => done(py, job, |job| random_read::fill::load(job, &CANCELLED, &mut told)),
        other => Err(unknown(other)),
    }
}

/// Returns the recipe of loaded data, as JSON: the schema's text and the loader's version, which decide it together
/// with scale, seed and page size. `workload` is the workload of a load job.
#[pyfunction]
fn load_recipe(py: Python<'_>, engine: &str, workload: &str) -> PyResult<String> {
    match engine {
        "sqlite" => done(py, workload, |data: &Data| data.recipe(&sqlite::DIALECT)),
        "mysql" | "mariadb" => done(py, workload, |data: &Data| data.recipe(&mysql::DIALECT)),
        "postgres" => done(py, workload, |data: &Data| data.recipe(&postgres::DIALECT)),
        "file" => json_text(&Recipe { schema_sql: String::new(), loader_version: random_read::fill::VERSION }),
        other => Err(unknown(other)),
    }
}

/// Asks this process's job to stop at the next transaction or partition. The call may come before the job begins.
#[pyfunction]
fn cancel() {
    CANCELLED.store(true, Ordering::Relaxed);
}

/// Returns whether this process may use `io_uring`, with the reason if not, as JSON.
#[pyfunction]
fn check_io_uring() -> PyResult<String> {
    let reason = random_read::io_uring_is_available().err().map(|error| error.to_string());
    json_text(&json!({ "available": reason.is_none(), "reason": reason }))
}

/// Returns whether a directory's file system accepts and honours O_DIRECT, as JSON.
#[pyfunction]
fn check_direct_io(py: Python<'_>, directory: &str) -> PyResult<String> {
    let directory = Path::new(directory);
    let trial =
        || direct_io::check(directory).map_err(|error| Failure::from_io("trying direct I/O", directory, &error));
    let direct_io::DirectIo { honoured, alignment_bytes, reason } = py.detach(|| guarded(trial))?;
    let filesystem = direct_io::filesystem_name(directory);
    let reason = (!honoured).then_some(reason);
    json_text(
        &json!({ "honoured": honoured, "alignment_bytes": alignment_bytes, "reason": reason, "filesystem": filesystem }),
    )
}

/// Reads a user's script and tries its expressions, with these predefined variables. Returns a summary of the script's
/// transactions and statements, as JSON.
#[pyfunction]
fn check_script(source: &str, text: &str, variables: &str) -> PyResult<String> {
    let variables: Vec<(String, Number)> = parse::<BTreeMap<_, _>>(variables)?.into_iter().collect();
    let script = guarded(|| {
        let script = Script::parse(source, text, &variables)?;
        script.check()?;
        Ok(script)
    })?;
    let transactions = script.transactions().iter().map(
        |transaction| json!({ "name": transaction.name, "weight": transaction.weight, "statements": transaction.statements }),
    );
    json_text(&json!({
        "transactions": transactions.collect::<Vec<_>>(),
        "setup_statements": script.setup_statements(),
        "variables_used": script.variables_used(),
    }))
}

/// Returns the number of transactions of a script after which at least half of its updates reach rows that have had
/// three updates. Returns zero if no update chooses rows by variables, or if `most` transactions are too few.
#[pyfunction]
fn script_settles_after(py: Python<'_>, source: &str, text: &str, variables: &str, most: u64) -> PyResult<u64> {
    let variables: Vec<(String, Number)> = parse::<BTreeMap<_, _>>(variables)?.into_iter().collect();
    py.detach(|| guarded(|| Ok(Script::parse(source, text, &variables)?.updates_settle_after(most)?)))
}

/// Returns the version of the built-in SQLite.
#[pyfunction]
fn sqlite_version() -> &'static str {
    rusqlite::version()
}

/// Returns the shape of a database that no process has open, as JSON. Reads the whole file.
#[pyfunction]
fn sqlite_shape(py: Python<'_>, database: &str) -> PyResult<String> {
    json_text(&py.detach(|| guarded(|| shape::shape(Path::new(database))))?)
}

/// Returns the pages of each b-tree of a database that no process has open, as JSON. Reads the whole file.
#[pyfunction]
fn sqlite_pages(py: Python<'_>, database: &str) -> PyResult<String> {
    json_text(&py.detach(|| guarded(|| shape::pages_of_trees(Path::new(database))))?)
}

/// Returns the version of the Rust core, which every run records.
#[pyfunction]
fn core_version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Returns the block device that holds a path, as JSON.
#[pyfunction]
fn resolve_device(py: Python<'_>, path: &str) -> PyResult<String> {
    json_text(&py.detach(|| device::resolve(Path::new(path))))
}

/// Returns the properties of the host that matter to a measurement of data at `path`, as JSON.
#[pyfunction]
fn host_fingerprint(py: Python<'_>, path: &str) -> PyResult<String> {
    json_text(&py.detach(|| host::fingerprint(Path::new(path))))
}

/// The functions of the core that Python may call.
#[pymodule(name = "_native")]
mod native {
    #[pymodule_export]
    use super::block_trace::{block_trace, block_trace_check, block_trace_decode};
    #[pymodule_export]
    use super::generate::{generate, generated_bytes};
    #[pymodule_export]
    use super::page_trace::{
        call_trace_check, executable_ranges, live_trace, live_trace_check, page_site_check, page_site_experiment,
        page_site_proposals, page_trace, page_trace_branches, page_trace_check, tracefs_clean,
    };
    #[pymodule_export]
    use super::replay::{Curve, ghost_depths, model_defaults, page_trace_words, replay, replay_slices};
    #[pymodule_export]
    use super::sessions::{Session, Unanswerable, ask_server};
    #[pymodule_export]
    use super::{
        NativeError, cancel, check_direct_io, check_io_uring, check_script, core_version, host_fingerprint, load,
        load_recipe, resolve_device, run, script_settles_after, sqlite_pages, sqlite_shape, sqlite_version,
    };
}
