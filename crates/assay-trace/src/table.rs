//! A table of a trace, in batches of columns.

use std::sync::Arc;

use crate::columns::{Column, Data};
use crate::error::{Fault, Result, TraceError};
use crate::schema::{self, BATCH_ROWS, FIELDS};

/// Some rows of a table, column by column; clones share the columns.
#[derive(Clone, Debug)]
pub struct Batch {
    rows: usize,
    columns: Vec<Arc<Column>>,
}

impl Batch {
    /// A batch of all columns of the event table.
    pub fn new(columns: Vec<Arc<Column>>) -> Result<Self> {
        let rows = columns.first().map_or(0, |column| column.rows);
        let refused = |name: &str, expected: String, got: String| {
            TraceError::new(Fault::Column, format!("column \"{name}\""), expected, got)
        };
        if columns.len() != FIELDS.len() || rows > BATCH_ROWS {
            let expected = format!("{} columns of up to {BATCH_ROWS} rows", FIELDS.len());
            let got = format!("{} of {rows}", columns.len());
            return Err(TraceError::new(Fault::Column, "batch", expected, got));
        }
        for (field, column) in FIELDS.iter().zip(&columns) {
            if column.rows != rows {
                let expected = format!("{rows} rows");
                return Err(refused(field.name, expected, column.rows.to_string()));
            }
            if column.data.kind() != field.kind {
                let (expected, got) = (field.kind, column.data.kind());
                let texts = (format!("{expected:?}"), format!("{got:?}"));
                return Err(refused(field.name, texts.0, texts.1));
            }
            if column.nulls > 0 && !field.nullable {
                let expected = "a value in each row".to_owned();
                return Err(refused(field.name, expected, "null".to_owned()));
            }
        }
        Ok(Batch { rows, columns })
    }

    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Its columns, in the order of the schema.
    pub fn columns(&self) -> &[Arc<Column>] {
        &self.columns
    }

    /// A column by its name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        let place = schema::place(name)?;
        Some(&self.columns[place])
    }

    /// The values of a column of 64-bit numbers; none if it is another, or holds none.
    pub fn integers(&self, name: &str) -> &[i64] {
        match self.column(name).map(Column::data) {
            Some(Data::Int64(values)) => values,
            _ => &[],
        }
    }

    /// The keys of a column of texts; none if it is another, or holds none.
    pub fn keys(&self, name: &str) -> &[u32] {
        match self.column(name).map(Column::data) {
            Some(Data::Texts(keys, _)) => keys,
            _ => &[],
        }
    }
}

/// The events of a trace, in batches.
#[derive(Clone, Debug)]
pub struct TraceTable {
    batches: Vec<Batch>,
}

impl TraceTable {
    /// A table of batches.
    pub fn new(batches: Vec<Batch>) -> Self {
        TraceTable { batches }
    }

    /// Its batches, in order.
    pub fn batches(&self) -> &[Batch] {
        &self.batches
    }

    /// Its batches, in order, without the table.
    pub fn into_batches(self) -> Vec<Batch> {
        self.batches
    }

    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.batches.iter().map(Batch::rows).sum()
    }

    /// The same table with a column replaced, batch by batch.
    fn map_column(mut self, name: &str, map: impl Fn(&Column) -> Column) -> TraceTable {
        if let Some(place) = schema::place(name) {
            for batch in &mut self.batches {
                batch.columns[place] = Arc::new(map(&batch.columns[place]));
            }
        }
        self
    }

    /// The same table on a clock that is `offset_ns` ahead.
    #[must_use]
    pub fn shifted(self, offset_ns: i64) -> TraceTable {
        if offset_ns == 0 {
            return self;
        }
        self.map_column("start_ns", |column| {
            let mut column = column.clone();
            if let Data::Int64(starts) = &mut column.data {
                for start in starts {
                    // A start beyond the range of 64 bits stays at its end.
                    *start = start.saturating_add(offset_ns);
                }
            }
            column
        })
    }

    /// The same table with the rank of all events that have none.
    #[must_use]
    pub fn ranked(self, rank: i32) -> TraceTable {
        self.map_column("rank", |column| {
            let known = match &column.data {
                Data::Int32(ranks) => &ranks[..],
                _ => &[],
            };
            let rank_of = |row| {
                if column.is_valid(row) { known[row] } else { rank }
            };
            Column::whole(column.rows, Data::Int32((0..column.rows).map(rank_of).collect()))
        })
    }
}
