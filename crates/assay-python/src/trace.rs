//! Tables of traces for Python: built from columns, stored as Parquet, exported as Arrow streams.

use std::collections::HashMap;
use std::path::PathBuf;

use assay_trace::kineto::{self, Facts, Options};
use assay_trace::schema::{self, DataType, Schema};
use assay_trace::{Kind, TraceError, TraceTable, Values};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use crate::arrow_stream::ArrowArrayStream;
use crate::runtime::errors;

/// Adds the names of this file to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<EventTable>()?;
    module.add_class::<StepTable>()?;
    module.add_function(wrap_pyfunction!(read_event_shard, module)?)?;
    module.add_function(wrap_pyfunction!(read_kineto, module)?)?;
    module.add_function(wrap_pyfunction!(import_kineto, module)?)
}

fn refused(error: &TraceError) -> PyErr {
    errors::of_class("InputError", error.code(), &error.to_string())
}

/// A table of Python lists by name of the column.
fn from_columns(
    py: Python<'_>,
    schema: &'static Schema,
    columns: &Bound<'_, PyDict>,
) -> PyResult<TraceTable> {
    let mut values = Vec::with_capacity(columns.len());
    for (name, column) in columns {
        let name: String = name.extract()?;
        let kind = schema.place(&name).map(|place| schema.fields[place].kind);
        let column = match kind {
            Some(DataType::Int32 | DataType::Int64) => Values::Integers(column.extract()?),
            Some(DataType::Float64) => Values::Floats(column.extract()?),
            Some(DataType::Dimensions) => Values::Dimensions(column.extract()?),
            Some(_) => Values::Texts(column.extract()?),
            // Refused by name.
            None => Values::Integers(Vec::new()),
        };
        values.push((name, column));
    }
    py.detach(|| TraceTable::from_columns(schema, &values))
        .map_err(|error| refused(&error))
}

/// The Arrow C stream of a table, which shares its memory.
fn stream<'py>(py: Python<'py>, table: &TraceTable) -> PyResult<Bound<'py, PyCapsule>> {
    let stream = ArrowArrayStream::new(table);
    PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
}

fn write_parquet(
    py: Python<'_>,
    table: &TraceTable,
    path: PathBuf,
    metadata: Option<HashMap<String, String>>,
) -> PyResult<()> {
    let metadata = metadata.unwrap_or_default();
    let pairs: Vec<(&str, &str)> = metadata
        .iter()
        .map(|(key, value)| (&**key, &**value))
        .collect();
    py.detach(|| table.write_parquet(&path, &pairs))
        .map_err(|error| refused(&error))
}

macro_rules! table_class {
    ($name:ident, $columns:path, $doc:literal) => {
        #[doc = $doc]
        ///
        /// Polars, PyArrow and others take it without a copy: `polars.DataFrame(table)`.
        #[pyclass(module = "assay._native", frozen)]
        pub(crate) struct $name(pub(crate) TraceTable);

        #[pymethods]
        impl $name {
            /// A table of lists by name of the column; columns that are not given are null.
            #[staticmethod]
            fn from_columns(py: Python<'_>, columns: &Bound<'_, PyDict>) -> PyResult<Self> {
                from_columns(py, $columns(), columns).map($name)
            }

            /// The rows of the tables, one table after another.
            #[staticmethod]
            fn concatenate(tables: Vec<PyRef<'_, $name>>) -> PyResult<Self> {
                let batches = tables
                    .iter()
                    .flat_map(|table| table.0.batches().iter().cloned());
                TraceTable::new($columns(), batches.collect())
                    .map($name)
                    .map_err(|error| refused(&error))
            }

            /// The same rows on a clock that is `offset_ns` ahead.
            fn shifted(&self, offset_ns: i64) -> Self {
                $name(self.0.clone().shifted(offset_ns))
            }

            fn __len__(&self) -> usize {
                self.0.rows()
            }

            #[pyo3(signature = (requested_schema = None))]
            fn __arrow_c_stream__<'py>(
                &self,
                py: Python<'py>,
                requested_schema: Option<Bound<'py, PyAny>>,
            ) -> PyResult<Bound<'py, PyCapsule>> {
                // The protocol leaves it to the producer whether it casts; consumers do.
                drop(requested_schema);
                stream(py, &self.0)
            }

            /// Stores it as a Parquet file, whole or not at all.
            #[pyo3(signature = (path, metadata = None))]
            fn write_parquet(
                &self,
                py: Python<'_>,
                path: PathBuf,
                metadata: Option<HashMap<String, String>>,
            ) -> PyResult<()> {
                write_parquet(py, &self.0, path, metadata)
            }
        }
    };
}

table_class!(EventTable, schema::events, "The events of a trace.");
table_class!(StepTable, schema::steps, "The steps of a trace.");

/// The complete batches of a shard: table, metadata, whether it was finished, and the bytes cut off.
#[pyfunction]
fn read_event_shard(
    py: Python<'_>,
    path: PathBuf,
) -> PyResult<(EventTable, HashMap<String, String>, bool, u64)> {
    let shard = py
        .detach(|| assay_trace::read_shard(&path))
        .map_err(|error| refused(&error))?;
    Ok((
        EventTable(shard.table),
        shard.metadata,
        shard.complete,
        shard.cut_bytes,
    ))
}

/// Tells a Python function how far reading is; false once the function or a signal raised.
fn reporter<'a>(
    progress: Option<&'a Py<PyAny>>,
    raised: &'a mut Option<PyErr>,
) -> impl FnMut(u64, u64) -> bool + 'a {
    move |done, total| {
        let told = Python::attach(|py| {
            if let Some(progress) = progress {
                progress.call1(py, (done, total))?;
            }
            py.check_signals()
        });
        *raised = told.err();
        raised.is_none()
    }
}

/// What to take from a file, by the names of the kinds.
fn options(args: bool, kinds: Option<Vec<String>>) -> PyResult<Options> {
    let known = |name: &String| {
        Kind::of_name(name).ok_or_else(|| {
            let expected = Kind::ALL.map(Kind::name).join(", ");
            let text = format!("kinds: expected some of {expected}, got \"{name}\"");
            errors::of_class("InputError", "kind", &text)
        })
    };
    let kinds = kinds.map(|names| names.iter().map(known).collect::<PyResult<_>>());
    Ok(Options {
        args,
        kinds: kinds.transpose()?,
        ..Options::default()
    })
}

fn facts_dict<'py>(py: Python<'py>, facts: Facts) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let described = PyDict::new(py);
    for (name, value) in facts.described {
        described.set_item(name, value)?;
    }
    dict.set_item("described", described)?;
    dict.set_item("processes", facts.processes)?;
    dict.set_item("descriptions", facts.descriptions)?;
    dict.set_item("base_ns", facts.base_ns)?;
    dict.set_item("rank", facts.rank)?;
    dict.set_item("sums", facts.sums)?;
    dict.set_item("flows", facts.flows)?;
    dict.set_item("repairs", facts.repairs)?;
    dict.set_item("degradations", facts.degradations)?;
    Ok(dict)
}

/// Reads a trace of PyTorch's profiler, or another in Chrome's JSON: the events, and facts of it.
#[pyfunction]
#[pyo3(signature = (path, args = true, kinds = None, progress = None))]
fn read_kineto<'py>(
    py: Python<'py>,
    path: PathBuf,
    args: bool,
    kinds: Option<Vec<String>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(EventTable, Bound<'py, PyDict>)> {
    let options = options(args, kinds)?;
    let mut raised = None;
    let read = {
        let mut report = reporter(progress.as_ref(), &mut raised);
        py.detach(|| kineto::read(&path, &options, &mut report))
    };
    match (raised, read) {
        (Some(error), _) => Err(error),
        (None, Ok((table, facts))) => Ok((EventTable(table), facts_dict(py, facts)?)),
        (None, Err(error)) => Err(refused(&error)),
    }
}

/// Reads such a trace into a Parquet file, some blocks at a time; returns facts of it.
#[pyfunction]
#[pyo3(signature = (path, into, progress = None))]
fn import_kineto<'py>(
    py: Python<'py>,
    path: PathBuf,
    into: PathBuf,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let mut raised = None;
    let imported = {
        let mut report = reporter(progress.as_ref(), &mut raised);
        py.detach(|| kineto::import(&path, &into, &Options::default(), &mut report))
    };
    match (raised, imported) {
        (Some(error), _) => Err(error),
        (None, Ok(facts)) => facts_dict(py, facts),
        (None, Err(error)) => Err(refused(&error)),
    }
}
