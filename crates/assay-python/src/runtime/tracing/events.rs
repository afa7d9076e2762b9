//! The events of a capture as Arrow columns.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use assay_runtime::dispatch::WorkKind;
use assay_runtime::trace::{LaunchKind, LaunchSpan};
use assay_trace::{Event, EventBuilder, Kind, Phase};
use pyo3::prelude::*;

use crate::trace::EventTable;

use super::super::errors;
use super::super::panic_guard::guarded;
use super::host_log::PyHostLog;
use super::work_trace::{JoinedWork, PyWorkTrace, node_of};

/// Operation of the model's graph, layer, and whether it carries the node's bytes and FLOPs.
type Meaning = (Option<String>, Option<i32>, bool);
/// Name, kind, and the copy inside, if there is one: its name and operation.
type SectionTuple = (String, String, Option<(String, String)>);
/// First start, last end and union of the launches of a step in nanoseconds, and how many.
type StepTime = (i64, i64, i64, u64);

const SOURCE: &str = "engine";

/// The events of a capture.
#[pyclass(name = "CapturedEvents", module = "assay._native", frozen)]
pub(super) struct PyCapturedEvents {
    builder: Mutex<EventBuilder>,
}

impl PyCapturedEvents {
    fn lock(&self) -> MutexGuard<'_, EventBuilder> {
        // A panic would leave columns of different lengths, which `finish` refuses.
        self.builder.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn failed(error: &assay_trace::TraceError) -> PyErr {
    errors::of_class("InputError", error.code(), &error.to_string())
}

fn phases(names: &HashMap<i64, String>) -> HashMap<i64, Phase> {
    let pairs = names.iter();
    pairs.filter_map(|(step, name)| Some((*step, Phase::of_name(name)?))).collect()
}

fn dimensions(sizes: [u32; 3]) -> [i32; 3] {
    sizes.map(|size| i32::try_from(size).unwrap_or(i32::MAX))
}

/// Which of its times are bounds, as `args` say it.
fn bounds(span: &LaunchSpan) -> Option<&'static str> {
    match (span.start_is_bound, span.end_is_bound) {
        (false, false) => None,
        (true, false) => Some(r#"{"bounds": "start"}"#),
        (false, true) => Some(r#"{"bounds": "end"}"#),
        (true, true) => Some(r#"{"bounds": "start and end"}"#),
    }
}

/// What the events of a device share.
struct DeviceFields {
    device: i32,
    pid: i64,
    /// From the device's clock to the trace's.
    offset_ns: i64,
}

#[pymethods]
impl PyCapturedEvents {
    #[new]
    fn new() -> Self {
        PyCapturedEvents { builder: Mutex::new(EventBuilder::new()) }
    }

    /// Add the sections of an engine; `sections` names them by number.
    #[pyo3(signature = (log, sections, phases_by_step, *, offset_ns, pid, device))]
    fn add_host(
        &self,
        log: PyRef<'_, PyHostLog>,
        sections: Vec<SectionTuple>,
        phases_by_step: HashMap<i64, String>,
        offset_ns: i64,
        pid: i64,
        device: i32,
    ) -> PyResult<()> {
        guarded("capture", || {
            let phases = phases(&phases_by_step);
            let mut builder = self.lock();
            for lap in &log.lock().laps {
                let Some((name, kind, copy)) = sections.get(usize::from(lap.section)) else {
                    continue;
                };
                let start_ns = lap.start_ns as i64 + offset_ns;
                let dur_ns = lap.end_ns.saturating_sub(lap.start_ns) as i64;
                let kind = Kind::of_name(kind).unwrap_or(Kind::Host);
                let shared = Event {
                    category: Some(SOURCE),
                    pid: Some(pid),
                    step: lap.step,
                    phase: lap.step.and_then(|step| phases.get(&step).copied()),
                    ..Event::new(kind, name, start_ns, dur_ns)
                };
                let host = Event { tid: Some(lap.thread), ..shared };
                builder.push(&host).map_err(|error| failed(&error))?;
                if let Some((copy, operation)) = copy
                    && lap.bytes > 0
                {
                    let copied = Event {
                        kind: Kind::Memcpy,
                        name: copy,
                        op: Some(operation.as_str()),
                        device: Some(device),
                        bytes: Some(lap.bytes as i64),
                        args: Some(r#"{"bounds": "start and end"}"#),
                        ..shared
                    };
                    builder.push(&copied).map_err(|error| failed(&error))?;
                }
            }
            Ok(())
        })
    }

    /// Add the work of a device; `meanings` says what each name of `trace.names()` is.
    ///
    /// Returns first start, last end and union of the launches by step, and how many there are.
    #[pyo3(signature = (
        trace, log, meanings, phases_by_step, *, offset_ns, pid, device, host_calls
    ))]
    #[allow(clippy::too_many_arguments)]
    fn add_work(
        &self,
        py: Python<'_>,
        trace: PyRef<'_, PyWorkTrace>,
        log: PyRef<'_, PyHostLog>,
        meanings: Vec<Meaning>,
        phases_by_step: HashMap<i64, String>,
        offset_ns: i64,
        pid: i64,
        device: i32,
        host_calls: bool,
    ) -> PyResult<HashMap<i64, StepTime>> {
        guarded("capture", || {
            if meanings.len() != trace.names.len() {
                return Err(errors::invalid(&format!(
                    "capture: expected {} meanings, got {}",
                    trace.names.len(),
                    meanings.len()
                )));
            }
            let fields =
                DeviceFields { device, pid, offset_ns: offset_ns + log.offset_of(&trace.runtime) };
            let phases = phases(&phases_by_step);
            let (trace, this) = (&*trace, self);
            py.detach(|| {
                let mut builder = this.lock();
                let mut steps = HashMap::new();
                for joined in &trace.joined {
                    push_work(&mut builder, trace, joined, &meanings, &phases, &fields, &mut steps)
                        .map_err(|error| failed(&error))?;
                }
                if host_calls {
                    push_calls(&mut builder, trace, &phases, &fields)
                        .map_err(|error| failed(&error))?;
                }
                Ok(steps)
            })
        })
    }

    /// How many events there are.
    fn __len__(&self) -> usize {
        self.lock().rows()
    }

    /// Take the events as a table; none are left.
    fn take(&self, py: Python<'_>) -> PyResult<EventTable> {
        guarded("capture", || {
            let table = py.detach(|| self.lock().finish());
            table.map(EventTable).map_err(|error| failed(&error))
        })
    }
}

/// Adds one event for each launch of a piece of work.
fn push_work(
    builder: &mut EventBuilder,
    trace: &PyWorkTrace,
    joined: &JoinedWork,
    meanings: &[Meaning],
    phases: &HashMap<i64, Phase>,
    fields: &DeviceFields,
    steps: &mut HashMap<i64, StepTime>,
) -> assay_trace::Result<()> {
    let work = &trace.trace.works[joined.work];
    let spans = &trace.device().works[joined.spans];
    let phase = work.step.and_then(|step| phases.get(&step).copied());
    for (launch, span) in trace.device().of(spans).iter().enumerate() {
        let Some(&number) = trace.numbers.get(joined.first_name + launch) else {
            continue;
        };
        let (label, operation, kernel) = &trace.names[number];
        let (op, layer, carries) = &meanings[number];
        let node = node_of(work, spans, launch);
        let infos = spans.launches.as_ref();
        let info = infos.and_then(|infos| infos.get(launch));
        let work_kind = node.map_or(work.kind, |node| node.kind);
        let kind = match (info.map(|info| info.kind), work_kind) {
            (Some(LaunchKind::Copy), _) | (None, WorkKind::Copy(_)) => Kind::Memcpy,
            (Some(LaunchKind::Fill), _) | (None, WorkKind::Fill) => Kind::Memset,
            _ => Kind::Kernel,
        };
        // A kernel without a name of its own is called as the operation it computes.
        let name = match (kernel, operation, op) {
            (Some(kernel), ..) => kernel.as_str(),
            (None, Some(operation), Some(_)) => operation,
            _ => label.as_str(),
        };
        let start_ns = span.start_ns as i64 + fields.offset_ns;
        let dur_ns = span.end_ns.saturating_sub(span.start_ns) as i64;
        let counted = *carries || kind != Kind::Kernel;
        let (bytes, flops) = match node {
            Some(node) => (node.bytes, node.flops),
            None => (work.bytes, work.flops),
        };
        builder.push(&Event {
            category: Some(work_kind.name()),
            device: Some(fields.device),
            stream: Some(i64::from(work.stream.0)),
            pid: Some(fields.pid),
            correlation: Some(work.ticket as i64),
            graph: work.graph.as_ref().map(|(graph, _)| graph.0 as i64),
            node: node.map(|_| launch as i64),
            step: work.step,
            phase,
            layer: *layer,
            op: op.as_deref(),
            bytes: counted.then_some(bytes as i64).filter(|bytes| *bytes > 0),
            flops: counted.then_some(flops).filter(|flops| *flops > 0.0),
            grid: info.and_then(|info| info.grid).map(dimensions),
            block: info.and_then(|info| info.block).map(dimensions),
            args: bounds(span),
            ..Event::new(kind, name, start_ns, dur_ns)
        })?;
        if let Some(step) = work.step {
            // The union of the launches: bounds of neighbors overlap.
            let end_ns = start_ns + dur_ns;
            let time = steps.entry(step).or_insert((start_ns, start_ns, 0, 0));
            let added = (end_ns - start_ns.max(time.1)).max(0);
            *time = (time.0.min(start_ns), time.1.max(end_ns), time.2 + added, time.3 + 1);
        }
    }
    Ok(())
}

/// Adds one event for each call that queued work.
fn push_calls(
    builder: &mut EventBuilder,
    trace: &PyWorkTrace,
    phases: &HashMap<i64, Phase>,
    fields: &DeviceFields,
) -> assay_trace::Result<()> {
    for work in &trace.trace.works {
        let name = match work.kind {
            WorkKind::Graph => "launch graph",
            kind => kind.name(),
        };
        builder.push(&Event {
            category: Some(SOURCE),
            pid: Some(fields.pid),
            stream: Some(i64::from(work.stream.0)),
            correlation: Some(work.ticket as i64),
            graph: work.graph.as_ref().map(|(graph, _)| graph.0 as i64),
            step: work.step,
            phase: work.step.and_then(|step| phases.get(&step).copied()),
            ..Event::new(
                Kind::Api,
                name,
                work.queued_ns as i64 + fields.offset_ns,
                work.returned_ns.saturating_sub(work.queued_ns) as i64,
            )
        })?;
    }
    Ok(())
}
