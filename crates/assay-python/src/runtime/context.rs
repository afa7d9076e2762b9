//! A device as a Python object: its properties, memory, streams and records.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use assay_cuda::device::CudaOptions;
use assay_runtime::backend::{Address, DeviceKind, Space, StreamId};
use assay_runtime::memory::TenantId;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::allocation::AllocationRequest;
use super::array::PyArray;
use super::backing::Backing;
use super::buffer::{Memory, contiguous};
use super::buffer_range::BufferRange;
use super::device_runtime::{DeviceRuntime, DeviceRuntimeOptions};
use super::elementwise::{ElementwiseCall, elementwise};
use super::errors;
use super::memory::{self, MemoryOptions};
use super::native_memory::PyMemory;
use super::operation_calls::{OperandTuple, PyNumber, RecordFields, operate};
use super::panic_guard::guarded;
use super::records::{self, RecordTuple};
use super::stream::PyStream;
use super::stream_operations::{self, HostCall};
use super::tracing::PyWorkTrace;
use super::transfer;

/// A device with its memory pool, dispatch controller, transfer engine and records.
#[pyclass(name = "Context", module = "assay._native", frozen)]
pub(super) struct PyContext {
    runtime: Arc<DeviceRuntime>,
}

impl PyContext {
    pub fn runtime(&self) -> &Arc<DeviceRuntime> {
        &self.runtime
    }
}

#[pymethods]
impl PyContext {
    #[new]
    #[pyo3(signature = (
        kind, *, memory_bytes=None, pool_bytes=None, limit_bytes=None, host_bytes=None,
        timing=true, records=16_384, tracking=false, logging=false, ordinal=0,
        cache_folder=None, watchdog_seconds=None, allow_tf32=false,
    ))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        kind: &str,
        memory_bytes: Option<u64>,
        pool_bytes: Option<u64>,
        limit_bytes: Option<u64>,
        host_bytes: Option<u64>,
        timing: bool,
        records: usize,
        tracking: bool,
        logging: bool,
        ordinal: usize,
        cache_folder: Option<PathBuf>,
        watchdog_seconds: Option<f64>,
        allow_tf32: bool,
    ) -> PyResult<Self> {
        guarded("device", || {
            let options = DeviceRuntimeOptions {
                memory_bytes,
                memory: MemoryOptions { pool_bytes, limit_bytes, host_bytes, tracking, logging },
                timing,
                records,
            };
            let runtime = match kind {
                "cpu" => DeviceRuntime::cpu(options)?,
                "sim" => DeviceRuntime::sim(options)?,
                "cuda" => {
                    let watchdog = watchdog_seconds.map(Duration::try_from_secs_f64).transpose();
                    let watchdog = watchdog.map_err(|error| {
                        errors::invalid(&format!("device: watchdog_seconds: {error}"))
                    })?;
                    let cuda = CudaOptions { ordinal, cache_folder, watchdog, allow_tf32 };
                    py.detach(|| DeviceRuntime::cuda(options, cuda))?
                }
                other => {
                    return Err(errors::invalid(&format!(
                        "device: expected cpu, sim or cuda, got \"{other}\""
                    )));
                }
            };
            Ok(PyContext { runtime })
        })
    }

    /// The device's name, from the vendor or the profile.
    #[getter]
    fn name(&self) -> &str {
        &self.runtime.backend.properties().name
    }

    /// The kind of device.
    #[getter]
    fn kind(&self) -> &'static str {
        match self.runtime.backend.properties().kind {
            DeviceKind::Cpu => "cpu",
            DeviceKind::Cuda => "cuda",
            DeviceKind::Sim => "sim",
        }
    }

    /// Total device memory in bytes.
    #[getter]
    fn memory_bytes(&self) -> u64 {
        self.runtime.backend.properties().memory_bytes
    }

    /// The alignment of every allocation in bytes.
    #[getter]
    fn alignment_bytes(&self) -> u64 {
        self.runtime.backend.properties().alignment_bytes
    }

    /// Whether NumPy can access the device's memory without a copy.
    #[getter]
    fn host_memory(&self) -> bool {
        self.runtime.is_host_memory()
    }

    /// Whether memory has neither tenants nor call-site tracking.
    #[getter]
    fn plain_memory(&self) -> bool {
        self.runtime.has_no_accounts()
    }

    /// Tenants, reservations, logs and statistics of the device's memory.
    #[getter]
    fn memory(&self) -> PyMemory {
        PyMemory::new(&self.runtime)
    }

    /// Nanoseconds on the device's clock.
    fn now_ns(&self) -> u64 {
        self.runtime.backend.clock().now_ns()
    }

    /// The default stream.
    fn default_stream(&self) -> PyStream {
        PyStream::default_of(&self.runtime)
    }

    /// Create a stream with priority low, normal or high.
    fn create_stream(&self, py: Python<'_>, priority: &str) -> PyResult<PyStream> {
        guarded("stream", || {
            self.runtime.begin(py, "stream")?;
            py.detach(|| PyStream::create(&self.runtime, priority))
        })
    }

    /// Allocate from the pool in the order of a stream.
    ///
    /// `tenant` is charged; `site` is the call site, as file and line number.
    #[pyo3(signature = (bytes, stream, *, tenant=0, site=None))]
    fn allocate(
        &self,
        py: Python<'_>,
        bytes: u64,
        stream: PyRef<'_, PyStream>,
        tenant: u32,
        site: Option<(&str, u32)>,
    ) -> PyResult<Memory> {
        guarded("allocate", || {
            self.runtime.begin(py, "allocate")?;
            let request = AllocationRequest {
                space: Space::Device,
                bytes,
                stream: stream.on(&self.runtime, "allocate")?,
                tenant: TenantId(tenant),
                site: site.map(|(file, line)| memory::call_site(file, line)),
            };
            py.detach(|| Memory::allocate(&self.runtime, &request))
        })
    }

    /// Allocate pinned host memory, which the device copies to and from without staging.
    fn allocate_pinned(
        &self,
        py: Python<'_>,
        bytes: u64,
        stream: PyRef<'_, PyStream>,
    ) -> PyResult<Memory> {
        guarded("allocate_pinned", || {
            self.runtime.begin(py, "allocate_pinned")?;
            let request = AllocationRequest {
                space: Space::Host,
                bytes,
                stream: stream.on(&self.runtime, "allocate_pinned")?,
                tenant: TenantId::DEFAULT,
                site: None,
            };
            py.detach(|| Memory::allocate(&self.runtime, &request))
        })
    }

    /// Borrow the memory of an object with the buffer protocol.
    fn borrow(&self, object: &Bound<'_, PyAny>) -> PyResult<Memory> {
        guarded("borrow", || {
            let buffer = contiguous(object, "borrow", false)?;
            let address = Address::new(Space::Host, buffer.buf_ptr() as u64);
            let bytes = buffer.len_bytes() as u64;
            let writable = !buffer.readonly();
            let backing = Backing::Object(buffer);
            Ok(Memory::borrow(&self.runtime, backing, address, bytes, writable))
        })
    }

    /// Run a Python host function as one operation of a stream.
    ///
    /// On the CPU the function takes no arguments and runs before this returns. On a GPU and on the
    /// simulated device it takes one list, with a bytearray for each buffer, reads first; on the
    /// simulated device it runs when virtual time reaches it.
    #[pyo3(signature = (name, function, reads, writes, stream, *, bytes, flops))]
    #[allow(clippy::too_many_arguments)]
    fn launch(
        &self,
        py: Python<'_>,
        name: &str,
        function: Py<PyAny>,
        reads: Vec<Py<Memory>>,
        writes: Vec<Py<Memory>>,
        stream: PyRef<'_, PyStream>,
        bytes: u64,
        flops: f64,
    ) -> PyResult<()> {
        self.queue(py, name, &stream, |stream| {
            let call = HostCall { name, function, reads: &reads, writes: &writes, bytes, flops };
            stream_operations::run(py, &self.runtime, call, stream)
        })
    }

    /// Queue an operation of the table; `_native.OPERATIONS` lists its operands and numbers in
    /// order.
    ///
    /// An operand is None, or a pool buffer, a byte offset, the accessible bytes from there and its
    /// format code in `_native.FORMATS`.
    #[pyo3(signature = (name, operands, numbers, stream, *, label, bytes, flops))]
    #[allow(clippy::too_many_arguments)]
    fn operate(
        &self,
        py: Python<'_>,
        name: &str,
        operands: Vec<Option<OperandTuple>>,
        numbers: Vec<PyNumber>,
        stream: PyRef<'_, PyStream>,
        label: String,
        bytes: u64,
        flops: f64,
    ) -> PyResult<()> {
        guarded(name, || {
            self.runtime.begin(py, name)?;
            let record = RecordFields { label, bytes, flops };
            stream.on(&self.runtime, name)?;
            operate(py, &self.runtime, name, &operands, &numbers, &stream, record)
        })
    }

    /// Queue an elementwise operation: `expression` of the inputs, into `result`.
    ///
    /// Inputs are arrays that broadcast to the result, or integers with the bits of a scalar: of a
    /// double where `computed`, a format code, is floating-point.
    #[pyo3(signature = (label, expression, computed, inputs, result, stream, flops))]
    #[allow(clippy::too_many_arguments)]
    fn elementwise(
        &self,
        py: Python<'_>,
        label: &str,
        expression: u32,
        computed: u32,
        inputs: &Bound<'_, PyTuple>,
        result: &Bound<'_, PyArray>,
        stream: PyRef<'_, PyStream>,
        flops: f64,
    ) -> PyResult<()> {
        self.queue(py, label, &stream, |stream| {
            let call = ElementwiseCall { label: label.into(), expression, computed, flops };
            elementwise(py, &self.runtime, call, inputs, result.get(), stream)
        })
    }

    /// Set every byte of a range of a pool buffer.
    #[pyo3(signature = (name, buffer, offset, value, bytes, stream))]
    #[allow(clippy::too_many_arguments)]
    fn fill(
        &self,
        py: Python<'_>,
        name: &str,
        buffer: PyRef<'_, Memory>,
        offset: u64,
        value: u8,
        bytes: u64,
        stream: PyRef<'_, PyStream>,
    ) -> PyResult<()> {
        self.queue(py, name, &stream, |stream| {
            let part = BufferRange::new(&buffer, offset);
            stream_operations::fill(py, &self.runtime, name, part, (value, bytes), stream)
        })
    }

    /// Let a stream wait for the nanoseconds in a slot of a pool buffer, in stream order.
    ///
    /// It is ordered after earlier and before later work on the buffers of `after`.
    #[pyo3(signature = (name, buffer, offset, after, stream))]
    fn delay(
        &self,
        py: Python<'_>,
        name: &str,
        buffer: PyRef<'_, Memory>,
        offset: u64,
        after: Vec<Py<Memory>>,
        stream: PyRef<'_, PyStream>,
    ) -> PyResult<()> {
        self.queue(py, name, &stream, |stream| {
            let slot = BufferRange::new(&buffer, offset);
            stream_operations::delay(py, &self.runtime, name, slot, &after, stream)
        })
    }

    /// Copy between non-overlapping ranges of two pool buffers of this device.
    #[pyo3(signature = (
        name, source, source_offset, destination, destination_offset, bytes, stream,
    ))]
    #[allow(clippy::too_many_arguments)]
    fn copy(
        &self,
        py: Python<'_>,
        name: &str,
        source: PyRef<'_, Memory>,
        source_offset: u64,
        destination: PyRef<'_, Memory>,
        destination_offset: u64,
        bytes: u64,
        stream: PyRef<'_, PyStream>,
    ) -> PyResult<()> {
        self.queue(py, name, &stream, |stream| {
            let source = BufferRange::new(&source, source_offset);
            let destination = BufferRange::new(&destination, destination_offset);
            let parts = (source, destination);
            stream_operations::copy(py, &self.runtime, name, parts, bytes, stream)
        })
    }

    /// Copy host bytes into a pool buffer through the transfer engine and wait.
    ///
    /// The copy is charged to the task of the stream, if it has one.
    fn upload(
        &self,
        py: Python<'_>,
        name: &str,
        source: &Bound<'_, PyAny>,
        buffer: PyRef<'_, Memory>,
        offset: u64,
        stream: PyRef<'_, PyStream>,
    ) -> PyResult<()> {
        self.queue(py, name, &stream, |stream| {
            let part = BufferRange::new(&buffer, offset);
            transfer::upload(py, &self.runtime, name, source, part, stream)
        })
    }

    /// Copy bytes of a pool buffer into a host object through the transfer engine and wait.
    ///
    /// The copy is charged to the task of the stream, if it has one.
    fn download(
        &self,
        py: Python<'_>,
        name: &str,
        buffer: PyRef<'_, Memory>,
        offset: u64,
        into: &Bound<'_, PyAny>,
        stream: PyRef<'_, PyStream>,
    ) -> PyResult<()> {
        self.queue(py, name, &stream, |stream| {
            let part = BufferRange::new(&buffer, offset);
            transfer::download(py, &self.runtime, name, part, into, stream)
        })
    }

    /// Begin to keep what the device runs, up to `capacity` launches; False if it has no tracer.
    fn start_trace(&self, py: Python<'_>, capacity: usize) -> PyResult<bool> {
        guarded("trace", || {
            self.runtime.begin(py, "trace")?;
            py.detach(|| self.runtime.dispatch.start_trace(capacity))
                .map_err(|error| errors::dispatch(&error))
        })
    }

    /// Wait for the work in flight, end the trace and return it.
    fn stop_trace(&self, py: Python<'_>) -> PyResult<PyWorkTrace> {
        guarded("trace", || {
            self.runtime.begin(py, "trace")?;
            py.detach(|| {
                let trace = self.runtime.dispatch.stop_trace();
                let trace = trace.map_err(|error| errors::dispatch(&error))?;
                Ok(PyWorkTrace::new(&self.runtime, trace))
            })
        })
    }

    /// Totals over all records.
    fn totals<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        guarded("totals", || {
            self.take_in(py)?;
            records::totals(py, self.runtime.dispatch.recorder().totals())
        })
    }

    /// The records since the last call, and how many were dropped.
    fn take_records(&self, py: Python<'_>) -> PyResult<(Vec<RecordTuple>, u64)> {
        guarded("take_records", || {
            self.take_in(py)?;
            let taken = self.runtime.dispatch.recorder().take();
            let records = taken.records.iter().map(records::record).collect();
            Ok((records, taken.dropped))
        })
    }
}

impl PyContext {
    /// Begins an operation on a stream of this device.
    fn queue(
        &self,
        py: Python<'_>,
        name: &str,
        stream: &PyStream,
        operation: impl FnOnce(StreamId) -> PyResult<()>,
    ) -> PyResult<()> {
        guarded(name, || {
            self.runtime.begin(py, name)?;
            operation(stream.on(&self.runtime, name)?)
        })
    }

    /// Polls finished work into the records.
    fn take_in(&self, py: Python<'_>) -> PyResult<()> {
        self.runtime.begin(py, "records")?;
        py.detach(|| self.runtime.dispatch.poll()).map_err(|error| errors::dispatch(&error))
    }
}
