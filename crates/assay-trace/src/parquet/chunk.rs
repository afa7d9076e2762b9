//! One column of a row group: a page for each batch, and a dictionary before them.

use std::sync::Arc;

use super::encoding::{deltas, hybrid, width};
use super::thrift::{Thrift, Type};
use crate::columns::{Column, Data};
use crate::interner::Interner;
use crate::schema::{DataType, Field};

const DATA_PAGE: i32 = 0;
const DICTIONARY_PAGE: i32 = 2;

const PLAIN: i32 = 0;
const RLE: i32 = 3;
const DELTA_BINARY_PACKED: i32 = 5;
const RLE_DICTIONARY: i32 = 8;

const LZ4_RAW: i32 = 7;

/// A column chunk: its bytes, and what the file's metadata say of it.
pub(crate) struct Chunk {
    pub(crate) bytes: Vec<u8>,
    /// Bytes of the dictionary page at the front.
    dictionary_bytes: usize,
    uncompressed: usize,
    values: usize,
    encodings: Vec<i32>,
    /// The least and the largest, of 64-bit numbers.
    range: Option<(i64, i64)>,
    nulls: usize,
}

/// The physical type of a column.
pub(crate) fn physical(kind: DataType) -> i32 {
    match kind {
        DataType::Int32 | DataType::Dimensions => 1,
        DataType::Int64 => 2,
        DataType::Float64 => 5,
        DataType::Texts | DataType::LongTexts => 6,
    }
}

impl Chunk {
    /// The columns of the batches of a row group as one chunk.
    pub(crate) fn new(field: &Field, columns: &[&Arc<Column>]) -> Chunk {
        let mut chunk = Chunk {
            bytes: Vec::new(),
            dictionary_bytes: 0,
            uncompressed: 0,
            values: 0,
            encodings: vec![RLE],
            range: None,
            nulls: 0,
        };
        let (dictionary, renumbered) = joined_dictionary(columns);
        if dictionary.len() > 0 {
            let mut body = Vec::new();
            dictionary
                .texts()
                .into_iter()
                .for_each(|text| plain(text.as_bytes(), &mut body));
            chunk.page(
                &body,
                |header| {
                    header.i32(1, DICTIONARY_PAGE);
                },
                |header| {
                    header.structure(7, |page| {
                        page.i32(1, dictionary.len() as i32);
                        page.i32(2, PLAIN);
                    });
                },
            );
            chunk.dictionary_bytes = chunk.bytes.len();
            chunk.encodings.push(PLAIN);
        }
        let bits = width(dictionary.len().saturating_sub(1) as u64).max(1);
        if field.kind == DataType::Dimensions {
            // Polars 2.1 misreads lists of a fixed size in more than one page.
            chunk.add(field, columns, &[], bits);
        } else {
            for (column, numbers) in columns.iter().zip(renumbered) {
                chunk.add(field, &[*column], &numbers, bits);
            }
        }
        chunk
    }

    /// Adds a page of the rows of these columns: one batch's, or, of lists, all batches'.
    fn add(&mut self, field: &Field, columns: &[&Arc<Column>], numbers: &[u32], bits: u32) {
        let mut body = Vec::new();
        let values = levels(field, columns, &mut body);
        self.values += values;
        self.nulls += columns.iter().map(|column| column.nulls()).sum::<usize>();
        let present: Vec<_> = columns
            .iter()
            .filter(|column| column.nulls() < column.rows())
            .collect();
        let encoding = match present[..] {
            [] => PLAIN,
            [column] if field.kind != DataType::Dimensions => {
                self.encode(column, numbers, bits, &mut body)
            }
            _ => {
                let sizes = present.iter().flat_map(|column| sizes(column));
                deltas(&sizes.collect::<Vec<_>>(), &mut body);
                DELTA_BINARY_PACKED
            }
        };
        if !self.encodings.contains(&encoding) {
            self.encodings.push(encoding);
        }
        self.page(
            &body,
            |header| header.i32(1, DATA_PAGE),
            |header| {
                header.structure(5, |page| {
                    page.i32(1, values as i32);
                    page.i32(2, encoding);
                    page.i32(3, RLE);
                    page.i32(4, RLE);
                });
            },
        );
    }

    /// Appends the values of the rows that have one; returns their encoding.
    fn encode(&mut self, column: &Column, numbers: &[u32], bits: u32, body: &mut Vec<u8>) -> i32 {
        match column.data() {
            // Times hardly ever repeat, and their differences are small; streams and threads
            // repeat, and their differences are zero.
            Data::Int64(values) => {
                let values = present(column, values);
                let range = self.range.get_or_insert((i64::MAX, i64::MIN));
                for &value in &values {
                    *range = (range.0.min(value), range.1.max(value));
                }
                deltas(&values, body);
                DELTA_BINARY_PACKED
            }
            Data::Int32(values) => {
                let values = present(column, values);
                deltas(&values.into_iter().map(i64::from).collect::<Vec<_>>(), body);
                DELTA_BINARY_PACKED
            }
            Data::Dimensions(_) => {
                deltas(&sizes(column), body);
                DELTA_BINARY_PACKED
            }
            Data::Float64(values) => {
                let values = present(column, values).into_iter();
                body.extend(values.flat_map(f64::to_le_bytes));
                PLAIN
            }
            Data::Texts(keys, _) => {
                let keys = present(column, keys).into_iter();
                let keys: Vec<u32> = keys.map(|key| numbers[key as usize]).collect();
                body.push(bits as u8);
                hybrid(&keys, bits, body);
                RLE_DICTIONARY
            }
            Data::LongTexts(texts) => {
                let rows = (0..column.rows()).filter(|&row| column.is_valid(row));
                rows.for_each(|row| plain(texts.get(row), body));
                PLAIN
            }
        }
    }

    fn page(
        &mut self,
        body: &[u8],
        kind: impl FnOnce(&mut Thrift),
        described: impl FnOnce(&mut Thrift),
    ) {
        let compressed = lz4_flex::block::compress(body);
        let mut header = Thrift::default();
        header.element(|header| {
            kind(header);
            header.i32(2, body.len() as i32);
            header.i32(3, compressed.len() as i32);
            described(header);
        });
        self.uncompressed += header.bytes.len() + body.len();
        self.bytes.extend(header.bytes);
        self.bytes.extend(compressed);
    }

    /// Writes its metadata, for a chunk at this place of the file.
    pub(crate) fn describe(&self, field: &Field, place: u64, chunk: &mut Thrift) {
        chunk.i64(2, place as i64);
        chunk.structure(3, |metadata| {
            metadata.i32(1, physical(field.kind));
            let encodings = self.encodings.iter();
            metadata.list(2, Type::I32, encodings, |list, &encoding| {
                super::thrift::varint(super::thrift::zigzag(encoding.into()), &mut list.bytes);
            });
            let path: &[&str] = match field.kind {
                DataType::Dimensions => &[field.name, "list", "item"],
                _ => &[field.name],
            };
            metadata.list(3, Type::Binary, path.iter(), |list, name| {
                list.text(name.as_bytes())
            });
            metadata.i32(4, LZ4_RAW);
            metadata.i64(5, self.values as i64);
            metadata.i64(6, self.uncompressed as i64);
            metadata.i64(7, self.bytes.len() as i64);
            metadata.i64(9, place as i64 + self.dictionary_bytes as i64);
            if self.dictionary_bytes > 0 {
                metadata.i64(11, place as i64);
            }
            if let Some((least, largest)) = self.range {
                metadata.structure(12, |statistics| {
                    statistics.i64(3, self.nulls as i64);
                    statistics.binary(5, &largest.to_le_bytes());
                    statistics.binary(6, &least.to_le_bytes());
                });
            }
        });
    }
}

/// The distinct texts of all batches, and the number in it of each text of each batch's dictionary.
fn joined_dictionary(columns: &[&Arc<Column>]) -> (Interner, Vec<Vec<u32>>) {
    let mut joined = Interner::default();
    let mut numbers = |column: &&Arc<Column>| match column.data() {
        Data::Texts(_, texts) => (0..texts.len())
            .map(|place| {
                // Built from texts, and checked where a shard was read.
                joined.number(std::str::from_utf8(texts.get(place)).unwrap_or_default())
            })
            .collect(),
        _ => Vec::new(),
    };
    let numbers = columns.iter().map(&mut numbers).collect();
    (joined, numbers)
}

/// The values of the rows that have one.
fn present<T: Copy>(column: &Column, values: &[T]) -> Vec<T> {
    match column.nulls() {
        0 => values.to_vec(),
        _ => (0..column.rows())
            .filter(|&row| column.is_valid(row))
            .map(|row| values[row])
            .collect(),
    }
}

/// The items of the lists of the rows that have one.
fn sizes(column: &Column) -> Vec<i64> {
    match column.data() {
        Data::Dimensions(values) => {
            let lists = present(column, values).into_iter();
            lists.flatten().map(i64::from).collect()
        }
        _ => Vec::new(),
    }
}

/// A text with its length before it.
fn plain(text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text);
}

/// Appends which rows have a value, and which values begin a row; returns how many entries there are.
fn levels(field: &Field, columns: &[&Arc<Column>], body: &mut Vec<u8>) -> usize {
    let is_list = field.kind == DataType::Dimensions;
    // The definition level of a value: a list has one for itself and one for its items.
    let defined = if is_list { 2 } else { 1 };
    let (mut definitions, mut repetitions) = (Vec::new(), Vec::new());
    let rows = columns
        .iter()
        .flat_map(|column| (0..column.rows()).map(|row| column.is_valid(row)));
    for is_valid in rows {
        match (is_valid, is_list) {
            (false, _) => {
                definitions.push(0);
                repetitions.push(0);
            }
            (true, false) => definitions.push(defined),
            (true, true) => {
                definitions.extend([defined; 3]);
                repetitions.extend([0, 1, 1]);
            }
        }
    }
    let mut append = |levels: &[u32], bits: u32| {
        let mut encoded = Vec::new();
        hybrid(levels, bits, &mut encoded);
        body.extend_from_slice(&(encoded.len() as u32).to_le_bytes());
        body.extend(encoded);
    };
    if is_list {
        append(&repetitions, 1);
    }
    if field.nullable {
        append(&definitions, defined);
    }
    definitions.len()
}
