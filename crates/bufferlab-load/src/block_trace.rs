//! The trace of block requests as part of a run: armed before the run begins, on from the start edge of the measured window
//! to its end edge, disarmed when the run is over.
//!
//! A worker process does one run, so the trace is the process's and not a driver's: whatever engine is driven, the two
//! edges are all it takes. Nothing happens where nobody armed one.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bufferlab_probe::block_trace::{BlockTracer, Settings, Summary, TraceError};

use crate::event::{Edge, Phase};
use crate::failure::{Failure, FailureKind};

static ARMED: Mutex<Option<BlockTracer>> = Mutex::new(None);

fn armed() -> MutexGuard<'static, Option<BlockTracer>> {
    ARMED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl From<TraceError> for Failure {
    fn from(error: TraceError) -> Self {
        Failure::new(FailureKind::Environment, error.what, error.place, error.hint)
    }
}

/// Prepares a trace for the run that follows; one that was prepared before and not used is dropped.
///
/// # Errors
/// Why the device cannot be traced.
pub fn arm(settings: &Settings) -> Result<(), Failure> {
    disarm();
    *armed() = Some(BlockTracer::arm(settings)?);
    Ok(())
}

/// To be called at every edge of a window: last of all at its start, first of all at its end. Further windows of a run
/// are not traced. True when a trace is prepared.
pub fn at_edge(edge: Edge, phase: &Phase) -> bool {
    let mut armed = armed();
    let Some(tracer) = armed.as_mut() else { return false };
    if *phase == Phase::Measure {
        match edge {
            Edge::Start => tracer.begin(),
            Edge::End => tracer.end(),
        }
    }
    true
}

/// Ends the trace, takes its instance away, and says how it went; none when there is none.
pub fn disarm() -> Option<Summary> {
    let tracer = armed().take();
    tracer.map(BlockTracer::finish)
}
