//! A table of a trace as Arrow record batches.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, Int32Array, Int64Array, RecordBatch};
use arrow_schema::SchemaRef;

use crate::error::{Fault, Result, TraceError};

/// The events or the steps of a trace, in batches.
#[derive(Clone, Debug)]
pub struct TraceTable {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl TraceTable {
    /// A table of batches that have all columns of the schema.
    pub fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Result<Self> {
        for batch in &batches {
            if batch.schema_ref().fields() != schema.fields() {
                let names = |schema: &SchemaRef| {
                    let names: Vec<_> = schema.fields().iter().map(|one| one.name()).collect();
                    format!("{names:?}")
                };
                let got = names(batch.schema_ref());
                return Err(TraceError::new(Fault::Column, "batch", names(&schema), got));
            }
        }
        Ok(TraceTable { schema, batches })
    }

    /// Its columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Its batches, in order.
    pub fn batches(&self) -> &[RecordBatch] {
        &self.batches
    }

    /// Its batches, in order, without the table.
    pub fn into_batches(self) -> Vec<RecordBatch> {
        self.batches
    }

    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// Adds the rows of a table of the same columns.
    pub fn append(&mut self, other: TraceTable) -> Result<()> {
        let other = TraceTable::new(Arc::clone(&self.schema), other.batches)?;
        self.batches.extend(other.batches);
        Ok(())
    }

    /// The same table with a column replaced, batch by batch.
    pub fn map_column(
        self,
        name: &str,
        map: impl Fn(&ArrayRef) -> Result<ArrayRef>,
    ) -> Result<TraceTable> {
        let place = self.schema.index_of(name)?;
        let replaced = |batch: &RecordBatch| {
            let mut columns = batch.columns().to_vec();
            columns[place] = map(&columns[place])?;
            Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
        };
        let batches = self.batches.iter().map(replaced).collect::<Result<_>>()?;
        Ok(TraceTable {
            schema: Arc::clone(&self.schema),
            batches,
        })
    }

    /// The same table on a clock that is `offset_ns` ahead.
    pub fn shifted(self, offset_ns: i64) -> Result<TraceTable> {
        if offset_ns == 0 {
            return Ok(self);
        }
        self.map_column("start_ns", |column| {
            let starts = column.as_primitive::<Int64Type>();
            // A start beyond the range of 64 bits stays at its end.
            let shifted: Int64Array = starts.unary(|start| start.saturating_add(offset_ns));
            Ok(Arc::new(shifted))
        })
    }

    /// The same table with the rank of all events that have none.
    pub fn ranked(self, rank: i32) -> Result<TraceTable> {
        self.map_column("rank", |column| {
            let ranks = column.as_primitive::<Int32Type>();
            if ranks.null_count() == ranks.len() {
                return Ok(Arc::new(Int32Array::from_value(rank, ranks.len())));
            }
            let filled: Int32Array = ranks.iter().map(|one| one.or(Some(rank))).collect();
            Ok(Arc::new(filled))
        })
    }
}
