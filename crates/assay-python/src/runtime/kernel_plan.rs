//! Operations on contiguous arrays as one native call, from operands to result.
//!
//! Small arrays are bound by host overhead. A plan therefore caches everything that does not change
//! between calls, and releases the GIL once.

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
use super::elementwise;
use super::errors;
use super::operation_calls::PyNumber;
use super::panic_guard::guarded;
use super::residency::Pinned;
use super::stream::current_stream;

/// The maximum number of inputs of an operation with a plan.
const MAX_INPUTS: usize = 2;

/// An entry of the operations table with its label in records.
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
        Ok(Operation { label: label.into(), index, signature })
    }
}

/// One call: the addresses of its inputs, its numbers, and its bytes and flops.
struct Call<'a> {
    reads: &'a [Use<'a>],
    /// The last operand is the result.
    operands: &'a mut [Option<Operand>],
    numbers: &'a [Number],
    read_bytes: u64,
    result_bytes: u64,
    element: ElementFormat,
    flops: f64,
}

impl Call<'_> {
    /// Allocates the result and queues the work, without the GIL.
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
        let launch = encode(operation.signature, kernel, self.operands, self.numbers, moved)
            .map_err(|error| errors::invalid(&error.to_string()))?;
        let label = Arc::clone(&operation.label);
        let mut request = WorkRequest::new(label, stream, Work::Launch(launch));
        request.bytes = moved;
        request.flops = self.flops;
        let result = Use { buffer: &allocation, writes: true };
        let mut uses = [result; 1 + MAX_INPUTS];
        let count = self.reads.len();
        uses[1..=count].copy_from_slice(self.reads);
        runtime.submit(request, &uses[..=count])?;
        Ok(allocation)
    }
}

/// An elementwise operation specialized for operand types.
#[pyclass(name = "NativePlan", module = "assay._native", frozen)]
pub(super) struct PyPlan {
    operation: Operation,
    expression: u32,
    computed: ElementFormat,
    result: ResultType,
    /// Whether each element of the result counts as one flop.
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

/// An array, or the bits of a scalar.
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
    /// The operation's label in records.
    pub fn label(&self) -> &str {
        &self.operation.label
    }

    /// Applies the operation to arrays of the runtime, one of which is `model`, into a new
    /// allocation. None unless all have one contiguous layout and the itemsize of the result.
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
        let mut uses = [Use { buffer: model.memory(), writes: false }; MAX_INPUTS];
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
                *operand = Some(elementwise::operand(self.label(), runtime, array)?);
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
        let array = model.new_like(py, allocation, &self.result, None)?;
        Ok(Some(array))
    }

    /// The bits of a Python number, if it is representable in the compute type.
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
            // A half-precision scalar would be rounded first, and a bool is not a number.
            _ => return None,
        })
    }
}

/// A reduction specialized for one shape and type.
#[pyclass(name = "NativeReduction", module = "assay._native", frozen)]
pub(super) struct PyReduction {
    operation: Operation,
    numbers: Vec<Number>,
    source_bytes: u64,
    result: ResultType,
    result_bytes: u64,
    layout: ArrayLayout,
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
            layout: ArrayLayout::new(py, layout, result.itemsize, nbytes)?,
            result,
            result_bytes: nbytes,
            flops,
        })
    }

    /// Reduces a contiguous array into a new allocation; None where memory has accounting.
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
            let uses = [Use { buffer: source.memory(), writes: false }];
            let _pinned = Pinned::new(py, &uses, stream)?;
            let call = Call {
                reads: &uses,
                operands: &mut [Some(elementwise::operand(label, runtime, source)?), None],
                numbers: &self.numbers,
                read_bytes: self.source_bytes,
                result_bytes: self.result_bytes,
                element: self.result.element,
                flops: self.flops,
            };
            let allocation = py.detach(|| call.submit(runtime, stream, &self.operation))?;
            let array = source.new_like(py, allocation, &self.result, Some(&self.layout))?;
            Ok(Some(array))
        })
    }
}
