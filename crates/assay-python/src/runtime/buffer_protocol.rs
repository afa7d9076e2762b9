//! Exports arrays through Python's buffer protocol.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use assay_operations::ElementFormat;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use super::allocation::Allocation;
use super::geometry::Geometry;
use super::panic_guard::guarded;
use super::reentrancy::refuse_reentry;
use super::residency::Pinned;

/// The buffer protocol's format string; bfloat16 is exported as 16-bit integers.
pub(super) fn format_string(element: ElementFormat) -> Option<&'static CStr> {
    Some(match element {
        ElementFormat::F32 => c"f",
        ElementFormat::F16 => c"e",
        ElementFormat::Bf16 | ElementFormat::U16 => c"H",
        ElementFormat::I32 => c"i",
        ElementFormat::I64 => c"l",
        ElementFormat::U8 => c"B",
        ElementFormat::F64 => c"d",
        ElementFormat::Bool => c"?",
        ElementFormat::I8 => c"b",
        ElementFormat::I16 => c"h",
        ElementFormat::U32 => c"I",
        ElementFormat::U64 => c"L",
        ElementFormat::Complex64 => c"Zf",
        ElementFormat::Complex128 => c"Zd",
        _ => return None,
    })
}

/// Whether `flags` contains all bits of `required`.
fn requests(flags: c_int, required: c_int) -> bool {
    flags & required == required
}

/// The source of an exported view.
pub(super) struct ArrayView<'a> {
    pub memory: &'a Arc<Allocation>,
    pub geometry: &'a Geometry,
    pub itemsize: ffi::Py_ssize_t,
    pub element: ElementFormat,
}

/// Fills in a view of an array's memory, which stays allocated until the view is released.
///
/// # Safety
///
/// `view` must be a `Py_buffer` that this call may fill in, as the buffer protocol specifies; the
/// geometry belongs to the object `slf` and is immutable.
pub(super) unsafe fn fill(
    slf: &Bound<'_, PyAny>,
    array: &ArrayView<'_>,
    view: *mut ffi::Py_buffer,
    flags: c_int,
) -> PyResult<()> {
    let (memory, geometry) = (array.memory, array.geometry);
    guarded("buffer", || {
        memory.alive("buffer")?;
        if requests(flags, ffi::PyBUF_WRITABLE) && !memory.is_writable() {
            return Err(PyBufferError::new_err(
                "buffer: expected writable memory, got memory borrowed for reading only",
            ));
        }
        let in_columns = || geometry.is_contiguous(array.itemsize, false);
        let refused = (requests(flags, ffi::PyBUF_C_CONTIGUOUS) && !geometry.in_order)
            || (requests(flags, ffi::PyBUF_F_CONTIGUOUS) && !in_columns())
            || (!requests(flags, ffi::PyBUF_STRIDES) && !geometry.in_order);
        if refused {
            return Err(PyBufferError::new_err(format!(
                "buffer: expected contiguous memory, got shape {:?} with strides {:?}",
                geometry.shape, geometry.strides
            )));
        }
        let _pinned = Pinned::for_host(slf.py(), memory)?;
        let pointer = memory.host_pointer("buffer")?;
        if memory.is_used() {
            refuse_reentry("buffer")?;
            slf.py().detach(|| memory.wait())?;
        }
        let list = |values: &Vec<ffi::Py_ssize_t>, requested: bool| match requested {
            true => values.as_ptr().cast_mut(),
            false => ptr::null_mut(),
        };
        let format_string =
            format_string(array.element).filter(|_| requests(flags, ffi::PyBUF_FORMAT));
        let format = match format_string {
            Some(format_string) => format_string.as_ptr().cast_mut(),
            None => ptr::null_mut::<c_char>(),
        };
        // SAFETY: Python passes a `Py_buffer` to fill in. The geometry it points to is immutable
        // and lives as long as this object, to which the view holds a reference; the bytes live as
        // long, because `free` fails while there are exports.
        unsafe {
            (*view).buf = pointer.wrapping_add(geometry.offset).cast::<c_void>();
            (*view).obj = slf.clone().into_ptr();
            (*view).len = geometry.size * array.itemsize;
            (*view).itemsize = array.itemsize;
            (*view).readonly = c_int::from(!memory.is_writable());
            (*view).ndim = geometry.shape.len() as c_int;
            (*view).format = format;
            (*view).shape = list(&geometry.shape, requests(flags, ffi::PyBUF_ND));
            (*view).strides = list(&geometry.strides, requests(flags, ffi::PyBUF_STRIDES));
            (*view).suboffsets = ptr::null_mut();
            (*view).internal = ptr::null_mut();
        }
        memory.export();
        Ok(())
    })
}
