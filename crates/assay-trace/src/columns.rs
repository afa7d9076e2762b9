//! Columns of one batch: whole ones, and how they grow.

use std::sync::OnceLock;

use crate::interner::Interner;
use crate::schema::{BATCH_ROWS, DataType};

/// The values of a column; none are stored where every row is null.
#[derive(Clone, Debug)]
pub enum Data {
    /// Numbers of 32 bits.
    Int32(Vec<i32>),
    /// Numbers of 64 bits.
    Int64(Vec<i64>),
    /// Floating-point numbers.
    Float64(Vec<f64>),
    /// Places in a dictionary of texts.
    Texts(Vec<u32>, Strings),
    /// Texts, one a row.
    LongTexts(Strings),
    /// x, y, z.
    Dimensions(Vec<[i32; 3]>),
}

impl Data {
    /// What it is.
    pub fn kind(&self) -> DataType {
        match self {
            Data::Int32(_) => DataType::Int32,
            Data::Int64(_) => DataType::Int64,
            Data::Float64(_) => DataType::Float64,
            Data::Texts(..) => DataType::Texts,
            Data::LongTexts(_) => DataType::LongTexts,
            Data::Dimensions(_) => DataType::Dimensions,
        }
    }
}

/// Texts, one behind the other.
#[derive(Clone, Debug)]
pub struct Strings {
    /// Where each text begins in `bytes`, and where the last one ends.
    pub offsets: Vec<i32>,
    /// All texts; UTF-8.
    pub bytes: Vec<u8>,
}

impl Default for Strings {
    fn default() -> Self {
        Strings { offsets: vec![0], bytes: Vec::new() }
    }
}

impl Strings {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One of them; empty where there is none.
    pub fn get(&self, place: usize) -> &[u8] {
        match (self.offsets.get(place), self.offsets.get(place + 1)) {
            (Some(&begin), Some(&end)) => &self.bytes[begin as usize..end as usize],
            _ => &[],
        }
    }

    fn push(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
        // A batch is closed long before its texts reach two gigabytes.
        let end = i32::try_from(self.bytes.len()).unwrap_or(i32::MAX);
        self.offsets.push(end);
    }
}

impl<'a> FromIterator<&'a str> for Strings {
    fn from_iter<I: IntoIterator<Item = &'a str>>(texts: I) -> Self {
        let mut strings = Strings::default();
        texts.into_iter().for_each(|text| strings.push(text));
        strings
    }
}

static NO_BITS: [u8; BATCH_ROWS / 8] = [0; BATCH_ROWS / 8];

/// A column of a batch.
#[derive(Clone, Debug)]
pub struct Column {
    pub(crate) rows: usize,
    pub(crate) nulls: usize,
    /// A bit for each row that has a value, where some have and some have not.
    pub(crate) bits: Vec<u8>,
    pub(crate) data: Data,
}

impl Column {
    /// A column in which every row has a value.
    pub(crate) fn whole(rows: usize, data: Data) -> Column {
        Column { rows, nulls: 0, bits: Vec::new(), data }
    }

    /// A column without a value.
    pub(crate) fn absent(rows: usize, kind: DataType) -> Column {
        let data = match kind {
            DataType::Int32 => Data::Int32(Vec::new()),
            DataType::Int64 => Data::Int64(Vec::new()),
            DataType::Float64 => Data::Float64(Vec::new()),
            DataType::Texts => Data::Texts(Vec::new(), Strings::default()),
            DataType::LongTexts => Data::LongTexts(Strings::default()),
            DataType::Dimensions => Data::Dimensions(Vec::new()),
        };
        Column { rows, nulls: rows, bits: Vec::new(), data }
    }

    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many rows have no value.
    pub fn nulls(&self) -> usize {
        self.nulls
    }

    /// A bit for each row that has a value, the lowest first; None where every row has one.
    pub fn validity(&self) -> Option<&[u8]> {
        match self.nulls {
            0 => None,
            nulls if nulls == self.rows => Some(&NO_BITS[..self.rows.div_ceil(8)]),
            _ => Some(&self.bits),
        }
    }

    /// Whether a row has a value.
    pub fn is_valid(&self, row: usize) -> bool {
        self.validity().is_none_or(|bits| bits[row / 8] >> (row % 8) & 1 == 1)
    }

    /// The values; none where no row has one.
    pub fn data(&self) -> &Data {
        &self.data
    }

    /// The text of a row; None where it has none.
    pub fn text(&self, row: usize) -> Option<&str> {
        if !self.is_valid(row) {
            return None;
        }
        let bytes = match &self.data {
            Data::Texts(keys, texts) => texts.get(keys[row] as usize),
            Data::LongTexts(texts) => texts.get(row),
            _ => return None,
        };
        std::str::from_utf8(bytes).ok()
    }
}

/// Zeros for the values of columns without one, enough for the widest of a batch.
pub fn zeros() -> &'static [u64] {
    static ZEROS: OnceLock<Vec<u64>> = OnceLock::new();
    ZEROS.get_or_init(|| vec![0; BATCH_ROWS * size_of::<[i32; 3]>() / 8 + 1])
}

/// A growing column, which costs next to nothing until it holds the first value.
#[derive(Default)]
pub(crate) struct Growing<T> {
    rows: usize,
    nulls: usize,
    bits: Vec<u8>,
    values: Vec<T>,
}

impl<T: Copy + Default> Growing<T> {
    /// One more row.
    pub(crate) fn push(&mut self, value: Option<T>) {
        let row = self.rows;
        self.rows += 1;
        if let Some(value) = value {
            if self.values.len() < row {
                self.values.resize(row, T::default());
                self.bits.resize(row.div_ceil(8), 0);
            }
            self.values.push(value);
            if self.nulls > 0 {
                self.mark(row, 1);
            }
            return;
        }
        if row > 0 && self.values.len() == row {
            if self.nulls == 0 {
                self.bits.resize(row.div_ceil(8), u8::MAX);
                if let Some(last) = self.bits.last_mut().filter(|_| !row.is_multiple_of(8)) {
                    *last = (1 << (row % 8)) - 1;
                }
            }
            self.values.push(T::default());
            self.mark(row, 0);
        }
        self.nulls += 1;
    }

    fn mark(&mut self, row: usize, bit: u8) {
        if row.is_multiple_of(8) {
            self.bits.push(0);
        }
        if let Some(last) = self.bits.last_mut() {
            *last |= bit << (row % 8);
        }
    }

    /// The column; it is empty afterwards.
    pub(crate) fn finish(&mut self, data: impl FnOnce(Vec<T>) -> Data) -> Column {
        let capacity = self.values.len();
        let values = std::mem::replace(&mut self.values, Vec::with_capacity(capacity));
        Column {
            rows: std::mem::take(&mut self.rows),
            nulls: std::mem::take(&mut self.nulls),
            bits: std::mem::take(&mut self.bits),
            data: data(values),
        }
    }
}

/// A growing column of texts of few distinct values.
#[derive(Default)]
pub(crate) struct Texts {
    interner: Interner,
    keys: Growing<u32>,
}

impl Texts {
    /// One more row.
    pub(crate) fn push(&mut self, text: Option<&str>) {
        let key = text.map(|text| self.interner.number(text));
        self.keys.push(key);
    }

    /// The bytes of the distinct texts.
    pub(crate) fn bytes(&self) -> usize {
        self.interner.bytes()
    }

    /// The column; it is empty afterwards.
    pub(crate) fn finish(&mut self) -> Column {
        let texts = self.interner.texts().into_iter().collect();
        self.interner.clear();
        self.keys.finish(|keys| Data::Texts(keys, texts))
    }
}

/// A growing column of texts that are mostly distinct.
#[derive(Default)]
pub(crate) struct LongTexts {
    texts: Strings,
    present: Growing<()>,
}

impl LongTexts {
    /// One more row.
    pub(crate) fn push(&mut self, text: Option<&str>) {
        self.texts.push(text.unwrap_or_default());
        self.present.push(text.map(|_| ()));
    }

    /// The bytes of all texts.
    pub(crate) fn bytes(&self) -> usize {
        self.texts.bytes.len()
    }

    /// The column; it is empty afterwards.
    pub(crate) fn finish(&mut self) -> Column {
        let texts = std::mem::take(&mut self.texts);
        let mut column = self.present.finish(|_| Data::LongTexts(texts));
        if column.nulls == column.rows {
            column.data = Data::LongTexts(Strings::default());
        }
        column
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rows_are_what_was_pushed(rows in prop::collection::vec(prop::option::of(any::<i64>()), 0..70)) {
            let mut growing = Growing::default();
            for _ in 0..2 {
                rows.iter().for_each(|&row| growing.push(row));
                let column = growing.finish(Data::Int64);
                let Data::Int64(values) = column.data() else { unreachable!() };
                let read: Vec<_> = (0..column.rows())
                    .map(|row| column.is_valid(row).then(|| values[row]))
                    .collect();
                prop_assert_eq!(&read, &rows);
                prop_assert_eq!(column.nulls(), rows.iter().filter(|row| row.is_none()).count());
            }
        }
    }
}
