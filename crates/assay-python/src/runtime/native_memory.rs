//! Tenants, reservations, logs and figures of a device's memory, for Python.

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

/// Serial, bytes, tenant, stream, file and line of an allocation not yet given back.
type OutstandingTuple = (u64, u64, u32, u32, &'static str, u32);

/// The memory of one device, seen as accounts.
#[pyclass(name = "NativeMemory", module = "assay._native", frozen)]
pub(super) struct PyMemory {
    runtime: Arc<DeviceRuntime>,
}

fn told<T>(outcome: Result<T, MemoryError>) -> PyResult<T> {
    outcome.map_err(|error| errors::memory(&error))
}

impl PyMemory {
    pub fn new(runtime: &Arc<DeviceRuntime>) -> Self {
        PyMemory {
            runtime: Arc::clone(runtime),
        }
    }
}

#[pymethods]
impl PyMemory {
    /// Add a tenant that may use at most so many bytes; returns its number.
    fn add_tenant(&self, py: Python<'_>, name: &str, limit_bytes: u64) -> PyResult<u32> {
        guarded("tenant", || {
            let pool = &self.runtime.memory.pool;
            let tenant = told(py.detach(|| pool.add_tenant(name, limit_bytes)))?;
            self.runtime.add_accounts();
            Ok(tenant.0)
        })
    }

    /// Change what a tenant may use; what it has above it, it keeps.
    fn set_tenant_limit(&self, py: Python<'_>, tenant: u32, limit_bytes: u64) -> PyResult<()> {
        guarded("tenant", || {
            let pool = &self.runtime.memory.pool;
            told(py.detach(|| pool.set_tenant_limit(TenantId(tenant), limit_bytes)))
        })
    }

    /// Name, limit, used, peak and reserved bytes of a tenant.
    fn tenant_usage(&self, py: Python<'_>, tenant: u32) -> PyResult<TenantTuple> {
        guarded("tenant", || {
            let pool = &self.runtime.memory.pool;
            let usage = told(py.detach(|| pool.tenant_usage(TenantId(tenant))))?;
            Ok((
                usage.name,
                usage.limit_bytes,
                usage.used_bytes,
                usage.peak_bytes,
                usage.reserved_bytes,
            ))
        })
    }

    /// Promise a tenant memory until the reservation is released.
    fn reserve(&self, py: Python<'_>, tenant: u32, bytes: u64) -> PyResult<PyReservation> {
        guarded("reserve", || {
            let pool = &self.runtime.memory.pool;
            let reservation = py.detach(|| pool.reserve(TenantId(tenant), bytes));
            Ok(PyReservation {
                bytes,
                held: Mutex::new(Some(told(reservation)?)),
            })
        })
    }

    /// Call a function when memory is short and nothing can be evicted; none to stop.
    ///
    /// It gets bytes, tenant, attempt and message, and returns whether something was freed.
    fn on_shortage(&self, callback: Option<Py<PyAny>>) {
        drop(self.runtime.memory.pressure.set_callback(callback));
    }

    /// What is not yet given back, oldest first; none unless the device tracks allocations.
    fn outstanding(&self, py: Python<'_>) -> PyResult<Option<Vec<OutstandingTuple>>> {
        guarded("outstanding", || {
            let Some(tracking) = &self.runtime.memory.tracking else {
                return Ok(None);
            };
            let outstanding = told(py.detach(|| tracking.outstanding()))?;
            let rows = outstanding.into_iter().map(|entry| {
                let bytes = entry.allocation.bytes();
                let (tenant, stream) = (entry.tenant.0, entry.stream.0);
                let site = entry.site;
                (entry.serial, bytes, tenant, stream, site.file, site.line)
            });
            Ok(Some(rows.collect()))
        })
    }

    /// The log of allocations since the last call as text; none unless the device keeps one.
    fn take_log(&self, py: Python<'_>) -> PyResult<Option<String>> {
        guarded("take_log", || match &self.runtime.memory.logging {
            Some(logging) => Ok(Some(told(py.detach(|| logging.take_log()))?.to_text())),
            None => Ok(None),
        })
    }

    /// Figures of the device, the pools, the counters and evictable memory.
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
            let (device, pool, capacity, host, residency) = told(figures)?;
            let report = PyDict::new(py);
            report.set_item("device_bytes", device.total_bytes)?;
            report.set_item("device_free_bytes", device.free_bytes)?;
            report.set_item("pool_capacity_bytes", capacity)?;
            report.set_item("pool", records::statistics(py, pool)?)?;
            report.set_item(
                "asked",
                records::counters(py, memory.statistics.counters())?,
            )?;
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
            records::statistics(py, told(statistics)?)
        })
    }

    /// Give wholly free memory of the pool back to the device; returns how many bytes.
    fn trim(&self, py: Python<'_>) -> PyResult<u64> {
        guarded("trim", || {
            self.runtime.begin(py, "trim")?;
            told(py.detach(|| self.runtime.memory.pool.trim()))
        })
    }

    /// Check the pool's invariants; slow.
    fn verify(&self, py: Python<'_>) -> PyResult<()> {
        guarded("verify", || {
            self.runtime.begin(py, "verify")?;
            told(py.detach(|| self.runtime.memory.pool.verify()))
        })
    }

    /// Write bytes into pinned memory, after all work that uses it.
    fn write_pinned(
        &self,
        py: Python<'_>,
        buffer: PyRef<'_, Memory>,
        offset: u64,
        data: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        guarded("write", || {
            let source = Source::new(contiguous(data, "write", false)?);
            let place = self.pinned_place("write", &buffer, offset, source.bytes())?;
            let (buffer, backend): (&Memory, _) = (&buffer, &self.runtime.backend);
            py.detach(|| {
                buffer.wait_for_previous_owner()?;
                buffer.wait()?;
                let Some(place) = place else { return Ok(()) };
                let written = backend.write_host(place, source.as_ref());
                let written = written.map_err(|error| errors::backend(&error));
                Python::attach(|_| drop(source));
                written
            })
        })
    }

    /// Read bytes of pinned memory, after all work that uses it.
    fn read_pinned(
        &self,
        py: Python<'_>,
        buffer: PyRef<'_, Memory>,
        offset: u64,
        into: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        guarded("read", || {
            let mut sink = Sink::new(contiguous(into, "read", true)?);
            let place = self.pinned_place("read", &buffer, offset, sink.bytes())?;
            let (buffer, backend): (&Memory, _) = (&buffer, &self.runtime.backend);
            py.detach(|| {
                buffer.wait()?;
                let Some(place) = place else { return Ok(()) };
                let read = backend.read_host(place, sink.as_mut());
                let read = read.map_err(|error| errors::backend(&error));
                Python::attach(|_| drop(sink));
                read
            })
        })
    }
}

impl PyMemory {
    /// A place inside a pinned buffer of this device; none for no bytes.
    fn pinned_place(
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
        match (BufferRange { buffer, offset }).place(&self.runtime, operation, bytes)? {
            Address::Host(pointer) => Ok(Some(pointer)),
            Address::Device(_) => Err(errors::invalid(&format!(
                "{operation}: expected pinned memory, got memory of the device"
            ))),
        }
    }
}

/// Memory promised to a tenant.
#[pyclass(name = "NativeReservation", module = "assay._native", frozen)]
pub(super) struct PyReservation {
    bytes: u64,
    held: Mutex<Option<Reservation>>,
}

#[pymethods]
impl PyReservation {
    /// Bytes promised.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the promise still stands.
    #[getter]
    fn held(&self) -> bool {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.is_some()
    }

    /// Take the promise back; doing it again changes nothing.
    fn release(&self, py: Python<'_>) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let reservation = held.take();
        drop(held);
        py.detach(|| drop(reservation));
    }
}
