//! Warnings of the runtime in Python's log.

use pyo3::prelude::*;

/// Logs warnings, such as a kernel cache that cannot be written.
pub(super) fn log_warnings(py: Python<'_>, notices: &[String]) -> PyResult<()> {
    let logger = py.import("logging")?.call_method1("getLogger", ("assay",))?;
    for notice in notices {
        logger.call_method1("warning", ("%s", notice))?;
    }
    Ok(())
}
