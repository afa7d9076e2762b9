//! Builds the event table, event by event.

use std::sync::Arc;

use crate::columns::{Column, Data, Growing, LongTexts, Texts};
use crate::error::Result;
use crate::schema::{BATCH_ROWS, Kind, Phase};
use crate::table::{Batch, TraceTable};

/// The most bytes of texts of a batch; the offsets of a text column have 31 bits.
const BATCH_BYTES: usize = 1 << 28;

/// One event; what is not known is None.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
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
        Event { kind, name, start_ns, dur_ns, ..Event::default() }
    }
}

/// Collects events as columns.
#[derive(Default)]
pub struct EventBuilder {
    batches: Vec<Batch>,
    kind: Growing<u32>,
    name: Texts,
    category: Texts,
    start_ns: Growing<i64>,
    dur_ns: Growing<i64>,
    rank: Growing<i32>,
    device: Growing<i32>,
    stream: Growing<i64>,
    pid: Growing<i64>,
    tid: Growing<i64>,
    correlation: Growing<i64>,
    external: Growing<i64>,
    graph: Growing<i64>,
    node: Growing<i64>,
    step: Growing<i64>,
    phase: Growing<u32>,
    layer: Growing<i32>,
    op: Texts,
    bytes: Growing<i64>,
    flops: Growing<f64>,
    grid: Growing<[i32; 3]>,
    block: Growing<[i32; 3]>,
    args: LongTexts,
    /// Of the batch that grows.
    rows: usize,
}

impl EventBuilder {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// The events since the last `finish`.
    pub fn rows(&self) -> usize {
        let closed: usize = self.batches.iter().map(Batch::rows).sum();
        closed + self.rows
    }

    /// Adds an event.
    pub fn push(&mut self, event: &Event<'_>) -> Result<()> {
        self.rows += 1;
        self.kind.push(Some(event.kind as u32));
        self.name.push(Some(event.name));
        self.category.push(event.category);
        self.start_ns.push(Some(event.start_ns));
        self.dur_ns.push(Some(event.dur_ns));
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
        self.phase.push(event.phase.map(|phase| phase as u32));
        self.layer.push(event.layer);
        self.op.push(event.op);
        self.bytes.push(event.bytes);
        self.flops.push(event.flops);
        self.grid.push(event.grid);
        self.block.push(event.block);
        self.args.push(event.args);
        let texts = self.name.bytes() + self.category.bytes() + self.args.bytes();
        if self.rows == BATCH_ROWS || texts + self.op.bytes() >= BATCH_BYTES {
            self.close_batch()?;
        }
        Ok(())
    }

    /// The events so far as a table; the builder is empty afterwards.
    pub fn finish(&mut self) -> Result<TraceTable> {
        if self.rows > 0 {
            self.close_batch()?;
        }
        Ok(TraceTable::new(std::mem::take(&mut self.batches)))
    }

    fn close_batch(&mut self) -> Result<()> {
        self.rows = 0;
        let columns = [
            numbered(&mut self.kind, &Kind::ALL.map(Kind::name)),
            self.name.finish(),
            self.category.finish(),
            self.start_ns.finish(Data::Int64),
            self.dur_ns.finish(Data::Int64),
            self.rank.finish(Data::Int32),
            self.device.finish(Data::Int32),
            self.stream.finish(Data::Int64),
            self.pid.finish(Data::Int64),
            self.tid.finish(Data::Int64),
            self.correlation.finish(Data::Int64),
            self.external.finish(Data::Int64),
            self.graph.finish(Data::Int64),
            self.node.finish(Data::Int64),
            self.step.finish(Data::Int64),
            numbered(&mut self.phase, &Phase::ALL.map(Phase::name)),
            self.layer.finish(Data::Int32),
            self.op.finish(),
            self.bytes.finish(Data::Int64),
            self.flops.finish(Data::Float64),
            self.grid.finish(Data::Dimensions),
            self.block.finish(Data::Dimensions),
            self.args.finish(),
        ];
        let columns = columns.map(Arc::new).into();
        self.batches.push(Batch::new(columns)?);
        Ok(())
    }
}

/// A column of texts that are numbered by their place in `texts`.
fn numbered(keys: &mut Growing<u32>, texts: &[&str]) -> Column {
    keys.finish(|keys| Data::Texts(keys, texts.iter().copied().collect()))
}
