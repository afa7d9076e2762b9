//! Expression tapes for Python.

use std::collections::BTreeMap;

use assay_tape::{
    Block, EvaluationReport, Instruction, Method, Op, Program, Tape, decode_instructions,
};
use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::float_buffer::{FloatBuffer, check_overlap};
use crate::tape_arguments::{Columns, Rows};

create_exception!(
    assay._native,
    TapeError,
    PyValueError,
    "A tape's program, stored bytes or arguments are wrong."
);

/// The single mapping from tape errors to Python exceptions.
fn python_error(error: assay_tape::TapeError) -> PyErr {
    TapeError::new_err(error.to_string())
}

fn report(result: Result<EvaluationReport, assay_tape::TapeError>) -> PyResult<PyTapeReport> {
    result.map(PyTapeReport).map_err(python_error)
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
        let counts: BTreeMap<_, _> = self.0.unconverged.iter().copied().collect();
        format!("TapeReport(points={}, unconverged={counts:?})", self.0.points)
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
        let blocks = blocks.iter().enumerate().map(|(number, block)| block.decoded(number));
        let blocks = blocks.collect::<PyResult<Vec<Block>>>()?;
        let program = Program { input_count: n_inputs, constants, code, outputs, blocks };
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
        let mut outputs = Rows::get(out, "output", self.0.output_count(), points)?;
        check_overlap(&inputs.buffers(), &outputs.buffers())?;
        // SAFETY: the buffers stay pinned, the outputs do not overlap, as just checked, and callers
        // must not access them during the call.
        let (inputs, mut rows) = unsafe { (inputs.as_inputs(), outputs.as_rows()) };
        report(py.detach(|| self.0.evaluate(&inputs, points, &mut rows)))
    }

    /// Compute the derivatives of every output by the inputs `wrt` at every point into `out`.
    #[pyo3(signature = (inputs, points, wrt, out, values=None))]
    fn jacobian(
        &self,
        py: Python<'_>,
        inputs: &Bound<'_, PyAny>,
        points: usize,
        wrt: Vec<u32>,
        out: &Bound<'_, PyAny>,
        values: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyTapeReport> {
        let inputs = Columns::read(inputs, "input")?;
        let mut out = FloatBuffer::get_writable(out, "out")?;
        let shape = [self.0.output_count(), wrt.len(), points];
        if out.shape() != shape && (points != 1 || out.shape() != &shape[..2]) {
            let got = out.shape();
            return Err(PyValueError::new_err(format!(
                "out: expected shape {shape:?}, got {got:?}"
            )));
        }
        let rows = |values| Rows::get(values, "output", self.0.output_count(), points);
        let mut values = values.map(rows).transpose()?;
        let mut written = values.as_ref().map(Rows::buffers).unwrap_or_default();
        written.push(&out);
        check_overlap(&inputs.buffers(), &written)?;
        // SAFETY: as in `evaluate`.
        let (inputs, derivatives) = unsafe { (inputs.as_inputs(), out.as_mut_slice()) };
        // SAFETY: as in `evaluate`.
        let mut rows = values.as_mut().map(|values| unsafe { values.as_rows() });
        report(py.detach(|| {
            let values = rows.as_deref_mut();
            self.0.jacobian_batch(&inputs, points, &wrt, values, derivatives)
        }))
    }

    /// Compute the change of every output along `tangents`, one per input, into `out`.
    fn jvp(
        &self,
        py: Python<'_>,
        inputs: &Bound<'_, PyAny>,
        points: usize,
        tangents: &Bound<'_, PyAny>,
        out: &Bound<'_, PyAny>,
    ) -> PyResult<PyTapeReport> {
        let inputs = Columns::read(inputs, "input")?;
        let tangents = Columns::read(tangents, "tangent")?;
        let mut outputs = Rows::get(out, "output", self.0.output_count(), points)?;
        let read = [inputs.buffers(), tangents.buffers()].concat();
        check_overlap(&read, &outputs.buffers())?;
        // SAFETY: as in `evaluate`.
        let (inputs, tangents) = unsafe { (inputs.as_inputs(), tangents.as_inputs()) };
        // SAFETY: as in `evaluate`.
        let mut rows = unsafe { outputs.as_rows() };
        report(py.detach(|| self.0.jvp(&inputs, points, &tangents, &mut rows)))
    }

    /// Compute the derivative by every input of the outputs weighted by `cotangents` into `out`.
    fn vjp(
        &self,
        py: Python<'_>,
        inputs: &Bound<'_, PyAny>,
        points: usize,
        cotangents: &Bound<'_, PyAny>,
        out: &Bound<'_, PyAny>,
    ) -> PyResult<PyTapeReport> {
        let inputs = Columns::read(inputs, "input")?;
        let cotangents = Columns::read(cotangents, "cotangent")?;
        let mut gradients = Rows::get(out, "gradient", self.0.input_count(), points)?;
        let read = [inputs.buffers(), cotangents.buffers()].concat();
        check_overlap(&read, &gradients.buffers())?;
        // SAFETY: as in `evaluate`.
        let (inputs, cotangents) = unsafe { (inputs.as_inputs(), cotangents.as_inputs()) };
        // SAFETY: as in `evaluate`.
        let mut rows = unsafe { gradients.as_rows() };
        report(py.detach(|| self.0.vjp(&inputs, points, &cotangents, &mut rows)))
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
