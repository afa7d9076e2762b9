//! Elementwise operations: strided arrays and scalars as one kernel launch.

use std::sync::Arc;

use assay_operations::{MOST_AXES, Number, Operand, encode, expressions, find};
use assay_runtime::backend::{DevicePointer, StreamId};
use assay_runtime::dispatch::{Work, WorkRequest};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::allocation::Use;
use super::array::PyArray;
use super::device_runtime::DeviceRuntime;
use super::errors;
use super::residency::Pinned;

const NAME: &str = "elementwise";
/// Three inputs and the result.
const ARRAYS: usize = 4;
const INPUTS: usize = ARRAYS - 1;
/// The expression, the compute format, and the bits of scalar inputs.
const HEADER_NUMBERS: usize = 2 + INPUTS;
const NUMBERS: usize = HEADER_NUMBERS + MOST_AXES * (1 + ARRAYS);

/// The code of an expression over `a0`, `a1` and `a2`, which selects the kernel.
#[pyfunction]
pub(super) fn expression(text: &str) -> u32 {
    expressions::number(text)
}

/// An elementwise operation: its name in records, its expression, compute format and flops.
pub(super) struct ElementwiseCall {
    pub label: Arc<str>,
    pub expression: u32,
    pub computed: u32,
    pub flops: f64,
}

/// An array, or the bits of a scalar.
#[derive(Clone, Copy)]
enum Input<'a> {
    Array(&'a PyArray),
    Number(i64),
}

fn refused(label: &str, expected: impl std::fmt::Display, got: impl std::fmt::Display) -> PyErr {
    errors::invalid(&format!("{label}: expected {expected}, got {got}"))
}

/// Writes the strides of an array, broadcast to the result's shape, into its column of the layout.
fn write_strides(
    label: &str,
    array: &PyArray,
    column: usize,
    shape: &[isize],
    numbers: &mut [Number; NUMBERS],
) -> PyResult<()> {
    let missing = shape.len().checked_sub(array.shape().len());
    let Some(missing) = missing else {
        return Err(refused(
            label,
            format_args!("at most {} axes", shape.len()),
            format_args!("shape {:?}", array.shape()),
        ));
    };
    let itemsize = array.itemsize();
    let axes = array.shape().iter().zip(array.strides()).zip(&shape[missing..]);
    for (axis, ((&extent, &stride), &target)) in axes.enumerate() {
        let step = match extent == target {
            true if stride % itemsize == 0 => stride / itemsize,
            true => return Err(refused(label, "strides in whole elements", stride)),
            false if extent == 1 => 0,
            false => {
                return Err(refused(
                    label,
                    format_args!("shapes that broadcast to {shape:?}"),
                    format_args!("{:?}", array.shape()),
                ));
            }
        };
        let row = HEADER_NUMBERS + (missing + axis) * (1 + ARRAYS);
        numbers[row + 1 + column] = Number::Integer(step as i64);
    }
    Ok(())
}

/// The operand of an array of this runtime: the address of its first element.
pub(super) fn operand(
    label: &str,
    runtime: &Arc<DeviceRuntime>,
    array: &PyArray,
) -> PyResult<Operand> {
    let memory = array.memory();
    let owned = Arc::ptr_eq(runtime, memory.runtime()) && memory.is_on_device();
    let address = memory.address().and_then(|first| first.offset(array.offset()));
    match address {
        Some(address) if owned => Ok(Operand {
            pointer: DevicePointer(address.value()),
            bytes: memory.bytes().saturating_sub(array.offset()),
            format: array.element(),
        }),
        _ => Err(refused(label, "memory of the device", "other memory")),
    }
}

/// The shape and strides of a layout, as the numbers of a call.
struct Numbers([Number; NUMBERS]);

impl Numbers {
    fn new(call: &ElementwiseCall) -> Self {
        let mut numbers = [Number::Integer(0); NUMBERS];
        numbers[0] = Number::Integer(call.expression.into());
        numbers[1] = Number::Integer(call.computed.into());
        for axis in 0..MOST_AXES {
            numbers[HEADER_NUMBERS + axis * (1 + ARRAYS)] = Number::Integer(1);
        }
        Numbers(numbers)
    }

    /// The result's shape, and the strides of inputs broadcast to it.
    fn strided(call: &ElementwiseCall, inputs: &[Input<'_>], result: &PyArray) -> PyResult<Self> {
        let (label, shape) = (&*call.label, result.shape());
        if shape.len() > MOST_AXES || inputs.len() > INPUTS {
            return Err(refused(
                label,
                format_args!("at most {MOST_AXES} axes and {INPUTS} inputs"),
                format_args!("{} and {}", shape.len(), inputs.len()),
            ));
        }
        let mut numbers = Numbers::new(call);
        for (axis, extent) in shape.iter().enumerate() {
            numbers.0[HEADER_NUMBERS + axis * (1 + ARRAYS)] = Number::Integer(*extent as i64);
        }
        for (column, input) in inputs.iter().enumerate() {
            match input {
                Input::Array(array) => write_strides(label, array, column, shape, &mut numbers.0)?,
                Input::Number(bits) => numbers.0[2 + column] = Number::Integer(*bits),
            }
        }
        write_strides(label, result, INPUTS, shape, &mut numbers.0)?;
        Ok(numbers)
    }
}

/// Queues the operation.
fn submit(
    py: Python<'_>,
    runtime: &Arc<DeviceRuntime>,
    call: ElementwiseCall,
    numbers: &Numbers,
    inputs: &[Input<'_>],
    result: &PyArray,
    stream: StreamId,
) -> PyResult<()> {
    let label = Arc::clone(&call.label);
    let Some((index, signature)) = find(NAME) else {
        return Err(refused(&label, "an operation of the table", NAME));
    };
    let mut arrays: [Option<&PyArray>; ARRAYS] = [None; ARRAYS];
    for (slot, input) in arrays.iter_mut().zip(inputs) {
        if let Input::Array(array) = input {
            *slot = Some(array);
        }
    }
    arrays[INPUTS] = Some(result);
    let mut uses = Vec::with_capacity(ARRAYS);
    let mut bytes = 0;
    for (column, array) in arrays.iter().enumerate() {
        let Some(array) = array else { continue };
        array.memory().alive(&label)?;
        bytes += (array.size() * array.itemsize()) as u64;
        uses.push(Use { buffer: array.memory(), writes: column == INPUTS });
    }
    if !result.memory().is_writable() {
        return Err(refused(&label, "memory that may be written", "borrowed memory"));
    }
    let _pinned = Pinned::new(py, &uses, stream)?;
    let mut operands = [None; ARRAYS];
    for (to, array) in operands.iter_mut().zip(&arrays) {
        if let Some(array) = array {
            *to = Some(operand(&label, runtime, array)?);
        }
    }
    let kernel = runtime.operations[index];
    let launch = encode(signature, kernel, &operands, &numbers.0, bytes)
        .map_err(|error| errors::invalid(&error.to_string()))?;
    let mut request = WorkRequest::new(label, stream, Work::Launch(launch));
    request.bytes = bytes;
    request.flops = call.flops;
    py.detach(|| runtime.submit(request, &uses)).map(|_| ())
}

/// Queues the operation. An input is an array with at most the result's number of axes, or an
/// integer with the bits of a scalar.
pub(super) fn elementwise(
    py: Python<'_>,
    runtime: &Arc<DeviceRuntime>,
    call: ElementwiseCall,
    inputs: &Bound<'_, PyTuple>,
    result: &PyArray,
    stream: StreamId,
) -> PyResult<()> {
    let objects: Vec<Bound<'_, PyAny>> = inputs.iter().collect();
    let mut read = Vec::with_capacity(objects.len());
    for input in &objects {
        read.push(match input.cast::<PyArray>() {
            Ok(array) => Input::Array(array.get()),
            Err(_) => Input::Number(input.extract()?),
        });
    }
    let numbers = Numbers::strided(&call, &read, result)?;
    submit(py, runtime, call, &numbers, &read, result, stream)
}
