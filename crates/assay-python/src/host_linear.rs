//! Linear layers over memory of Python objects, outside of the queue of any device.
//!
//! For networks that are smaller than their launches would be, and for products of the host that
//! NumPy would give to a BLAS: its threads spin on the cores that kernels want.

use std::ops::Range;

use assay_cpu::ops::{Activation, Context, Epilogue, LinearShape, framed_linear};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::column::{Column, check_apart, is_native};

/// Multiply-adds from which on the threads of the kernels share the work, and other threads of
/// Python may run meanwhile: to get its lock back may take milliseconds.
const MIN_SHARED_WORK: usize = 1 << 23;

/// Adds the function to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(host_linear, module)?)
}

/// Write x @ weights.T + bias to `out`.
#[pyfunction]
#[pyo3(signature = (x, weights, bias, out, *, relu=false))]
fn host_linear(
    py: Python<'_>,
    x: &Bound<'_, PyAny>,
    weights: &Bound<'_, PyAny>,
    bias: Option<&Bound<'_, PyAny>>,
    out: &Bound<'_, PyAny>,
    relu: bool,
) -> PyResult<()> {
    let x = Rows::get(x)?;
    let weights = Column::<f32>::get(weights, "weights")?;
    let bias = bias.map(|bias| Column::<f32>::get(bias, "bias")).transpose()?;
    let mut out = Column::<f32>::get_writable(out, "out")?;
    let &[outputs, inputs] = weights.shape() else {
        return Err(PyValueError::new_err(format!(
            "weights: expected outputs by inputs, got shape {:?}",
            weights.shape()
        )));
    };
    if inputs != x.inputs {
        return Err(PyValueError::new_err(format!(
            "x: expected rows of {inputs} numbers, as weights have, got {}",
            x.inputs
        )));
    }
    let mut read = vec![x.place(), weights.place()];
    read.extend(bias.as_ref().map(Column::place));
    check_apart(&read, &[out.place()])?;
    let (shape, step) = (LinearShape { rows: x.count, inputs, outputs }, x.step);
    let activation = if relu { Activation::Relu } else { Activation::None };
    // SAFETY: the output is apart from what is read, and the caller leaves all of it alone until
    // this returns.
    let (x, weights, bias, out) = unsafe {
        let bias = bias.as_ref().map(|bias| bias.as_slice());
        (x.as_slice(), weights.as_slice(), bias, out.as_mut_slice())
    };
    let epilogue = Epilogue { bias, activation, residual: None };
    let product = |context, out| framed_linear(context, x, step, weights, shape, epilogue, out);
    let work = shape.rows.saturating_mul(weights.len());
    let outcome = match work < MIN_SHARED_WORK {
        true => product(Context::caller(), out),
        false => py.detach(|| product(Context::best(), out)),
    };
    outcome.map_err(|error| PyValueError::new_err(error.to_string()))
}

/// One row, or several that may overlap each other, pinned while this value lives.
struct Rows {
    buffer: PyBuffer<f32>,
    count: usize,
    inputs: usize,
    /// Elements from the start of a row to that of the next one.
    step: usize,
}

impl Rows {
    fn get(object: &Bound<'_, PyAny>) -> PyResult<Rows> {
        let refused = |got: String| {
            PyValueError::new_err(format!(
                "x: expected rows of float32, each contiguous, got {got}\n\
                 hint: use numpy.ascontiguousarray"
            ))
        };
        let buffer = PyBuffer::<f32>::get(object).map_err(|error| refused(error.to_string()))?;
        let (count, inputs) = match *buffer.shape() {
            [inputs] => (1, inputs),
            [count, inputs] => (count, inputs),
            _ => return Err(refused(format!("shape {:?}", buffer.shape()))),
        };
        let size = size_of::<f32>();
        let strides = buffer.strides();
        let contiguous = inputs < 2 || strides.last() == Some(&size.cast_signed());
        // Rows that lie backward have a negative one.
        let bytes = match count {
            0 | 1 => size * inputs,
            _ => strides[0].try_into().unwrap_or(usize::MAX),
        };
        if !contiguous || !bytes.is_multiple_of(size) || !is_native(&buffer) {
            return Err(refused(format!("strides {strides:?}")));
        }
        Ok(Rows { buffer, count, inputs, step: bytes / size })
    }

    /// Its name, and where its elements are.
    fn place(&self) -> (&'static str, Range<usize>) {
        let start = self.buffer.buf_ptr() as usize;
        ("x", start..start + self.extent() * size_of::<f32>())
    }

    /// Elements from the first to the last.
    fn extent(&self) -> usize {
        if self.count == 0 { 0 } else { (self.count - 1) * self.step + self.inputs }
    }

    /// The elements, from the first to the last.
    ///
    /// # Safety
    ///
    /// Nothing may write to this memory while the slice is in use.
    unsafe fn as_slice(&self) -> &[f32] {
        if self.extent() == 0 {
            return &[];
        }
        // SAFETY: the buffer is pinned and aligned, and the exporter guarantees the memory from the
        // first row to the last; the caller guarantees that nothing writes to it.
        unsafe { std::slice::from_raw_parts(self.buffer.buf_ptr().cast(), self.extent()) }
    }
}
