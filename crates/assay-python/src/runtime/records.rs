//! Statistics and records as Python dictionaries and tuples.

use assay_runtime::dispatch::{RecordTotals, WorkRecord};
use assay_runtime::memory::adaptors::Counters;
use assay_runtime::memory::{PoolStatistics, ResidencyUsage};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// One record: sequence, kind, name, stream, bytes, flops, submitted, start and end, failure, and
/// the ids of its graph and task.
pub(super) type RecordTuple = (
    u64,
    &'static str,
    String,
    u32,
    u64,
    f64,
    u64,
    Option<u64>,
    Option<u64>,
    Option<&'static str>,
    Option<u64>,
    Option<u64>,
);

pub(super) fn record(record: &WorkRecord) -> RecordTuple {
    (
        record.sequence,
        record.kind.name(),
        record.name.to_string(),
        record.stream.0,
        record.bytes,
        record.flops,
        record.submitted_ns,
        record.span.map(|span| span.start_ns),
        record.span.map(|span| span.end_ns),
        record.failure,
        record.graph.map(|graph| graph.0),
        record.task.map(|task| task.0),
    )
}

pub(super) fn totals(py: Python<'_>, totals: RecordTotals) -> PyResult<Bound<'_, PyDict>> {
    let sums = PyDict::new(py);
    sums.set_item("launches", totals.launches)?;
    sums.set_item("copies", totals.copies)?;
    sums.set_item("copied_bytes", totals.copied_bytes)?;
    sums.set_item("fills", totals.fills)?;
    sums.set_item("graphs", totals.graphs)?;
    sums.set_item("allocations", totals.allocations)?;
    sums.set_item("allocated_bytes", totals.allocated_bytes)?;
    sums.set_item("frees", totals.frees)?;
    sums.set_item("failures", totals.failures)?;
    sums.set_item("flops", totals.flops)?;
    Ok(sums)
}

pub(super) fn statistics(py: Python<'_>, pool: PoolStatistics) -> PyResult<Bound<'_, PyDict>> {
    let counters = PyDict::new(py);
    let figures = [
        ("allocations", pool.allocations),
        ("deallocations", pool.deallocations),
        ("failures", pool.failures),
        ("allocated_bytes", pool.allocated_bytes),
        ("peak_allocated_bytes", pool.peak_allocated_bytes),
        ("requested_bytes", pool.requested_bytes),
        ("held_bytes", pool.held_bytes),
        ("peak_held_bytes", pool.peak_held_bytes),
        ("slabs_allocated", pool.slabs_allocated),
        ("slabs_released", pool.slabs_released),
        ("splits", pool.splits),
        ("coalesces", pool.coalesces),
        ("recorded_events", pool.recorded_events),
        ("completed_events", pool.completed_events),
        ("stream_waits", pool.stream_waits),
        ("host_waits", pool.host_waits),
        ("refused_deallocations", pool.refused_deallocations),
    ];
    for (name, value) in figures {
        counters.set_item(name, value)?;
    }
    Ok(counters)
}

/// Allocation counters as a dictionary.
pub(super) fn counters(py: Python<'_>, counters: Counters) -> PyResult<Bound<'_, PyDict>> {
    let figures = PyDict::new(py);
    figures.set_item("bytes", counters.bytes)?;
    figures.set_item("peak_bytes", counters.peak_bytes)?;
    figures.set_item("total_bytes", counters.total_bytes)?;
    figures.set_item("allocations", counters.allocations)?;
    figures.set_item("peak_allocations", counters.peak_allocations)?;
    figures.set_item("total_allocations", counters.total_allocations)?;
    figures.set_item("failures", counters.failures)?;
    Ok(figures)
}

/// Residency statistics of evictable memory as a dictionary.
pub(super) fn residency(py: Python<'_>, usage: ResidencyUsage) -> PyResult<Bound<'_, PyDict>> {
    let figures = PyDict::new(py);
    figures.set_item("resident_bytes", usage.resident_bytes)?;
    figures.set_item("spilled_bytes", usage.spilled_bytes)?;
    figures.set_item("spills", usage.spills)?;
    figures.set_item("restores", usage.restores)?;
    Ok(figures)
}
