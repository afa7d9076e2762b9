//! Expression tapes for Python.

use assay_core::tape::{
    Block, EvaluationReport, Input, Instruction, Method, Op, Program, Tape, decode_instructions,
};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFloat, PyList, PyTuple};

use crate::float_buffer::{FloatBuffer, check_overlap};

create_exception!(
    assay._native,
    TapeError,
    PyValueError,
    "A tape's program, stored bytes or arguments are wrong."
);

/// The one map from the core's errors to Python's.
fn python_error(error: assay_core::tape::TapeError) -> PyErr {
    TapeError::new_err(error.to_string())
}

/// Adds the tape's names to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let operations = PyDict::new(module.py());
    for &op in Op::ALL {
        operations.set_item(op.name(), op as u32)?;
    }
    module.add("TAPE_OPS", operations)?;
    module.add("TapeError", module.py().get_type::<TapeError>())?;
    module.add_class::<PyTape>()?;
    module.add_class::<PyTapeBlock>()?;
    module.add_class::<PyTapeReport>()
}

/// Simultaneous relations x = g(x, p) inside a tape, solved at each point.
#[pyclass(name = "TapeBlock", module = "assay._native", frozen)]
struct PyTapeBlock {
    // Decoded when the tape is built, so that errors can name the block's number.
    code: Vec<u8>,
    block: Block,
}

#[pymethods]
impl PyTapeBlock {
    #[new]
    #[pyo3(signature = (
        *, constants, code, outputs, start, externals, lower=None, upper=None, method="newton",
        damping=1.0, relative_tolerance=1e-12, absolute_tolerance=0.0, max_iterations=100,
    ))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        constants: Vec<f64>,
        code: Vec<u8>,
        outputs: Vec<u32>,
        start: Vec<u32>,
        externals: Vec<u32>,
        lower: Option<Vec<f64>>,
        upper: Option<Vec<f64>>,
        method: &str,
        damping: f64,
        relative_tolerance: f64,
        absolute_tolerance: f64,
        max_iterations: u32,
    ) -> PyResult<Self> {
        let method = match method {
            "newton" => Method::Newton,
            "fixed_point" => Method::FixedPoint { damping },
            other => {
                return Err(TapeError::new_err(format!(
                    "method of a block: expected \"newton\" or \"fixed_point\", got \"{other}\""
                )));
            }
        };
        let unknowns = start.len();
        let inner = Program {
            input_count: unknowns + externals.len(),
            constants,
            outputs,
            ..Program::default()
        };
        let block = Block {
            inner,
            start,
            externals,
            method,
            relative_tolerance,
            absolute_tolerance,
            max_iterations,
            lower: lower.unwrap_or_else(|| vec![f64::NEG_INFINITY; unknowns]),
            upper: upper.unwrap_or_else(|| vec![f64::INFINITY; unknowns]),
        };
        Ok(PyTapeBlock { code, block })
    }
}

impl PyTapeBlock {
    fn decoded(&self, number: usize) -> PyResult<Block> {
        let mut block = self.block.clone();
        block.inner.code = decode_instructions(&self.code, Some(number)).map_err(python_error)?;
        Ok(block)
    }
}

/// What happened during an evaluation.
#[pyclass(name = "TapeReport", module = "assay._native", frozen)]
struct PyTapeReport(EvaluationReport);

#[pymethods]
impl PyTapeReport {
    /// Points evaluated.
    #[getter]
    fn points(&self) -> usize {
        self.0.points
    }

    /// Points that did not converge, by block number; blocks without any are absent.
    #[getter]
    fn unconverged<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counts = PyDict::new(py);
        for &(block, points) in &self.0.unconverged {
            counts.set_item(block, points)?;
        }
        Ok(counts)
    }

    fn __repr__(&self) -> String {
        format!(
            "TapeReport(points={}, unconverged={:?})",
            self.0.points, self.0.unconverged
        )
    }
}

/// A checked program over 64-bit floats, run over many points at once.
#[pyclass(name = "Tape", module = "assay._native", frozen)]
struct PyTape(Tape);

#[pymethods]
impl PyTape {
    #[new]
    #[pyo3(signature = (n_inputs, constants, code, outputs, blocks=Vec::new()))]
    fn new(
        n_inputs: usize,
        constants: Vec<f64>,
        code: &[u8],
        outputs: Vec<u32>,
        blocks: Vec<PyRef<'_, PyTapeBlock>>,
    ) -> PyResult<Self> {
        let code: Vec<Instruction> = decode_instructions(code, None).map_err(python_error)?;
        let blocks = blocks
            .iter()
            .enumerate()
            .map(|(number, block)| block.decoded(number));
        let blocks = blocks.collect::<PyResult<Vec<Block>>>()?;
        let program = Program {
            input_count: n_inputs,
            constants,
            code,
            outputs,
            blocks,
        };
        Tape::new(&program).map(PyTape).map_err(python_error)
    }

    /// Number of inputs.
    #[getter]
    fn n_inputs(&self) -> usize {
        self.0.input_count()
    }

    /// Number of outputs.
    #[getter]
    fn n_outputs(&self) -> usize {
        self.0.output_count()
    }

    /// Number of instructions.
    #[getter]
    fn n_instructions(&self) -> usize {
        self.0.instruction_count()
    }

    /// Compute every output at every point into `out`.
    fn evaluate(
        &self,
        py: Python<'_>,
        inputs: &Bound<'_, PyAny>,
        points: usize,
        out: &Bound<'_, PyAny>,
    ) -> PyResult<PyTapeReport> {
        let inputs = Columns::read(inputs, "input")?;
        let mut outputs = Rows::get(out, self.0.output_count(), points)?;
        check_overlap(&inputs.buffers(), &outputs.buffers())?;
        let report = py.detach(|| {
            // SAFETY: the buffers stay pinned by `inputs` and `outputs`; outputs overlap nothing,
            // as checked above; and the caller is told not to write to them meanwhile.
            let inputs = unsafe { inputs.as_inputs() };
            // SAFETY: as above.
            let mut rows = unsafe { outputs.as_rows() };
            self.0.evaluate(&inputs, points, &mut rows)
        });
        report.map(PyTapeReport).map_err(python_error)
    }

    /// The tape in the stored format.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.to_bytes())
    }

    /// Read a tape that `to_bytes` wrote.
    #[staticmethod]
    fn from_bytes(data: &[u8]) -> PyResult<Self> {
        Tape::from_bytes(data).map(PyTape).map_err(python_error)
    }
}

/// One value per point, or one for all.
enum Column {
    Uniform(f64),
    Varying(FloatBuffer),
}

/// A sequence of numbers and buffers.
struct Columns(Vec<Column>);

impl Columns {
    fn read(sequence: &Bound<'_, PyAny>, what: &str) -> PyResult<Columns> {
        let items = sequence.try_iter()?.enumerate();
        items
            .map(|(index, item)| Columns::item(&item?, what, index))
            .collect::<PyResult<_>>()
            .map(Columns)
    }

    fn item(item: &Bound<'_, PyAny>, what: &str, index: usize) -> PyResult<Column> {
        if let Ok(number) = item.cast::<PyFloat>() {
            return Ok(Column::Uniform(number.value()));
        }
        match PyUntypedBuffer::get(item) {
            Ok(buffer) if buffer.dimensions() > 0 => {
                let name = format!("{what} {index}");
                FloatBuffer::from_untyped(buffer, &name).map(Column::Varying)
            }
            _ => item.extract().map(Column::Uniform).map_err(|_| {
                PyValueError::new_err(format!(
                    "{what} {index}: expected a number or a float64 buffer, got {}",
                    item.get_type()
                ))
            }),
        }
    }

    fn buffers(&self) -> Vec<&FloatBuffer> {
        let buffer = |column| match column {
            &Column::Uniform(_) => None,
            Column::Varying(buffer) => Some(buffer),
        };
        self.0.iter().filter_map(buffer).collect()
    }

    /// # Safety
    ///
    /// Nothing may write to the buffers while the result is used.
    unsafe fn as_inputs(&self) -> Vec<Input<'_>> {
        let input = |column| match column {
            &Column::Uniform(value) => Input::Uniform(value),
            // SAFETY: vouched for by the caller.
            Column::Varying(buffer) => Input::Varying(unsafe { buffer.as_slice() }),
        };
        self.0.iter().map(input).collect()
    }
}

/// Where results go: one buffer per row, or one buffer for all.
struct Rows {
    buffers: Vec<FloatBuffer>,
    count: usize,
    length: usize,
}

impl Rows {
    /// Pins `out`: a list or tuple of buffers of `length`, or one buffer of `count` rows.
    fn get(out: &Bound<'_, PyAny>, count: usize, length: usize) -> PyResult<Rows> {
        let buffers = if out.is_instance_of::<PyList>() || out.is_instance_of::<PyTuple>() {
            let items: Vec<Bound<'_, PyAny>> = out.extract()?;
            let buffer =
                |(index, item)| FloatBuffer::get_writable(item, &format!("output {index}"));
            let buffers = items
                .iter()
                .enumerate()
                .map(buffer)
                .collect::<PyResult<Vec<_>>>()?;
            Rows::check_shapes(&buffers, count, length)?;
            buffers
        } else {
            let buffer = FloatBuffer::get_writable(out, "out")?;
            if buffer.shape() != [count, length] {
                let got = buffer.shape();
                return Err(PyValueError::new_err(format!(
                    "out: expected shape [{count}, {length}], got {got:?}"
                )));
            }
            vec![buffer]
        };
        Ok(Rows {
            buffers,
            count,
            length,
        })
    }

    fn check_shapes(buffers: &[FloatBuffer], count: usize, length: usize) -> PyResult<()> {
        if buffers.len() != count {
            let got = buffers.len();
            return Err(PyValueError::new_err(format!(
                "out: expected {count} buffers, got {got}"
            )));
        }
        for (index, buffer) in buffers.iter().enumerate() {
            if buffer.len() != length {
                let got = buffer.len();
                return Err(PyValueError::new_err(format!(
                    "output {index}: expected {length} elements, got {got}"
                )));
            }
        }
        Ok(())
    }

    fn buffers(&self) -> Vec<&FloatBuffer> {
        self.buffers.iter().collect()
    }

    /// # Safety
    ///
    /// Nothing else may touch the buffers while the result is used.
    unsafe fn as_rows(&mut self) -> Vec<&mut [f64]> {
        if self.length == 0 {
            return (0..self.count).map(|_| Default::default()).collect();
        }
        let mut rows = Vec::with_capacity(self.count);
        for buffer in &mut self.buffers {
            // SAFETY: vouched for by the caller.
            let slice = unsafe { buffer.as_mut_slice() };
            rows.extend(slice.chunks_exact_mut(self.length));
        }
        rows
    }
}
