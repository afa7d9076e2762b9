//! Columns of numbers that belong to Python objects, read and written without copies.

use std::ops::Range;

use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A C-contiguous buffer of one type of number, pinned while this value lives.
pub(crate) struct Column<T: Element> {
    buffer: PyBuffer<T>,
    name: &'static str,
}

impl<T: Element> Column<T> {
    /// Pins the memory of `object`; `name` names it in errors.
    pub(crate) fn get(object: &Bound<'_, PyAny>, name: &'static str) -> PyResult<Column<T>> {
        let buffer = PyBuffer::<T>::get(object).map_err(|error| {
            PyValueError::new_err(format!(
                "column {name}: expected contiguous elements of {}, got {error}",
                std::any::type_name::<T>()
            ))
        })?;
        if !buffer.is_c_contiguous() || !is_native(&buffer) {
            return Err(PyValueError::new_err(format!(
                "column {name}: expected contiguous, aligned numbers in this machine's byte order, \
                 got others\nhint: use numpy.ascontiguousarray"
            )));
        }
        Ok(Column { buffer, name })
    }

    /// Like [`Column::get`], but rejects read-only memory.
    pub(crate) fn get_writable(
        object: &Bound<'_, PyAny>,
        name: &'static str,
    ) -> PyResult<Column<T>> {
        let column = Column::get(object, name)?;
        if column.buffer.readonly() {
            return Err(PyValueError::new_err(format!(
                "column {name}: expected writable memory, got a read-only buffer"
            )));
        }
        Ok(column)
    }

    /// The extent of each dimension.
    pub(crate) fn shape(&self) -> &[usize] {
        self.buffer.shape()
    }

    /// Number of elements.
    pub(crate) fn len(&self) -> usize {
        self.buffer.item_count()
    }

    /// Its name, and where its elements are.
    pub(crate) fn place(&self) -> (&'static str, Range<usize>) {
        let start = self.buffer.buf_ptr() as usize;
        (self.name, start..start + self.buffer.len_bytes())
    }

    /// The elements, read-only.
    ///
    /// # Safety
    ///
    /// Nothing may write to this memory while the slice is in use.
    pub(crate) unsafe fn as_slice(&self) -> &[T] {
        if self.len() == 0 {
            return &[];
        }
        // SAFETY: the buffer is pinned, contiguous, aligned and holds `len` elements of this type, as
        // was checked when it was made; the caller guarantees that nothing writes to it.
        unsafe { std::slice::from_raw_parts(self.buffer.buf_ptr().cast(), self.len()) }
    }

    /// The elements, writable.
    ///
    /// # Safety
    ///
    /// Nothing else may read or write this memory while the slice is in use, and the column must come
    /// from [`Column::get_writable`].
    pub(crate) unsafe fn as_mut_slice(&mut self) -> &mut [T] {
        if self.len() == 0 {
            return &mut [];
        }
        // SAFETY: as in `as_slice`; the caller guarantees exclusive access.
        unsafe { std::slice::from_raw_parts_mut(self.buffer.buf_ptr().cast(), self.len()) }
    }
}

/// Whether elements are aligned and in this machine's byte order, which PyO3 does not check.
pub(crate) fn is_native<T: Element>(buffer: &PyBuffer<T>) -> bool {
    let format = buffer.format().to_bytes();
    let swapped = cfg!(target_endian = "little") && matches!(format.first(), Some(b'>' | b'!'));
    buffer.buf_ptr().align_offset(align_of::<T>()) == 0 && !swapped
}

/// Rejects outputs that overlap each other or an input.
pub(crate) fn check_apart(
    inputs: &[(&'static str, Range<usize>)],
    outputs: &[(&'static str, Range<usize>)],
) -> PyResult<()> {
    for (index, (name, range)) in outputs.iter().enumerate() {
        for (other, taken) in inputs.iter().chain(&outputs[..index]) {
            if range.start < taken.end && taken.start < range.end {
                return Err(PyValueError::new_err(format!(
                    "column {name}: expected memory of its own, got an overlap with {other}"
                )));
            }
        }
    }
    Ok(())
}
