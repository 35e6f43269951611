//! The Python extension module `bufferlab._native`: conversions, error mapping, releasing the GIL.
//! No logic: what is measured lives in the crates below.
//! Built by maturin against Python's stable ABI (3.11 and later).

mod block_trace;
mod error;
mod jobs;
mod mysql_load;
mod mysql_run;
mod outcome;
mod postgres_load;
mod postgres_run;
mod random_read;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use bufferlab_load::event::Event;
use bufferlab_load::failure::Failure;
use bufferlab_load::sqlite::loader::LoadProgress;
use bufferlab_load::sqlite::{direct_io, loader, run, shape};
use bufferlab_probe::{device, host};
use pyo3::prelude::*;

use error::{NativeError, guarded, json_text};

/// Set by `cancel`; a worker process does one job, so one flag is enough.
static CANCELLED: AtomicBool = AtomicBool::new(false);

/// Hands events to Python; when Python can no longer take them, the job is stopped.
fn deliver(on_event: &Py<PyAny>, event: &impl serde::Serialize) {
    let Ok(text) = serde_json::to_string(event) else { return };
    Python::attach(|py| {
        if let Err(error) = on_event.call1(py, (text,)) {
            error.print(py);
            CANCELLED.store(true, Ordering::Relaxed);
        }
    });
}

/// One run of a workload on SQLite. See `jobs::RunJob` for the job and `outcome::RunOutcome` for the answer.
#[pyfunction]
fn run_sqlite(py: Python<'_>, job_json: &str, on_event: Py<PyAny>) -> PyResult<String> {
    let job = jobs::RunJob::parse(job_json)?.typed()?;
    CANCELLED.store(false, Ordering::Relaxed);
    let sink = |event: Event| deliver(&on_event, &event);
    let finished = py.detach(|| guarded(|| run::run(&job, &sink, &CANCELLED)))?;
    json_text(&outcome::RunOutcome::from(finished))
}

/// One run on a MySQL or MariaDB server. See `mysql_run::MysqlRunJob` for the job and `outcome::RunOutcome` for the answer.
#[pyfunction]
fn run_mysql(py: Python<'_>, job_json: &str, on_event: Py<PyAny>) -> PyResult<String> {
    let job = mysql_run::MysqlRunJob::parse(job_json)?.typed()?;
    CANCELLED.store(false, Ordering::Relaxed);
    let sink = |event: Event| deliver(&on_event, &event);
    let finished = py.detach(|| guarded(|| bufferlab_load::mysql::run::run(&job, &sink, &CANCELLED)))?;
    json_text(&outcome::RunOutcome::from(finished))
}

/// One run on a PostgreSQL server. See `postgres_run::PostgresRunJob` for the job and `outcome::RunOutcome` for the answer.
#[pyfunction]
fn run_postgres(py: Python<'_>, job_json: &str, on_event: Py<PyAny>) -> PyResult<String> {
    let job = postgres_run::PostgresRunJob::parse(job_json)?.typed()?;
    CANCELLED.store(false, Ordering::Relaxed);
    let sink = |event: Event| deliver(&on_event, &event);
    let finished = py.detach(|| guarded(|| bufferlab_load::postgres::run::run(&job, &sink, &CANCELLED)))?;
    json_text(&outcome::RunOutcome::from(finished))
}

/// One run of random reads. See `random_read::RandomReadJob` for the job and `outcome::RunOutcome` for the answer.
#[pyfunction]
fn run_random_read(py: Python<'_>, job_json: &str, on_event: Py<PyAny>) -> PyResult<String> {
    let job = random_read::RandomReadJob::parse(job_json)?.typed()?;
    CANCELLED.store(false, Ordering::Relaxed);
    let sink = |event: Event| deliver(&on_event, &event);
    let finished = py.detach(|| guarded(|| bufferlab_load::random_read::run::run(&job, &sink, &CANCELLED)))?;
    json_text(&outcome::RunOutcome::from(finished))
}

/// Makes a file to read. See `random_read::FillJob` and `random_read::FillOutcome`.
#[pyfunction]
fn fill_random_file(py: Python<'_>, job_json: &str, on_event: Py<PyAny>) -> PyResult<String> {
    let job = random_read::FillJob::parse(job_json)?;
    CANCELLED.store(false, Ordering::Relaxed);
    let total = job.bytes;
    let mut progress = outcome::LoadProgressEvents::new(|event| deliver(&on_event, event));
    let mut told = |done: u64| progress.report(LoadProgress { rows: done.min(total), total });
    let fill = || bufferlab_load::random_read::fill::fill(&job.path, job.bytes, job.seed, &CANCELLED, &mut told);
    json_text(&random_read::FillOutcome::from(py.detach(|| guarded(fill))?))
}

/// Raised when the bytes that `fill_random_file` makes of a seed change.
#[pyfunction]
fn random_file_version() -> u32 {
    bufferlab_load::random_read::fill::VERSION
}

/// Whether this process may use `io_uring`, as JSON.
#[pyfunction]
fn check_io_uring() -> PyResult<String> {
    json_text(&random_read::IoUringOutcome::of_this_process())
}

/// Loads a new SQLite database. See `jobs::LoadJob` and `outcome::LoadOutcome`.
#[pyfunction]
fn load_sqlite(py: Python<'_>, job_json: &str, on_event: Py<PyAny>) -> PyResult<String> {
    let job = jobs::LoadJob::parse(job_json)?.typed()?;
    CANCELLED.store(false, Ordering::Relaxed);
    let mut progress = outcome::LoadProgressEvents::new(|event| deliver(&on_event, event));
    let loaded = py.detach(|| guarded(|| loader::load(&job, &CANCELLED, &mut |done| progress.report(done))))?;
    json_text(&outcome::LoadOutcome::from(loaded))
}

/// Loads a new database into a running server. See `mysql_load::MysqlLoadJob` and `outcome::LoadOutcome`.
#[pyfunction]
fn load_mysql(py: Python<'_>, job_json: &str, on_event: Py<PyAny>) -> PyResult<String> {
    let job = mysql_load::MysqlLoadJob::parse(job_json)?.typed()?;
    CANCELLED.store(false, Ordering::Relaxed);
    let mut progress = outcome::LoadProgressEvents::new(|event| deliver(&on_event, event));
    let load = || bufferlab_load::mysql::loader::load(&job, &CANCELLED, &mut |done| progress.report(done));
    json_text(&outcome::LoadOutcome::from(py.detach(|| guarded(load))?))
}

/// What decides data loaded into MySQL or MariaDB beside scale, seed and page size, as JSON: the schema's text, the
/// loader's version. Takes the workload of a load job.
#[pyfunction]
fn mysql_load_recipe(workload_job_json: &str) -> PyResult<String> {
    json_text(&mysql_load::mysql_recipe(workload_job_json)?)
}

/// Loads tables into a database of a running PostgreSQL server. See `postgres_load::PostgresLoadJob` and
/// `outcome::LoadOutcome`.
#[pyfunction]
fn load_postgres(py: Python<'_>, job_json: &str, on_event: Py<PyAny>) -> PyResult<String> {
    let job = postgres_load::PostgresLoadJob::parse(job_json)?.typed()?;
    CANCELLED.store(false, Ordering::Relaxed);
    let mut progress = outcome::LoadProgressEvents::new(|event| deliver(&on_event, event));
    let load = || bufferlab_load::postgres::loader::load(&job, &CANCELLED, &mut |done| progress.report(done));
    json_text(&outcome::LoadOutcome::from(py.detach(|| guarded(load))?))
}

/// What decides data loaded into PostgreSQL beside scale and seed, as JSON: the schema's text, the loader's version. Takes
/// the workload of a load job.
#[pyfunction]
fn postgres_load_recipe(workload_job_json: &str) -> PyResult<String> {
    json_text(&postgres_load::postgres_recipe(workload_job_json)?)
}

/// Asks the running job to stop at the next transaction or partition.
#[pyfunction]
fn cancel() {
    CANCELLED.store(true, Ordering::Relaxed);
}

/// Whether O_DIRECT is accepted and honoured in a directory, as JSON.
#[pyfunction]
fn check_direct_io(py: Python<'_>, directory: &str) -> PyResult<String> {
    let directory = Path::new(directory);
    let trial = py.detach(|| {
        guarded(|| {
            direct_io::check(directory).map_err(|error| Failure::from_io("trying direct I/O", directory, &error))
        })
    })?;
    json_text(&outcome::DirectIoOutcome::new(&trial, directory))
}

/// Version of the SQLite that is built in.
#[pyfunction]
fn sqlite_version() -> &'static str {
    rusqlite::version()
}

/// What decides a loaded SQLite file beside scale, seed and page size, as JSON: the schema's text, the loader's version.
/// Takes the workload of a load job.
#[pyfunction]
fn sqlite_load_recipe(workload_job_json: &str) -> PyResult<String> {
    json_text(&jobs::load_recipe(workload_job_json)?)
}

/// The shape of a database that nobody has open, as JSON. See `outcome::ShapeOutcome`. Reads the whole file.
#[pyfunction]
fn sqlite_shape(py: Python<'_>, database: &str) -> PyResult<String> {
    let shape = py.detach(|| guarded(|| shape::shape(Path::new(database))))?;
    json_text(&outcome::ShapeOutcome::from(shape))
}

/// Reads a script and tries its expressions, with these variables predefined; what it holds, as JSON.
#[pyfunction]
fn check_script(source: &str, text: &str, variables_json: &str) -> PyResult<String> {
    json_text(&jobs::check_script(source, text, variables_json)?)
}

/// Version of the Rust core, recorded with every run.
#[pyfunction]
fn core_version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// The block device that holds a path, as JSON.
#[pyfunction]
fn resolve_device(py: Python<'_>, path: &str) -> PyResult<String> {
    json_text(&py.detach(|| device::resolve(Path::new(path))))
}

/// The host as far as it matters to a measurement in this path, as JSON.
#[pyfunction]
fn host_fingerprint(py: Python<'_>, path: &str) -> PyResult<String> {
    json_text(&py.detach(|| host::fingerprint(Path::new(path))))
}

/// The functions of the core that Python may call.
#[pymodule(name = "_native")]
fn native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("NativeError", module.py().get_type::<NativeError>())?;
    module.add_function(wrap_pyfunction!(run_sqlite, module)?)?;
    module.add_function(wrap_pyfunction!(run_mysql, module)?)?;
    module.add_function(wrap_pyfunction!(run_random_read, module)?)?;
    module.add_function(wrap_pyfunction!(fill_random_file, module)?)?;
    module.add_function(wrap_pyfunction!(random_file_version, module)?)?;
    module.add_function(wrap_pyfunction!(check_io_uring, module)?)?;
    module.add_function(wrap_pyfunction!(load_sqlite, module)?)?;
    module.add_function(wrap_pyfunction!(load_mysql, module)?)?;
    module.add_function(wrap_pyfunction!(mysql_load_recipe, module)?)?;
    module.add_function(wrap_pyfunction!(run_postgres, module)?)?;
    module.add_function(wrap_pyfunction!(load_postgres, module)?)?;
    module.add_function(wrap_pyfunction!(postgres_load_recipe, module)?)?;
    module.add_function(wrap_pyfunction!(cancel, module)?)?;
    module.add_function(wrap_pyfunction!(check_direct_io, module)?)?;
    module.add_function(wrap_pyfunction!(sqlite_version, module)?)?;
    module.add_function(wrap_pyfunction!(sqlite_load_recipe, module)?)?;
    module.add_function(wrap_pyfunction!(sqlite_shape, module)?)?;
    module.add_function(wrap_pyfunction!(check_script, module)?)?;
    module.add_function(wrap_pyfunction!(core_version, module)?)?;
    module.add_function(wrap_pyfunction!(resolve_device, module)?)?;
    module.add_function(wrap_pyfunction!(host_fingerprint, module)?)?;
    block_trace::add_to(module)?;
    Ok(())
}
