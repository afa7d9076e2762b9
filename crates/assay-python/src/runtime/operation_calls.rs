//! Calls of the operations table from Python.

use std::sync::Arc;

use assay_operations::{
    Activation, ElementFormat, FourierKind, FrameValue, Number, NumberKind, Operand, Signature,
    TABLE, encode, find,
};
use assay_runtime::backend::DevicePointer;
use assay_runtime::dispatch::{Work, WorkRequest};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat};

use super::allocation::Use;
use super::buffer::Memory;
use super::device_runtime::DeviceRuntime;
use super::errors;
use super::residency::Pinned;
use super::stream::PyStream;

/// Buffer, byte offset, accessible bytes from there, and the format code.
pub(super) type OperandTuple = (Py<Memory>, u64, u64, u32);

/// A Python number; an int stays an integer.
pub(super) enum PyNumber {
    Integer(i64),
    Float(f64),
}

impl PyNumber {
    /// The number as an operation call encodes it.
    pub fn to_number(&self) -> Number {
        match self {
            PyNumber::Integer(value) => Number::Integer(*value),
            PyNumber::Float(value) => Number::Float(*value),
        }
    }
}

impl<'py> FromPyObject<'_, 'py> for PyNumber {
    type Error = PyErr;

    fn extract(number: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        // Checked first: extracting a float as an integer would raise a Python exception.
        if number.is_exact_instance_of::<PyFloat>() {
            return number.extract().map(PyNumber::Float);
        }
        let integer = number.extract().map(PyNumber::Integer);
        integer.or_else(|_| number.extract().map(PyNumber::Float))
    }
}

/// What the record of an operation reports.
pub(super) struct RecordFields {
    pub label: String,
    pub bytes: u64,
    pub flops: f64,
}

/// Checks an operand against the bounds of a pool buffer of this runtime and gives its address.
fn check_operand(
    runtime: &Arc<DeviceRuntime>,
    signature: &Signature,
    name: &str,
    operand: &OperandTuple,
) -> PyResult<Operand> {
    let operation = signature.name;
    let (buffer, offset, bytes, code) = operand;
    let buffer = buffer.get();
    let format = ElementFormat::from_code(*code).ok_or_else(|| {
        let text = format!("{operation}: expected a known format of {name}, got code {code}");
        errors::invalid(&text)
    })?;
    let owned = Arc::ptr_eq(runtime, buffer.runtime()) && buffer.is_on_device();
    let end = offset.checked_add(*bytes);
    let inside = end.is_some_and(|end| end <= buffer.bytes());
    let address = buffer.address().and_then(|base| base.offset(*offset));
    match address {
        Some(address) if owned && inside => {
            Ok(Operand { pointer: DevicePointer(address.value()), bytes: *bytes, format })
        }
        _ => Err(errors::invalid(&format!(
            "{operation}: expected {name} as {bytes} bytes from {offset} in a buffer of this \
             device's pool, got a buffer of {} bytes",
            buffer.bytes()
        ))),
    }
}

/// Queues an operation of the table.
pub(super) fn operate(
    py: Python<'_>,
    runtime: &Arc<DeviceRuntime>,
    name: &str,
    operands: &[Option<OperandTuple>],
    numbers: &[PyNumber],
    stream: &PyStream,
    record: RecordFields,
) -> PyResult<()> {
    let Some((index, signature)) = find(name) else {
        let known: Vec<_> = TABLE.iter().map(|row| row.name).collect();
        return Err(errors::invalid(&format!(
            "operate: expected a known operation, got \"{name}\"\nhint: one of: {}",
            known.join(", ")
        )));
    };
    if signature.has_layout() {
        // A layout's bounds are checked where arrays build it, so raw calls cannot pass one.
        return Err(errors::invalid(&format!(
            "operate: expected an operation of dense operands, got \"{name}\"\nhint: {name} has a \
             method of its own"
        )));
    }
    let mut uses = Vec::with_capacity(operands.len());
    for (rule, operand) in signature.operands.iter().zip(operands) {
        let Some(operand) = operand else { continue };
        operand.0.get().alive(name)?;
        let writes = rule.access.writes();
        if writes && !operand.0.get().is_writable() {
            return Err(errors::invalid(&format!(
                "{name}: expected {} in memory that may be written, got memory borrowed for \
                 reading",
                rule.name
            )));
        }
        uses.push(Use { buffer: operand.0.get(), writes });
    }
    let _pinned = Pinned::new(py, &uses, stream.id)?;
    let mut encoded = Vec::with_capacity(operands.len());
    for (rule, operand) in signature.operands.iter().zip(operands) {
        let operand = operand.as_ref();
        let found = operand.map(|operand| check_operand(runtime, signature, rule.name, operand));
        encoded.push(found.transpose()?);
    }
    // `encode` counts the operands and rejects surplus ones.
    encoded.extend(operands.iter().skip(signature.operands.len()).map(|_| None));
    let numbers: Vec<Number> = numbers.iter().map(PyNumber::to_number).collect();
    let kernel = runtime.operations[index];
    let launch = encode(signature, kernel, &encoded, &numbers, record.bytes)
        .map_err(|error| errors::invalid(&error.to_string()))?;
    let mut request = WorkRequest::new(record.label, stream.id, Work::Launch(launch));
    request.bytes = record.bytes;
    request.flops = record.flops;
    py.detach(|| runtime.submit(request, &uses))?;
    if runtime.is_simulated() {
        let written = uses.iter().filter(|one| one.writes);
        written.for_each(|one| one.buffer.set_uncomputed(true));
    }
    Ok(())
}

/// Adds the tables of the operations crate: operand and number names of every operation, codes of
/// formats and of activations, and block sizes.
pub(super) fn register_tables(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let operations = PyDict::new(py);
    for signature in &TABLE {
        let operands: Vec<_> = signature.operands.iter().map(|rule| rule.name).collect();
        let numbers: Vec<_> = signature
            .numbers
            .iter()
            .map(|rule| (rule.name, rule.kind != NumberKind::Float))
            .collect();
        operations.set_item(signature.name, (operands, numbers))?;
    }
    module.add("OPERATIONS", operations)?;
    let (formats, blocks) = (PyDict::new(py), PyDict::new(py));
    for format in ElementFormat::ALL {
        formats.set_item(format.name(), format.code())?;
        blocks.set_item(format.name(), BlockFormat::of(*format))?;
    }
    module.add("FORMATS", formats)?;
    module.add_class::<BlockFormat>()?;
    module.add("BLOCK_FORMATS", blocks)?;
    let activations = PyDict::new(py);
    for activation in Activation::ALL {
        activations.set_item(activation.name(), activation.code())?;
    }
    module.add("ACTIVATIONS", activations)?;
    let (kinds, values) = (PyDict::new(py), PyDict::new(py));
    for (code, kind) in FourierKind::ALL.into_iter().enumerate() {
        kinds.set_item(kind.name(), code)?;
    }
    module.add("FOURIER_KINDS", kinds)?;
    for (code, value) in FrameValue::ALL.into_iter().enumerate() {
        values.set_item(value.name(), code)?;
    }
    module.add("FRAME_VALUES", values)
}

/// The sizes of an element or block format.
#[pyclass(module = "assay._native", frozen, get_all)]
struct BlockFormat {
    /// Bits of one value's code, scales excluded.
    bits: u64,
    /// Values per block; 1 for unblocked element formats.
    values: u64,
    /// Bytes per block.
    bytes: u64,
    /// The type number in GGUF files, or None.
    gguf_code: Option<u32>,
}

impl BlockFormat {
    fn of(format: ElementFormat) -> Self {
        BlockFormat {
            bits: format.bits(),
            values: format.block_values(),
            bytes: format.block_bytes(),
            gguf_code: format.gguf_code(),
        }
    }
}
