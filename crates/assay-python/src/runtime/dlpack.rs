//! DLPack 1.x, both ways and without copies, of the host's memory and of a GPU's.
//!
//! On a GPU nothing waits: the consumer's stream is made to wait for our work. Memory that comes
//! back from streams everybody shares is used again after what they had to do.
//!
//! The structures are those of `dlpack.h`, version 1.1. A capsule named `dltensor_versioned`
//! carries a `DLManagedTensorVersioned`, one named `dltensor` the older `DLManagedTensor`;
//! whoever takes the tensor over renames the capsule and calls the deleter at the end.

use std::ffi::{CStr, c_char, c_void};
use std::sync::Arc;

use assay_core::backend::{Address, Space};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use super::barrier::guarded;
use super::block::Held;
use super::buffer::{Memory, same_name};
use super::context::PyContext;
use super::errors;
use super::residence::Pinned;

const VERSIONED: &CStr = c"dltensor_versioned";
const USED_VERSIONED: &CStr = c"used_dltensor_versioned";
const UNVERSIONED: &CStr = c"dltensor";
const USED_UNVERSIONED: &CStr = c"used_dltensor";

const READ_ONLY: u64 = 1;
const IS_COPIED: u64 = 2;
const CPU: i32 = 1;
const CUDA: i32 = 2;
/// Handles of the streams that every library shares: the legacy one, and the thread's own.
const SHARED_STREAMS: [u64; 2] = [1, 2];

#[repr(C)]
#[derive(Clone, Copy)]
struct DlDevice {
    kind: i32,
    number: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct DlDataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device: DlDevice,
    ndim: i32,
    dtype: DlDataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct DlVersion {
    major: u32,
    minor: u32,
}

#[repr(C)]
struct DlManagedVersioned {
    version: DlVersion,
    manager: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DlManagedVersioned)>,
    flags: u64,
    tensor: DlTensor,
}

#[repr(C)]
struct DlManaged {
    tensor: DlTensor,
    manager: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DlManaged)>,
}

/// What an exported tensor holds on to.
struct Exported {
    buffer: Py<Memory>,
    shape: Vec<i64>,
    strides: Vec<i64>,
    /// The stream that the consumer works on, where it cannot end before the process does.
    consumer: Option<u64>,
}

impl Drop for Exported {
    fn drop(&mut self) {
        let memory = self.buffer.get();
        if let (Some(consumer), Ok(device)) = (self.consumer, memory.machine().cuda_device("free"))
        {
            let ours = memory.machine().backend.default_stream();
            // A device that refuses works no more, and then neither order nor memory matter.
            let _ = device.follow(consumer, ours);
        }
        memory.unexport();
    }
}

/// Has the consumer's stream wait for the work that uses the memory.
fn lead(memory: &Memory, consumer: u64) -> PyResult<()> {
    let machine = memory.machine();
    let device = machine.cuda_device("__dlpack__")?;
    for stream in memory.streams_in_use() {
        let usage = machine.dispatch.usage(stream);
        let usage = usage.map_err(|error| errors::dispatch(&error))?;
        if usage.waiting > 0 {
            // An event marks what is on the device; what stands in line has to get there first.
            let waited = machine.dispatch.synchronize(stream);
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
        device: DlDevice {
            kind: device.0,
            number: device.1,
        },
        ndim: exported.shape.len() as i32,
        dtype: DlDataType {
            code: dtype.0,
            bits: dtype.1,
            lanes: 1,
        },
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
    Python::attach(|_| drop(exported));
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
    Python::attach(|_| drop(exported));
    drop(managed);
}

/// Ends a capsule that nobody took over.
unsafe extern "C" fn end_capsule(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls this with the capsule, which is alive until it returns; a capsule that
    // was taken over has another name, and then its tensor is not ours any more.
    unsafe {
        let name = ffi::PyCapsule_GetName(capsule);
        if same_name(name, VERSIONED) {
            end_versioned(ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()).cast());
        } else if same_name(name, UNVERSIONED) {
            end_unversioned(ffi::PyCapsule_GetPointer(capsule, UNVERSIONED.as_ptr()).cast());
        }
    }
}

/// Hand out part of a buffer as a DLPack capsule.
///
/// `strides` are in elements; `dtype` is DLPack's code and bits. `consumer` is the handle of the
/// stream that a GPU's memory is used on, which waits for our work; without one nobody waits.
#[pyfunction]
#[pyo3(signature = (
    buffer, offset, shape, strides, dtype, *, device, versioned, read_only, copied, consumer=None,
))]
#[allow(clippy::too_many_arguments)]
pub(super) fn dlpack_export<'py>(
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
            let managed = Box::new(DlManaged {
                tensor,
                manager,
                deleter: Some(end_unversioned),
            });
            (Box::into_raw(managed).cast(), UNVERSIONED)
        };
        // SAFETY: the pointer is not null, the name is static, and the capsule owns the tensor
        // from here on.
        let capsule = unsafe { ffi::PyCapsule_New(managed, name.as_ptr(), Some(end_capsule)) };
        // SAFETY: a new reference, or null with an exception set.
        unsafe { Bound::from_owned_ptr_or_err(py, capsule) }
    })
}

/// A tensor taken over from another library; ended through its own deleter.
pub(super) struct Tensor {
    managed: *mut c_void,
    versioned: bool,
}

// SAFETY: the pointer is only used in `drop`, under Python's lock, as producers expect.
unsafe impl Send for Tensor {}
// SAFETY: as above.
unsafe impl Sync for Tensor {}

impl Drop for Tensor {
    fn drop(&mut self) {
        Python::attach(|_| {
            // SAFETY: the tensor was taken over, so the deleter is ours to call, once.
            unsafe {
                if self.versioned {
                    let managed = self.managed.cast::<DlManagedVersioned>();
                    if let Some(deleter) = (*managed).deleter {
                        deleter(managed);
                    }
                } else {
                    let managed = self.managed.cast::<DlManaged>();
                    if let Some(deleter) = (*managed).deleter {
                        deleter(managed);
                    }
                }
            }
        });
    }
}

/// A tensor as Python gets it: buffer, byte offset, shape, strides in elements, code and bits.
type Imported = (Py<Memory>, u64, Vec<i64>, Vec<i64>, (u8, u8));

/// Take over a DLPack capsule of memory that the context's device reaches.
#[pyfunction]
pub(super) fn dlpack_import(
    context: PyRef<'_, PyContext>,
    capsule: &Bound<'_, PyAny>,
) -> PyResult<Imported> {
    guarded("from_dlpack", || import(&context, capsule))
}

fn import(context: &PyContext, capsule: &Bound<'_, PyAny>) -> PyResult<Imported> {
    let object = capsule.as_ptr();
    // SAFETY: a reference to a live object; asking for the name of a capsule under a name is
    // allowed for any object.
    let versioned = unsafe { ffi::PyCapsule_IsValid(object, VERSIONED.as_ptr()) } == 1;
    // SAFETY: as above.
    let older = unsafe { ffi::PyCapsule_IsValid(object, UNVERSIONED.as_ptr()) } == 1;
    let (name, used): (&CStr, *const c_char) = match (versioned, older) {
        (true, _) => (VERSIONED, USED_VERSIONED.as_ptr()),
        (false, true) => (UNVERSIONED, USED_UNVERSIONED.as_ptr()),
        (false, false) => {
            return Err(PyBufferError::new_err(format!(
                "from_dlpack: expected a capsule named dltensor_versioned or dltensor, got {}\n\
                 hint: a capsule can be taken over once",
                capsule.get_type()
            )));
        }
    };
    // SAFETY: the name was just checked.
    let managed = unsafe { ffi::PyCapsule_GetPointer(object, name.as_ptr()) };
    let (tensor, read_only) = if versioned {
        // SAFETY: a capsule of this name carries this structure.
        let managed = unsafe { &*managed.cast::<DlManagedVersioned>() };
        if managed.version.major != 1 {
            return Err(PyBufferError::new_err(format!(
                "from_dlpack: expected DLPack 1, got version {}.{}",
                managed.version.major, managed.version.minor
            )));
        }
        (&managed.tensor, managed.flags & READ_ONLY != 0)
    } else {
        // SAFETY: as above.
        (unsafe { &(*managed.cast::<DlManaged>()).tensor }, false)
    };
    let space = match context.machine().is_host_memory() {
        true => Space::Host,
        false => Space::Device,
    };
    let wanted = if space == Space::Host { CPU } else { CUDA };
    if tensor.device.kind != wanted {
        return Err(PyBufferError::new_err(format!(
            "from_dlpack: expected memory of device {wanted}, got device {}\nhint: copy it to the \
             host first",
            tensor.device.kind
        )));
    }
    if tensor.dtype.lanes != 1 || tensor.ndim < 0 {
        return Err(PyBufferError::new_err(format!(
            "from_dlpack: expected one lane and a shape, got {} lanes and {} axes",
            tensor.dtype.lanes, tensor.ndim
        )));
    }
    let axes = tensor.ndim as usize;
    let list = |pointer: *mut i64| match axes {
        0 => Vec::new(),
        // SAFETY: shape and strides have `ndim` elements.
        _ => unsafe { std::slice::from_raw_parts(pointer, axes) }.to_vec(),
    };
    let shape = list(tensor.shape);
    let strides = match tensor.strides.is_null() {
        true => row_major(&shape),
        false => list(tensor.strides),
    };
    let item = i64::from(tensor.dtype.bits.div_ceil(8));
    let reach = reach(&shape, &strides, item).ok_or_else(|| {
        PyBufferError::new_err(format!(
            "from_dlpack: expected a tensor within the address range, got shape {shape:?}"
        ))
    })?;
    let (below, bytes) = reach;
    let data = (tensor.data as usize).wrapping_add(tensor.byte_offset as usize);
    let dtype = (tensor.dtype.code, tensor.dtype.bits);
    // SAFETY: the capsule was checked above; from here on the tensor is ours.
    if unsafe { ffi::PyCapsule_SetName(object, used) } != 0 {
        return Err(PyErr::fetch(capsule.py()));
    }
    let held = Held::Tensor(Tensor { managed, versioned });
    let memory = Memory::borrow(
        &Arc::clone(context.machine()),
        held,
        Address::new(space, data.wrapping_sub(below as usize) as u64),
        bytes,
        !read_only,
    );
    let memory = Py::new(capsule.py(), memory)?;
    Ok((memory, below, shape, strides, dtype))
}

fn row_major(shape: &[i64]) -> Vec<i64> {
    let mut strides = vec![1_i64; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(shape[axis].max(1));
    }
    strides
}

/// Bytes below the first element, and bytes in all, that a strided tensor reaches.
fn reach(shape: &[i64], strides: &[i64], item: i64) -> Option<(u64, u64)> {
    if shape.iter().any(|&extent| extent < 0) {
        return None;
    }
    if shape.contains(&0) {
        return Some((0, 0));
    }
    let (mut lowest, mut highest) = (0_i64, 0_i64);
    for (&extent, &stride) in shape.iter().zip(strides) {
        let last = (extent - 1).checked_mul(stride)?.checked_mul(item)?;
        lowest = lowest.checked_add(last.min(0))?;
        highest = highest.checked_add(last.max(0))?;
    }
    let bytes = highest.checked_sub(lowest)?.checked_add(item)?;
    Some((u64::try_from(-lowest).ok()?, u64::try_from(bytes).ok()?))
}
