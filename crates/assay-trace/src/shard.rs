//! Shards: tables of events that grow on disk while a process runs.
//!
//! A shard is frames: a byte that says what it is, the length of what follows, and that. Each batch is
//! written at once, with its own dictionaries, so what a killed process leaves is readable up to its
//! last complete batch.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::columns::{Column, Data, Strings};
use crate::error::{Fault, Result, TraceError};
use crate::schema::{BATCH_ROWS, FIELDS, Field};
use crate::table::{Batch, TraceTable};

const MAGIC: &[u8; 12] = b"assay shard\n";

const METADATA: u8 = b'm';
const BATCH: u8 = b'b';
const END: u8 = b'e';

/// A shard that is being written.
pub struct ShardWriter {
    path: PathBuf,
    file: File,
}

impl ShardWriter {
    /// Starts a shard at `path`, which must not exist; `metadata` is readable from the first byte on.
    pub fn create(path: &Path, metadata: &HashMap<String, String>) -> Result<Self> {
        let file = File::create_new(path);
        let file = file.map_err(|error| TraceError::from(error).of_file(path))?;
        Self::new(file, path, metadata)
    }

    /// Starts a shard in an empty file that the caller made; `path` names it in errors.
    pub fn new(file: File, path: &Path, metadata: &HashMap<String, String>) -> Result<Self> {
        let mut writer = ShardWriter { path: path.to_owned(), file };
        let mut pairs = Vec::new();
        for text in metadata.iter().flat_map(|(key, value)| [key, value]) {
            put_length(text.len(), &mut pairs);
            pairs.extend_from_slice(text.as_bytes());
        }
        writer.write(MAGIC, METADATA, &pairs)?;
        Ok(writer)
    }

    /// Appends the rows of a table; when this returns they survive the end of the process.
    pub fn append(&mut self, table: &TraceTable) -> Result<()> {
        for batch in table.batches() {
            let mut body = Vec::new();
            put_length(batch.rows(), &mut body);
            for column in batch.columns() {
                put_column(column, &mut body);
            }
            self.write(&[], BATCH, &body)?;
        }
        Ok(())
    }

    /// Marks the shard as complete.
    pub fn finish(mut self) -> Result<()> {
        self.write(&[], END, &[])
    }

    fn write(&mut self, before: &[u8], kind: u8, body: &[u8]) -> Result<()> {
        let mut frame = before.to_vec();
        frame.push(kind);
        put_length(body.len(), &mut frame);
        frame.extend_from_slice(body);
        let written = self.file.write_all(&frame);
        written.map_err(|error| TraceError::from(error).of_file(&self.path))
    }
}

fn put_length(length: usize, out: &mut Vec<u8>) {
    // A batch is closed long before it has four gigabytes.
    out.extend_from_slice(&(length as u32).to_le_bytes());
}

fn put_column(column: &Column, out: &mut Vec<u8>) {
    put_length(column.nulls(), out);
    if column.nulls() == column.rows() {
        return;
    }
    out.extend_from_slice(column.validity().unwrap_or_default());
    match column.data() {
        Data::Int32(values) => out.extend(values.iter().flat_map(|value| value.to_le_bytes())),
        Data::Int64(values) => out.extend(values.iter().flat_map(|value| value.to_le_bytes())),
        Data::Float64(values) => out.extend(values.iter().flat_map(|value| value.to_le_bytes())),
        Data::Dimensions(values) => {
            let sizes = values.iter().flatten();
            out.extend(sizes.flat_map(|value| value.to_le_bytes()));
        }
        Data::Texts(keys, texts) => {
            out.extend(keys.iter().flat_map(|key| key.to_le_bytes()));
            put_texts(texts, out);
        }
        Data::LongTexts(texts) => put_texts(texts, out),
    }
}

fn put_texts(texts: &Strings, out: &mut Vec<u8>) {
    put_length(texts.len(), out);
    let ends = texts.offsets.iter().skip(1);
    out.extend(ends.flat_map(|end| end.to_le_bytes()));
    out.extend_from_slice(&texts.bytes);
}

/// What a shard holds.
#[derive(Debug)]
pub struct Shard {
    /// Its complete batches.
    pub table: TraceTable,
    /// What its writer said at the start.
    pub metadata: HashMap<String, String>,
    /// Whether its writer marked it as complete.
    pub complete: bool,
    /// Bytes behind the last complete batch that are no whole batch.
    pub cut_bytes: u64,
}

/// Reads the complete batches of a shard.
pub fn read_shard(path: &Path) -> Result<Shard> {
    read(path).map_err(|error| error.of_file(path))
}

fn read(path: &Path) -> Result<Shard> {
    let file = File::open(path)?;
    let total = file.metadata()?.len();
    let mut file = BufReader::new(file);
    let mut magic = [0; MAGIC.len()];
    let is_shard = total >= MAGIC.len() as u64 && {
        file.read_exact(&mut magic)?;
        magic == *MAGIC
    };
    let (mut place, mut complete) = (MAGIC.len() as u64, false);
    let (mut metadata, mut batches) = (None, Vec::new());
    while is_shard && !complete && total - place >= 5 {
        let mut head = [0; 5];
        file.read_exact(&mut head)?;
        let [kind, length @ ..] = head;
        let length = u64::from(u32::from_le_bytes(length));
        if length > total - place - 5 {
            break;
        }
        let mut body = vec![0; length as usize];
        file.read_exact(&mut body)?;
        let mut body = Frame { place: place + 5, bytes: &body };
        match (kind, &metadata) {
            (METADATA, None) => metadata = Some(body.pairs()?),
            (BATCH, Some(_)) => batches.push(body.batch()?),
            (END, Some(_)) => complete = true,
            _ => return Err(body.wrong("a frame of a shard")),
        }
        place += 5 + length;
    }
    let metadata = metadata.ok_or_else(|| {
        let got = format!("{total} bytes without one");
        TraceError::at(Fault::Format, 0, "the start of a shard of events", got)
    })?;
    Ok(Shard { table: TraceTable::new(batches), metadata, complete, cut_bytes: total - place })
}

/// What is left of a frame; every length in it is checked.
struct Frame<'a> {
    place: u64,
    bytes: &'a [u8],
}

impl<'a> Frame<'a> {
    fn wrong(&self, expected: &str) -> TraceError {
        TraceError::at(Fault::Format, self.place, expected, "other bytes")
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) =
            self.bytes.split_at_checked(length).ok_or_else(|| self.wrong("the rest of a frame"))?;
        self.bytes = rest;
        self.place += length as u64;
        Ok(taken)
    }

    fn numbers<T, const SIZE: usize>(
        &mut self,
        count: usize,
        number: impl Fn([u8; SIZE]) -> T,
    ) -> Result<Vec<T>> {
        let length = count.checked_mul(SIZE);
        let bytes = self.take(length.unwrap_or(usize::MAX))?;
        let (numbers, _) = bytes.as_chunks::<SIZE>();
        Ok(numbers.iter().copied().map(number).collect())
    }

    fn length(&mut self) -> Result<usize> {
        let bytes = self.numbers(1, u32::from_le_bytes)?;
        Ok(bytes[0] as usize)
    }

    fn pairs(&mut self) -> Result<HashMap<String, String>> {
        let mut pairs = HashMap::new();
        while !self.bytes.is_empty() {
            let mut text = || {
                let length = self.length()?;
                let text = std::str::from_utf8(self.take(length)?);
                text.map(str::to_owned).map_err(|_| self.wrong("UTF-8 text"))
            };
            let (key, value) = (text()?, text()?);
            pairs.insert(key, value);
        }
        Ok(pairs)
    }

    fn batch(&mut self) -> Result<Batch> {
        let rows = self.length()?;
        if rows > BATCH_ROWS {
            return Err(self.wrong("a batch of fewer rows"));
        }
        let fields = FIELDS.iter();
        let columns = fields.map(|field| self.column(field, rows).map(Arc::new));
        let columns = columns.collect::<Result<_>>()?;
        match self.bytes {
            [] => Batch::new(columns),
            _ => Err(self.wrong("the end of a batch")),
        }
    }

    fn column(&mut self, field: &Field, rows: usize) -> Result<Column> {
        let mut column = Column::absent(rows, field.kind);
        column.nulls = self.length()?;
        if column.nulls == rows {
            return Ok(column);
        }
        if column.nulls > 0 {
            column.bits = self.take(rows.div_ceil(8))?.to_vec();
            let valid: u32 = column.bits.iter().map(|byte| byte.count_ones()).sum();
            if valid as usize + column.nulls != rows {
                return Err(self.wrong("a bit for each row that has a value"));
            }
        }
        column.data = match column.data {
            Data::Int32(_) => Data::Int32(self.numbers(rows, i32::from_le_bytes)?),
            Data::Int64(_) => Data::Int64(self.numbers(rows, i64::from_le_bytes)?),
            Data::Float64(_) => Data::Float64(self.numbers(rows, f64::from_le_bytes)?),
            Data::Dimensions(_) => {
                let sizes = self.numbers(3 * rows, i32::from_le_bytes)?;
                Data::Dimensions(sizes.as_chunks().0.to_vec())
            }
            Data::Texts(..) => {
                let keys = self.numbers(rows, u32::from_le_bytes)?;
                let texts = self.texts()?;
                if keys.iter().any(|&key| key as usize >= texts.len()) {
                    return Err(self.wrong("keys of a dictionary"));
                }
                Data::Texts(keys, texts)
            }
            Data::LongTexts(_) => {
                let texts = self.texts()?;
                if texts.len() != rows {
                    return Err(self.wrong("a text for each row"));
                }
                Data::LongTexts(texts)
            }
        };
        Ok(column)
    }

    fn texts(&mut self) -> Result<Strings> {
        let count = self.length()?;
        let mut offsets = vec![0];
        offsets.extend(self.numbers(count, i32::from_le_bytes)?);
        let length = offsets.last().map(|&end| usize::try_from(end));
        let bytes = self.take(length.and_then(std::result::Result::ok).unwrap_or(usize::MAX))?;
        let text = std::str::from_utf8(bytes).map_err(|_| self.wrong("UTF-8 text"))?;
        let is_border =
            |&end: &i32| usize::try_from(end).is_ok_and(|end| text.is_char_boundary(end));
        if !offsets.is_sorted() || !offsets.iter().all(is_border) {
            return Err(self.wrong("ends of texts"));
        }
        Ok(Strings { offsets, bytes: bytes.to_vec() })
    }
}
