//! Clients, loaders and drivers, which turn a workload into requests to a real engine, and time them.

pub mod arrivals;
pub mod counter;
pub mod data;
pub mod dialect;
pub mod driver;
pub mod drivers;
pub mod event;
pub mod failure;
pub mod finished;
pub mod gate;
pub mod gate_feed;
pub mod job;
pub mod loaded;
pub mod merge;
pub mod mysql;
pub mod pacing;
pub mod plan;
pub mod postgres;
pub mod probes;
pub mod quota;
pub mod random_read;
pub mod recorder;
pub mod sampler;
pub mod schema;
pub mod server;
pub mod sqlite;
mod storage;
mod tls;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, even if a thread has panicked while it held the mutex.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
