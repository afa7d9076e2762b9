//! Weight packing for the CPU's kernels, and rotary embedding tables.
//!
//! Functions over the buffer protocol; Python runs them as host functions of a stream.

use assay_cpu::error::OpError;
use assay_cpu::kernels;
use assay_cpu::ops::{Context, RopeScaling, RopeTable};
use assay_operations::ElementFormat;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::prelude::*;

use super::buffer::contiguous;
use super::errors;
use super::panic_guard::guarded;

fn refused(error: OpError) -> PyErr {
    errors::invalid(&error.to_string())
}

fn format(code: u32) -> PyResult<ElementFormat> {
    ElementFormat::from_code(code).ok_or_else(|| {
        errors::invalid(&format!("pack weights: expected a known format, got code {code}"))
    })
}

/// The bytes of a contiguous buffer.
///
/// # Safety
///
/// Python must not write to them while the slice is in use.
unsafe fn bytes(buffer: &PyUntypedBuffer) -> &[u8] {
    if buffer.len_bytes() == 0 {
        return &[];
    }
    // SAFETY: the buffer is contiguous and stays exported as long as the value lives.
    unsafe { std::slice::from_raw_parts(buffer.buf_ptr().cast(), buffer.len_bytes()) }
}

/// The writable bytes of a contiguous buffer.
///
/// # Safety
///
/// Nothing else may access them while the slice is in use.
unsafe fn bytes_mut(buffer: &mut PyUntypedBuffer) -> &mut [u8] {
    if buffer.len_bytes() == 0 {
        return &mut [];
    }
    // SAFETY: as above, and the buffer was requested as writable.
    unsafe { std::slice::from_raw_parts_mut(buffer.buf_ptr().cast(), buffer.len_bytes()) }
}

fn floats<'a>(operation: &str, buffer: &'a mut PyUntypedBuffer) -> PyResult<&'a mut [f32]> {
    // SAFETY: the caller has exclusive access to the buffer, and any four bytes are a valid f32.
    let (before, floats, after) = unsafe { bytes_mut(buffer).align_to_mut::<f32>() };
    match before.is_empty() && after.is_empty() {
        true => Ok(floats),
        false => Err(errors::invalid(&format!(
            "{operation}: expected aligned memory of whole numbers, got other memory"
        ))),
    }
}

/// The packed size in bytes of weights of a format and shape.
#[pyfunction]
pub(super) fn weights_bytes(code: u32, outputs: usize, inputs: usize) -> PyResult<usize> {
    guarded("pack weights", || {
        kernels::weights_bytes(format(code)?, outputs, inputs).map_err(refused)
    })
}

/// Pack weights from their file format into the layout of the CPU's kernels.
#[pyfunction]
#[pyo3(signature = (code, source, scales, outputs, inputs, out))]
pub(super) fn pack_weights(
    py: Python<'_>,
    code: u32,
    source: &Bound<'_, PyAny>,
    scales: Option<&Bound<'_, PyAny>>,
    outputs: usize,
    inputs: usize,
    out: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let operation = "pack weights";
    guarded(operation, || {
        let format = format(code)?;
        let source = contiguous(source, operation, false)?;
        let scales = scales.map(|scales| contiguous(scales, operation, false)).transpose()?;
        let mut out = contiguous(out, operation, true)?;
        // SAFETY: the caller must not access these buffers during the call, as with any native
        // copy.
        let (source, scales, out) = unsafe {
            (bytes(&source), scales.as_ref().map(|scales| bytes(scales)), bytes_mut(&mut out))
        };
        py.detach(|| {
            kernels::pack_weights(Context::best(), format, source, scales, outputs, inputs, out)
        })
        .map_err(refused)
    })
}

/// Unpack packed weights to `out`, single precision, row-major.
#[pyfunction]
pub(super) fn dequantize_weights(
    py: Python<'_>,
    code: u32,
    weights: &Bound<'_, PyAny>,
    outputs: usize,
    inputs: usize,
    out: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let operation = "dequantize weights";
    guarded(operation, || {
        let format = format(code)?;
        let weights = contiguous(weights, operation, false)?;
        let mut out = contiguous(out, operation, true)?;
        // SAFETY: as in `pack_weights`.
        let (weights, out) = (unsafe { bytes(&weights) }, floats(operation, &mut out)?);
        py.detach(|| kernels::dequantize_weights(format, weights, outputs, inputs, out))
            .map_err(refused)
    })
}

/// Write the cosines and sines of every position to `out`: positions by dimensions, float32.
///
/// `scaling` is none, linear, ntk, yarn or llama3; `values` are its factor and its other
/// parameters, in the order of its definition; an attention factor of NaN stands for none given.
#[pyfunction]
pub(super) fn rope_cos_sin(
    py: Python<'_>,
    dimensions: usize,
    positions: usize,
    base: f64,
    scaling: &str,
    values: Vec<f64>,
    out: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let operation = "rope_table";
    guarded(operation, || {
        let scaling = match (scaling, values.as_slice()) {
            ("none", []) => RopeScaling::None,
            ("linear", &[factor]) => RopeScaling::Linear { factor },
            ("ntk", &[factor]) => RopeScaling::Ntk { factor },
            ("yarn", &[factor, context, beta_fast, beta_slow, attention_factor, truncate]) => {
                RopeScaling::Yarn {
                    factor,
                    original_context: context as usize,
                    beta_fast,
                    beta_slow,
                    attention_factor: (!attention_factor.is_nan()).then_some(attention_factor),
                    truncate: truncate != 0.0,
                }
            }
            ("llama3", &[factor, context, low_frequency, high_frequency]) => RopeScaling::Llama3 {
                factor,
                original_context: context as usize,
                low_frequency,
                high_frequency,
            },
            (name, values) => {
                return Err(errors::invalid(&format!(
                    "{operation}: expected none, linear, ntk, yarn or llama3 with its values, got \
                     \"{name}\" with {} values",
                    values.len()
                )));
            }
        };
        let mut out = contiguous(out, operation, true)?;
        let out = floats(operation, &mut out)?;
        let table =
            py.detach(|| RopeTable::new(dimensions, positions, base, scaling)).map_err(refused)?;
        if table.cos_sin().len() != out.len() {
            return Err(errors::invalid(&format!(
                "{operation}: expected room for {positions} x {dimensions} numbers, got {}",
                out.len()
            )));
        }
        out.copy_from_slice(table.cos_sin());
        Ok(())
    })
}
