//! The bytes of a trace file, plain or compressed, in blocks that end between events.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use memchr::memrchr;

use crate::error::{Fault, Result, TraceError};

/// No event, and nothing beside the events, may be longer.
pub(crate) const VALUE_LIMIT: usize = 64 << 20;

/// Counts what is taken from the file, for progress.
struct Counted {
    file: File,
    bytes: u64,
}

impl Read for Counted {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let count = self.file.read(into)?;
        self.bytes += count as u64;
        Ok(count)
    }
}

enum Stream {
    Plain(Counted),
    Compressed(Box<MultiGzDecoder<BufReader<Counted>>>),
}

impl Stream {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Stream::Plain(file) => file.read(into),
            Stream::Compressed(decoder) => decoder.read(into),
        }
    }

    fn taken(&self) -> u64 {
        match self {
            Stream::Plain(file) => file.bytes,
            Stream::Compressed(decoder) => decoder.get_ref().get_ref().bytes,
        }
    }
}

/// Bytes of the file, of which the first is at `offset`.
#[derive(Default)]
pub(crate) struct Block {
    pub offset: u64,
    pub bytes: Vec<u8>,
}

/// A file that is read from its start to its end.
pub(crate) struct Source {
    stream: Stream,
    /// The least bytes of a block, except the last.
    block_bytes: usize,
    /// Bytes behind the last cut.
    carry: Vec<u8>,
    /// The place of the carry in the inflated file.
    offset: u64,
    ended: bool,
    /// Whether a compressed file ends before its last block does.
    pub cut: bool,
    /// Bytes of the file.
    pub total: u64,
}

impl Source {
    /// Opens a file; a compressed one is known by its first two bytes.
    pub(crate) fn open(path: &Path, block_bytes: usize) -> Result<Self> {
        let mut file = File::open(path)?;
        let total = file.metadata()?.len();
        let mut magic = [0; 2];
        let count = file.read(&mut magic)?;
        // Opened anew, not rewound: a pipe cannot be.
        let compressed = magic == [0x1f, 0x8b] && count == 2;
        let (carry, file) = if compressed {
            (Vec::new(), File::open(path)?)
        } else {
            (magic[..count].to_vec(), file)
        };
        let counted = Counted { file, bytes: 0 };
        let stream = if compressed {
            let buffered = BufReader::with_capacity(1 << 18, counted);
            Stream::Compressed(Box::new(MultiGzDecoder::new(buffered)))
        } else {
            Stream::Plain(counted)
        };
        Ok(Source {
            stream,
            block_bytes: block_bytes.max(1),
            carry,
            offset: 0,
            ended: false,
            cut: false,
            total,
        })
    }

    /// Bytes taken from the file so far.
    pub(crate) fn taken(&self) -> u64 {
        self.stream.taken()
    }

    /// Adds up to `count` bytes to the carry; false at the end of the file.
    fn more(&mut self, count: usize) -> Result<bool> {
        let start = self.carry.len();
        self.carry.resize(start + count, 0);
        let mut end = start;
        while end < self.carry.len() && !self.ended {
            match self.stream.read(&mut self.carry[end..]) {
                Ok(0) => self.ended = true,
                Ok(count) => end += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => match (&self.stream, error.kind()) {
                    (Stream::Compressed(_), ErrorKind::UnexpectedEof) => {
                        (self.ended, self.cut) = (true, true);
                    }
                    (Stream::Compressed(_), ErrorKind::InvalidData | ErrorKind::InvalidInput) => {
                        return Err(TraceError::at(
                            Fault::Compression,
                            self.offset + end as u64,
                            "a gzip stream (the byte is of the inflated file)",
                            error.to_string(),
                        ));
                    }
                    _ => return Err(error.into()),
                },
            }
        }
        self.carry.truncate(end);
        Ok(end > start)
    }

    /// The start of the file, growing with each call; false at the end of the file.
    pub(crate) fn extend_head(&mut self) -> Result<bool> {
        if self.carry.len() > VALUE_LIMIT {
            return Err(self.too_long("\"traceEvents\" in the first 64 MiB"));
        }
        // The head is mostly short. It is read anew with each call, so it doubles.
        self.more(self.carry.len().max(1 << 16))
    }

    /// What `extend_head` has read so far.
    pub(crate) fn head(&self) -> &[u8] {
        &self.carry
    }

    /// Leaves the first bytes out of the next block.
    pub(crate) fn skip(&mut self, count: usize) {
        self.carry.drain(..count);
        self.offset += count as u64;
    }

    fn too_long(&self, expected: &str) -> TraceError {
        let got = format!("{} bytes without an end", self.carry.len());
        TraceError::at(Fault::Limit, self.offset, expected, got)
    }

    /// The next block, which ends where an event seems to begin; None at the end of the file.
    pub(crate) fn block(&mut self) -> Result<Option<Block>> {
        let mut searched = 0;
        let cut = loop {
            if self.carry.len() >= self.block_bytes
                && let Some(cut) = last_boundary(&self.carry, searched)
            {
                break cut;
            }
            searched = self.carry.len();
            if searched > VALUE_LIMIT {
                return Err(self.too_long("events of at most 64 MiB"));
            }
            let missing = self.block_bytes.saturating_sub(searched);
            let missing = missing.max(self.block_bytes / 4 + 1);
            if !self.more(missing)? {
                break self.carry.len();
            }
        };
        if cut == 0 {
            return Ok(None);
        }
        let rest = self.carry[cut..].to_vec();
        let bytes = std::mem::replace(&mut self.carry, rest);
        let mut block = Block { offset: self.offset, bytes };
        block.bytes.truncate(cut);
        self.offset += cut as u64;
        Ok(Some(block))
    }
}

/// The last brace behind `searched` that comes after `},`, where an event seems to begin.
///
/// It may be inside a string or a list; the reader finds out when it comes to the place.
fn last_boundary(bytes: &[u8], searched: usize) -> Option<usize> {
    let before = |end: usize| bytes[..end].trim_ascii_end();
    let mut end = bytes.len();
    while let Some(brace) = memrchr(b'{', &bytes[..end]) {
        if brace < searched || brace == 0 {
            return None;
        }
        let comma = before(brace);
        if comma.ends_with(b",") && before(comma.len() - 1).ends_with(b"}") {
            return Some(brace);
        }
        end = brace;
    }
    None
}
