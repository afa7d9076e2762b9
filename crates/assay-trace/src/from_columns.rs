//! Tables from whole columns of plain values.

use std::sync::Arc;

use arrow_array::types::{
    ArrowDictionaryKeyType, Float64Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
};
use arrow_array::{ArrayRef, RecordBatch, new_null_array};
use arrow_schema::{DataType, Field, Schema};

use crate::columns::{Dimensions, LongTexts, Numbers, Texts};
use crate::error::{Fault, Result, TraceError};
use crate::schema::BATCH_ROWS;
use crate::table::TraceTable;

/// The values of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Whole numbers.
    Integers(Vec<Option<i64>>),
    /// Floating-point numbers.
    Floats(Vec<Option<f64>>),
    /// Texts.
    Texts(Vec<Option<String>>),
    /// x, y, z.
    Dimensions(Vec<Option<[i32; 3]>>),
}

impl Values {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Values::Integers(values) => values.len(),
            Values::Floats(values) => values.len(),
            Values::Texts(values) => values.len(),
            Values::Dimensions(values) => values.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn has_null(&self) -> bool {
        match self {
            Values::Integers(values) => values.contains(&None),
            Values::Floats(values) => values.contains(&None),
            Values::Texts(values) => values.contains(&None),
            Values::Dimensions(values) => values.contains(&None),
        }
    }
}

impl TraceTable {
    /// A table of columns by name; columns that are not given are null.
    pub fn from_columns(schema: Schema, columns: Vec<(String, Values)>) -> Result<Self> {
        let refused = |name: &str, expected: String, got: String| {
            TraceError::new(Fault::Column, format!("column \"{name}\""), expected, got)
        };
        let rows = columns.first().map_or(0, |(_, values)| values.len());
        for (name, values) in &columns {
            if schema.index_of(name).is_err() {
                let expected = format!("a column of the table, from {}", names(&schema));
                return Err(refused(name, expected, "a name of none".into()));
            }
            if values.len() != rows {
                let expected = format!("{rows} rows, as column \"{}\" has", columns[0].0);
                return Err(refused(name, expected, values.len().to_string()));
            }
        }
        let mut batches = Vec::new();
        for first in (0..rows).step_by(BATCH_ROWS) {
            let end = rows.min(first + BATCH_ROWS);
            let mut arrays = Vec::with_capacity(schema.fields().len());
            for field in schema.fields() {
                let values = columns.iter().find(|(name, _)| name == field.name());
                match values {
                    Some((_, values)) if field.is_nullable() || !values.has_null() => {
                        arrays.push(array(field, values, first, end)?);
                    }
                    None if field.is_nullable() => {
                        arrays.push(new_null_array(field.data_type(), end - first));
                    }
                    _ => {
                        return Err(refused(
                            field.name(),
                            "a value in each row".into(),
                            "null".into(),
                        ));
                    }
                }
            }
            batches.push(RecordBatch::try_new(Arc::new(schema.clone()), arrays)?);
        }
        TraceTable::new(Arc::new(schema), batches)
    }
}

fn names(schema: &Schema) -> String {
    let names: Vec<&str> = schema
        .fields()
        .iter()
        .map(|field| field.name().as_str())
        .collect();
    names.join(", ")
}

/// The rows from `first` to `end` as an array of the field's type.
fn array(field: &Field, values: &Values, first: usize, end: usize) -> Result<ArrayRef> {
    let wrong = |got: &str| {
        let place = format!("column \"{}\"", field.name());
        TraceError::new(Fault::Column, place, field.data_type().to_string(), got)
    };
    Ok(match (field.data_type(), values) {
        (DataType::Int64, Values::Integers(values)) => {
            let mut column = Numbers::<Int64Type>::default();
            values[first..end]
                .iter()
                .for_each(|&value| column.push(value));
            Arc::new(column.finish())
        }
        (DataType::Int32, Values::Integers(values)) => {
            let mut column = Numbers::<Int32Type>::default();
            for &value in &values[first..end] {
                let narrow = |value: i64| i32::try_from(value);
                let value = value.map(narrow).transpose();
                column.push(value.map_err(|_| wrong("a number of more than 32 bits"))?);
            }
            Arc::new(column.finish())
        }
        (DataType::Float64, Values::Floats(values)) => {
            let mut column = Numbers::<Float64Type>::default();
            values[first..end]
                .iter()
                .for_each(|&value| column.push(value));
            Arc::new(column.finish())
        }
        (DataType::Float64, Values::Integers(values)) => {
            let mut column = Numbers::<Float64Type>::default();
            let floats = values[first..end].iter();
            floats.for_each(|value| column.push(value.map(|value| value as f64)));
            Arc::new(column.finish())
        }
        (DataType::Utf8, Values::Texts(values)) => {
            let mut column = LongTexts::default();
            for value in &values[first..end] {
                column.push(value.as_deref());
                if i32::try_from(column.bytes()).is_err() {
                    return Err(wrong("texts of more than 2 GiB"));
                }
            }
            column.finish()?
        }
        (DataType::Dictionary(key, _), Values::Texts(values)) => match **key {
            DataType::UInt8 => texts::<UInt8Type>(&values[first..end], 1 << 8),
            DataType::UInt16 => texts::<UInt16Type>(&values[first..end], 1 << 16),
            _ => texts::<UInt32Type>(&values[first..end], usize::MAX),
        }?
        .ok_or_else(|| wrong("more distinct texts"))?,
        (DataType::FixedSizeList(..), Values::Dimensions(values)) => {
            let mut column = Dimensions::default();
            values[first..end]
                .iter()
                .for_each(|&value| column.push(value));
            column.finish()?
        }
        (_, Values::Integers(_)) => return Err(wrong("whole numbers")),
        (_, Values::Floats(_)) => return Err(wrong("floating-point numbers")),
        (_, Values::Texts(_)) => return Err(wrong("texts")),
        (_, Values::Dimensions(_)) => return Err(wrong("lists of three")),
    })
}

/// A dictionary column, or None if there are more distinct texts than keys.
fn texts<K: ArrowDictionaryKeyType>(
    values: &[Option<String>],
    keys: usize,
) -> Result<Option<ArrayRef>>
where
    K::Native: TryFrom<u32>,
{
    let mut column = Texts::<K>::default();
    for value in values {
        column.push(value.as_deref());
        if column.distinct() > keys {
            return Ok(None);
        }
    }
    column.finish().map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema;

    fn column(name: &str, values: Values) -> (String, Values) {
        (name.to_owned(), values)
    }

    fn refusal(columns: Vec<(String, Values)>) -> String {
        TraceTable::from_columns(schema::events(), columns)
            .map(|table| table.rows())
            .unwrap_err()
            .to_string()
    }

    fn needed(rows: usize) -> Vec<(String, Values)> {
        let texts = |text: &str| Values::Texts(vec![Some(text.to_owned()); rows]);
        vec![
            column("kind", texts("kernel")),
            column("name", texts("gemm")),
            column("start_ns", Values::Integers(vec![Some(1); rows])),
            column("dur_ns", Values::Integers(vec![Some(2); rows])),
        ]
    }

    #[test]
    fn batches_are_cut_and_absent_columns_are_null() {
        let table = TraceTable::from_columns(schema::events(), needed(BATCH_ROWS + 1)).unwrap();
        let rows: Vec<usize> = table.batches().iter().map(RecordBatch::num_rows).collect();
        assert_eq!(rows, [BATCH_ROWS, 1]);
        let stream = table.batches()[1].column_by_name("stream").unwrap();
        assert_eq!(stream.null_count(), 1);
    }

    #[test]
    fn wrong_columns_are_named() {
        assert!(
            refusal(vec![column("nome", Values::Integers(vec![]))]).starts_with("column \"nome\"")
        );
        let mut columns = needed(2);
        columns.push(column("step", Values::Integers(vec![None])));
        assert!(refusal(columns).contains("column \"step\": expected 2 rows"));
        let mut columns = needed(1);
        columns.push(column("rank", Values::Integers(vec![Some(1 << 40)])));
        assert!(refusal(columns).contains("more than 32 bits"));
        let mut columns = needed(1);
        columns.push(column("bytes", Values::Texts(vec![None])));
        assert_eq!(
            refusal(columns),
            "column \"bytes\": expected Int64, got texts"
        );
        assert!(refusal(needed(1).split_off(1)).contains("column \"kind\""));
    }
}
