//! Tables of traces for Python: read from files, stored as shards, exported as Arrow streams.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

use assay_trace::kineto::{self, Facts, Late, Options};
use assay_trace::{Batch, Kind, ShardWriter, TraceError, TraceTable};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyCapsule, PyDict};

use crate::arrow_stream::ArrowArrayStream;
use crate::runtime::errors;
use crate::runtime::records::dictionary;

/// Adds the names of this file to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<EventTable>()?;
    module.add_class::<KinetoBatches>()?;
    module.add_function(wrap_pyfunction!(read_event_shard, module)?)?;
    module.add_function(wrap_pyfunction!(read_kineto, module)?)
}

fn refused(error: &TraceError) -> PyErr {
    errors::of_class("InputError", error.code(), &error.to_string())
}

/// The events of a trace.
///
/// Polars, PyArrow and others take it without a copy: `polars.DataFrame(table)`.
#[pyclass(module = "assay._native", frozen)]
pub(crate) struct EventTable(pub(crate) TraceTable);

#[pymethods]
impl EventTable {
    /// The rows of the tables, one table after another.
    #[staticmethod]
    fn concatenate(tables: Vec<PyRef<'_, EventTable>>) -> Self {
        let batches = tables.iter().flat_map(|table| table.0.batches());
        EventTable(TraceTable::new(batches.cloned().collect()))
    }

    /// The same rows on a clock that is `offset_ns` ahead.
    fn shifted(&self, offset_ns: i64) -> Self {
        EventTable(self.0.clone().shifted(offset_ns))
    }

    fn __len__(&self) -> usize {
        self.0.rows()
    }

    /// The Arrow C stream, which shares the memory.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The protocol leaves it to the producer whether it casts; consumers do.
        drop(requested_schema);
        PyCapsule::new_with_value(py, ArrowArrayStream::new(&self.0), c"arrow_array_stream")
    }

    /// Stores it as a shard, at a path where nothing is.
    fn write_shard(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| {
            let mut shard = ShardWriter::create(&path, &HashMap::new())?;
            shard.append(&self.0)?;
            shard.finish()
        })
        .map_err(|error| refused(&error))
    }
}

/// The complete batches of a shard: table, metadata, whether it was finished, and the bytes cut off.
#[pyfunction]
fn read_event_shard(
    py: Python<'_>,
    path: PathBuf,
) -> PyResult<(EventTable, HashMap<String, String>, bool, u64)> {
    let shard = py.detach(|| assay_trace::read_shard(&path)).map_err(|error| refused(&error))?;
    Ok((EventTable(shard.table), shard.metadata, shard.complete, shard.cut_bytes))
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
    Ok(Options { args, kinds: kinds.transpose()?, ..Options::default() })
}

fn facts_dict<'py>(py: Python<'py>, facts: Facts) -> PyResult<Bound<'py, PyDict>> {
    let dict = dictionary!(
        py, facts: processes, descriptions, base_ns, rank, sums, flows, repairs, degradations
    )?;
    dict.set_item("described", facts.described.into_iter().into_py_dict(py)?)?;
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

/// Reads such a trace in a thread of its own; iterates over its events, a batch at a time.
#[pyclass(module = "assay._native", frozen)]
struct KinetoBatches {
    batches: Mutex<Receiver<Batch>>,
    reader: Mutex<Option<JoinHandle<Outcome>>>,
}

/// What holds for all events, where a file says it behind them: nanoseconds to add, and the rank.
type Known = (Option<i64>, Option<i32>);
/// What was read, or what the function that is told how far reading is raised.
type Outcome = Result<assay_trace::Result<(Facts, Late)>, PyErr>;

#[pymethods]
impl KinetoBatches {
    #[new]
    #[pyo3(signature = (path, known, progress = None))]
    fn new(path: PathBuf, known: Known, progress: Option<Py<PyAny>>) -> Self {
        // A batch is read while another is stored.
        let (batch, batches) = sync_channel(1);
        let (base_ns, rank) = known;
        let reader = std::thread::spawn(move || {
            let mut raised = None;
            let read = kineto::read_batches(
                &path,
                &Options::default(),
                Late { base_ns, rank },
                &mut reporter(progress.as_ref(), &mut raised),
                // Nobody waits for it once the iteration was given up.
                &mut |read| batch.send(read).map_err(|_| TraceError::interrupted()),
            );
            raised.map_or(Ok(read), Err)
        });
        KinetoBatches { batches: Mutex::new(batches), reader: Mutex::new(Some(reader)) }
    }

    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> Option<EventTable> {
        let next = || self.batches.lock().ok()?.recv().ok();
        let batch = py.detach(next)?;
        Some(EventTable(TraceTable::new(vec![batch])))
    }

    /// Facts of the trace once all of it was read, and what its batches lack to be `known`.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyDict>, Known)> {
        let join = || self.reader.lock().ok()?.take()?.join().ok();
        let outcome = py.detach(join);
        let outcome =
            outcome.ok_or_else(|| errors::of_class("InputError", "invalid", "trace: was read"))?;
        let (facts, late) = outcome?.map_err(|error| refused(&error))?;
        Ok((facts_dict(py, facts)?, (late.base_ns, late.rank)))
    }
}
