//! The thread count and instruction sets of the CPU's kernels, for Python.

use assay_cpu::simd::Level;
use assay_cpu::threads::ThreadPool;
use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;

/// Adds the names to the module, unless this CPU can run none of the kernels.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    if Level::available().is_empty() || !assay_tape::has_kernels() {
        return Err(PyImportError::new_err(
            "this extension was built for another CPU alone\n\
             hint: build it for every CPU: make setup",
        ));
    }
    module.add_function(wrap_pyfunction!(kernel_levels, module)?)?;
    module.add_function(wrap_pyfunction!(kernel_threads, module)?)?;
    module.add_function(wrap_pyfunction!(limit_kernel_threads, module)?)
}

/// The instruction sets that kernels can use on this CPU; the last is the one in use.
#[pyfunction]
fn kernel_levels() -> Vec<&'static str> {
    Level::available().into_iter().map(Level::name).collect()
}

/// The number of threads that CPU kernels use, and the number available.
#[pyfunction]
fn kernel_threads() -> (usize, usize) {
    let threads = ThreadPool::global();
    (threads.count(), threads.capacity())
}

/// Set the maximum number of threads of CPU kernels in this process.
#[pyfunction]
fn limit_kernel_threads(count: usize) {
    ThreadPool::global().limit(count);
}
