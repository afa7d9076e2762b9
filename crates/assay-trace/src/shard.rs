//! Shards: tables that grow on disk while a process runs, as Arrow IPC streams.
//!
//! Each batch carries its own dictionaries and is written at once, so what a killed process leaves
//! is readable up to its last complete batch. Any Arrow library reads a shard.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_ipc::{Message, MessageHeader, root_as_message};
use arrow_schema::Schema;

use crate::error::{Fault, Result, TraceError};
use crate::table::TraceTable;

/// Marks the start of a message of an IPC stream.
const CONTINUATION: u32 = u32::MAX;

/// Messages describe at most some dozens of columns.
const MESSAGE_LIMIT: u64 = 1 << 24;

/// A shard that is being written.
pub struct ShardWriter {
    path: PathBuf,
    writer: StreamWriter<File>,
}

impl ShardWriter {
    /// Starts a shard at `path`, which must not exist; `metadata` is readable from the first byte on.
    pub fn create(path: &Path, schema: Schema, metadata: HashMap<String, String>) -> Result<Self> {
        let file = File::create_new(path);
        let file = file.map_err(|error| TraceError::from(error).of_file(path))?;
        Self::new(file, path, schema, metadata)
    }

    /// Starts a shard in an empty file that the caller made; `path` names it in errors.
    pub fn new(
        file: File,
        path: &Path,
        schema: Schema,
        metadata: HashMap<String, String>,
    ) -> Result<Self> {
        let writer = StreamWriter::try_new(file, &schema.with_metadata(metadata));
        Ok(ShardWriter {
            path: path.to_owned(),
            writer: writer.map_err(|error| TraceError::from(error).of_file(path))?,
        })
    }

    /// Appends the rows of a table; when this returns they survive the end of the process.
    pub fn append(&mut self, table: &TraceTable) -> Result<()> {
        for batch in table.batches() {
            let written = self.writer.write(batch);
            written.map_err(|error| TraceError::from(error).of_file(&self.path))?;
        }
        Ok(())
    }

    /// Marks the shard as complete.
    pub fn finish(mut self) -> Result<()> {
        let finished = self.writer.finish();
        finished.map_err(|error| TraceError::from(error).of_file(&self.path))
    }
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
    let read = || -> Result<Shard> {
        let mut file = File::open(path)?;
        let extent = extent(&mut file)?;
        file.rewind()?;
        let mut reader = StreamReader::try_new(BufReader::new(file).take(extent.bytes), None)?;
        let described = reader.schema();
        let schema = Arc::new(Schema::new(described.fields().clone()));
        let mut batches = Vec::new();
        for batch in reader.by_ref() {
            let columns = batch?.columns().to_vec();
            batches.push(RecordBatch::try_new(Arc::clone(&schema), columns)?);
        }
        Ok(Shard {
            table: TraceTable::new(schema, batches)?,
            metadata: described.metadata().clone().into(),
            complete: extent.complete,
            cut_bytes: extent.cut,
        })
    };
    read().map_err(|error| error.of_file(path))
}

/// How much of a shard is whole.
struct Extent {
    /// Bytes up to the end of the last batch.
    bytes: u64,
    complete: bool,
    cut: u64,
}

/// Walks the messages of a stream without reading their columns.
fn extent(file: &mut File) -> Result<Extent> {
    let total = file.metadata()?.len();
    let (mut place, mut bytes, mut complete) = (0, 0, false);
    loop {
        let mut prefix = [0; 8];
        if total - place < 8 {
            break;
        }
        file.seek(SeekFrom::Start(place))?;
        file.read_exact(&mut prefix)?;
        let (continuation, length) = prefix.split_at(4);
        let number = |part: &[u8]| {
            part.iter()
                .rev()
                .fold(0_u32, |sum, &byte| (sum << 8) | u32::from(byte))
        };
        if number(continuation) != CONTINUATION {
            break;
        }
        let length = u64::from(number(length));
        if length == 0 {
            complete = true;
            bytes = place + 8;
            break;
        }
        if length > MESSAGE_LIMIT || length > total - place - 8 {
            break;
        }
        let mut head = vec![0; length as usize];
        file.read_exact(&mut head)?;
        let Ok(message) = root_as_message(&head) else {
            break;
        };
        let body = u64::try_from(message.bodyLength()).unwrap_or(u64::MAX);
        if body > total - place - 8 - length || !is_sound(&message, body) {
            break;
        }
        place += 8 + length + body;
        // Dictionaries without the batch they are for are cut, too.
        if message.header_type() != MessageHeader::DictionaryBatch {
            bytes = place;
        }
    }
    if bytes == 0 {
        return Err(TraceError::at(
            Fault::Format,
            0,
            "an Arrow IPC stream with a whole schema",
            format!("{total} bytes without one"),
        ));
    }
    Ok(Extent {
        bytes,
        complete,
        cut: total - bytes,
    })
}

/// Whether the buffers that a message describes lie in its body; the reader relies on it.
fn is_sound(message: &Message<'_>, body: u64) -> bool {
    let batch = match message.header_type() {
        MessageHeader::RecordBatch => message.header_as_record_batch(),
        MessageHeader::DictionaryBatch => message
            .header_as_dictionary_batch()
            .and_then(|dictionary| dictionary.data()),
        _ => return true,
    };
    let Some(batch) = batch else {
        return false;
    };
    let inside = |offset: i64, length: i64| {
        let (offset, length) = (u64::try_from(offset), u64::try_from(length));
        let end = offset.ok().zip(length.ok());
        end.and_then(|(offset, length)| offset.checked_add(length))
            .is_some_and(|end| end <= body)
    };
    let rows = |count: i64| (0..=i64::from(i32::MAX)).contains(&count);
    let buffers = batch.buffers().is_none_or(|buffers| {
        buffers
            .iter()
            .all(|buffer| inside(buffer.offset(), buffer.length()))
    });
    let nodes = batch.nodes().is_none_or(|nodes| {
        nodes
            .iter()
            .all(|node| rows(node.length()) && rows(node.null_count()))
    });
    buffers && nodes && rows(batch.length())
}
