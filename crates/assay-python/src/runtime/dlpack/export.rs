//! Exports our memory as DLPack capsules.

use std::ffi::{CStr, c_void};
use std::ptr::null_mut;

use pyo3::ffi;
use pyo3::prelude::*;

use super::super::buffer::{Memory, has_name};
use super::super::errors;
use super::super::panic_guard::guarded;
use super::super::residency::Pinned;
use super::structures::{
    CUDA, DlDataType, DlDevice, DlManaged, DlManagedVersioned, DlTensor, DlVersion, IS_COPIED,
    READ_ONLY, UNVERSIONED, VERSIONED,
};

/// The special CUDA stream handles: legacy default and per-thread default.
const SHARED_STREAMS: [u64; 2] = [1, 2];

/// What an exported tensor keeps alive.
struct Exported {
    buffer: Py<Memory>,
    shape: Vec<i64>,
    strides: Vec<i64>,
    /// The consumer's stream, if it is one of the special handles that live as long as the process.
    consumer: Option<u64>,
}

impl Drop for Exported {
    fn drop(&mut self) {
        let memory = self.buffer.get();
        if let Some(consumer) = self.consumer
            && let Ok(device) = memory.runtime().cuda_device("free")
        {
            let ours = memory.runtime().backend.default_stream();
            // A device that returns an error runs no more work, so neither order nor memory matter.
            let _ = device.follow(consumer, ours);
        }
        memory.unexport();
    }
}

/// Drops what a tensor kept alive, with an exception that propagates left as it is: a consumer that
/// refuses a tensor frees it while its own exception is set.
fn end(exported: Box<Exported>) {
    let (mut kind, mut value, mut trace) = (null_mut(), null_mut(), null_mut());
    Python::attach(|_| {
        // SAFETY: this thread is attached; the three references are restored below.
        unsafe { ffi::PyErr_Fetch(&raw mut kind, &raw mut value, &raw mut trace) };
        drop(exported);
        // SAFETY: as above.
        unsafe { ffi::PyErr_Restore(kind, value, trace) };
    });
}

/// Makes the consumer's stream wait for the work that uses the memory.
fn lead(memory: &Memory, consumer: u64) -> PyResult<()> {
    let runtime = memory.runtime();
    let device = runtime.cuda_device("__dlpack__")?;
    for stream in memory.streams_in_use() {
        let usage = runtime.dispatch.usage(stream);
        let usage = usage.map_err(|error| errors::dispatch(&error))?;
        if usage.waiting > 0 {
            // An event covers only work on the device, so queued work is submitted to it first.
            let waited = runtime.dispatch.synchronize(stream);
            waited.map_err(|error| errors::dispatch(&error))?;
        }
        let led = device.lead(stream, consumer);
        led.map_err(|error| errors::backend(&error))?;
    }
    Ok(())
}

fn exported_tensor(
    exported: &mut Exported,
    pointer: *mut u8,
    device: (i32, i32),
    dtype: (u8, u8),
) -> DlTensor {
    DlTensor {
        data: pointer.cast(),
        device: DlDevice { kind: device.0, number: device.1 },
        ndim: exported.shape.len() as i32,
        dtype: DlDataType { code: dtype.0, bits: dtype.1, lanes: 1 },
        shape: exported.shape.as_mut_ptr(),
        strides: exported.strides.as_mut_ptr(),
        byte_offset: 0,
    }
}

unsafe extern "C" fn end_versioned(managed: *mut DlManagedVersioned) {
    if managed.is_null() {
        return;
    }
    // SAFETY: both boxes were leaked by `export_tensor`, and a deleter is called once.
    let exported = unsafe { Box::from_raw((*managed).manager.cast::<Exported>()) };
    // SAFETY: as above.
    let managed = unsafe { Box::from_raw(managed) };
    end(exported);
    drop(managed);
}

unsafe extern "C" fn end_unversioned(managed: *mut DlManaged) {
    if managed.is_null() {
        return;
    }
    // SAFETY: as in `end_versioned`.
    let exported = unsafe { Box::from_raw((*managed).manager.cast::<Exported>()) };
    // SAFETY: as in `end_versioned`.
    let managed = unsafe { Box::from_raw(managed) };
    end(exported);
    drop(managed);
}

/// Frees a capsule that no consumer took over.
unsafe extern "C" fn end_capsule(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls this with the capsule, which is alive until it returns; a consumed
    // capsule has another name, and then the consumer owns its tensor.
    unsafe {
        let name = ffi::PyCapsule_GetName(capsule);
        if has_name(name, VERSIONED) {
            end_versioned(ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()).cast());
        } else if has_name(name, UNVERSIONED) {
            end_unversioned(ffi::PyCapsule_GetPointer(capsule, UNVERSIONED.as_ptr()).cast());
        }
    }
}

/// Export a range of a buffer as a DLPack capsule.
///
/// `strides` are in elements; `dtype` is DLPack's code and bits. `consumer` is the handle of the
/// stream on which the consumer uses a GPU's memory; that stream waits for our work. Without one
/// nothing is synchronized.
#[pyfunction]
#[pyo3(signature = (
    buffer, offset, shape, strides, dtype, *, device, versioned, read_only, copied, consumer=None,
))]
#[allow(clippy::too_many_arguments)]
pub(in super::super) fn dlpack_export<'py>(
    buffer: Bound<'py, Memory>,
    offset: u64,
    shape: Vec<i64>,
    strides: Vec<i64>,
    dtype: (u8, u8),
    device: (i32, i32),
    versioned: bool,
    read_only: bool,
    copied: bool,
    consumer: Option<u64>,
) -> PyResult<Bound<'py, PyAny>> {
    guarded("__dlpack__", || {
        let py = buffer.py();
        let memory = buffer.get();
        memory.alive("__dlpack__")?;
        if shape.len() != strides.len() || offset > memory.bytes() {
            return Err(errors::invalid(
                "__dlpack__: expected a view of the buffer, got one that reaches past it",
            ));
        }
        let _pinned = Pinned::for_host(py, memory)?;
        let first = match device.0 {
            CUDA => memory.device_pointer(),
            _ => memory.host_pointer("__dlpack__")?,
        };
        let pointer = first.wrapping_add(offset as usize);
        py.detach(|| match (device.0, consumer) {
            (CUDA, Some(consumer)) => lead(memory, consumer),
            (CUDA, None) => Ok(()),
            _ => memory.wait(),
        })?;
        memory.export();
        let mut exported = Box::new(Exported {
            buffer: buffer.clone().unbind(),
            shape,
            strides,
            consumer: consumer.filter(|handle| SHARED_STREAMS.contains(handle)),
        });
        let tensor = exported_tensor(&mut exported, pointer, device, dtype);
        let manager: *mut c_void = Box::into_raw(exported).cast();
        let (managed, name): (*mut c_void, &CStr) = if versioned {
            let managed = Box::new(DlManagedVersioned {
                version: DlVersion { major: 1, minor: 1 },
                manager,
                deleter: Some(end_versioned),
                flags: if read_only { READ_ONLY } else { 0 } | if copied { IS_COPIED } else { 0 },
                tensor,
            });
            (Box::into_raw(managed).cast(), VERSIONED)
        } else {
            let managed = Box::new(DlManaged { tensor, manager, deleter: Some(end_unversioned) });
            (Box::into_raw(managed).cast(), UNVERSIONED)
        };
        // SAFETY: the pointer is not null, the name is static, and the capsule owns the tensor
        // from here on.
        let capsule = unsafe { ffi::PyCapsule_New(managed, name.as_ptr(), Some(end_capsule)) };
        // SAFETY: a new reference, or null with an exception set.
        unsafe { Bound::from_owned_ptr_or_err(py, capsule) }
    })
}
