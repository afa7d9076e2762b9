//! Imports DLPack tensors of other libraries.

use std::ffi::{CStr, c_char};
use std::sync::Arc;

use assay_runtime::backend::{Address, Space};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use super::super::backing::Backing;
use super::super::buffer::Memory;
use super::super::context::PyContext;
use super::super::panic_guard::guarded;
use super::structures::{
    CPU, CUDA, DlManaged, DlManagedVersioned, READ_ONLY, UNVERSIONED, USED_UNVERSIONED,
    USED_VERSIONED, VERSIONED,
};
use super::tensor::Tensor;

/// An imported tensor: buffer, byte offset, shape, strides in elements, code and bits.
type Imported = (Py<Memory>, u64, Vec<i64>, Vec<i64>, (u8, u8));

/// Take over a DLPack capsule of memory that the context's device can access.
#[pyfunction]
pub(in super::super) fn dlpack_import(
    context: PyRef<'_, PyContext>,
    capsule: &Bound<'_, PyAny>,
) -> PyResult<Imported> {
    guarded("from_dlpack", || import(&context, capsule))
}

fn import(context: &PyContext, capsule: &Bound<'_, PyAny>) -> PyResult<Imported> {
    let object = capsule.as_ptr();
    // SAFETY: a reference to a live object; `PyCapsule_IsValid` accepts any object.
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
    let space = match context.runtime().is_host_memory() {
        true => Space::Host,
        false => Space::Device,
    };
    let expected = if space == Space::Host { CPU } else { CUDA };
    if tensor.device.kind != expected {
        return Err(PyBufferError::new_err(format!(
            "from_dlpack: expected memory of device {expected}, got device {}\nhint: copy it to \
             the host first",
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
    // SAFETY: the capsule was checked above; after the rename the tensor is ours.
    if unsafe { ffi::PyCapsule_SetName(object, used) } != 0 {
        return Err(PyErr::fetch(capsule.py()));
    }
    let backing = Backing::Tensor(Tensor { managed, versioned });
    let memory = Memory::borrow(
        &Arc::clone(context.runtime()),
        backing,
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

/// Bytes below the first element, and bytes in total, that a strided tensor spans.
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
