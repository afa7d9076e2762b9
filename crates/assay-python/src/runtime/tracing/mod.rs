//! Traces of the engine at work: host sections, the work of devices, and the events of both.

mod events;
mod host_log;
mod work_trace;

use pyo3::prelude::*;

use super::panic_guard::guarded;

pub(super) use work_trace::PyWorkTrace;

/// Say which step of the engine this thread's work belongs to from now on; None: to none.
#[pyfunction]
#[pyo3(signature = (step))]
fn set_trace_step(step: Option<i64>) -> PyResult<()> {
    guarded("set_trace_step", || {
        assay_runtime::trace::set_step(step);
        Ok(())
    })
}

/// Adds the tracing names to the module.
pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(set_trace_step, module)?)?;
    module.add_class::<host_log::PyHostLog>()?;
    module.add_class::<work_trace::PyWorkTrace>()?;
    module.add_class::<events::PyCapturedEvents>()
}
