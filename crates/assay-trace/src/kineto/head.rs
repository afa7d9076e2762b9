//! What a trace file says beside its events.

use super::scanner::{Scan, Scanner, Stop};
use super::source::Source;
use crate::error::{Fault, Result, TraceError};

/// The member that lists the events.
const EVENTS: &str = "traceEvents";

/// Members by name, their values as JSON.
pub(crate) type Described = Vec<(String, String)>;

/// The part of a file before its events.
pub(crate) struct Head {
    /// Whether the file is an object; else it is a list of events.
    pub object: bool,
    pub described: Described,
}

/// Reads up to the first event, and leaves the source there.
pub(crate) fn read_head(source: &mut Source) -> Result<Head> {
    loop {
        let grown = source.extend_head()?;
        let bytes = source.head();
        // What was read may end inside a character, or reach events, which are mended later.
        let (text, whole) = match std::str::from_utf8(bytes) {
            Ok(text) => (text, true),
            Err(error) => {
                let valid = &bytes[..error.valid_up_to()];
                let whole = error.error_len().is_none();
                (std::str::from_utf8(valid).unwrap_or_default(), whole)
            }
        };
        match scan_head(text) {
            Ok((head, place)) => {
                source.skip(place);
                return Ok(head);
            }
            Err(Stop::End) if !whole => {
                let place = text.len() as u64;
                return Err(TraceError::at(Fault::Json, place, "UTF-8 text", "other bytes"));
            }
            Err(Stop::End) if grown => {}
            Err(Stop::End) => {
                let got = match text.trim() {
                    "" => "nothing",
                    _ => "a file that ends before",
                };
                let place = text.len() as u64;
                return Err(TraceError::at(Fault::Truncated, place, "a list of events", got));
            }
            Err(stop) => return Err(error_at(stop, text, 0)),
        }
    }
}

/// The head of a text, and the place of its first event.
fn scan_head(text: &str) -> Scan<(Head, usize)> {
    let mut scanner = Scanner::new(text);
    if text.starts_with('\u{feff}') {
        (0..3).for_each(|_| scanner.step());
    }
    let mut head = Head { object: false, described: Vec::new() };
    match scanner.next()? {
        b'[' => {
            scanner.step();
            return Ok((head, scanner.place()));
        }
        b'{' => scanner.step(),
        _ => return Err(scanner.wrong("a trace: { or [")),
    }
    head.object = true;
    loop {
        if scanner.next()? == b'}' {
            return Err(scanner.wrong("a member \"traceEvents\""));
        }
        let key = scanner.string("a key in quotes")?;
        scanner.expect(b':', ":")?;
        if key.raw == EVENTS {
            scanner.expect(b'[', "[ of the list of events")?;
            return Ok((head, scanner.place()));
        }
        head.described.push(member(&mut scanner, key)?);
        match scanner.next()? {
            b',' => scanner.step(),
            b'}' => {}
            _ => return Err(scanner.wrong(", or }")),
        }
    }
}

fn member<'a>(
    scanner: &mut Scanner<'a>,
    key: super::scanner::Quoted<'a>,
) -> Scan<(String, String)> {
    let mut name = String::new();
    // A lone surrogate in a name of the file's own fields changes no event.
    let _ = key.unescape(&mut name);
    Ok((name, scanner.value()?.to_owned()))
}

/// The members behind the events; None if the text ends before they do.
pub(crate) fn read_tail(text: &str, offset: u64, object: bool) -> Result<Option<Described>> {
    let mut scanner = Scanner::new(text);
    match scan_tail(&mut scanner, object) {
        Ok(described) => Ok(Some(described)),
        Err(Stop::End) => Ok(None),
        Err(stop) => Err(error_at(stop, text, offset)),
    }
}

fn scan_tail(scanner: &mut Scanner<'_>, object: bool) -> Scan<Described> {
    let described = if object { scan_members(scanner)? } else { Vec::new() };
    match scanner.next() {
        Ok(_) => Err(scanner.wrong("the end of the file")),
        Err(_) => Ok(described),
    }
}

/// The members up to the brace that ends the file's object.
fn scan_members(scanner: &mut Scanner<'_>) -> Scan<Described> {
    let mut described = Vec::new();
    loop {
        match scanner.next()? {
            b',' => {
                scanner.step();
                let key = scanner.string("a key in quotes")?;
                if key.raw == EVENTS {
                    return Err(scanner.wrong("one list of events"));
                }
                scanner.expect(b':', ":")?;
                described.push(member(scanner, key)?);
            }
            b'}' => {
                scanner.step();
                return Ok(described);
            }
            _ => return Err(scanner.wrong(", or }")),
        }
    }
}

/// An error of a text that starts at `offset` of the file.
pub(crate) fn error_at(stop: Stop, text: &str, offset: u64) -> TraceError {
    let (place, fault, expected) = match stop {
        Stop::End => (text.len(), Fault::Truncated, "more"),
        Stop::Wrong { place, expected } => (place, Fault::Json, expected),
        Stop::Deep(place) => (place, Fault::Limit, "at most 1,024 nested values"),
    };
    let got = text.get(place..).unwrap_or_default();
    let got: String = got.chars().take(24).collect();
    let got = if got.is_empty() { "the end".to_owned() } else { format!("{got:?}") };
    TraceError::at(fault, offset + place as u64, expected, got)
}
