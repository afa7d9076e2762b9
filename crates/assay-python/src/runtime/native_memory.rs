//! Tenants, reservations, allocation logs and statistics of a device's memory, for Python.

use std::sync::{Arc, Mutex, PoisonError};

use assay_runtime::backend::{Address, HostPointer};
use assay_runtime::memory::{MemoryError, MemoryResource, Reservation, TenantId};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::buffer::{Memory, contiguous};
use super::buffer_range::BufferRange;
use super::capture;
use super::device_runtime::DeviceRuntime;
use super::errors;
use super::panic_guard::guarded;
use super::records;
use super::reentrancy::refuse_reentry;
use super::transfer::{Sink, Source};

/// Name, limit, used, peak and reserved bytes of a tenant.
type TenantTuple = (String, u64, u64, u64, u64);

/// Serial, bytes, tenant, stream, file and line of an allocation not yet freed.
type OutstandingTuple = (u64, u64, u32, u32, &'static str, u32);

/// Tenants, reservations, logs and statistics of one device's memory.
#[pyclass(name = "NativeMemory", module = "assay._native", frozen)]
pub(super) struct PyMemory {
    runtime: Arc<DeviceRuntime>,
}

fn convert<T>(outcome: Result<T, MemoryError>) -> PyResult<T> {
    outcome.map_err(|error| errors::memory(&error))
}

impl PyMemory {
    pub fn new(runtime: &Arc<DeviceRuntime>) -> Self {
        PyMemory { runtime: Arc::clone(runtime) }
    }
}

#[pymethods]
impl PyMemory {
    /// Add a tenant with a limit in bytes; returns its id.
    fn add_tenant(&self, py: Python<'_>, name: &str, limit_bytes: u64) -> PyResult<u32> {
        guarded("tenant", || {
            let pool = &self.runtime.memory.pool;
            let tenant = convert(py.detach(|| pool.add_tenant(name, limit_bytes)))?;
            self.runtime.add_accounts();
            Ok(tenant.0)
        })
    }

    /// Change a tenant's limit; existing allocations above the new limit stay.
    fn set_tenant_limit(&self, py: Python<'_>, tenant: u32, limit_bytes: u64) -> PyResult<()> {
        guarded("tenant", || {
            let pool = &self.runtime.memory.pool;
            convert(py.detach(|| pool.set_tenant_limit(TenantId(tenant), limit_bytes)))
        })
    }

    /// Name, limit, used, peak and reserved bytes of a tenant.
    fn tenant_usage(&self, py: Python<'_>, tenant: u32) -> PyResult<TenantTuple> {
        guarded("tenant", || {
            let pool = &self.runtime.memory.pool;
            let usage = convert(py.detach(|| pool.tenant_usage(TenantId(tenant))))?;
            Ok((
                usage.name,
                usage.limit_bytes,
                usage.used_bytes,
                usage.peak_bytes,
                usage.reserved_bytes,
            ))
        })
    }

    /// Reserve memory for a tenant until the reservation is released.
    fn reserve(&self, py: Python<'_>, tenant: u32, bytes: u64) -> PyResult<PyReservation> {
        guarded("reserve", || {
            let pool = &self.runtime.memory.pool;
            let reservation = py.detach(|| pool.reserve(TenantId(tenant), bytes));
            Ok(PyReservation { bytes, reservation: Mutex::new(Some(convert(reservation)?)) })
        })
    }

    /// Outstanding allocations, oldest first; None unless the device tracks allocations.
    fn outstanding(&self, py: Python<'_>) -> PyResult<Option<Vec<OutstandingTuple>>> {
        guarded("outstanding", || {
            let Some(tracking) = &self.runtime.memory.tracking else {
                return Ok(None);
            };
            let outstanding = convert(py.detach(|| tracking.outstanding()))?;
            let rows = outstanding.into_iter().map(|entry| {
                let bytes = entry.allocation.bytes();
                let (tenant, stream) = (entry.tenant.0, entry.stream.0);
                let site = entry.site;
                (entry.serial, bytes, tenant, stream, site.file, site.line)
            });
            Ok(Some(rows.collect()))
        })
    }

    /// The allocation log since the last call as text; None unless the device keeps one.
    fn take_log(&self, py: Python<'_>) -> PyResult<Option<String>> {
        guarded("take_log", || match &self.runtime.memory.logging {
            Some(logging) => Ok(Some(convert(py.detach(|| logging.take_log()))?.to_text())),
            None => Ok(None),
        })
    }

    /// Statistics of the device, the pools, the counters and evictable memory.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        guarded("memory_report", || {
            refuse_reentry("memory_report")?;
            let memory = &self.runtime.memory;
            let figures = py.detach(|| -> Result<_, MemoryError> {
                let host = memory.host_in_use().map(|pool| pool.statistics());
                let residency = memory.residency_in_use().map(|one| one.usage());
                Ok((
                    self.runtime.backend.memory_info()?,
                    memory.pool.statistics()?,
                    memory.pool.usage()?.capacity_bytes,
                    host.transpose()?,
                    residency.transpose()?,
                ))
            });
            let (device, pool, capacity, host, residency) = convert(figures)?;
            let report = PyDict::new(py);
            report.set_item("device_bytes", device.total_bytes)?;
            report.set_item("device_free_bytes", device.free_bytes)?;
            report.set_item("pool_capacity_bytes", capacity)?;
            report.set_item("pool", records::statistics(py, pool)?)?;
            report.set_item("asked", records::counters(py, memory.statistics.counters())?)?;
            if let Some(host) = host {
                report.set_item("pinned", records::statistics(py, host)?)?;
            }
            if let Some(usage) = residency {
                report.set_item("evictable", records::residency(py, usage)?)?;
            }
            Ok(report)
        })
    }

    /// Counters of the memory pool.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        guarded("statistics", || {
            let statistics = py.detach(|| self.runtime.memory.pool.statistics());
            records::statistics(py, convert(statistics)?)
        })
    }

    /// Return unused pool segments to the device; returns the bytes released.
    fn trim(&self, py: Python<'_>) -> PyResult<u64> {
        guarded("trim", || {
            self.runtime.begin(py, "trim")?;
            convert(py.detach(|| self.runtime.memory.pool.trim()))
        })
    }

    /// Check the pool's invariants; slow.
    fn verify(&self, py: Python<'_>) -> PyResult<()> {
        guarded("verify", || {
            self.runtime.begin(py, "verify")?;
            convert(py.detach(|| self.runtime.memory.pool.verify()))
        })
    }

    /// Write bytes into pinned memory after all work that uses it completes.
    fn write_pinned(
        &self,
        py: Python<'_>,
        buffer: PyRef<'_, Memory>,
        offset: u64,
        data: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        guarded("write", || {
            let source = Source::new(contiguous(data, "write", false)?);
            let address = self.pinned_address("write", &buffer, offset, source.bytes())?;
            let (buffer, backend): (&Memory, _) = (&buffer, &self.runtime.backend);
            py.detach(|| {
                buffer.wait_for_previous_owner()?;
                buffer.wait()?;
                let Some(address) = address else {
                    return Ok(());
                };
                let written = backend.write_host(address, source.as_ref());
                let written = written.map_err(|error| errors::backend(&error));
                Python::attach(|_| drop(source));
                written
            })
        })
    }

    /// Read bytes of pinned memory after all work that uses it completes.
    fn read_pinned(
        &self,
        py: Python<'_>,
        buffer: PyRef<'_, Memory>,
        offset: u64,
        into: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        guarded("read", || {
            let mut sink = Sink::new(contiguous(into, "read", true)?);
            let address = self.pinned_address("read", &buffer, offset, sink.bytes())?;
            let (buffer, backend): (&Memory, _) = (&buffer, &self.runtime.backend);
            py.detach(|| {
                buffer.wait()?;
                let Some(address) = address else {
                    return Ok(());
                };
                let read = backend.read_host(address, sink.as_mut());
                let read = read.map_err(|error| errors::backend(&error));
                Python::attach(|_| drop(sink));
                read
            })
        })
    }
}

impl PyMemory {
    /// An address inside a pinned buffer of this device; None for zero bytes.
    fn pinned_address(
        &self,
        operation: &str,
        buffer: &Memory,
        offset: u64,
        bytes: u64,
    ) -> PyResult<Option<HostPointer>> {
        refuse_reentry(operation)?;
        capture::refuse(&self.runtime, operation, "an access by the host")?;
        if bytes == 0 {
            buffer.alive(operation)?;
            return Ok(None);
        }
        match BufferRange::new(buffer, offset).address(&self.runtime, operation, bytes)? {
            Address::Host(pointer) => Ok(Some(pointer)),
            Address::Device(_) => Err(errors::invalid(&format!(
                "{operation}: expected pinned memory, got memory of the device"
            ))),
        }
    }
}

/// Memory reserved for a tenant.
#[pyclass(name = "NativeReservation", module = "assay._native", frozen)]
pub(super) struct PyReservation {
    bytes: u64,
    reservation: Mutex<Option<Reservation>>,
}

#[pymethods]
impl PyReservation {
    /// Reserved bytes.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the reservation is still held.
    #[getter]
    fn held(&self) -> bool {
        let reservation = self.reservation.lock().unwrap_or_else(PoisonError::into_inner);
        reservation.is_some()
    }

    /// Release the reservation; idempotent.
    fn release(&self, py: Python<'_>) {
        let mut guard = self.reservation.lock().unwrap_or_else(PoisonError::into_inner);
        let reservation = guard.take();
        drop(guard);
        py.detach(|| drop(reservation));
    }
}
