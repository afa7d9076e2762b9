//! Builds the event table, event by event.

use std::sync::Arc;

use arrow_array::types::{Float64Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type};
use arrow_array::{ArrayRef, DictionaryArray, RecordBatch, StringArray, UInt8Array};
use arrow_buffer::ScalarBuffer;
use arrow_schema::SchemaRef;

use crate::columns::{Dimensions, LongTexts, Numbers, Texts};
use crate::error::Result;
use crate::schema::{self, BATCH_ROWS, Kind, PHASES, Phase};
use crate::table::TraceTable;

/// The most bytes of texts of a batch; the offsets of a text column have 31 bits.
const BATCH_BYTES: usize = 1 << 28;

/// One event; what is not known is None.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event<'a> {
    /// What it is.
    pub kind: Kind,
    /// The name of the kernel, function or range.
    pub name: &'a str,
    /// As the source calls its kind.
    pub category: Option<&'a str>,
    /// Absolute nanoseconds on the clock of the trace.
    pub start_ns: i64,
    /// Its duration in nanoseconds.
    pub dur_ns: i64,
    /// The rank of the process in a distributed run.
    pub rank: Option<i32>,
    /// The number of the device.
    pub device: Option<i32>,
    /// The stream on the device.
    pub stream: Option<i64>,
    /// The process.
    pub pid: Option<i64>,
    /// The thread.
    pub tid: Option<i64>,
    /// Joins an API call with what it started on the device.
    pub correlation: Option<i64>,
    /// Joins a framework's operation with the API calls inside.
    pub external: Option<i64>,
    /// The CUDA graph.
    pub graph: Option<i64>,
    /// The node of the CUDA graph.
    pub node: Option<i64>,
    /// The step of the engine.
    pub step: Option<i64>,
    /// The phase of the step.
    pub phase: Option<Phase>,
    /// The layer of the model.
    pub layer: Option<i32>,
    /// The operation of the model's graph.
    pub op: Option<&'a str>,
    /// Bytes copied, filled or moved.
    pub bytes: Option<i64>,
    /// Floating-point operations.
    pub flops: Option<f64>,
    /// Thread blocks of the launch.
    pub grid: Option<[i32; 3]>,
    /// Threads of a thread block.
    pub block: Option<[i32; 3]>,
    /// A JSON object of what the source says besides.
    pub args: Option<&'a str>,
}

impl<'a> Event<'a> {
    /// An event of which only this is known.
    pub fn new(kind: Kind, name: &'a str, start_ns: i64, dur_ns: i64) -> Self {
        Event {
            kind,
            name,
            category: None,
            start_ns,
            dur_ns,
            rank: None,
            device: None,
            stream: None,
            pid: None,
            tid: None,
            correlation: None,
            external: None,
            graph: None,
            node: None,
            step: None,
            phase: None,
            layer: None,
            op: None,
            bytes: None,
            flops: None,
            grid: None,
            block: None,
            args: None,
        }
    }
}

/// Collects events as Arrow columns.
pub struct EventBuilder {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    kind: Vec<u8>,
    name: Texts<UInt32Type>,
    category: Texts<UInt16Type>,
    start_ns: Vec<i64>,
    dur_ns: Vec<i64>,
    rank: Numbers<Int32Type>,
    device: Numbers<Int32Type>,
    stream: Numbers<Int64Type>,
    pid: Numbers<Int64Type>,
    tid: Numbers<Int64Type>,
    correlation: Numbers<Int64Type>,
    external: Numbers<Int64Type>,
    graph: Numbers<Int64Type>,
    node: Numbers<Int64Type>,
    step: Numbers<Int64Type>,
    phase: Numbers<UInt8Type>,
    layer: Numbers<Int32Type>,
    op: Texts<UInt16Type>,
    bytes: Numbers<Int64Type>,
    flops: Numbers<Float64Type>,
    grid: Dimensions,
    block: Dimensions,
    args: LongTexts,
}

impl Default for EventBuilder {
    fn default() -> Self {
        EventBuilder {
            schema: Arc::new(schema::events()),
            batches: Vec::new(),
            kind: Vec::new(),
            name: Texts::default(),
            category: Texts::default(),
            start_ns: Vec::new(),
            dur_ns: Vec::new(),
            rank: Numbers::default(),
            device: Numbers::default(),
            stream: Numbers::default(),
            pid: Numbers::default(),
            tid: Numbers::default(),
            correlation: Numbers::default(),
            external: Numbers::default(),
            graph: Numbers::default(),
            node: Numbers::default(),
            step: Numbers::default(),
            phase: Numbers::default(),
            layer: Numbers::default(),
            op: Texts::default(),
            bytes: Numbers::default(),
            flops: Numbers::default(),
            grid: Dimensions::default(),
            block: Dimensions::default(),
            args: LongTexts::default(),
        }
    }
}

impl EventBuilder {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// The events since the last `finish`.
    pub fn rows(&self) -> usize {
        let closed: usize = self.batches.iter().map(RecordBatch::num_rows).sum();
        closed + self.kind.len()
    }

    /// Adds an event.
    pub fn push(&mut self, event: &Event<'_>) -> Result<()> {
        self.kind.push(event.kind as u8);
        self.name.push(Some(event.name));
        self.category.push(event.category);
        self.start_ns.push(event.start_ns);
        self.dur_ns.push(event.dur_ns);
        self.rank.push(event.rank);
        self.device.push(event.device);
        self.stream.push(event.stream);
        self.pid.push(event.pid);
        self.tid.push(event.tid);
        self.correlation.push(event.correlation);
        self.external.push(event.external);
        self.graph.push(event.graph);
        self.node.push(event.node);
        self.step.push(event.step);
        self.phase.push(event.phase.map(|phase| phase as u8));
        self.layer.push(event.layer);
        self.op.push(event.op);
        self.bytes.push(event.bytes);
        self.flops.push(event.flops);
        self.grid.push(event.grid);
        self.block.push(event.block);
        self.args.push(event.args);
        let texts = self.name.bytes() + self.category.bytes() + self.args.bytes();
        if self.kind.len() == BATCH_ROWS || texts + self.op.bytes() >= BATCH_BYTES {
            self.close_batch()?;
        }
        Ok(())
    }

    /// The events so far as a table; the builder is empty afterwards.
    pub fn finish(&mut self) -> Result<TraceTable> {
        if !self.kind.is_empty() {
            self.close_batch()?;
        }
        TraceTable::new(Arc::clone(&self.schema), std::mem::take(&mut self.batches))
    }

    fn close_batch(&mut self) -> Result<()> {
        let rows = self.kind.len();
        let integers = |values: &mut Vec<i64>| {
            let values = std::mem::replace(values, Vec::with_capacity(rows));
            let array = arrow_array::Int64Array::new(ScalarBuffer::from(values), None);
            Arc::new(array) as ArrayRef
        };
        let kinds = std::mem::replace(&mut self.kind, Vec::with_capacity(rows));
        let kinds = UInt8Array::new(ScalarBuffer::from(kinds), None);
        let columns: Vec<ArrayRef> = vec![
            numbered(kinds, &Kind::ALL.map(Kind::name))?,
            self.name.finish()?,
            self.category.finish()?,
            integers(&mut self.start_ns),
            integers(&mut self.dur_ns),
            Arc::new(self.rank.finish()),
            Arc::new(self.device.finish()),
            Arc::new(self.stream.finish()),
            Arc::new(self.pid.finish()),
            Arc::new(self.tid.finish()),
            Arc::new(self.correlation.finish()),
            Arc::new(self.external.finish()),
            Arc::new(self.graph.finish()),
            Arc::new(self.node.finish()),
            Arc::new(self.step.finish()),
            numbered(self.phase.finish(), &PHASES)?,
            Arc::new(self.layer.finish()),
            self.op.finish()?,
            Arc::new(self.bytes.finish()),
            Arc::new(self.flops.finish()),
            self.grid.finish()?,
            self.block.finish()?,
            self.args.finish()?,
        ];
        self.batches
            .push(RecordBatch::try_new(Arc::clone(&self.schema), columns)?);
        Ok(())
    }
}

/// A column of texts that are numbered by their place in `texts`.
fn numbered(keys: UInt8Array, texts: &[&str]) -> Result<ArrayRef> {
    let values = Arc::new(StringArray::from(texts.to_vec()));
    Ok(Arc::new(DictionaryArray::<UInt8Type>::try_new(
        keys, values,
    )?))
}
