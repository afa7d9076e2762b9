//! An elementwise operation of dense arrays as one call, from operands to result.
//!
//! What such a call costs the host counts as much as what it costs the device, so that everything
//! that does not change from call to call is kept, and Python's lock is let go of once.

use std::sync::Arc;

use assay_core::backend::{DevicePointer, Space, StreamId};
use assay_core::dispatch::{Work, WorkRequest};
use assay_core::memory::TenantId;
use assay_core::operations::{ElementFormat, Number, Operand, Signature, encode, find};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyType;

use super::array::PyArray;
use super::block::{Block, Use, Wanted};
use super::elementwise::place;
use super::errors;
use super::machine::Machine;
use super::residence::Pinned;

const NAME: &str = "map";

/// An operation on arrays of certain types: everything that does not change from call to call.
#[pyclass(name = "NativePlan", module = "assay._native", frozen)]
pub(super) struct PyPlan {
    label: Arc<str>,
    /// Its place in the table of operations.
    index: usize,
    signature: &'static Signature,
    expression: u32,
    computed: ElementFormat,
    /// The type of the result, and whether its elements are counted as operations.
    dtype: Py<PyAny>,
    element: ElementFormat,
    itemsize: isize,
    counts: bool,
    /// What arrays are made as.
    kind: Py<PyType>,
}

#[pymethods]
impl PyPlan {
    #[new]
    fn new(
        py: Python<'_>,
        label: &str,
        expression: u32,
        computed: u32,
        dtype: Py<PyAny>,
        counts: bool,
        kind: Py<PyType>,
    ) -> PyResult<Self> {
        let code: u32 = dtype.bind(py).getattr(intern!(py, "element"))?.extract()?;
        let itemsize = dtype.bind(py).getattr(intern!(py, "itemsize"))?.extract()?;
        let (Some((index, signature)), Some(computed), Some(element)) = (
            find(NAME),
            ElementFormat::from_code(computed),
            ElementFormat::from_code(code),
        ) else {
            return Err(errors::invalid(&format!(
                "{label}: expected known formats, got {computed} and {code}"
            )));
        };
        Ok(PyPlan {
            label: label.into(),
            index,
            signature,
            expression,
            computed,
            dtype,
            element,
            itemsize,
            counts,
            kind,
        })
    }
}

/// An array, or the bits of a plain number.
#[derive(Clone, Copy)]
pub(super) enum Input<'a> {
    Array(&'a PyArray),
    Number(i64),
}

impl Input<'_> {
    fn bits(self) -> Number {
        Number::Integer(match self {
            Input::Array(_) => 0,
            Input::Number(bits) => bits,
        })
    }
}

impl PyPlan {
    /// What the operation is called in records.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// The operation on arrays of the machine, one of which is `model`, into fresh memory; None
    /// where they are not of one shape without gaps, or have elements of another size than the
    /// result.
    pub fn apply<'py>(
        &self,
        py: Python<'py>,
        machine: &Arc<Machine>,
        stream: StreamId,
        model: &PyArray,
        inputs: [Option<Input<'_>>; 2],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let alike = |input: &Option<Input<'_>>| match input {
            Some(Input::Array(array)) => {
                array.itemsize() == self.itemsize && array.has_places_of(model)
            }
            _ => true,
        };
        if model.size() == 0 || !model.is_whole() || !inputs.iter().all(alike) {
            return Ok(None);
        }
        machine.begin(py, &self.label)?;
        let mut uses = [Use {
            buffer: model.memory(),
            writes: false,
        }; 2];
        let mut places = [None; 4];
        let mut count = 0;
        for (input, place_of) in inputs.iter().zip(&mut places) {
            let Some(Input::Array(array)) = input else {
                continue;
            };
            array.memory().alive(&self.label)?;
            uses[count].buffer = array.memory();
            count += 1;
            *place_of = Some(array);
        }
        let uses = &uses[..count];
        let _pinned = Pinned::new(py, uses, stream)?;
        let mut operands = [None; 4];
        for (operand, array) in operands.iter_mut().zip(places) {
            if let Some(array) = array {
                *operand = Some(place(&self.label, machine, array)?);
            }
        }
        let size = model.size();
        let numbers = [
            Number::Integer(self.expression.into()),
            Number::Integer(self.computed.code().into()),
            inputs[0].map_or(Number::Integer(0), Input::bits),
            inputs[1].map_or(Number::Integer(0), Input::bits),
            Number::Integer(0),
            Number::Integer(size as i64),
        ];
        let block = py.detach(|| self.submit(machine, stream, uses, operands, &numbers, size))?;
        let kind = self.kind.bind(py);
        let made = model.like(py, kind, block, &self.dtype, self.element)?;
        Ok(Some(made))
    }

    /// Allocates the result and queues the work, without Python's lock.
    fn submit(
        &self,
        machine: &Arc<Machine>,
        stream: StreamId,
        reads: &[Use<'_>],
        mut operands: [Option<Operand>; 4],
        numbers: &[Number],
        size: isize,
    ) -> PyResult<Arc<Block>> {
        let bytes = (size * self.itemsize) as u64;
        let block = Block::allocate(
            machine,
            &Wanted {
                space: Space::Device,
                bytes,
                stream,
                tenant: TenantId::DEFAULT,
                site: None,
            },
        )?;
        operands[3] = block.address().map(|address| Operand {
            pointer: DevicePointer(address.value()),
            bytes,
            format: self.element,
        });
        let moved = bytes * (1 + reads.len() as u64);
        let kernel = machine.operations[self.index];
        let launch = encode(self.signature, kernel, &operands, numbers, moved)
            .map_err(|error| errors::invalid(&error.to_string()))?;
        let mut request = WorkRequest::new(Arc::clone(&self.label), stream, Work::Launch(launch));
        request.bytes = moved;
        request.flops = if self.counts { size as f64 } else { 0.0 };
        let result = Use {
            buffer: &block,
            writes: true,
        };
        let mut uses = [result; 3];
        uses[1..=reads.len()].copy_from_slice(reads);
        machine.submit(request, &uses[..=reads.len()])?;
        Ok(block)
    }

    /// The bits of a number of Python's, if it fits the type computed in.
    pub fn bits(&self, number: &Bound<'_, PyAny>) -> Option<i64> {
        let whole = |least: i64, most: i64| {
            let value: i64 = number.extract().ok()?;
            (least..=most).contains(&value).then_some(value)
        };
        Some(match self.computed {
            ElementFormat::F32 | ElementFormat::F64 | ElementFormat::Bf16 => {
                number.extract::<f64>().ok()?.to_bits().cast_signed()
            }
            ElementFormat::I8 => whole(i8::MIN.into(), i8::MAX.into())?,
            ElementFormat::I16 => whole(i16::MIN.into(), i16::MAX.into())?,
            ElementFormat::I32 => whole(i32::MIN.into(), i32::MAX.into())?,
            ElementFormat::I64 => whole(i64::MIN, i64::MAX)?,
            ElementFormat::U8 => whole(0, u8::MAX.into())?,
            ElementFormat::U16 => whole(0, u16::MAX.into())?,
            ElementFormat::U32 => whole(0, u32::MAX.into())?,
            ElementFormat::U64 => whole(0, i64::MAX)?,
            // Half precision rounds a number before it is computed with, and truths are no numbers.
            _ => return None,
        })
    }
}
