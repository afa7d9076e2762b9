//! One event of a Chrome trace, its members sorted into columns and the rest.

use super::decimal;
use super::scanner::{Quoted, Scan, Scanner, escape_controls};
use crate::builder::Event;
use crate::schema::{Kind, Phase};

/// The member of `args` that holds what the event says outside its own args.
pub(crate) const OUTSIDE: &str = "@event";

/// The numbers of an event that have columns.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Numbers {
    pub rank: Option<i32>,
    pub device: Option<i32>,
    pub stream: Option<i64>,
    pub correlation: Option<i64>,
    pub external: Option<i64>,
    pub graph: Option<i64>,
    pub node: Option<i64>,
    pub step: Option<i64>,
    pub phase: Option<Phase>,
    pub layer: Option<i32>,
    pub bytes: Option<i64>,
    pub flops: Option<f64>,
    pub grid: Option<[i32; 3]>,
    pub block: Option<[i32; 3]>,
}

impl Numbers {
    /// An event with these numbers.
    pub(crate) fn event<'a>(
        &self,
        kind: Kind,
        name: &'a str,
        start_ns: i64,
        dur_ns: i64,
    ) -> Event<'a> {
        Event {
            rank: self.rank,
            device: self.device,
            stream: self.stream,
            correlation: self.correlation,
            external: self.external,
            graph: self.graph,
            node: self.node,
            step: self.step,
            phase: self.phase,
            layer: self.layer,
            bytes: self.bytes,
            flops: self.flops,
            grid: self.grid,
            block: self.block,
            ..Event::new(kind, name, start_ns, dur_ns)
        }
    }
}

/// The members of an event that have columns.
#[derive(Default)]
pub(crate) struct Members<'a> {
    /// Its phase: X, B, E, M, i ...; empty if there is none.
    pub phase: &'a str,
    pub name: Option<Quoted<'a>>,
    pub category: Option<Quoted<'a>>,
    pub ts: Option<&'a str>,
    pub dur: Option<&'a str>,
    pub pid: Option<i64>,
    pub tid: Option<i64>,
    pub op: Option<Quoted<'a>>,
    pub numbers: Numbers,
    /// What our own exporter says of the kind.
    pub kind: Option<Kind>,
}

/// The members of an event that have no column, as JSON.
pub(crate) struct Rest {
    /// Whether they are kept at all.
    keep: bool,
    /// Members of args, without braces.
    args: String,
    /// Members beside args, without braces.
    outside: String,
    /// The object that is stored.
    object: String,
}

impl Rest {
    /// None so far.
    pub(crate) fn new(keep: bool) -> Self {
        Rest { keep, args: String::new(), outside: String::new(), object: String::new() }
    }

    fn clear(&mut self) {
        self.args.clear();
        self.outside.clear();
    }

    /// Keeps a member beside args.
    pub(crate) fn push_outside(&mut self, member: &str) {
        if self.keep {
            push_member(&mut self.outside, member);
        }
    }

    /// The object for the column, or None if there is nothing to say.
    pub(crate) fn object(&mut self) -> Option<&str> {
        if self.args.is_empty() && self.outside.is_empty() {
            return None;
        }
        self.object.clear();
        self.object.push('{');
        self.object.push_str(&self.args);
        if !self.outside.is_empty() {
            if !self.args.is_empty() {
                self.object.push_str(", ");
            }
            self.object.push('"');
            self.object.push_str(OUTSIDE);
            self.object.push_str("\": {");
            self.object.push_str(&self.outside);
            self.object.push('}');
        }
        self.object.push('}');
        Some(&self.object)
    }
}

fn push_member(out: &mut String, member: &str) {
    if !out.is_empty() {
        out.push_str(", ");
    }
    // Line breaks between values, or in strings against the rules of JSON.
    if member.bytes().any(|byte| byte < b' ') {
        escape_controls(member, out);
    } else {
        out.push_str(member);
    }
}

/// Reads the object of an event, of which the brace comes next.
pub(crate) fn read<'a>(scanner: &mut Scanner<'a>, rest: &mut Rest) -> Scan<Members<'a>> {
    let mut members = Members::default();
    rest.clear();
    scanner.expect(b'{', "{ of an event")?;
    if scanner.next()? == b'}' {
        scanner.step();
        return Ok(members);
    }
    loop {
        scanner.next()?;
        let start = scanner.place();
        let key = scanner.string("a key in quotes")?;
        scanner.expect(b':', ":")?;
        let taken = match (key.raw, scanner.next()?) {
            ("ph", b'"') => {
                members.phase = scanner.string("a phase")?.raw;
                true
            }
            ("name", b'"') => {
                members.name = Some(scanner.string("a name")?);
                true
            }
            ("cat", b'"') => {
                members.category = Some(scanner.string("a category")?);
                true
            }
            ("ts", b'0'..=b'9' | b'-' | b'N' | b'I') => {
                members.ts = Some(scanner.scalar()?);
                true
            }
            ("dur", b'0'..=b'9' | b'-' | b'N' | b'I') => {
                members.dur = Some(scanner.scalar()?);
                true
            }
            // Numbers in quotes are against the format, but meant.
            ("ts", b'"') => {
                members.ts = Some(scanner.string("a time")?.raw.trim());
                true
            }
            ("dur", b'"') => {
                members.dur = Some(scanner.string("a duration")?.raw.trim());
                true
            }
            ("pid", _) => integer(scanner, &mut members.pid)?,
            ("tid", _) => integer(scanner, &mut members.tid)?,
            ("args", b'{') => {
                read_args(scanner, &mut members, rest)?;
                true
            }
            _ => {
                scanner.value()?;
                false
            }
        };
        if !taken {
            rest.push_outside(scanner.since(start));
        }
        match scanner.next()? {
            b',' => scanner.step(),
            b'}' => {
                scanner.step();
                return Ok(members);
            }
            _ => return Err(scanner.wrong(", or } of an event")),
        }
    }
}

fn read_args<'a>(
    scanner: &mut Scanner<'a>,
    members: &mut Members<'a>,
    rest: &mut Rest,
) -> Scan<()> {
    scanner.step();
    if scanner.next()? == b'}' {
        scanner.step();
        return Ok(());
    }
    loop {
        scanner.next()?;
        let start = scanner.place();
        let key = scanner.string("a key in quotes")?;
        scanner.expect(b':', ":")?;
        let taken = match key.raw {
            "External id" => integer(scanner, &mut members.numbers.external)?,
            "correlation" => integer(scanner, &mut members.numbers.correlation)?,
            "device" => narrow(scanner, &mut members.numbers.device)?,
            "stream" => integer(scanner, &mut members.numbers.stream)?,
            "bytes" => integer(scanner, &mut members.numbers.bytes)?,
            "grid" => dimensions(scanner, &mut members.numbers.grid)?,
            "block" => dimensions(scanner, &mut members.numbers.block)?,
            "graph id" => integer(scanner, &mut members.numbers.graph)?,
            "graph node id" => integer(scanner, &mut members.numbers.node)?,
            "assay.rank" => narrow(scanner, &mut members.numbers.rank)?,
            "assay.step" => integer(scanner, &mut members.numbers.step)?,
            "assay.layer" => narrow(scanner, &mut members.numbers.layer)?,
            "assay.flops" => {
                let number = scanner.value()?.parse().ok();
                members.numbers.flops = number.or(members.numbers.flops);
                number.is_some()
            }
            "assay.op" => {
                let text = string_value(scanner)?;
                members.op = text.or(members.op);
                text.is_some()
            }
            "assay.phase" => {
                let phase = string_value(scanner)?.and_then(|text| Phase::of_name(text.raw));
                members.numbers.phase = phase.or(members.numbers.phase);
                phase.is_some()
            }
            "assay.kind" => {
                let kind = string_value(scanner)?.and_then(|text| Kind::of_name(text.raw));
                members.kind = kind.or(members.kind);
                kind.is_some()
            }
            _ => {
                scanner.value()?;
                false
            }
        };
        if !taken && rest.keep {
            push_member(&mut rest.args, scanner.since(start));
        }
        match scanner.next()? {
            b',' => scanner.step(),
            b'}' => {
                scanner.step();
                return Ok(());
            }
            _ => return Err(scanner.wrong(", or } of args")),
        }
    }
}

/// Whether the value is an integer of 64 bits, which goes into the column.
fn integer(scanner: &mut Scanner<'_>, column: &mut Option<i64>) -> Scan<bool> {
    let number = decimal::integer(scanner.value()?);
    *column = number.or(*column);
    Ok(number.is_some())
}

/// Whether the value is an integer of 32 bits, which goes into the column.
fn narrow(scanner: &mut Scanner<'_>, column: &mut Option<i32>) -> Scan<bool> {
    let number = decimal::integer(scanner.value()?).and_then(|number| number.try_into().ok());
    *column = number.or(*column);
    Ok(number.is_some())
}

/// Whether the value is a list of three integers, which go into the column.
fn dimensions(scanner: &mut Scanner<'_>, column: &mut Option<[i32; 3]>) -> Scan<bool> {
    let list = scanner.value()?;
    let Some(list) = list.strip_prefix('[').and_then(|list| list.strip_suffix(']')) else {
        return Ok(false);
    };
    let mut sizes = [0; 3];
    let mut words = list.split(',');
    for size in &mut sizes {
        let number = words.next().and_then(|word| decimal::integer(word.trim()));
        match number.and_then(|number| number.try_into().ok()) {
            Some(number) => *size = number,
            None => return Ok(false),
        }
    }
    if words.next().is_some() {
        return Ok(false);
    }
    *column = Some(sizes);
    Ok(true)
}

/// The value if it is a string.
fn string_value<'a>(scanner: &mut Scanner<'a>) -> Scan<Option<Quoted<'a>>> {
    if scanner.next()? == b'"' {
        return scanner.string("a string").map(Some);
    }
    scanner.value()?;
    Ok(None)
}
