//! The runtime for Python: devices, memory, streams, events, DLPack and records.
//!
//! Nothing here decides anything: pool, dispatch and transfers of `assay-runtime` do. What is here
//! carries values across, keeps Python's lock out of waits, and stops panics.

mod array;
mod barrier;
mod block;
mod buffer;
mod capture;
mod context;
mod cuda;
mod dlpack;
mod elementwise;
pub(crate) mod errors;
mod evictable;
mod geometry;
mod graph;
mod host_call;
mod machine;
mod measuring;
mod memory;
mod native_memory;
mod operate;
mod operators;
mod places;
mod plan;
mod records;
mod relief;
mod replay_log;
mod residence;
mod scheduler;
mod stream;
mod stream_tasks;
mod submission;
mod task;
mod transfer;
mod uses;
mod view;
mod weights;

use pyo3::prelude::*;

/// Adds the runtime's names to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<context::PyContext>()?;
    module.add_class::<buffer::Memory>()?;
    module.add_class::<array::PyArray>()?;
    module.add_function(wrap_pyfunction!(elementwise::expression, module)?)?;
    module.add_class::<plan::PyPlan>()?;
    module.add_class::<plan::PyReduction>()?;
    module.add_class::<operators::PyOperators>()?;
    module.add_class::<stream::PyStream>()?;
    module.add_class::<stream::PyEvent>()?;
    module.add_class::<graph::PyGraph>()?;
    operate::register_tables(module)?;
    module.add_function(wrap_pyfunction!(weights::weights_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(weights::pack_weights, module)?)?;
    module.add_function(wrap_pyfunction!(weights::dequantize_weights, module)?)?;
    module.add_function(wrap_pyfunction!(weights::rope_cos_sin, module)?)?;
    module.add_class::<native_memory::PyMemory>()?;
    module.add_class::<native_memory::PyReservation>()?;
    module.add_class::<scheduler::PyScheduler>()?;
    module.add_class::<task::PyTask>()?;
    module.add_class::<task::PyGrant>()?;
    module.add_function(wrap_pyfunction!(replay_log::replay_allocations, module)?)?;
    module.add_class::<cuda::PyKernel>()?;
    module.add_function(wrap_pyfunction!(cuda::cuda_probe, module)?)?;
    module.add_function(wrap_pyfunction!(cuda::cuda_cublaslt, module)?)?;
    module.add_function(wrap_pyfunction!(cuda::cuda_compile, module)?)?;
    module.add_function(wrap_pyfunction!(cuda::cuda_sources, module)?)?;
    module.add_function(wrap_pyfunction!(cuda::cuda_attention_limits, module)?)?;
    module.add_function(wrap_pyfunction!(cuda::cuda_time_launches, module)?)?;
    module.add_function(wrap_pyfunction!(dlpack::dlpack_export, module)?)?;
    module.add_function(wrap_pyfunction!(dlpack::dlpack_import, module)?)?;
    measuring::register(module)?;
    module.add_function(wrap_pyfunction!(barrier::provoke_panic, module)?)
}
