//! `assay._native`: everything Python sees of the Rust core.

mod float_buffer;
mod formats;
mod kv;
mod runtime;
mod stored_texts;
mod tape;
mod tape_arguments;
mod threads;

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// What this binary was built from and for.
#[pyfunction]
fn build_info(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let info = assay_core::build_info::build_info();
    let facts = PyDict::new(py);
    facts.set_item("version", info.version)?;
    facts.set_item("arch", info.arch)?;
    facts.set_item("os", info.os)?;
    facts.set_item("debug_assertions", info.debug_assertions)?;
    Ok(facts)
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(build_info, module)?)?;
    tape::register(module)?;
    runtime::register(module)?;
    kv::register(module)?;
    threads::register(module)?;
    formats::register(module)?;
    Ok(())
}
