//! Sessions at database servers for single statements. Python uses them as its control connections. A row becomes a
//! tuple, and a value an object of its column's type.

use std::cell::RefCell;
use std::sync::Mutex;

use bufferlab_drive::server::python_session::{Kind, Limits, Table, Unanswered};
use bufferlab_drive::server::target::Target;
use bufferlab_drive::{mysql, postgres};
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyFloat, PyInt, PyString, PyTuple, PyType};

use super::error::{guarded, parse};
use super::unknown;

create_exception!(
    bufferlab._native,
    Unanswerable,
    PyException,
    "Why there is no answer: args are (kind, code, what, hint). The kinds are refused, server and lost."
);

thread_local! {
    /// The exception that a signal handler raised while this thread waited for a server.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Lets Python's signal handlers run. If one raises an exception, stores the exception and returns false.
fn may_go_on() -> bool {
    let raised = Python::attach(|py| py.check_signals()).err();
    let may_go_on = raised.is_none();
    RAISED.set(raised);
    may_go_on
}

fn to_python(unanswered: Unanswered) -> PyErr {
    let (kind, code, what, hint) = match unanswered {
        Unanswered::Refused(refusal) => ("refused", String::new(), refusal.what, refusal.hint),
        Unanswered::Server { code, message } => ("server", code, message, ""),
        Unanswered::Lost(what) => ("lost", String::new(), what, ""),
        Unanswered::Ended => return RAISED.take().unwrap_or_else(|| PyException::new_err("the wait was ended")),
    };
    Unanswerable::new_err((kind, code, what, hint))
}

/// A session at a server of the MySQL family or at PostgreSQL.
enum Questions {
    Mysql(mysql::python_session::Questions),
    Postgres(postgres::python_session::Questions),
}

impl Questions {
    fn ask(&mut self, sql: &[u8], change_s: Option<f64>) -> Result<Table, Unanswered> {
        match self {
            Questions::Mysql(session) => session.ask(sql, change_s),
            Questions::Postgres(session) => session.ask(sql, change_s),
        }
    }
}

/// One session. While a thread waits until the session is free, it does not hold Python's lock (GIL), because the
/// thread that executes a statement needs that lock to handle signals.
#[pyclass(module = "bufferlab._native")]
pub struct Session(Mutex<Option<Questions>>);

/// Logs in to a server, for single statements. `target` is the target of a job, whose database's name may be empty, and
/// `limits` are `Limits`, both as JSON.
#[pyfunction]
pub fn ask_server(py: Python<'_>, engine: &str, target: &str, limits: &str) -> PyResult<Session> {
    let (target, limits): (Target, Limits) = (parse(target)?, parse(limits)?);
    let open = || match engine {
        "mysql" | "mariadb" => {
            Some(mysql::python_session::Questions::open(&target, limits, may_go_on).map(Questions::Mysql))
        }
        "postgres" => {
            Some(postgres::python_session::Questions::open(&target, limits, may_go_on).map(Questions::Postgres))
        }
        _ => None,
    };
    let opened = py.detach(|| guarded(|| Ok(open())))?.ok_or_else(|| unknown(engine))?;
    Ok(Session(Mutex::new(Some(opened.map_err(to_python)?))))
}

#[pymethods]
impl Session {
    /// Executes a statement; returns the names of the columns, and the rows. `change_s` is the limit in seconds for a
    /// statement that changes something. Any error closes the session, except one that the server reports.
    fn ask<'py>(&self, py: Python<'py>, sql: &[u8], change_s: Option<f64>) -> PyResult<(Vec<String>, Rows<'py>)> {
        let asked = py.detach(|| {
            let mut held = self.held();
            let Some(questions) = held.as_mut() else {
                return Ok(Err(Unanswered::Lost("the session is closed".to_owned())));
            };
            let asked = guarded(|| Ok(questions.ask(sql, change_s)));
            if !matches!(asked, Ok(Ok(_) | Err(Unanswered::Server { .. }))) {
                *held = None;
            }
            asked
        })?;
        rows(py, &asked.map_err(to_python)?)
    }

    /// Sets the most bytes that each later answer may have.
    fn allow_bytes(&self, py: Python<'_>, most_answer_bytes: usize) {
        py.detach(|| match self.held().as_mut() {
            Some(Questions::Mysql(session)) => session.allow_bytes(most_answer_bytes),
            Some(Questions::Postgres(session)) => session.allow_bytes(most_answer_bytes),
            None => {}
        });
    }

    /// Returns the server's ID of the session; none if the session is closed.
    fn id(&self, py: Python<'_>) -> Option<i64> {
        py.detach(|| {
            self.held().as_ref().map(|questions| match questions {
                Questions::Mysql(session) => session.id().into(),
                Questions::Postgres(session) => session.id().into(),
            })
        })
    }

    /// Returns true when the session is open.
    fn is_open(&self, py: Python<'_>) -> bool {
        py.detach(|| self.held().is_some())
    }

    /// Returns the descriptor of the session's socket; none if the session is closed.
    fn descriptor(&self, py: Python<'_>) -> Option<i32> {
        py.detach(|| match self.held().as_ref()? {
            Questions::Mysql(session) => Some(session.descriptor()),
            Questions::Postgres(session) => session.descriptor(),
        })
    }

    /// Ends the session.
    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(self.held().take()));
    }
}

impl Session {
    fn held(&self) -> std::sync::MutexGuard<'_, Option<Questions>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

type Rows<'py> = Vec<Bound<'py, PyTuple>>;

fn rows<'py>(py: Python<'py>, table: &Table) -> PyResult<(Vec<String>, Rows<'py>)> {
    let (mut rows, mut row) = (Rows::new(), Vec::new());
    let kinds = table.columns.iter().map(|&(_, kind)| kind).cycle();
    for (value, kind) in table.values().zip(kinds) {
        row.push(object(py, value, kind)?);
        if row.len() == table.columns.len() {
            rows.push(PyTuple::new(py, row.drain(..))?);
        }
    }
    Ok((table.columns.iter().map(|(name, _)| name.clone()).collect(), rows))
}

fn object<'py>(py: Python<'py>, value: Option<&[u8]>, kind: Kind) -> PyResult<Bound<'py, PyAny>> {
    let Some(value) = value else { return Ok(py.None().into_bound(py)) };
    let text = || PyString::new(py, &String::from_utf8_lossy(value));
    Ok(match kind {
        Kind::Text => text().into_any(),
        Kind::Bytes => PyBytes::new(py, value).into_any(),
        Kind::Integer => py.get_type::<PyInt>().call1((text(),))?,
        Kind::Float => py.get_type::<PyFloat>().call1((text(),))?,
        Kind::Decimal => decimal(py)?.call1((text(),))?,
        Kind::Boolean => (value == b"t").into_pyobject(py)?.to_owned().into_any(),
    })
}

fn decimal(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static DECIMAL: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    DECIMAL.import(py, "decimal", "Decimal")
}
