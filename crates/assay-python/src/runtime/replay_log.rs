//! Replays an allocation log against another pool configuration.

use std::sync::Arc;

use assay_runtime::backend::{Backend, Space};
use assay_runtime::memory::replay::{ReplayOptions, replay};
use assay_runtime::memory::{
    AllocationLog, CrossStream, DirectResource, MemoryResource, Pool, PoolOptions,
};
use assay_runtime::sim::SimProfile;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::errors;
use super::panic_guard::guarded;

/// The pool configuration of a replay.
struct Policy {
    direct: bool,
    options: PoolOptions,
    tenants: u32,
}

impl Policy {
    fn make(
        &self,
        backend: Arc<dyn Backend>,
    ) -> assay_runtime::memory::Result<Arc<dyn MemoryResource>> {
        if self.direct {
            let capacity = self.options.capacity_bytes;
            return Ok(Arc::new(DirectResource::new(backend, Space::Device, capacity)));
        }
        let pool = Pool::new(backend, self.options.clone())?;
        // The pool creates its first tenant itself.
        for tenant in 1..self.tenants {
            pool.add_tenant(&format!("tenant {tenant}"), u64::MAX)?;
        }
        Ok(Arc::new(pool))
    }
}

/// Replay an allocation log against a pool, or directly against the device, in virtual time.
///
/// `cross_stream` is "grow first", "wait first" or "never". The result is deterministic.
#[pyfunction]
#[pyo3(signature = (
    log, *, capacity_bytes, slab_bytes=None, small_limit_bytes=None, cross_stream="grow first",
    direct=false, touch=true,
))]
#[allow(clippy::too_many_arguments)]
pub(super) fn replay_allocations<'py>(
    py: Python<'py>,
    log: &str,
    capacity_bytes: u64,
    slab_bytes: Option<u64>,
    small_limit_bytes: Option<u64>,
    cross_stream: &str,
    direct: bool,
    touch: bool,
) -> PyResult<Bound<'py, PyDict>> {
    guarded("replay", || {
        let log = AllocationLog::from_text(log);
        let log = log.map_err(|error| errors::invalid(&error.to_string()))?;
        let usual = PoolOptions::new(Space::Device, capacity_bytes);
        let policy = Policy {
            direct,
            tenants: log.tenants(),
            options: PoolOptions {
                slab_bytes: slab_bytes.unwrap_or(usual.slab_bytes),
                small_limit_bytes: small_limit_bytes.unwrap_or(usual.small_limit_bytes),
                cross_stream: cross_stream_of(cross_stream)?,
                ..usual
            },
        };
        let mut profile = SimProfile::generic();
        let needed = capacity_bytes.max(profile.device_memory.capacity_bytes);
        profile.device_memory.capacity_bytes = needed;
        let options = ReplayOptions { profile, touch };
        let report = py.detach(|| replay(&log, &options, |backend| policy.make(backend)));
        let report = report.map_err(|error| errors::memory(&error))?;
        let figures = PyDict::new(py);
        for (name, value) in [
            ("allocations", report.allocations),
            ("refusals", report.refusals),
            ("frees", report.frees),
            ("skipped_frees", report.skipped_frees),
            ("peak_requested_bytes", report.peak_requested_bytes),
            ("peak_allocated_bytes", report.peak_allocated_bytes),
            ("peak_held_bytes", report.peak_held_bytes),
            ("device_allocations", report.device_allocations),
            ("device_frees", report.device_frees),
            ("recorded_events", report.recorded_events),
            ("stream_waits", report.stream_waits),
            ("elapsed_ns", report.elapsed_ns),
        ] {
            figures.set_item(name, value)?;
        }
        Ok(figures)
    })
}

fn cross_stream_of(name: &str) -> PyResult<CrossStream> {
    match name {
        "grow first" => Ok(CrossStream::GrowFirst),
        "wait first" => Ok(CrossStream::WaitFirst),
        "never" => Ok(CrossStream::Never),
        other => Err(errors::invalid(&format!(
            "replay: expected cross_stream \"grow first\", \"wait first\" or \"never\", got \
             \"{other}\""
        ))),
    }
}
