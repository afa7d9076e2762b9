//! The single mapping from the runtime's errors to the classes of `assay.errors`.

use assay_cuda::compiler::CompileError;
use assay_cuda::device::{self as cuda, LoadError};
use assay_kv_cache::KvError;
use assay_runtime::backend::BackendError;
use assay_runtime::dispatch::DispatchError;
use assay_runtime::memory::MemoryError;
use assay_runtime::scheduler::SchedulerError;
use assay_runtime::transfer::TransferError;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// An error of the class `name`, with the hint split from the message.
pub(crate) fn of_class(name: &str, code: &str, text: &str) -> PyErr {
    let (message, hint) = match text.split_once("\nhint: ") {
        Some((message, hint)) => (message, Some(hint)),
        None => (text, None),
    };
    Python::attach(|py| {
        let error = py
            .import("assay.errors")
            .and_then(|module| module.getattr(name))
            .and_then(|class| class.call1((message, hint)));
        match error {
            Ok(error) => {
                // Only a frozen class would reject the attribute, and none of them is.
                let _ = error.setattr("code", code);
                PyErr::from_value(error)
            }
            Err(_) => PyRuntimeError::new_err(text.to_owned()),
        }
    })
}

/// The class for a failure's stable code.
fn class_of(code: &str) -> &'static str {
    match code {
        "out_of_memory" | "out_of_blocks" | "quota_exceeded" | "reserved" | "limit_exceeded" => {
            "OutOfMemoryError"
        }
        "already_freed" => "FreedError",
        "compile" | "compile_options" => "CompileError",
        _ => "DeviceError",
    }
}

pub(super) fn memory(error: &MemoryError) -> PyErr {
    of_class(class_of(error.code()), error.code(), &error.to_string())
}

pub(super) fn dispatch(error: &DispatchError) -> PyErr {
    of_class(class_of(error.code()), error.code(), &error.to_string())
}

pub(super) fn transfer(error: &TransferError) -> PyErr {
    of_class(class_of(error.code()), error.code(), &error.to_string())
}

pub(super) fn backend(error: &BackendError) -> PyErr {
    of_class(class_of(error.code()), error.code(), &error.to_string())
}

pub(crate) fn kv(error: &KvError) -> PyErr {
    of_class(class_of(error.code()), error.code(), &error.to_string())
}

pub(super) fn scheduler(error: &SchedulerError) -> PyErr {
    of_class(class_of(error.code()), error.code(), &error.to_string())
}

/// An unknown scheduling class.
pub(super) fn unknown_class(got: &str) -> PyErr {
    invalid(&format!("task: expected class guaranteed, burstable or best-effort, got \"{got}\""))
}

pub(super) fn compile(error: &CompileError) -> PyErr {
    of_class(class_of(error.code()), error.code(), &error.to_string())
}

pub(super) fn load(error: &LoadError) -> PyErr {
    match error {
        LoadError::Compile(error) => compile(error),
        LoadError::Backend(error) => backend(error),
    }
}

/// A GPU that cannot be used.
pub(super) fn cuda(error: &cuda::DeviceError) -> PyErr {
    match error {
        cuda::DeviceError::CudaUnavailable(missing) => {
            of_class("DeviceError", missing.code(), &missing.to_string())
        }
        cuda::DeviceError::Backend(error) => backend(error),
    }
}

/// A use of something freed.
pub(super) fn freed(operation: &str, what: &str) -> PyErr {
    of_class(
        "FreedError",
        "freed",
        &format!("{operation}: expected a live {what}, got one that was freed"),
    )
}

/// An invalid call.
pub(super) fn invalid(text: &str) -> PyErr {
    of_class("DeviceError", "invalid", text)
}

/// A panic that the guard caught.
pub(super) fn panic(operation: &str, message: &str) -> PyErr {
    of_class(
        "PanicError",
        "panic",
        &format!(
            "{operation}: expected the native code to return, got a panic: {message}\nhint: this \
             is a fault in Assay, not in your input"
        ),
    )
}
