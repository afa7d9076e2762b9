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

/// The fields of a structure as a dictionary.
macro_rules! dictionary {
    ($py:ident, $fields:ident: $($name:ident),+ $(,)?) => {{
        let dictionary = pyo3::types::PyDict::new($py);
        $(dictionary.set_item(stringify!($name), &$fields.$name)?;)+
        Ok::<_, pyo3::PyErr>(dictionary)
    }};
}
pub(crate) use dictionary;

pub(super) fn totals(py: Python<'_>, totals: RecordTotals) -> PyResult<Bound<'_, PyDict>> {
    dictionary!(
        py, totals: launches, copies, copied_bytes, fills, graphs, allocations, allocated_bytes,
        frees, failures, flops
    )
}

pub(super) fn statistics(py: Python<'_>, pool: PoolStatistics) -> PyResult<Bound<'_, PyDict>> {
    dictionary!(
        py, pool: allocations, deallocations, failures, allocated_bytes, peak_allocated_bytes,
        requested_bytes, held_bytes, peak_held_bytes, slabs_allocated, slabs_released, splits,
        coalesces, recorded_events, completed_events, stream_waits, host_waits,
        refused_deallocations
    )
}

/// Allocation counters as a dictionary.
pub(super) fn counters(py: Python<'_>, counters: Counters) -> PyResult<Bound<'_, PyDict>> {
    dictionary!(
        py, counters: bytes, peak_bytes, total_bytes, allocations, peak_allocations,
        total_allocations, failures
    )
}

/// Residency statistics of evictable memory as a dictionary.
pub(super) fn residency(py: Python<'_>, usage: ResidencyUsage) -> PyResult<Bound<'_, PyDict>> {
    dictionary!(py, usage: resident_bytes, spilled_bytes, spills, restores)
}
