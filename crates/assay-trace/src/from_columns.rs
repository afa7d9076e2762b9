//! Tables from whole columns of plain values.

use std::sync::Arc;

use crate::columns::{Column, Data, Growing, LongTexts, Texts};
use crate::error::{Fault, Result, TraceError};
use crate::schema::{BATCH_ROWS, DataType, Field, Schema};
use crate::table::{Batch, TraceTable};

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
}

impl TraceTable {
    /// A table of columns by name; columns that are not given are null.
    pub fn from_columns(schema: &'static Schema, columns: &[(String, Values)]) -> Result<Self> {
        let refused = |name: &str, expected: String, got: String| {
            TraceError::new(Fault::Column, format!("column \"{name}\""), expected, got)
        };
        let rows = columns.first().map_or(0, |(_, values)| values.len());
        for (name, values) in columns {
            if schema.place(name).is_none() {
                let names: Vec<_> = schema.fields.iter().map(|field| field.name).collect();
                let expected = format!("a column of the table, from {}", names.join(", "));
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
            let column = |field: &Field| {
                let given = columns.iter().find(|(name, _)| name == field.name);
                match given {
                    Some((_, values)) => column(field, values, first, end).map(Arc::new),
                    None => Ok(Arc::new(Column::absent(end - first, field.kind))),
                }
            };
            let columns = schema.fields.iter().map(column).collect::<Result<_>>()?;
            batches.push(Batch::new(schema, columns)?);
        }
        TraceTable::new(schema, batches)
    }
}

/// The rows from `first` to `end` as a column of the field's type.
fn column(field: &Field, values: &Values, first: usize, end: usize) -> Result<Column> {
    let wrong = |got: &str| {
        let place = format!("column \"{}\"", field.name);
        TraceError::new(Fault::Column, place, format!("{:?}", field.kind), got)
    };
    Ok(match (field.kind, values) {
        (DataType::Int64, Values::Integers(values)) => {
            grown(values[first..end].iter().copied()).finish(Data::Int64)
        }
        (DataType::Int32, Values::Integers(values)) => {
            let mut column = Growing::default();
            for &value in &values[first..end] {
                let value = value.map(i32::try_from).transpose();
                column.push(value.map_err(|_| wrong("a number of more than 32 bits"))?);
            }
            column.finish(Data::Int32)
        }
        (DataType::Float64, Values::Floats(values)) => {
            grown(values[first..end].iter().copied()).finish(Data::Float64)
        }
        (DataType::Float64, Values::Integers(values)) => {
            let floats = values[first..end].iter();
            grown(floats.map(|value| value.map(|value| value as f64))).finish(Data::Float64)
        }
        (DataType::LongTexts, Values::Texts(values)) => {
            let mut column = LongTexts::default();
            for value in &values[first..end] {
                column.push(value.as_deref());
                if i32::try_from(column.bytes()).is_err() {
                    return Err(wrong("texts of more than 2 GiB"));
                }
            }
            column.finish()
        }
        (DataType::Texts, Values::Texts(values)) => {
            let mut column = Texts::default();
            for value in &values[first..end] {
                column.push(value.as_deref());
                if i32::try_from(column.bytes()).is_err() {
                    return Err(wrong("texts of more than 2 GiB"));
                }
            }
            column.finish()
        }
        (DataType::Dimensions, Values::Dimensions(values)) => {
            grown(values[first..end].iter().copied()).finish(Data::Dimensions)
        }
        (_, Values::Integers(_)) => return Err(wrong("whole numbers")),
        (_, Values::Floats(_)) => return Err(wrong("floating-point numbers")),
        (_, Values::Texts(_)) => return Err(wrong("texts")),
        (_, Values::Dimensions(_)) => return Err(wrong("lists of three")),
    })
}

fn grown<T: Copy + Default>(values: impl Iterator<Item = Option<T>>) -> Growing<T> {
    let mut column = Growing::default();
    values.for_each(|value| column.push(value));
    column
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema;

    fn column(name: &str, values: Values) -> (String, Values) {
        (name.to_owned(), values)
    }

    fn refusal(columns: Vec<(String, Values)>) -> String {
        TraceTable::from_columns(schema::events(), &columns)
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
        let table = TraceTable::from_columns(schema::events(), &needed(BATCH_ROWS + 1)).unwrap();
        let rows: Vec<usize> = table.batches().iter().map(Batch::rows).collect();
        assert_eq!(rows, [BATCH_ROWS, 1]);
        let stream = table.batches()[1].column("stream").unwrap();
        assert_eq!(stream.nulls(), 1);
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
