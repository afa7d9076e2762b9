//! Operations of dense arrays as one call, from operands to result.
//!
//! What such a call costs the host counts as much as what it costs the device, so that everything
//! that does not change from call to call is kept, and Python's lock is let go of once.

use std::sync::Arc;

use assay_operations::{ElementFormat, Number, Operand, Signature, encode, find};
use assay_runtime::backend::{DevicePointer, Space, StreamId};
use assay_runtime::dispatch::{Work, WorkRequest};
use assay_runtime::memory::TenantId;
use pyo3::prelude::*;
use pyo3::types::PyType;

use super::allocation::{Allocation, AllocationRequest, Use};
use super::array::{ArrayLayout, PyArray, ResultType};
use super::device_runtime::DeviceRuntime;
use super::elementwise::place;
use super::errors;
use super::operation_calls::PyNumber;
use super::panic_guard::guarded;
use super::residency::Pinned;
use super::stream::current_stream;

/// Inputs of an operation with a plan, at most.
const MAX_INPUTS: usize = 2;

/// A row of the table, called by a name in records.
struct Operation {
    label: Arc<str>,
    index: usize,
    signature: &'static Signature,
}

impl Operation {
    fn new(name: &str, label: &str) -> PyResult<Self> {
        let Some((index, signature)) = find(name) else {
            return Err(errors::invalid(&format!(
                "{label}: expected an operation of the table, got {name}"
            )));
        };
        Ok(Operation {
            label: label.into(),
            index,
            signature,
        })
    }
}

/// One call: where its inputs lie, what it is told, and how much it does.
struct Call<'a> {
    reads: &'a [Use<'a>],
    /// The last is the result's.
    operands: &'a mut [Option<Operand>],
    numbers: &'a [Number],
    read_bytes: u64,
    result_bytes: u64,
    element: ElementFormat,
    flops: f64,
}

impl Call<'_> {
    /// Allocates the result and queues the work, without Python's lock.
    fn submit(
        self,
        runtime: &Arc<DeviceRuntime>,
        stream: StreamId,
        operation: &Operation,
    ) -> PyResult<Arc<Allocation>> {
        let bytes = self.result_bytes;
        let allocation = Allocation::allocate(
            runtime,
            &AllocationRequest {
                space: Space::Device,
                bytes,
                stream,
                tenant: TenantId::DEFAULT,
                site: None,
            },
        )?;
        if let Some(result) = self.operands.last_mut() {
            *result = allocation.address().map(|address| Operand {
                pointer: DevicePointer(address.value()),
                bytes,
                format: self.element,
            });
        }
        let moved = self.read_bytes + bytes;
        let kernel = runtime.operations[operation.index];
        let launch = encode(
            operation.signature,
            kernel,
            self.operands,
            self.numbers,
            moved,
        )
        .map_err(|error| errors::invalid(&error.to_string()))?;
        let label = Arc::clone(&operation.label);
        let mut request = WorkRequest::new(label, stream, Work::Launch(launch));
        request.bytes = moved;
        request.flops = self.flops;
        let result = Use {
            buffer: &allocation,
            writes: true,
        };
        let mut uses = [result; 1 + MAX_INPUTS];
        let count = self.reads.len();
        uses[1..=count].copy_from_slice(self.reads);
        runtime.submit(request, &uses[..=count])?;
        Ok(allocation)
    }
}

/// An elementwise operation on arrays of certain types.
#[pyclass(name = "NativePlan", module = "assay._native", frozen)]
pub(super) struct PyPlan {
    operation: Operation,
    expression: u32,
    computed: ElementFormat,
    result: ResultType,
    /// Whether the result's elements are counted as operations.
    counts: bool,
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
        let Some(computed) = ElementFormat::from_code(computed) else {
            return Err(errors::invalid(&format!(
                "{label}: expected a known format, got {computed}"
            )));
        };
        Ok(PyPlan {
            operation: Operation::new("map", label)?,
            expression,
            computed,
            result: ResultType::new(py, dtype, kind)?,
            counts,
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
        &self.operation.label
    }

    /// The operation on arrays of the runtime, one of which is `model`, into fresh memory; None
    /// where they are not of one shape without gaps, or have elements of another size than the
    /// result.
    pub fn apply<'py>(
        &self,
        py: Python<'py>,
        runtime: &Arc<DeviceRuntime>,
        stream: StreamId,
        model: &PyArray,
        inputs: [Option<Input<'_>>; MAX_INPUTS],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let itemsize = self.result.itemsize;
        let alike = |input: &Option<Input<'_>>| match input {
            Some(Input::Array(array)) => array.itemsize() == itemsize && array.has_layout_of(model),
            _ => true,
        };
        if model.size() == 0 || !model.is_contiguous_from_start() || !inputs.iter().all(alike) {
            return Ok(None);
        }
        runtime.begin(py, self.label())?;
        let mut uses = [Use {
            buffer: model.memory(),
            writes: false,
        }; MAX_INPUTS];
        let mut count = 0;
        for input in inputs.iter().flatten() {
            if let Input::Array(array) = input {
                array.memory().alive(self.label())?;
                uses[count].buffer = array.memory();
                count += 1;
            }
        }
        let uses = &uses[..count];
        let _pinned = Pinned::new(py, uses, stream)?;
        let mut operands = [None; 4];
        for (operand, input) in operands.iter_mut().zip(&inputs) {
            if let Some(Input::Array(array)) = input {
                *operand = Some(place(self.label(), runtime, array)?);
            }
        }
        let bits = |input: Option<Input<'_>>| input.map_or(Number::Integer(0), Input::bits);
        let size = model.size();
        let bytes = (size * itemsize) as u64;
        let call = Call {
            reads: uses,
            operands: &mut operands,
            numbers: &[
                Number::Integer(self.expression.into()),
                Number::Integer(self.computed.code().into()),
                bits(inputs[0]),
                bits(inputs[1]),
                Number::Integer(0),
                Number::Integer(size as i64),
            ],
            read_bytes: bytes * count as u64,
            result_bytes: bytes,
            element: self.result.element,
            flops: if self.counts { size as f64 } else { 0.0 },
        };
        let allocation = py.detach(|| call.submit(runtime, stream, &self.operation))?;
        let made = model.new_like(py, allocation, &self.result, None)?;
        Ok(Some(made))
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

/// A reduction of arrays of one shape and type.
#[pyclass(name = "NativeReduction", module = "assay._native", frozen)]
pub(super) struct PyReduction {
    operation: Operation,
    numbers: Vec<Number>,
    source_bytes: u64,
    result: ResultType,
    result_bytes: u64,
    places: ArrayLayout,
    flops: f64,
}

#[pymethods]
impl PyReduction {
    #[new]
    #[pyo3(signature = (label, numbers, source_bytes, layout, nbytes, dtype, flops, kind))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        label: &str,
        numbers: Vec<PyNumber>,
        source_bytes: u64,
        layout: Py<PyAny>,
        nbytes: u64,
        dtype: Py<PyAny>,
        flops: f64,
        kind: Py<PyType>,
    ) -> PyResult<Self> {
        let result = ResultType::new(py, dtype, kind)?;
        Ok(PyReduction {
            operation: Operation::new("reduce", label)?,
            numbers: numbers.iter().map(PyNumber::to_number).collect(),
            source_bytes,
            places: ArrayLayout::new(py, layout, result.itemsize, nbytes)?,
            result,
            result_bytes: nbytes,
            flops,
        })
    }

    /// The figures of an array without gaps, in fresh memory; None where memory has accounts.
    fn apply<'py>(
        &self,
        py: Python<'py>,
        source: &Bound<'py, PyArray>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let label = &self.operation.label;
        guarded(label, || {
            let source = source.get();
            let runtime = source.memory().runtime();
            if !runtime.is_gpu() || !runtime.has_no_accounts() {
                return Ok(None);
            }
            let stream = current_stream(py, runtime, source.device())?;
            runtime.begin(py, label)?;
            source.memory().alive(label)?;
            let uses = [Use {
                buffer: source.memory(),
                writes: false,
            }];
            let _pinned = Pinned::new(py, &uses, stream)?;
            let call = Call {
                reads: &uses,
                operands: &mut [Some(place(label, runtime, source)?), None],
                numbers: &self.numbers,
                read_bytes: self.source_bytes,
                result_bytes: self.result_bytes,
                element: self.result.element,
                flops: self.flops,
            };
            let allocation = py.detach(|| call.submit(runtime, stream, &self.operation))?;
            let made = source.new_like(py, allocation, &self.result, Some(&self.places))?;
            Ok(Some(made))
        })
    }
}
