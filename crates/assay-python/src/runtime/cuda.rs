//! CUDA for Python: detected libraries and GPUs, NVRTC compilation, and user kernels.

use std::path::PathBuf;
use std::sync::Arc;

use assay_cuda::compiler::{self, Architecture, Source};
use assay_cuda::device::{CudaDevice, LaunchOptions, LoadError};
use assay_cuda::discovery::{CudaUnavailable, DeviceInfo, LibraryInfo, discover};
use assay_runtime::backend::{DevicePointer, KernelArgument, KernelId, Launch};
use assay_runtime::dispatch::{Work, WorkRequest};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use super::allocation::Use;
use super::buffer::Memory;
use super::context::PyContext;
use super::device_runtime::{Device, DeviceRuntime};
use super::errors;
use super::panic_guard::guarded;
use super::residency::Pinned;
use super::stream::PyStream;

fn library<'py>(
    py: Python<'py>,
    found: &Result<LibraryInfo, CudaUnavailable>,
) -> PyResult<Bound<'py, PyDict>> {
    let info = PyDict::new(py);
    match found {
        Ok(library) => {
            info.set_item("path", &library.path)?;
            info.set_item("version", library.version)?;
        }
        Err(missing) => {
            info.set_item("missing", missing.message())?;
            info.set_item("hint", missing.hint())?;
        }
    }
    Ok(info)
}

fn device<'py>(py: Python<'py>, facts: &DeviceInfo) -> PyResult<Bound<'py, PyDict>> {
    let info = PyDict::new(py);
    info.set_item("name", &facts.name)?;
    info.set_item("capability", facts.capability)?;
    info.set_item("memory_bytes", facts.memory_bytes)?;
    info.set_item("multiprocessors", facts.multiprocessors)?;
    info.set_item("l2_bytes", facts.l2_bytes)?;
    info.set_item("shared_bytes", facts.shared_bytes)?;
    info.set_item("usable", facts.check().is_ok())?;
    Ok(info)
}

/// The path and version of cuBLASLt, or why it cannot be loaded; the first call loads it.
#[pyfunction]
pub(super) fn cuda_cublaslt(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    guarded("cuda_cublaslt", || {
        let info = PyDict::new(py);
        match py.detach(assay_cuda::blas::library_info) {
            Ok((path, version)) => {
                info.set_item("path", path)?;
                info.set_item("version", version)?;
            }
            Err(sentence) => {
                info.set_item("missing", sentence)?;
                info.set_item("hint", "pip install \"assay[gpu]\"")?;
            }
        }
        Ok(info)
    })
}

/// The driver, NVRTC and GPUs found; the first call searches, wheel folders included.
#[pyfunction]
pub(super) fn cuda_probe(py: Python<'_>, folders: Vec<PathBuf>) -> PyResult<Bound<'_, PyDict>> {
    guarded("cuda_probe", || {
        assay_cuda::set_library_folders(folders);
        let found = py.detach(discover);
        let info = PyDict::new(py);
        info.set_item("driver", library(py, &found.driver)?)?;
        info.set_item("compiler", library(py, &found.compiler)?)?;
        let devices = PyList::empty(py);
        for facts in &found.devices {
            devices.append(device(py, facts)?)?;
        }
        info.set_item("devices", devices)?;
        if let Some(hint) = found.newer_compiler_hint() {
            info.set_item("newer_compiler", hint)?;
        }
        if let Some(missing) = found.missing(0) {
            info.set_item("missing", (missing.code(), missing.message(), missing.hint()))?;
        }
        Ok(info)
    })
}

/// Compile CUDA C++ for an architecture such as `sm_90a`; needs NVRTC and no GPU.
#[pyfunction]
#[pyo3(signature = (text, architecture, *, name, options, headers))]
pub(super) fn cuda_compile<'py>(
    py: Python<'py>,
    text: &str,
    architecture: &str,
    name: &str,
    options: Vec<String>,
    headers: Vec<(String, String)>,
) -> PyResult<Bound<'py, PyBytes>> {
    guarded("cuda_compile", || {
        let Some(architecture) = Architecture::parse(architecture) else {
            return Err(errors::invalid(&format!(
                "cuda_compile: expected an architecture such as sm_90a, got \"{architecture}\""
            )));
        };
        let headers = borrowed(&headers);
        let source = Source { name, text, headers: &headers, options: &options };
        let image = py.detach(|| compiler::compile(&source, architecture));
        let image = image.map_err(|error| errors::compile(&error))?;
        Ok(PyBytes::new(py, &image.bytes))
    })
}

/// Head sizes that attention kernels are instantiated for, and the divisor of KV-cache block sizes.
#[pyfunction]
pub(super) fn cuda_attention_limits() -> ([u64; 4], u64) {
    use assay_cuda::operations::{BLOCK_TOKENS_MULTIPLE, HEAD_DIMS};
    (HEAD_DIMS, BLOCK_TOKENS_MULTIPLE)
}

/// Bytes of a row of quantized weights, and of its scales, in a GPU's memory; none without kernels.
#[pyfunction]
pub(super) fn cuda_packed_row_bytes(code: u32, inputs: u64) -> Option<(u64, u64)> {
    let format = assay_operations::ElementFormat::from_code(code)?;
    assay_cuda::operations::packed_row_bytes(format, inputs)
}

/// The macros, with their values, of the kernels that read a format of quantized weights; none without kernels.
#[pyfunction]
pub(super) fn cuda_layout_macros(code: u32) -> Option<Vec<(&'static str, String)>> {
    let format = assay_operations::ElementFormat::from_code(code)?;
    assay_cuda::operations::layout_macros(format)
}

/// The sources of the built-in kernels by file name.
#[pyfunction]
pub(super) fn cuda_sources() -> Vec<(&'static str, &'static str)> {
    assay_cuda::sources::sources().to_vec()
}

fn borrowed(headers: &[(String, String)]) -> Vec<(&str, &str)> {
    let pairs = headers.iter();
    pairs.map(|(name, text)| (name.as_str(), text.as_str())).collect()
}

impl DeviceRuntime {
    /// The GPU; an error that names `operation` on any other device.
    pub fn cuda_device(&self, operation: &str) -> PyResult<&Arc<CudaDevice>> {
        match &self.device {
            Device::Cuda { device } => Ok(device),
            _ => Err(errors::invalid(&format!(
                "{operation}: expected a cuda device, got \"{}\"",
                self.backend.properties().name
            ))),
        }
    }
}

/// A CUDA C++ kernel compiled for one device.
#[pyclass(name = "NativeKernel", module = "assay._native", frozen)]
pub(super) struct PyKernel {
    runtime: Arc<DeviceRuntime>,
    id: KernelId,
    name: String,
    parameters: Vec<usize>,
}

/// A scalar, or a buffer with a byte offset, the accessible bytes from there, and whether the
/// kernel writes them.
#[derive(FromPyObject)]
enum Argument {
    Buffer(Py<Memory>, u64, u64, bool),
    Number(String, Bound64),
}

/// A Python int or float.
#[derive(FromPyObject)]
enum Bound64 {
    Integer(i128),
    Float(f64),
}

#[pymethods]
impl PyKernel {
    /// Compile a source for the context's device, or reuse the cached binary.
    #[new]
    #[pyo3(signature = (context, text, kernel, *, name, options, headers))]
    fn new(
        py: Python<'_>,
        context: PyRef<'_, PyContext>,
        text: &str,
        kernel: &str,
        name: &str,
        options: Vec<String>,
        headers: Vec<(String, String)>,
    ) -> PyResult<Self> {
        guarded("kernel", || {
            let runtime = Arc::clone(context.runtime());
            let device = Arc::clone(runtime.cuda_device("kernel")?);
            let headers = borrowed(&headers);
            let source = Source { name, text, headers: &headers, options: &options };
            let function = py.detach(|| {
                let module = device.compile(&source)?;
                let function = module.function(kernel, LaunchOptions::default());
                function.map_err(LoadError::Backend)
            });
            let function = function.map_err(|error| errors::load(&error))?;
            Ok(PyKernel {
                runtime,
                parameters: function.parameters().to_vec(),
                id: device.register_function(function),
                name: kernel.to_owned(),
            })
        })
    }

    /// The size in bytes of each parameter.
    #[getter]
    fn parameters(&self) -> Vec<usize> {
        self.parameters.clone()
    }

    /// Queue the kernel on a stream.
    ///
    /// An argument is a scalar, tagged with its type such as "i32", or a buffer with a byte offset,
    /// the bytes that the kernel may access from there, and whether it writes them.
    #[pyo3(signature = (grid, block, shared_bytes, arguments, stream, *, label, bytes, flops))]
    #[allow(clippy::too_many_arguments)]
    fn launch(
        &self,
        py: Python<'_>,
        grid: [u32; 3],
        block: [u32; 3],
        shared_bytes: u32,
        arguments: Vec<Argument>,
        stream: PyRef<'_, PyStream>,
        label: &str,
        bytes: u64,
        flops: f64,
    ) -> PyResult<()> {
        guarded(label, || {
            let stream = stream.on(&self.runtime, label)?;
            let used = arguments.iter().filter_map(|argument| match argument {
                Argument::Number(..) => None,
                Argument::Buffer(buffer, _, _, writes) => {
                    Some(Use { buffer: buffer.get(), writes: *writes })
                }
            });
            let uses: Vec<Use<'_>> = used.collect();
            let _pinned = Pinned::new(py, &uses, stream)?;
            let mut parameters = Vec::with_capacity(arguments.len());
            for argument in &arguments {
                parameters.push(match argument {
                    Argument::Number(kind, value) => number(&self.name, kind, value)?,
                    Argument::Buffer(buffer, offset, reach, _) => {
                        KernelArgument::Pointer(self.pointer(buffer.get(), *offset, *reach)?)
                    }
                });
            }
            let work = Work::Launch(Launch {
                kernel: self.id,
                grid,
                block,
                shared_bytes,
                arguments: parameters,
            });
            let mut request = WorkRequest::new(label, stream, work);
            request.bytes = bytes;
            request.flops = flops;
            py.detach(|| self.runtime.submit(request, &uses)).map(|_| ())
        })
    }
}

impl PyKernel {
    fn pointer(&self, buffer: &Memory, offset: u64, reach: u64) -> PyResult<DevicePointer> {
        buffer.alive(&self.name)?;
        let end = offset.checked_add(reach);
        let inside = end.is_some_and(|end| end <= buffer.bytes());
        let owned = Arc::ptr_eq(&self.runtime, buffer.runtime()) && buffer.is_pooled();
        let address = buffer.address().and_then(|base| base.offset(offset));
        match (inside && owned, address) {
            (true, Some(address)) => Ok(DevicePointer(address.value())),
            // With zero accessible bytes the pointer is never dereferenced.
            (true, None) => Ok(DevicePointer(0)),
            (false, _) => Err(errors::invalid(&format!(
                "{}: expected {reach} bytes from {offset} in a buffer of this device, got a \
                 buffer of {} bytes",
                self.name,
                buffer.bytes()
            ))),
        }
    }
}

/// Converts a scalar to a kernel parameter of type `kind`.
fn number(kernel: &str, kind: &str, value: &Bound64) -> PyResult<KernelArgument> {
    let fitted = match (kind, value) {
        ("i32", Bound64::Integer(value)) => i32::try_from(*value).map(KernelArgument::I32).ok(),
        ("u32", Bound64::Integer(value)) => u32::try_from(*value).map(KernelArgument::U32).ok(),
        ("i64", Bound64::Integer(value)) => i64::try_from(*value).map(KernelArgument::I64).ok(),
        ("u64", Bound64::Integer(value)) => u64::try_from(*value).map(KernelArgument::U64).ok(),
        ("f32", Bound64::Float(value)) => Some(KernelArgument::F32(*value as f32)),
        ("f32", Bound64::Integer(value)) => Some(KernelArgument::F32(*value as f32)),
        ("f64", Bound64::Float(value)) => Some(KernelArgument::F64(*value)),
        ("f64", Bound64::Integer(value)) => Some(KernelArgument::F64(*value as f64)),
        _ => None,
    };
    let got = match value {
        Bound64::Integer(value) => value.to_string(),
        Bound64::Float(value) => value.to_string(),
    };
    fitted.ok_or_else(|| {
        errors::invalid(&format!("{kernel}: expected a number that fits {kind}, got {got}"))
    })
}

/// Host nanoseconds for `launches` bare driver launches of an empty kernel.
#[pyfunction]
pub(super) fn cuda_time_launches(
    py: Python<'_>,
    context: PyRef<'_, PyContext>,
    launches: u32,
) -> PyResult<u64> {
    guarded("time_launches", || {
        let device = context.runtime().cuda_device("time_launches")?;
        let elapsed = py.detach(|| device.time_launches(launches));
        let elapsed = elapsed.map_err(|error| errors::load(&error))?;
        Ok(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
    })
}

/// Turn the timing of GEMMs of many rows on or off, for problems that have not run yet.
#[pyfunction]
pub(super) fn cuda_tune_gemms(context: PyRef<'_, PyContext>, tunes: bool) -> PyResult<()> {
    guarded("tune_gemms", || {
        context.runtime().cuda_device("tune_gemms")?.set_tunes_gemms(tunes);
        Ok(())
    })
}
