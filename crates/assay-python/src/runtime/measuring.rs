//! Benchmarks of the Rust core, timed natively to exclude Python's overhead.

use std::sync::Arc;

use assay_runtime::backend::{Backend, Space};
use assay_runtime::memory::throughput::{self, Workload};
use assay_runtime::memory::{Pool, PoolOptions};
use assay_runtime::scheduler::share_simulation::{self, Load};
use assay_runtime::scheduler::{
    Class, Lane, PartitionId, PerLane, Rate, SchedulerOptions, TaskOptions,
};
use assay_runtime::sim::{Contents, SimBackend, SimOptions};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::errors;
use super::panic_guard::guarded;

/// Memory of the simulated device for pool benchmarks.
const POOL_BYTES: u64 = 12 << 30;

/// Time pairs of one allocation and one free on a new pool of the simulated device.
///
/// At each step a random one of `live` allocations is replaced. Returns nanoseconds for all pairs.
#[pyfunction]
#[pyo3(signature = (pairs, *, smallest_bytes=256, largest_bytes=4 << 20, live=1_000))]
fn measure_pool(
    py: Python<'_>,
    pairs: u64,
    smallest_bytes: u64,
    largest_bytes: u64,
    live: usize,
) -> PyResult<u64> {
    guarded("measure_pool", || {
        if pairs == 0 || smallest_bytes == 0 || largest_bytes < smallest_bytes || live == 0 {
            return Err(errors::invalid(&format!(
                "measure_pool: expected at least one pair, one live allocation and sizes from \
                 small to large, got {pairs} pairs, {live} live, {smallest_bytes} to \
                 {largest_bytes} bytes"
            )));
        }
        let workload = Workload { smallest_bytes, largest_bytes, live };
        py.detach(|| {
            let options = SimOptions { contents: Contents::Dropped, ..SimOptions::default() };
            let device = SimBackend::new(options).map_err(|error| errors::backend(&error))?;
            let device = Arc::new(device);
            let stream = device.default_stream();
            let options = PoolOptions::new(Space::Device, POOL_BYTES);
            let measured = Pool::new(device, options).and_then(|pool| {
                let measured = throughput::measure(&pool, stream, &workload, pairs)?;
                pool.verify()?;
                Ok(measured.elapsed_ns)
            });
            measured.map_err(|error| errors::memory(&error))
        })
    })
}

/// Class, weight, reserved units per second (0 for none), units per grant, requests outstanding.
type LoadTuple = (String, u32, u64, u64, usize);

/// Run backlogged tasks against each other in virtual time.
///
/// A load is class, weight, reserved units per second (0 for none), units of each grant and
/// requests outstanding. Returns a dictionary: `units`, `grants` and `longest_wait_ns` of each
/// load, `decisions`, and `elapsed_ns` of wall time.
#[pyfunction]
#[pyo3(signature = (loads, *, units_per_second=1_000_000_000, virtual_ns=1_000_000_000))]
fn measure_scheduler(
    py: Python<'_>,
    loads: Vec<LoadTuple>,
    units_per_second: u64,
    virtual_ns: u64,
) -> PyResult<Bound<'_, PyDict>> {
    guarded("measure_scheduler", || {
        let loads: Vec<Load> = loads.into_iter().map(load).collect::<PyResult<_>>()?;
        let report = py.detach(|| {
            let rates = PerLane::from_fn(|_| units_per_second);
            let options = SchedulerOptions::new(1 << 30, rates);
            share_simulation::simulate(options, Lane::Upload, loads, virtual_ns)
        });
        let report = report.map_err(|error| errors::scheduler(&error))?;
        let service = &report.service;
        let found = PyDict::new(py);
        let units: Vec<u64> = service.iter().map(|one| one.units).collect();
        let grants: Vec<u64> = service.iter().map(|one| one.grants).collect();
        let waits: Vec<u64> = service.iter().map(|one| one.longest_wait_ns).collect();
        found.set_item("units", units)?;
        found.set_item("grants", grants)?;
        found.set_item("longest_wait_ns", waits)?;
        found.set_item("decisions", report.decisions)?;
        found.set_item("elapsed_ns", report.elapsed_ns)?;
        Ok(found)
    })
}

fn load((class, weight, reserved, units, depth): LoadTuple) -> PyResult<Load> {
    // The benchmark assigns each load a partition of its own.
    let mut options = TaskOptions::new("load", PartitionId(0));
    options.class = Class::of_name(&class).ok_or_else(|| errors::unknown_class(&class))?;
    options.weight = weight;
    if reserved > 0 {
        options.lanes.upload.reserved = Some(Rate::per_second(reserved));
    }
    Ok(Load { options, units, depth })
}

/// Adds the measurements to the module.
pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(measure_pool, module)?)?;
    module.add_function(wrap_pyfunction!(measure_scheduler, module)?)
}
