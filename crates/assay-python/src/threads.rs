//! The threads and instructions of the processor's kernels, for Python.

use assay_cpu::simd::Level;
use assay_cpu::threads::ThreadPool;
use pyo3::prelude::*;

/// Adds the names to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(kernel_levels, module)?)?;
    module.add_function(wrap_pyfunction!(kernel_threads, module)?)?;
    module.add_function(wrap_pyfunction!(limit_kernel_threads, module)?)
}

/// The sets of instructions that kernels can use here, the one they use last.
#[pyfunction]
fn kernel_levels() -> Vec<&'static str> {
    Level::available().into_iter().map(Level::name).collect()
}

/// How many threads kernels of the processor use, and how many there are.
#[pyfunction]
fn kernel_threads() -> (usize, usize) {
    let threads = ThreadPool::global();
    (threads.count(), threads.capacity())
}

/// Have kernels of the processor use at most so many threads, everywhere in this process.
#[pyfunction]
fn limit_kernel_threads(count: usize) {
    ThreadPool::global().limit(count);
}
