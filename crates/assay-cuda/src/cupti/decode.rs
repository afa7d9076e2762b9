//! Activity records become events.

use super::api::Cupti;
use super::names::{self, NameCache};
use super::records::{
    Api, ExternalCorrelation, GraphTrace, Kernel, MARKER_END, MARKER_INSTANT, MARKER_START, Marker,
    Memcpy, Memset, OBJECT_THREAD, Overhead, PeerMemcpy, Synchronization, UNKNOWN_TIME, kind,
};
use assay_trace::{Event, EventBuilder, Kind};
use std::collections::HashMap;
use std::ffi::{CStr, c_char};
use std::fmt::Write;

/// Numbers of a framework that wait for their API call; beyond, the oldest are forgotten.
const MOST_EXTERNAL: usize = 1 << 16;

/// What is left of the start of a range until its end comes.
struct OpenRange {
    name: Box<str>,
    domain: Box<str>,
    start: u64,
    thread: Option<i64>,
}

/// What decoding counted.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Records that became events.
    pub events: u64,
    /// Kernels, copies and fills without a start or an end, since they had not ended.
    pub incomplete: u64,
    /// Records of kinds that were not asked for.
    pub unknown: u64,
    /// Records that do not fit into their buffer.
    pub malformed: u64,
    /// Ends of ranges whose start was not recorded.
    pub unopened_ranges: u64,
}

/// Decodes buffers of one process.
#[derive(Default)]
pub(super) struct Decoder {
    names: NameCache,
    /// Framework's numbers by correlation.
    external: HashMap<u32, u64>,
    ranges: HashMap<u32, OpenRange>,
    pub counts: Counts,
    text: String,
    process: i64,
}

impl Decoder {
    pub fn new() -> Self {
        Decoder { process: i64::from(std::process::id()), ..Decoder::default() }
    }

    /// Adds the records of a buffer to the table.
    ///
    /// # Safety
    ///
    /// CUPTI filled the first `valid` bytes of `buffer`, which is aligned to 8 bytes.
    pub unsafe fn buffer(
        &mut self,
        cupti: &Cupti,
        buffer: *mut u8,
        valid: usize,
        events: &mut EventBuilder,
    ) {
        let mut record = std::ptr::null_mut();
        loop {
            // SAFETY: `record` is null or the record before.
            let next = match unsafe { cupti.next_record(buffer, valid, record) } {
                Ok(Some(next)) => next,
                Ok(None) => return,
                Err(_) => {
                    self.counts.malformed += 1;
                    return;
                }
            };
            let offset = (next as usize).wrapping_sub(buffer as usize);
            if next == record || offset >= valid || !offset.is_multiple_of(8) {
                self.counts.malformed += 1;
                return;
            }
            record = next;
            // SAFETY: the record begins inside the buffer, aligned; `room` bytes of it are ours.
            unsafe { self.record(cupti, record, valid - offset, events) };
        }
    }

    /// # Safety
    ///
    /// `record` has `room` readable bytes and is aligned to 8 bytes.
    unsafe fn record(
        &mut self,
        cupti: &Cupti,
        record: *const u8,
        room: usize,
        events: &mut EventBuilder,
    ) {
        /// The record as one of the layouts, or one more that does not fit.
        macro_rules! read {
            ($layout:ty) => {{
                if room < size_of::<$layout>() {
                    self.counts.malformed += 1;
                    return;
                }
                // SAFETY: all of it lies in the buffer; every bit pattern is a value of it.
                unsafe { record.cast::<$layout>().read() }
            }};
        }
        match read!(u32) {
            kind::CONCURRENT_KERNEL | kind::KERNEL => {
                let record = read!(Kernel);
                // SAFETY: CUPTI keeps the names of kernels.
                unsafe { self.kernel(&record, events) };
            }
            kind::MEMCPY => self.memcpy(&read!(Memcpy), events),
            kind::MEMCPY2 => self.peer_memcpy(&read!(PeerMemcpy), events),
            kind::MEMSET => self.memset(&read!(Memset), events),
            kind::DRIVER => self.api(cupti, 1, "cuda_driver", &read!(Api), events),
            kind::RUNTIME => self.api(cupti, 2, "cuda_runtime", &read!(Api), events),
            kind::SYNCHRONIZATION => self.synchronization(&read!(Synchronization), events),
            kind::OVERHEAD => self.overhead(&read!(Overhead), events),
            kind::GRAPH_TRACE => self.graph(&read!(GraphTrace), events),
            kind::MARKER => {
                let record = read!(Marker);
                // SAFETY: CUPTI keeps the texts of markers.
                unsafe { self.marker(&record, events) };
            }
            kind::EXTERNAL_CORRELATION => {
                let record = read!(ExternalCorrelation);
                if self.external.len() >= MOST_EXTERNAL {
                    self.external.clear();
                }
                self.external.insert(record.correlation, record.external);
            }
            _ => self.counts.unknown += 1,
        }
    }

    fn push(&mut self, events: &mut EventBuilder, event: &Event<'_>) {
        match events.push(event) {
            Ok(()) => self.counts.events += 1,
            Err(_) => self.counts.malformed += 1,
        }
    }

    /// Whether the device did this to its end; counts it where not.
    fn is_complete(&mut self, start: u64, end: u64) -> bool {
        let complete = start != UNKNOWN_TIME && end != UNKNOWN_TIME;
        self.counts.incomplete += u64::from(!complete);
        complete
    }

    /// # Safety
    ///
    /// `record.name` is null or a string of CUPTI's.
    unsafe fn kernel(&mut self, record: &Kernel, events: &mut EventBuilder) {
        if !self.is_complete(record.start, record.end) {
            return;
        }
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        let _ = write!(
            text,
            "{{\"context\":{},\"registers\":{},\"static_shared\":{},\"dynamic_shared\":{}",
            record.context, record.registers, record.static_shared, record.dynamic_shared
        );
        if record.cluster != [0; 3] {
            let [x, y, z] = record.cluster;
            let _ = write!(text, ",\"cluster\":[{x},{y},{z}]");
        }
        text.push('}');
        let external = self.external_id(record.correlation);
        let mut names = std::mem::take(&mut self.names);
        // SAFETY: the caller vouches for it.
        let name = unsafe { names.kernel(record.name) };
        let mut event = device_event(Kind::Kernel, name, "kernel", record.start, record.end);
        event.device = small(record.device);
        event.stream = Some(record.stream.into());
        event.pid = Some(self.process);
        event.correlation = Some(record.correlation.into());
        event.external = external;
        (event.graph, event.node) = graph_node(record.graph, record.graph_node);
        event.grid = Some(record.grid);
        event.block = Some(record.block);
        event.args = Some(&text);
        self.push(events, &event);
        self.names = names;
        self.text = text;
    }

    fn memcpy(&mut self, record: &Memcpy, events: &mut EventBuilder) {
        if !self.is_complete(record.start, record.end) {
            return;
        }
        let name = names::memcpy(record.copy_kind, record.source, record.destination);
        let args = format!("{{\"context\":{}}}", record.context);
        let mut event = device_event(Kind::Memcpy, &name, "gpu_memcpy", record.start, record.end);
        event.device = small(record.device);
        event.stream = Some(record.stream.into());
        event.pid = Some(self.process);
        event.correlation = Some(record.correlation.into());
        event.external = self.external_id(record.correlation);
        (event.graph, event.node) = graph_node(record.graph, record.graph_node);
        event.bytes = i64::try_from(record.bytes).ok();
        event.args = Some(&args);
        self.push(events, &event);
    }

    fn peer_memcpy(&mut self, record: &PeerMemcpy, events: &mut EventBuilder) {
        if !self.is_complete(record.start, record.end) {
            return;
        }
        let name = names::memcpy(record.copy_kind, record.source, record.destination);
        let args = format!(
            "{{\"context\":{},\"from_device\":{},\"to_device\":{}}}",
            record.context, record.from[0], record.to[0]
        );
        let mut event = device_event(Kind::Memcpy, &name, "gpu_memcpy", record.start, record.end);
        event.device = small(record.device);
        event.stream = Some(record.stream.into());
        event.pid = Some(self.process);
        event.correlation = Some(record.correlation.into());
        event.external = self.external_id(record.correlation);
        (event.graph, event.node) = graph_node(record.graph, record.graph_node);
        event.bytes = i64::try_from(record.bytes).ok();
        event.args = Some(&args);
        self.push(events, &event);
    }

    fn memset(&mut self, record: &Memset, events: &mut EventBuilder) {
        if !self.is_complete(record.start, record.end) {
            return;
        }
        let name = format!("Memset ({})", names::memory(record.memory));
        let args = format!("{{\"context\":{},\"value\":{}}}", record.context, record.value);
        let mut event = device_event(Kind::Memset, &name, "gpu_memset", record.start, record.end);
        event.device = small(record.device);
        event.stream = Some(record.stream.into());
        event.pid = Some(self.process);
        event.correlation = Some(record.correlation.into());
        event.external = self.external_id(record.correlation);
        (event.graph, event.node) = graph_node(record.graph, record.graph_node);
        event.bytes = i64::try_from(record.bytes).ok();
        event.args = Some(&args);
        self.push(events, &event);
    }

    fn api(
        &mut self,
        cupti: &Cupti,
        domain: u32,
        category: &'static str,
        record: &Api,
        events: &mut EventBuilder,
    ) {
        let args = (record.status != 0).then(|| format!("{{\"status\":{}}}", record.status));
        let external = self.external_id(record.correlation);
        let mut names = std::mem::take(&mut self.names);
        let name = names.function(cupti, domain, record.function);
        let mut event = device_event(Kind::Api, name, category, record.start, record.end);
        event.pid = Some(record.process.into());
        event.tid = Some(record.thread.into());
        event.correlation = Some(record.correlation.into());
        event.external = external;
        event.args = args.as_deref();
        self.push(events, &event);
        self.names = names;
    }

    fn synchronization(&mut self, record: &Synchronization, events: &mut EventBuilder) {
        let name = names::synchronization(record.wait);
        let args = format!("{{\"context\":{}}}", record.context);
        let mut event = device_event(Kind::Sync, name, "cuda_sync", record.start, record.end);
        event.stream = (record.stream != u32::MAX).then_some(record.stream.into());
        event.pid = Some(self.process);
        event.correlation = Some(record.correlation.into());
        event.args = Some(&args);
        self.push(events, &event);
    }

    fn overhead(&mut self, record: &Overhead, events: &mut EventBuilder) {
        let name = names::overhead(record.overhead_kind);
        let mut event = device_event(Kind::Overhead, name, "overhead", record.start, record.end);
        event.pid = Some(self.process);
        if record.object_kind == OBJECT_THREAD {
            event.tid = Some(record.object[1].into());
        }
        self.push(events, &event);
    }

    fn graph(&mut self, record: &GraphTrace, events: &mut EventBuilder) {
        if !self.is_complete(record.start, record.end) {
            return;
        }
        let args = format!("{{\"context\":{}}}", record.context);
        let mut event =
            device_event(Kind::Range, "CUDA graph", "cuda_graph", record.start, record.end);
        event.device = small(record.device);
        event.stream = Some(record.stream.into());
        event.pid = Some(self.process);
        event.correlation = Some(record.correlation.into());
        event.graph = Some(record.graph.into());
        event.args = Some(&args);
        self.push(events, &event);
    }

    /// # Safety
    ///
    /// The texts of the record are null or strings of CUPTI's.
    unsafe fn marker(&mut self, record: &Marker, events: &mut EventBuilder) {
        // SAFETY: the caller vouches for them.
        let (name, domain) = unsafe { (text(record.name), text(record.domain)) };
        let thread = (record.object_kind == OBJECT_THREAD).then_some(record.object[1].into());
        if record.flags & MARKER_INSTANT != 0 {
            self.range(Kind::Instant, &name, &domain, record.timestamp, 0, thread, events);
        } else if record.flags & MARKER_START != 0 {
            let range = OpenRange { name, domain, start: record.timestamp, thread };
            self.ranges.insert(record.id, range);
        } else if record.flags & MARKER_END != 0 {
            let Some(range) = self.ranges.remove(&record.id) else {
                self.counts.unopened_ranges += 1;
                return;
            };
            let duration = record.timestamp.saturating_sub(range.start);
            self.range(
                Kind::Range,
                &range.name,
                &range.domain,
                range.start,
                duration,
                range.thread,
                events,
            );
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn range(
        &mut self,
        kind: Kind,
        name: &str,
        domain: &str,
        start: u64,
        duration: u64,
        thread: Option<i64>,
        events: &mut EventBuilder,
    ) {
        let args = (!domain.is_empty()).then(|| format!("{{\"domain\":{}}}", quoted(domain)));
        let mut event = device_event(kind, name, "nvtx", start, start.saturating_add(duration));
        event.pid = Some(self.process);
        event.tid = thread;
        event.args = args.as_deref();
        self.push(events, &event);
    }

    /// Adds the ranges whose end did not come before `now`, marked as open.
    pub fn close_ranges(&mut self, now: u64, events: &mut EventBuilder) {
        for (_, range) in std::mem::take(&mut self.ranges) {
            let args = format!("{{\"domain\":{},\"open\":true}}", quoted(&range.domain));
            let end = now.max(range.start);
            let mut event = device_event(Kind::Range, &range.name, "nvtx", range.start, end);
            event.pid = Some(self.process);
            event.tid = range.thread;
            event.args = Some(&args);
            self.push(events, &event);
        }
    }

    fn external_id(&self, correlation: u32) -> Option<i64> {
        let external = self.external.get(&correlation)?;
        i64::try_from(*external).ok()
    }
}

/// An event from two times; an end before its start counts as no duration.
fn device_event<'a>(
    kind: Kind,
    name: &'a str,
    category: &'a str,
    start: u64,
    end: u64,
) -> Event<'a> {
    let clamp = |time: u64| i64::try_from(time).unwrap_or(i64::MAX);
    let mut event = Event::new(kind, name, clamp(start), clamp(end.saturating_sub(start)));
    event.category = Some(category);
    event
}

fn small(number: u32) -> Option<i32> {
    i32::try_from(number).ok()
}

/// Graph and node; outside graphs both are 0.
///
/// A node's number has the graph in its upper half; only a 64-bit pattern, it may look negative.
fn graph_node(graph: u32, node: u64) -> (Option<i64>, Option<i64>) {
    if node == 0 {
        return (None, None);
    }
    (Some(graph.into()), Some(node.cast_signed()))
}

/// # Safety
///
/// `pointer` is null or a string that ends with a zero byte.
unsafe fn text(pointer: *const c_char) -> Box<str> {
    if pointer.is_null() {
        return "".into();
    }
    // SAFETY: the caller vouches for it.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into()
}

/// A JSON string.
pub fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            control if control < ' ' => {
                let _ = write!(quoted, "\\u{:04x}", control as u32);
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}
