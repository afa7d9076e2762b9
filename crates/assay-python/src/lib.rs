//! `assay._native`: the Python bindings of the Rust crates.

mod arrow_stream;
mod block_manager;
mod column;
mod cupti;
mod float_buffer;
mod formats;
mod host_linear;
mod onnx;
mod order_book;
mod runtime;
mod stored_texts;
mod tape;
mod tape_arguments;
mod threads;
mod trace;

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The version, platform and build mode of this binary.
#[pyfunction]
fn build_info(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let facts = PyDict::new(py);
    facts.set_item("version", env!("CARGO_PKG_VERSION"))?;
    facts.set_item("arch", std::env::consts::ARCH)?;
    facts.set_item("os", std::env::consts::OS)?;
    facts.set_item("debug_assertions", cfg!(debug_assertions))?;
    Ok(facts)
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(build_info, module)?)?;
    tape::register(module)?;
    runtime::register(module)?;
    block_manager::register(module)?;
    threads::register(module)?;
    formats::register(module)?;
    host_linear::register(module)?;
    onnx::register(module)?;
    order_book::register(module)?;
    trace::register(module)?;
    cupti::register(module)?;
    Ok(())
}
