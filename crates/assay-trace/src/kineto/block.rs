//! Reads the events of one block into columns.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::category;
use super::decimal::thousandfold;
use super::event::{self, Members, Numbers, Rest};
use super::scanner::{Quoted, Scanner, Stop};
use super::source::Block;
use crate::builder::{Event, EventBuilder};
use crate::error::Result;
use crate::schema::Kind;
use crate::table::Batch;

/// What was mended, and how often.
pub(crate) type Repairs = BTreeMap<&'static str, u64>;

/// What to take from a file.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether members without a column are kept.
    pub args: bool,
    /// The kinds to keep; all without.
    pub kinds: Option<Vec<Kind>>,
    /// The least bytes that a thread reads at a time. The result does not depend on it.
    pub block_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options { args: true, kinds: None, block_bytes: 8 << 20 }
    }
}

impl Options {
    pub(crate) fn keeps(&self, kind: Kind) -> bool {
        self.kinds.as_ref().is_none_or(|kinds| kinds.contains(&kind))
    }
}

/// How the events of a block end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Where the block ends, behind a comma.
    Comma,
    /// Where the block ends, behind an event.
    Event,
    /// At the bracket of the list; the place behind it.
    Bracket(usize),
    /// Inside an event, which starts at this place.
    Inside(usize),
    /// At text that is not a list of events.
    Wrong(Stop),
}

/// Half of a pair of events: the start of a section, or its end.
pub(crate) struct Half {
    /// Whether it starts the section.
    pub begins: bool,
    pub name: String,
    pub category: Option<String>,
    pub start_ns: i64,
    pub pid: Option<i64>,
    pub tid: Option<i64>,
    pub numbers: Numbers,
    pub args: Option<String>,
}

/// An event that describes a process or thread.
pub(crate) struct Naming {
    /// What it gives: process_name, thread_name, thread_sort_index.
    pub name: String,
    /// All of it, as JSON.
    pub event: String,
}

/// What a block holds.
pub(crate) struct Contents {
    pub batches: Vec<Batch>,
    pub halves: Vec<Half>,
    pub namings: Vec<Naming>,
    /// Arrows from a call to what it started, which the correlation says, too.
    pub flows: u64,
    pub repairs: Repairs,
    pub ending: Ending,
    /// The block as text, with bytes that are no UTF-8 replaced.
    pub text: String,
    pub offset: u64,
}

/// Reads blocks; keeps its buffers from one to the next.
pub(crate) struct Reader {
    options: Options,
    /// Added to all times.
    base_ns: i64,
    /// Of all events that do not say another.
    rank: Option<i32>,
    builder: EventBuilder,
    rest: Rest,
    name: String,
    category: String,
    op: String,
    halves: Vec<Half>,
    namings: Vec<Naming>,
    flows: u64,
    repairs: Repairs,
}

impl Reader {
    pub(crate) fn new(options: &Options, base_ns: i64, rank: Option<i32>) -> Self {
        Reader {
            options: options.clone(),
            base_ns,
            rank,
            builder: EventBuilder::new(),
            rest: Rest::new(options.args),
            name: String::new(),
            category: String::new(),
            op: String::new(),
            halves: Vec::new(),
            namings: Vec::new(),
            flows: 0,
            repairs: Repairs::new(),
        }
    }

    /// The events of a block that starts where an event is due.
    pub(crate) fn read(&mut self, block: Block) -> Result<Contents> {
        let text = match String::from_utf8(block.bytes) {
            Ok(text) => text,
            Err(error) => {
                let bytes = error.into_bytes();
                let wrong = bytes.utf8_chunks().filter(|chunk| !chunk.invalid().is_empty());
                let wrong = wrong.count() as u64;
                self.count("invalid UTF-8", wrong);
                String::from_utf8_lossy(&bytes).into_owned()
            }
        };
        let mut scanner = Scanner::new(&text);
        let mut first = true;
        let ending = loop {
            if let Some(ending) = self.element(&mut scanner, &text, first)? {
                break ending;
            }
            first = false;
        };
        Ok(Contents {
            batches: self.builder.finish()?.into_batches(),
            halves: std::mem::take(&mut self.halves),
            namings: std::mem::take(&mut self.namings),
            flows: std::mem::take(&mut self.flows),
            repairs: std::mem::take(&mut self.repairs),
            ending,
            text,
            offset: block.offset,
        })
    }

    /// One event and what separates it from the next; the ending if there is no next one.
    fn element<'a>(
        &mut self,
        scanner: &mut Scanner<'a>,
        text: &'a str,
        first: bool,
    ) -> Result<Option<Ending>> {
        let start = match scanner.next() {
            Ok(b']') => {
                scanner.step();
                // Some writers leave a comma behind the last event.
                if !first {
                    self.count("comma before the end of the list", 1);
                }
                return Ok(Some(Ending::Bracket(scanner.place())));
            }
            Ok(_) => scanner.place(),
            Err(_) => return Ok(Some(Ending::Comma)),
        };
        let members = match event::read(scanner, &mut self.rest) {
            Ok(members) => members,
            Err(Stop::End) => return Ok(Some(Ending::Inside(start))),
            Err(stop) => return Ok(Some(Ending::Wrong(stop))),
        };
        self.take(&members, &text[start..scanner.place()])?;
        Ok(match scanner.next() {
            Ok(b',') => {
                scanner.step();
                None
            }
            Ok(b']') => {
                scanner.step();
                Some(Ending::Bracket(scanner.place()))
            }
            Ok(_) => Some(Ending::Wrong(scanner.wrong(", or ] behind an event"))),
            Err(_) => Some(Ending::Event),
        })
    }

    fn count(&mut self, what: &'static str, times: u64) {
        *self.repairs.entry(what).or_default() += times;
    }

    /// Sorts an event to where it belongs.
    fn take(&mut self, members: &Members<'_>, text: &str) -> Result<()> {
        let (mut name, mut category) =
            (std::mem::take(&mut self.name), std::mem::take(&mut self.category));
        let mut op = std::mem::take(&mut self.op);
        let taken = self.sort(members, text, &mut name, &mut category, &mut op);
        (self.name, self.category, self.op) = (name, category, op);
        taken
    }

    fn sort(
        &mut self,
        members: &Members<'_>,
        text: &str,
        name: &mut String,
        category: &mut String,
        op: &mut String,
    ) -> Result<()> {
        let name = match members.name {
            Some(quoted) => self.plain(quoted, name),
            None => {
                // The end of a section needs no name.
                if members.phase != "E" {
                    self.count("event without a name", 1);
                }
                Cow::Borrowed("")
            }
        };
        let category = members.category.map(|quoted| self.plain(quoted, category));
        let category = category.as_deref();
        match members.phase {
            "M" => {
                self.namings.push(Naming { name: name.into_owned(), event: text.to_owned() });
                return Ok(());
            }
            "s" | "t" | "f" if category.is_some_and(category::is_redundant_flow) => {
                self.flows += 1;
                return Ok(());
            }
            _ => {}
        }
        let Some(start_ns) = self.start_ns(members) else {
            return Ok(());
        };
        let mut numbers = members.numbers;
        numbers.rank = numbers.rank.or(self.rank);
        let (kind, dur_ns) = match members.phase {
            "X" => {
                let kind = category::kind(category.unwrap_or_default(), &name);
                (members.kind.unwrap_or(kind), self.dur_ns(members))
            }
            "B" | "E" => {
                self.halves.push(Half {
                    begins: members.phase == "B",
                    name: name.into_owned(),
                    category: category.map(str::to_owned),
                    start_ns,
                    pid: members.pid,
                    tid: members.tid,
                    numbers,
                    args: self.rest.object().map(str::to_owned),
                });
                return Ok(());
            }
            phase => {
                if phase.is_empty() {
                    self.count("event without a phase, taken as an instant", 1);
                }
                self.rest.push_outside(&format!("\"ph\": \"{phase}\""));
                if let Some(dur) = members.dur.filter(|dur| thousandfold(dur).is_some()) {
                    self.rest.push_outside(&format!("\"dur\": {dur}"));
                }
                (members.kind.unwrap_or(Kind::Instant), 0)
            }
        };
        if !self.options.keeps(kind) {
            return Ok(());
        }
        let op = members.op.map(|quoted| self.plain(quoted, op));
        self.builder.push(&Event {
            category,
            pid: members.pid,
            tid: members.tid,
            op: op.as_deref(),
            args: self.rest.object(),
            ..numbers.event(kind, &name, start_ns, dur_ns)
        })
    }

    /// A string without its escapes.
    fn plain<'a>(&mut self, quoted: Quoted<'a>, buffer: &'a mut String) -> Cow<'a, str> {
        if !quoted.escaped {
            return Cow::Borrowed(quoted.raw);
        }
        buffer.clear();
        let lone = quoted.unescape(buffer);
        if lone > 0 {
            self.count("lone surrogate in a string", lone);
        }
        Cow::Borrowed(buffer)
    }

    /// When an event starts; None, and counted, where that cannot be said.
    fn start_ns(&mut self, members: &Members<'_>) -> Option<i64> {
        let start = members.ts.and_then(thousandfold);
        let start = start.and_then(|start| start.checked_add(self.base_ns));
        if start.is_none() {
            self.count("event without a usable time, left out", 1);
        }
        start
    }

    /// How long an event takes; 0, and counted, where that cannot be said.
    fn dur_ns(&mut self, members: &Members<'_>) -> i64 {
        let what = match members.dur.map(thousandfold) {
            Some(Some(dur)) if dur >= 0 => return dur,
            Some(Some(_)) => "negative duration, taken as 0",
            Some(None) => "unusable duration, taken as 0",
            None => "missing duration, taken as 0",
        };
        self.count(what, 1);
        0
    }
}
