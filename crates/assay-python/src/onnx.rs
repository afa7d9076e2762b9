//! ONNX files for Python: initializers, and nodes with their attributes.

use std::path::PathBuf;
use std::sync::Arc;

use assay_formats::Onnx;
use assay_formats::onnx::{Attribute, Graph, OnnxTensor};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::formats::{StoredTensor, refused};

/// Adds the names of this file to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<OnnxFile>()?;
    module.add_class::<OnnxGraph>()?;
    module.add_class::<OnnxNode>()
}

/// A memory-mapped ONNX file, read whole.
#[pyclass(module = "assay._native", frozen)]
struct OnnxFile(Onnx);

#[pymethods]
impl OnnxFile {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        py.detach(|| Onnx::open(&path)).map(OnnxFile).map_err(|error| refused(&error))
    }

    /// The program that wrote it.
    #[getter]
    fn producer(&self) -> &str {
        self.0.producer()
    }

    /// The version of each set of operators, by its domain.
    #[getter]
    fn operator_sets<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let versions = PyDict::new(py);
        for (domain, version) in self.0.operator_sets() {
            versions.set_item(domain, version)?;
        }
        Ok(versions)
    }

    /// The graph of the model.
    #[getter]
    fn graph(&self) -> OnnxGraph {
        OnnxGraph(Arc::clone(self.0.graph()))
    }
}

/// A graph of an ONNX file.
#[pyclass(module = "assay._native", frozen)]
struct OnnxGraph(Arc<Graph>);

#[pymethods]
impl OnnxGraph {
    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// The names of its inputs.
    #[getter]
    fn inputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, &self.0.inputs)
    }

    /// The names of its outputs.
    #[getter]
    fn outputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, &self.0.outputs)
    }

    /// The initializers, in file order.
    fn tensors(&self) -> Vec<StoredTensor> {
        self.0.initializers.iter().map(stored).collect()
    }

    /// The nodes, in file order.
    fn nodes(&self) -> Vec<OnnxNode> {
        (0..self.0.nodes.len()).map(|at| OnnxNode { graph: Arc::clone(&self.0), at }).collect()
    }
}

/// A node of a graph.
#[pyclass(module = "assay._native", frozen)]
struct OnnxNode {
    graph: Arc<Graph>,
    at: usize,
}

impl OnnxNode {
    fn node(&self) -> &assay_formats::onnx::Node {
        &self.graph.nodes[self.at]
    }
}

#[pymethods]
impl OnnxNode {
    /// Its name; may be empty.
    #[getter]
    fn name(&self) -> &str {
        &self.node().name
    }

    /// The operation, such as "Conv".
    #[getter]
    fn operation(&self) -> &str {
        &self.node().operation
    }

    /// The set of operators that it belongs to; empty for the standard's.
    #[getter]
    fn domain(&self) -> &str {
        &self.node().domain
    }

    /// The names of the values it reads; empty where an optional one is left out.
    #[getter]
    fn inputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, &self.node().inputs)
    }

    /// The names of the values it writes.
    #[getter]
    fn outputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, &self.node().outputs)
    }

    /// Its attributes by name.
    fn attributes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let attributes = PyDict::new(py);
        for (name, value) in &self.node().attributes {
            attributes.set_item(name, attribute(py, value)?)?;
        }
        Ok(attributes)
    }

    fn __repr__(&self) -> String {
        format!("OnnxNode({:?}, {})", self.node().name, self.node().operation)
    }
}

fn stored(stored: &OnnxTensor) -> StoredTensor {
    StoredTensor { mapping: Arc::clone(&stored.mapping), tensor: stored.tensor.clone() }
}

fn attribute<'py>(py: Python<'py>, value: &Attribute) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Attribute::Float(number) => number.into_pyobject(py)?.into_any(),
        Attribute::Int(number) => number.into_pyobject(py)?.into_any(),
        Attribute::Bytes(bytes) => PyBytes::new(py, bytes).into_any(),
        Attribute::Tensor(tensor) => Bound::new(py, stored(tensor))?.into_any(),
        Attribute::Graph(graph) => Bound::new(py, OnnxGraph(Arc::clone(graph)))?.into_any(),
        Attribute::Floats(numbers) => PyList::new(py, numbers)?.into_any(),
        Attribute::Ints(numbers) => PyList::new(py, numbers)?.into_any(),
        Attribute::ByteStrings(texts) => {
            PyList::new(py, texts.iter().map(|text| PyBytes::new(py, text)))?.into_any()
        }
    })
}
