//! Float64 memory that belongs to Python objects, read and written without copies.

use std::ffi::c_void;
use std::ops::Range;

use pyo3::buffer::{PyBuffer, PyUntypedBuffer};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A C-contiguous float64 buffer, pinned while this value lives.
pub(crate) struct FloatBuffer(PyBuffer<f64>);

impl FloatBuffer {
    /// Pins the memory of `object`; `what` names it in errors.
    pub(crate) fn get(object: &Bound<'_, PyAny>, what: &str) -> PyResult<FloatBuffer> {
        let buffer = PyUntypedBuffer::get(object).map_err(|_| {
            let kind = object.get_type();
            PyValueError::new_err(format!("{what}: expected a float64 buffer, got {kind}"))
        })?;
        FloatBuffer::from_untyped(buffer, what)
    }

    /// Checks the element type and layout of an untyped buffer.
    pub(crate) fn from_untyped(buffer: PyUntypedBuffer, what: &str) -> PyResult<FloatBuffer> {
        let format = buffer.format().to_string_lossy().into_owned();
        if !buffer.is_c_contiguous() {
            return Err(PyValueError::new_err(format!(
                "{what}: expected a C-contiguous buffer, got shape {:?} with strides {:?}\n\
                 hint: use numpy.ascontiguousarray",
                buffer.shape(),
                buffer.strides(),
            )));
        }
        if buffer.buf_ptr().align_offset(align_of::<f64>()) != 0 {
            return Err(PyValueError::new_err(format!(
                "{what}: expected memory aligned to 8 bytes, got an odd address\n\
                 hint: use numpy.require(array, requirements=\"CA\")"
            )));
        }
        let wrong_format = || {
            PyValueError::new_err(format!(
                "{what}: expected float64 elements (format 'd'), got format '{format}'\n\
                 hint: convert with astype(numpy.float64)"
            ))
        };
        // PyO3 does not reject the other byte order.
        let swapped = if cfg!(target_endian = "little") { ['>', '!'] } else { ['<', '<'] };
        if format.starts_with(swapped) {
            return Err(wrong_format());
        }
        buffer.into_typed().map(FloatBuffer).map_err(|_| wrong_format())
    }

    /// Like [`FloatBuffer::get`], but rejects read-only memory.
    pub(crate) fn get_writable(object: &Bound<'_, PyAny>, what: &str) -> PyResult<FloatBuffer> {
        let buffer = FloatBuffer::get(object, what)?;
        if buffer.0.readonly() {
            return Err(PyValueError::new_err(format!(
                "{what}: expected a writable buffer, got a read-only one"
            )));
        }
        Ok(buffer)
    }

    /// The shape of the array.
    pub(crate) fn shape(&self) -> &[usize] {
        self.0.shape()
    }

    /// Number of elements.
    pub(crate) fn len(&self) -> usize {
        self.0.item_count()
    }

    /// The address range of the elements.
    pub(crate) fn addresses(&self) -> Range<usize> {
        let start = self.pointer() as usize;
        start..start + self.0.len_bytes()
    }

    fn pointer(&self) -> *mut c_void {
        self.0.buf_ptr()
    }

    /// The elements, read-only.
    ///
    /// # Safety
    ///
    /// Nothing may write to this memory while the slice is in use.
    pub(crate) unsafe fn as_slice(&self) -> &[f64] {
        if self.len() == 0 {
            return &[];
        }
        // SAFETY: the buffer is pinned, contiguous, aligned and holds `len` floats, as PyO3 checked
        // when it was typed; the caller guarantees that nothing writes to it.
        unsafe { std::slice::from_raw_parts(self.pointer().cast(), self.len()) }
    }

    /// The elements, writable.
    ///
    /// # Safety
    ///
    /// Nothing else may read or write this memory while the slice is in use, and the buffer must
    /// come from [`FloatBuffer::get_writable`].
    pub(crate) unsafe fn as_mut_slice(&mut self) -> &mut [f64] {
        if self.len() == 0 {
            return &mut [];
        }
        // SAFETY: as in `as_slice`; the caller guarantees exclusive access.
        unsafe { std::slice::from_raw_parts_mut(self.pointer().cast(), self.len()) }
    }
}

/// Rejects `outputs` that overlap each other or any of `inputs`.
pub(crate) fn check_overlap(inputs: &[&FloatBuffer], outputs: &[&FloatBuffer]) -> PyResult<()> {
    let named =
        |buffers: &[&FloatBuffer], kind: &'static str| -> Vec<(Range<usize>, bool, String)> {
            let ranges = buffers.iter().map(|buffer| buffer.addresses()).enumerate();
            ranges
                .filter(|(_, range)| !range.is_empty())
                .map(|(index, range)| (range, kind == "output", format!("{kind} buffer {index}")))
                .collect()
        };
    let mut ranges = named(inputs, "input");
    ranges.extend(named(outputs, "output"));
    ranges.sort_by_key(|(range, ..)| range.start);
    // Inputs may overlap each other, so the furthest end of each kind is tracked.
    let mut furthest: [Option<(usize, String)>; 2] = [None, None];
    for (range, is_output, name) in ranges {
        for earlier_is_output in [false, true] {
            if !is_output && !earlier_is_output {
                continue;
            }
            if let Some((end, earlier)) = &furthest[usize::from(earlier_is_output)]
                && *end > range.start
            {
                return Err(PyValueError::new_err(format!(
                    "{name}: expected memory of its own, got an overlap with {earlier}"
                )));
            }
        }
        let slot = &mut furthest[usize::from(is_output)];
        if slot.as_ref().is_none_or(|(end, _)| *end < range.end) {
            *slot = Some((range.end, name));
        }
    }
    Ok(())
}
