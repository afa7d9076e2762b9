//! The runtime for Python: devices, memory, streams, events, DLPack and records.
//!
//! Policy is in the pool, dispatch and transfers of `assay-runtime`. This module converts values,
//! releases the GIL around waits, and catches panics.

mod allocation;
mod array;
mod array_operators;
mod backing;
mod buffer;
mod buffer_protocol;
mod buffer_range;
mod capture;
mod capture_state;
mod captured_streams;
mod context;
mod cuda;
mod cuda_array;
mod device_runtime;
mod dlpack;
mod elementwise;
pub(crate) mod errors;
mod evictable;
mod geometry;
mod graph;
mod host_function;
mod kernel_plan;
mod measuring;
mod memory;
mod memory_pressure;
mod native_memory;
mod notices;
mod operation_calls;
mod operators;
mod panic_guard;
pub(crate) mod records;
mod reentrancy;
mod replay_log;
mod residency;
mod scheduler;
mod simulated_operations;
mod stream;
mod stream_operations;
mod stream_tasks;
mod submit;
mod task;
mod tracing;
mod transfer;
mod uses;
mod weights;

use pyo3::prelude::*;

/// Adds the runtime's names to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<context::PyContext>()?;
    module.add_class::<buffer::Memory>()?;
    module.add_class::<array::PyArray>()?;
    module.add_function(wrap_pyfunction!(elementwise::expression, module)?)?;
    module.add_class::<kernel_plan::PyPlan>()?;
    module.add_class::<kernel_plan::PyReduction>()?;
    module.add_class::<operators::PyOperators>()?;
    module.add_class::<stream::PyStream>()?;
    module.add_class::<stream::PyEvent>()?;
    module.add_class::<graph::PyGraph>()?;
    operation_calls::register_tables(module)?;
    module.add_function(wrap_pyfunction!(weights::weights_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(weights::pack_weights, module)?)?;
    module.add_function(wrap_pyfunction!(weights::dequantize_weights, module)?)?;
    module.add_function(wrap_pyfunction!(weights::rope_cos_sin, module)?)?;
    module.add_class::<native_memory::PyMemory>()?;
    module.add_class::<native_memory::PyReservation>()?;
    module.add_class::<scheduler::PyScheduler>()?;
    module.add_class::<task::PyTask>()?;
    module.add_function(wrap_pyfunction!(replay_log::replay_allocations, module)?)?;
    module.add_class::<cuda::PyKernel>()?;
    module.add_function(wrap_pyfunction!(cuda::cuda_probe, module)?)?;
    module.add_function(wrap_pyfunction!(cuda::cuda_cublaslt, module)?)?;
    module.add_function(wrap_pyfunction!(cuda::cuda_compile, module)?)?;
    module.add_function(wrap_pyfunction!(cuda::cuda_layout_macros, module)?)?;
    module.add_function(wrap_pyfunction!(cuda::cuda_sources, module)?)?;
    module.add_function(wrap_pyfunction!(cuda::cuda_attention_limits, module)?)?;
    module.add_function(wrap_pyfunction!(cuda::cuda_packed_row_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(cuda::cuda_time_launches, module)?)?;
    module.add_function(wrap_pyfunction!(cuda::cuda_tune_gemms, module)?)?;
    module.add_function(wrap_pyfunction!(dlpack::dlpack_export, module)?)?;
    module.add_function(wrap_pyfunction!(dlpack::dlpack_import, module)?)?;
    module.add_function(wrap_pyfunction!(cuda_array::cuda_borrow, module)?)?;
    measuring::register(module)?;
    tracing::register(module)?;
    module.add_function(wrap_pyfunction!(panic_guard::provoke_panic, module)?)
}
