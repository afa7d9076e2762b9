//! Growing columns of one batch, and how they become Arrow arrays.

use std::sync::Arc;

use arrow_array::types::{ArrowDictionaryKeyType, ArrowPrimitiveType};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, FixedSizeListArray, Int32Array, PrimitiveArray, StringArray,
};
use arrow_buffer::{NullBuffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field};

use crate::error::Result;
use crate::interner::Interner;
use crate::schema::BATCH_ROWS;

/// A column of numbers, which costs next to nothing until it holds the first one.
pub(crate) struct Numbers<T: ArrowPrimitiveType> {
    values: Vec<T::Native>,
    nulls: NullBufferBuilder,
    /// Rows before the first number.
    absent: usize,
    /// A column of nulls that all batches without a number share.
    empty: Option<PrimitiveArray<T>>,
}

impl<T: ArrowPrimitiveType> Default for Numbers<T> {
    fn default() -> Self {
        Numbers {
            values: Vec::new(),
            nulls: NullBufferBuilder::new(0),
            absent: 0,
            empty: None,
        }
    }
}

impl<T: ArrowPrimitiveType> Numbers<T> {
    /// One more row.
    pub(crate) fn push(&mut self, value: Option<T::Native>) {
        match value {
            Some(value) => {
                if self.absent > 0 && self.values.is_empty() {
                    self.values.resize(self.absent, T::Native::default());
                    self.nulls.append_n_nulls(self.absent);
                }
                self.values.push(value);
                self.nulls.append_non_null();
            }
            None if self.values.is_empty() => self.absent += 1,
            None => {
                self.values.push(T::Native::default());
                self.nulls.append_null();
            }
        }
    }

    /// The column; it is empty afterwards.
    pub(crate) fn finish(&mut self) -> PrimitiveArray<T> {
        let absent = std::mem::take(&mut self.absent);
        if self.values.is_empty() {
            if self.empty.as_ref().is_none_or(|empty| empty.len() < absent) {
                self.empty = Some(PrimitiveArray::new_null(absent.max(BATCH_ROWS)));
            }
            let shared = self.empty.as_ref().map(|empty| empty.slice(0, absent));
            return shared.unwrap_or_else(|| PrimitiveArray::new_null(absent));
        }
        let capacity = self.values.len();
        let values = std::mem::replace(&mut self.values, Vec::with_capacity(capacity));
        PrimitiveArray::new(ScalarBuffer::from(values), self.nulls.finish())
    }
}

/// A column of texts of few distinct values.
pub(crate) struct Texts<K: ArrowDictionaryKeyType> {
    interner: Interner,
    keys: Numbers<K>,
}

impl<K: ArrowDictionaryKeyType> Default for Texts<K> {
    fn default() -> Self {
        Texts {
            interner: Interner::default(),
            keys: Numbers::default(),
        }
    }
}

impl<K: ArrowDictionaryKeyType> Texts<K>
where
    K::Native: TryFrom<u32>,
{
    /// One more row.
    pub(crate) fn push(&mut self, text: Option<&str>) {
        let key = text.map(|text| self.interner.number(text));
        // Batches are short enough that every number of a text fits into the key.
        self.keys.push(key.and_then(|key| key.try_into().ok()));
    }

    /// How many distinct texts it has.
    pub(crate) fn distinct(&self) -> usize {
        self.interner.len()
    }

    /// The bytes of the distinct texts.
    pub(crate) fn bytes(&self) -> usize {
        self.interner.bytes()
    }

    /// The column; it is empty afterwards.
    pub(crate) fn finish(&mut self) -> Result<ArrayRef> {
        let values = StringArray::from(self.interner.texts());
        self.interner.clear();
        let column = DictionaryArray::<K>::try_new(self.keys.finish(), Arc::new(values))?;
        Ok(Arc::new(column))
    }
}

/// A column of x, y, z.
#[derive(Default)]
pub(crate) struct Dimensions {
    values: Vec<i32>,
    valid: Vec<bool>,
    some: bool,
    /// A column of nulls that all batches without a value share.
    empty: Option<FixedSizeListArray>,
}

impl Dimensions {
    /// One more row.
    pub(crate) fn push(&mut self, value: Option<[i32; 3]>) {
        self.valid.push(value.is_some());
        if let Some(value) = value {
            if !self.some {
                self.values.resize(3 * (self.valid.len() - 1), 0);
                self.some = true;
            }
            self.values.extend(value);
        } else if self.some {
            self.values.extend([0; 3]);
        }
    }

    /// The column; it is empty afterwards.
    pub(crate) fn finish(&mut self) -> Result<ArrayRef> {
        let valid = std::mem::take(&mut self.valid);
        let values = std::mem::take(&mut self.values);
        if std::mem::take(&mut self.some) {
            return Ok(Arc::new(triples(values, valid)?));
        }
        let rows = valid.len();
        let shared = self.empty.take().filter(|empty| empty.len() >= rows);
        let empty = match shared {
            Some(empty) => empty,
            None => {
                let rows = rows.max(BATCH_ROWS);
                triples(vec![0; 3 * rows], vec![false; rows])?
            }
        };
        Ok(Arc::new(self.empty.insert(empty).slice(0, rows)))
    }
}

fn triples(values: Vec<i32>, valid: Vec<bool>) -> Result<FixedSizeListArray> {
    let field = Arc::new(Field::new("item", DataType::Int32, false));
    let nulls = Some(NullBuffer::from(valid)).filter(|nulls| nulls.null_count() > 0);
    let values = Arc::new(Int32Array::from(values));
    Ok(FixedSizeListArray::try_new(field, 3, values, nulls)?)
}

/// A column of texts that are mostly distinct.
pub(crate) struct LongTexts {
    bytes: Vec<u8>,
    ends: Vec<i32>,
    nulls: NullBufferBuilder,
}

impl Default for LongTexts {
    fn default() -> Self {
        LongTexts {
            bytes: Vec::new(),
            ends: vec![0],
            nulls: NullBufferBuilder::new(0),
        }
    }
}

impl LongTexts {
    /// One more row.
    pub(crate) fn push(&mut self, text: Option<&str>) {
        match text {
            Some(text) => {
                self.bytes.extend_from_slice(text.as_bytes());
                self.nulls.append_non_null();
            }
            None => self.nulls.append_null(),
        }
        // A batch is closed long before its texts reach two gigabytes.
        self.ends
            .push(i32::try_from(self.bytes.len()).unwrap_or(i32::MAX));
    }

    /// The bytes of all texts.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The column; it is empty afterwards.
    pub(crate) fn finish(&mut self) -> Result<ArrayRef> {
        let ends = std::mem::replace(&mut self.ends, vec![0]);
        let bytes = std::mem::take(&mut self.bytes);
        let column = StringArray::try_new(
            OffsetBuffer::new(ScalarBuffer::from(ends)),
            bytes.into(),
            self.nulls.finish(),
        )?;
        Ok(Arc::new(column))
    }
}
