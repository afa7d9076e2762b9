//! Pairs the starts and ends of sections.

use std::collections::HashMap;

use super::block::{Half, Options, Repairs};
use super::category;
use crate::builder::{Event, EventBuilder};
use crate::error::Result;

/// The most sections that may be open at once; a trace with more never closes them.
const OPEN_LIMIT: usize = 1 << 18;

/// The sections that are open, and those that were closed.
pub(crate) struct Sections {
    options: Options,
    open: HashMap<(Option<i64>, Option<i64>), Vec<Half>>,
    count: usize,
    pub builder: EventBuilder,
    pub repairs: Repairs,
}

impl Sections {
    pub(crate) fn new(options: &Options) -> Self {
        Sections {
            options: options.clone(),
            open: HashMap::new(),
            count: 0,
            builder: EventBuilder::new(),
            repairs: Repairs::new(),
        }
    }

    fn repair(&mut self, what: &'static str) {
        *self.repairs.entry(what).or_default() += 1;
    }

    /// Opens a section of a thread, or closes its innermost one.
    pub(crate) fn add(&mut self, half: Half) -> Result<()> {
        let thread = self.open.entry((half.pid, half.tid)).or_default();
        if half.begins {
            if self.count == OPEN_LIMIT {
                self.repair("start without an end, taken as 0 long");
                return self.close(&half, half.start_ns, None);
            }
            thread.push(half);
            self.count += 1;
            return Ok(());
        }
        let Some(begin) = thread.pop() else {
            self.repair("end without a start, left out");
            return Ok(());
        };
        self.count -= 1;
        self.close(&begin, half.start_ns, half.args.as_deref())
    }

    /// Closes what is still open.
    pub(crate) fn finish(&mut self) -> Result<()> {
        let mut open: Vec<Half> = self.open.drain().flat_map(|(_, halves)| halves).collect();
        open.sort_by_key(|half| half.start_ns);
        for half in open {
            self.repair("start without an end, taken as 0 long");
            self.close(&half, half.start_ns, None)?;
        }
        self.count = 0;
        Ok(())
    }

    fn close(&mut self, begin: &Half, end_ns: i64, end_args: Option<&str>) -> Result<()> {
        let kind = category::kind(begin.category.as_deref().unwrap_or_default(), &begin.name);
        if !self.options.keeps(kind) {
            return Ok(());
        }
        let dur_ns = end_ns.saturating_sub(begin.start_ns);
        if dur_ns < 0 {
            self.repair("negative duration, taken as 0");
        }
        let args = match (begin.args.as_deref(), end_args) {
            // Both are objects: the end adds its members to those of the start.
            (Some(begin), Some(end)) => Some(format!(
                "{}, {}",
                begin.strip_suffix('}').unwrap_or(begin),
                end.strip_prefix('{').unwrap_or(end)
            )),
            (args, None) | (None, args) => args.map(str::to_owned),
        };
        self.builder.push(&Event {
            category: begin.category.as_deref(),
            pid: begin.pid,
            tid: begin.tid,
            args: args.as_deref(),
            ..begin.numbers.event(kind, &begin.name, begin.start_ns, dur_ns.max(0))
        })
    }
}
