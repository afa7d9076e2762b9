//! CUPTI sessions of this process, and the control file of the library injected into others.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use assay_cuda::cupti::{Activity, CLOCK, CuptiError, Options, Progress, Session, Sink};
use assay_inject::{CONTROL_FILE, Control, Folder, State};
use assay_trace::TraceTable;
use pyo3::prelude::*;

use crate::runtime::errors;
use crate::trace::EventTable;

/// Adds the names of this file to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<CuptiSession>()?;
    module.add_function(wrap_pyfunction!(write_trace_control, module)?)?;
    module.add_function(wrap_pyfunction!(check_trace_library, module)?)
}

fn invalid(text: &str) -> PyErr {
    errors::of_class("InputError", "invalid", text)
}

fn activities(names: &[String]) -> PyResult<Vec<Activity>> {
    let known = || Activity::ALL.map(Activity::name).join(", ");
    names
        .iter()
        .map(|name| {
            Activity::of_name(name).ok_or_else(|| {
                invalid(&format!("activity: expected one of {}, got \"{name}\"", known()))
            })
        })
        .collect()
}

fn refused(error: &CuptiError) -> PyErr {
    let hint = error.hint().map(|hint| format!("\nhint: {hint}"));
    errors::of_class("DeviceError", error.code(), &format!("{error}{}", hint.unwrap_or_default()))
}

/// Events that were not taken yet.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<TraceTable>>>);

impl Memory {
    fn tables(&self) -> MutexGuard<'_, Vec<TraceTable>> {
        self.0.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    fn take(&self) -> EventTable {
        let tables = std::mem::take(&mut *self.tables());
        let batches = tables.into_iter().flat_map(TraceTable::into_batches);
        EventTable(TraceTable::new(batches.collect()))
    }
}

impl Sink for Memory {
    fn write(&mut self, events: TraceTable, _progress: &Progress) -> Result<(), String> {
        if events.rows() > 0 {
            self.tables().push(events);
        }
        Ok(())
    }
}

/// Records what runs on the NVIDIA GPUs of this process; one session at a time.
#[pyclass(module = "assay._native")]
struct CuptiSession {
    session: Option<Session>,
    memory: Memory,
    last: Progress,
    version: u32,
    library: String,
}

#[pymethods]
impl CuptiSession {
    /// Starts to record: kernel, memcpy, memset, sync, api, nvtx, overhead, graph.
    #[new]
    #[pyo3(signature = (*, folders, activities = None, period_s = 0.25))]
    fn new(
        py: Python<'_>,
        folders: Vec<PathBuf>,
        activities: Option<Vec<String>>,
        period_s: f64,
    ) -> PyResult<Self> {
        let mut options = Options::default();
        if let Some(names) = activities {
            options.activities = self::activities(&names)?;
        }
        if !(0.01..=0.5).contains(&period_s) {
            return Err(invalid(&format!("period: expected 0.01 to 0.5 s, got {period_s}")));
        }
        options.period = Duration::from_secs_f64(period_s);
        assay_cuda::set_library_folders(folders);
        let memory = Memory::default();
        let session = py
            .detach(|| Session::start(&options, Box::new(memory.clone())))
            .map_err(|error| refused(&error))?;
        Ok(CuptiSession {
            version: session.version(),
            library: session.library().to_owned(),
            session: Some(session),
            memory,
            last: Progress::default(),
        })
    }

    /// The events delivered since the last call.
    fn drain(&self, py: Python<'_>) -> EventTable {
        if let Some(session) = &self.session {
            py.detach(|| session.flush());
        }
        self.memory.take()
    }

    /// Ends the session; returns the events since the last `drain`.
    fn stop(&mut self, py: Python<'_>) -> EventTable {
        if let Some(session) = self.session.take() {
            self.last = py.detach(|| session.stop());
        }
        self.memory.take()
    }

    /// Records that CUPTI lost.
    #[getter]
    fn dropped(&self) -> u64 {
        self.progress().dropped
    }

    /// Work that had not ended when the session did.
    #[getter]
    fn incomplete(&self) -> u64 {
        self.progress().counts.incomplete
    }

    /// What is missing, and why.
    #[getter]
    fn degradations(&self) -> Vec<String> {
        self.progress().degradations
    }

    /// CUPTI's version, such as 130000.
    #[getter]
    fn version(&self) -> u32 {
        self.version
    }

    /// Where CUPTI was opened.
    #[getter]
    fn library(&self) -> &str {
        &self.library
    }

    /// The clock of the events.
    #[getter]
    fn clock(&self) -> &'static str {
        CLOCK
    }
}

impl CuptiSession {
    fn progress(&self) -> Progress {
        match &self.session {
            Some(session) => session.progress(),
            None => self.last.clone(),
        }
    }
}

/// Writes the control file of a folder that only this user may write, all of it at once.
#[pyfunction]
#[pyo3(signature = (folder, *, armed, activities, period_ms, libraries))]
fn write_trace_control(
    folder: PathBuf,
    armed: bool,
    activities: Vec<String>,
    period_ms: u64,
    libraries: Vec<PathBuf>,
) -> PyResult<()> {
    let control = Control {
        state: if armed { State::Armed } else { State::Idle },
        activities: self::activities(&activities)?,
        period_ms,
        libraries,
    };
    let text = control.to_json();
    Control::parse(&text).map_err(|error| invalid(&error.to_string()))?;
    Folder::open(&folder)
        .and_then(|folder| folder.replace(CONTROL_FILE, &text))
        .map_err(|error| invalid(&error.to_string()))
}

/// Refuses an injected library that other users may write or replace.
#[pyfunction]
fn check_trace_library(path: PathBuf) -> PyResult<()> {
    assay_inject::check_file(&path).map_err(|error| invalid(&error.to_string()))
}
