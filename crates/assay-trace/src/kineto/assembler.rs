//! Puts the blocks of a file together, in order.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use super::block::{Contents, Ending, Naming, Options, Reader};
use super::correlations::Correlations;
use super::head::{Described, error_at, read_head, read_tail};
use super::scanner::escape_controls;
use super::sections::Sections;
use super::source::{Block, Source, VALUE_LIMIT};
use crate::error::{Fault, Result, TraceError};
use crate::schema::{BATCH_ROWS, Kind};
use crate::table::{Batch, TraceTable};

/// Names of processes and threads that are kept; a trace has some hundreds.
const NAMINGS_LIMIT: usize = 100_000;

/// Blocks that are read ahead, in sum over all threads.
const BLOCKS_AHEAD: usize = 4;

/// Called with the bytes read so far and in all; reading stops when it returns false.
pub type Progress<'a> = dyn FnMut(u64, u64) -> bool + 'a;

/// What a file says besides its events, and what was mended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// Members beside the events, their values as JSON, in the order of the file.
    pub described: Vec<(String, String)>,
    /// Names of processes by `pid`, and of threads by `pid/tid`.
    pub processes: BTreeMap<String, String>,
    /// Other events that describe processes and threads, as JSON.
    pub descriptions: Vec<String>,
    /// The nanoseconds that were added to all times.
    pub base_ns: Option<i64>,
    /// The rank of the process.
    pub rank: Option<i32>,
    /// Events by kind: how many, and the nanoseconds they take.
    pub sums: BTreeMap<&'static str, (u64, i64)>,
    /// Arrows from calls to what they started, which are not kept.
    pub flows: u64,
    /// What was mended, and how often.
    pub repairs: BTreeMap<&'static str, u64>,
    /// What the trace lacks, and why.
    pub degradations: Vec<String>,
}

/// What holds for all events, where it is said behind them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Late {
    /// Nanoseconds to add to all times.
    pub base_ns: Option<i64>,
    /// The rank of all events.
    pub rank: Option<i32>,
}

/// Reads a file into memory.
pub fn read(
    path: &Path,
    options: &Options,
    progress: &mut Progress<'_>,
) -> Result<(TraceTable, Facts)> {
    let mut batches = Vec::new();
    let (facts, late) = read_batches(path, options, Late::default(), progress, &mut |batch| {
        batches.push(batch);
        Ok(())
    })?;
    let mut table = TraceTable::new(batches).shifted(late.base_ns.unwrap_or(0));
    if let Some(rank) = late.rank {
        table = table.ranked(rank);
    }
    Ok((table, facts))
}

/// Reads a file batch by batch; holds some blocks of it at a time.
///
/// What the file says of all events behind them comes last. Read again with it as `known`, the
/// batches hold it.
pub fn read_batches(
    path: &Path,
    options: &Options,
    known: Late,
    progress: &mut Progress<'_>,
    sink: &mut dyn FnMut(Batch) -> Result<()>,
) -> Result<(Facts, Late)> {
    assemble(path, options, known, progress, sink).map_err(|error| error.of_file(path))
}

/// What the threads take blocks from.
struct Feed {
    source: Source,
    /// One for each block that may be taken.
    permits: Receiver<()>,
    next: usize,
}

/// What a thread made of a block; None at the end of the file.
struct Delivery {
    number: usize,
    contents: Result<Option<Contents>>,
    taken: u64,
    /// Whether the compressed file is incomplete.
    cut: bool,
}

fn assemble(
    path: &Path,
    options: &Options,
    known: Late,
    progress: &mut Progress<'_>,
    sink: &mut dyn FnMut(Batch) -> Result<()>,
) -> Result<(Facts, Late)> {
    let mut source = Source::open(path, options.block_bytes)?;
    let total = source.total;
    let head = read_head(&mut source)?;
    let base_ns = base_ns(&head.described).or(known.base_ns);
    let rank = rank(&head.described).or(known.rank);
    let new_reader = || Reader::new(options, base_ns.unwrap_or(0), rank);
    let mut assembler = Assembler {
        object: head.object,
        reader: new_reader(),
        part: Part::Events,
        correlations: Correlations::default(),
        sections: Sections::new(options),
        facts: Facts::default(),
        sink,
    };
    assembler.facts.described = head.described;

    let (permit, permits) = channel();
    let (deliver, deliveries) = channel();
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get().min(4));
    for _ in 0..threads + BLOCKS_AHEAD {
        // The receiver is still here.
        let _ = permit.send(());
    }
    let feed = Mutex::new(Feed { source, permits, next: 0 });
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (feed, deliver, mut reader) = (&feed, deliver.clone(), new_reader());
            scope.spawn(move || work(feed, &deliver, &mut reader));
        }
        drop(deliver);
        // Dropped at the end of this closure, so that the threads end, whatever happened.
        let permit = permit;
        let mut early = BTreeMap::new();
        let mut next = 0;
        loop {
            let delivery = match early.remove(&next) {
                Some(delivery) => delivery,
                // Each thread delivers what it took, so only a panic ends the deliveries early.
                None => match deliveries.recv() {
                    Ok(delivery) => delivery,
                    Err(_) => return Ok(()),
                },
            };
            if delivery.number != next {
                early.insert(delivery.number, delivery);
                continue;
            }
            next += 1;
            match delivery.contents? {
                Some(contents) => assembler.add(contents)?,
                None => return assembler.finish(delivery.cut),
            }
            let _ = permit.send(());
            if !progress(delivery.taken, total) {
                return Err(TraceError::interrupted());
            }
        }
    })?;
    let mut facts = assembler.facts;
    let said = (self::base_ns(&facts.described), self::rank(&facts.described));
    let late = Late {
        base_ns: said.0.filter(|_| base_ns.is_none()),
        rank: said.1.filter(|_| rank.is_none()),
    };
    facts.base_ns = said.0;
    facts.rank = rank.or(late.rank);
    Ok((facts, late))
}

/// Takes blocks and delivers what they hold, until there are no more or nobody wants them.
fn work(feed: &Mutex<Feed>, deliver: &Sender<Delivery>, reader: &mut Reader) {
    loop {
        let (number, block, taken, cut) = {
            let mut feed = feed.lock().unwrap_or_else(PoisonError::into_inner);
            if feed.permits.recv().is_err() {
                return;
            }
            let number = feed.next;
            feed.next += 1;
            let block = feed.source.block();
            (number, block, feed.source.taken(), feed.source.cut)
        };
        let last = !matches!(block, Ok(Some(_)));
        let read = |block: Option<Block>| block.map(|block| reader.read(block)).transpose();
        let delivery = Delivery { number, contents: block.and_then(read), taken, cut };
        if deliver.send(delivery).is_err() || last {
            return;
        }
    }
}

/// Where in the file the assembler is.
enum Part {
    /// In the list of events, where one is due.
    Events,
    /// Inside an event that starts at this place.
    Inside(u64, String),
    /// Behind the list of events, from this place.
    Tail(u64, String),
}

struct Assembler<'a> {
    object: bool,
    /// Reads again what a cut went through.
    reader: Reader,
    part: Part,
    correlations: Correlations,
    sections: Sections,
    facts: Facts,
    sink: &'a mut dyn FnMut(Batch) -> Result<()>,
}

impl Assembler<'_> {
    /// Adds the next block.
    fn add(&mut self, contents: Contents) -> Result<()> {
        match std::mem::replace(&mut self.part, Part::Events) {
            Part::Events => self.take(contents),
            Part::Inside(offset, mut text) => {
                too_long(offset, &text)?;
                text.push_str(&contents.text);
                let bytes = text.into_bytes();
                let contents = self.reader.read(Block { offset, bytes })?;
                self.take(contents)
            }
            Part::Tail(offset, mut text) => {
                too_long(offset, &text)?;
                text.push_str(&contents.text);
                self.part = Part::Tail(offset, text);
                Ok(())
            }
        }
    }

    /// Takes what a block holds that starts where an event is due.
    fn take(&mut self, contents: Contents) -> Result<()> {
        for batch in contents.batches {
            self.emit(batch)?;
        }
        for half in contents.halves {
            self.sections.add(half)?;
        }
        if self.sections.builder.rows() >= BATCH_ROWS {
            self.emit_sections()?;
        }
        for naming in contents.namings {
            self.name(naming);
        }
        self.facts.flows += contents.flows;
        for (what, times) in contents.repairs {
            *self.facts.repairs.entry(what).or_default() += times;
        }
        let (text, offset) = (contents.text, contents.offset);
        let behind = |place: usize| (offset + place as u64, text[place..].to_owned());
        self.part = match contents.ending {
            Ending::Comma | Ending::Event => Part::Events,
            Ending::Bracket(place) => {
                let (offset, text) = behind(place);
                Part::Tail(offset, text)
            }
            Ending::Inside(place) => {
                let (offset, text) = behind(place);
                Part::Inside(offset, text)
            }
            Ending::Wrong(stop) => return Err(error_at(stop, &text, offset)),
        };
        Ok(())
    }

    fn emit(&mut self, batch: Batch) -> Result<()> {
        let repeated = self.correlations.add(&batch);
        if repeated > 0 {
            let what = "call with the correlation of another, kept";
            *self.facts.repairs.entry(what).or_default() += repeated;
        }
        let mut sums = [(0_u64, 0_i64); Kind::ALL.len()];
        for (&kind, &duration) in batch.keys("kind").iter().zip(batch.integers("dur_ns")) {
            let (count, sum) = &mut sums[kind as usize];
            *count += 1;
            *sum = sum.saturating_add(duration);
        }
        for (kind, (count, sum)) in Kind::ALL.into_iter().zip(sums) {
            if count > 0 {
                let all = self.facts.sums.entry(kind.name()).or_default();
                *all = (all.0 + count, all.1.saturating_add(sum));
            }
        }
        (self.sink)(batch)
    }

    fn emit_sections(&mut self) -> Result<()> {
        for batch in self.sections.builder.finish()?.into_batches() {
            self.emit(batch)?;
        }
        Ok(())
    }

    /// Keeps what an event says of a process or thread.
    fn name(&mut self, naming: Naming) {
        if self.facts.processes.len() + self.facts.descriptions.len() >= NAMINGS_LIMIT {
            let what = "description of a process beyond 100,000, left out";
            *self.facts.repairs.entry(what).or_default() += 1;
            return;
        }
        let event: Value = serde_json::from_str(&naming.event).unwrap_or_default();
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let key = match naming.name.as_str() {
            "process_name" => text(&event["pid"]),
            "thread_name" => format!("{}/{}", text(&event["pid"]), text(&event["tid"])),
            _ => String::new(),
        };
        match &event["args"]["name"] {
            Value::String(name) if !key.is_empty() => {
                self.facts.processes.insert(key, name.clone());
            }
            _ => {
                let mut clean = String::with_capacity(naming.event.len());
                escape_controls(&naming.event, &mut clean);
                self.facts.descriptions.push(clean);
            }
        }
    }

    /// The end of the file.
    fn finish(&mut self, cut: bool) -> Result<()> {
        self.sections.finish()?;
        self.emit_sections()?;
        for (what, times) in std::mem::take(&mut self.sections.repairs) {
            *self.facts.repairs.entry(what).or_default() += times;
        }
        let (left, place) = match std::mem::replace(&mut self.part, Part::Events) {
            // A list needs no bracket at its end, as a program that is killed cannot write it.
            Part::Events => (0, (self.object || cut).then_some("its list of events")),
            Part::Inside(_, text) => (text.len(), Some("an event")),
            Part::Tail(offset, text) => match read_tail(&text, offset, self.object)? {
                Some(described) => {
                    self.facts.described.extend(described);
                    (0, cut.then_some("the last compressed block"))
                }
                None => (text.len(), Some("what is behind its events")),
            },
        };
        if let Some(place) = place {
            *self.facts.repairs.entry("file cut off").or_default() += 1;
            self.facts
                .degradations
                .push(format!("the file ends inside {place}: the last {left} bytes are left out"));
        }
        Ok(())
    }
}

fn too_long(offset: u64, text: &str) -> Result<()> {
    if text.len() <= VALUE_LIMIT {
        return Ok(());
    }
    let got = format!("{} bytes without an end", text.len());
    Err(TraceError::at(Fault::Limit, offset, "values of at most 64 MiB", got))
}

/// The nanoseconds of the clock at time 0 of the file.
fn base_ns(described: &Described) -> Option<i64> {
    let member = described.iter().rev().find(|(name, _)| name == "baseTimeNanoseconds");
    member.and_then(|(_, value)| value.parse().ok())
}

/// The rank of the process in a distributed run.
fn rank(described: &Described) -> Option<i32> {
    let member = described.iter().rev().find(|(name, _)| name == "distributedInfo");
    let info: Value = serde_json::from_str(&member?.1).ok()?;
    info["rank"].as_i64()?.try_into().ok()
}
