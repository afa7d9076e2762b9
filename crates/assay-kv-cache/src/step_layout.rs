//! A step's attention metadata: positions, slot mapping, sequence lengths and block tables.

use super::error::{KvError, Result};
use super::manager::{BlockManager, SequenceId};

/// Offsets and sizes of a step's metadata in one array of 32-bit integers.
///
/// Sizes are those the kernels are launched with, which may exceed the step; the rest is padding
/// that kernels skip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StepLayout {
    /// Rows of new tokens.
    pub rows: usize,
    /// Sequences.
    pub sequences: usize,
    /// Columns of the block tables.
    pub table_width: usize,
    /// Position of each row in its sequence.
    pub positions: usize,
    /// Cache slot of each row; -1 for padding rows.
    pub slot_mapping: usize,
    /// First row of each sequence, and the end of the last: `sequences + 1` entries.
    pub query_start_loc: usize,
    /// Tokens of each sequence, the new ones included; 0 for padding sequences.
    pub seq_lens: usize,
    /// Block table of each sequence.
    pub block_tables: usize,
}

impl StepLayout {
    /// The arrays packed one after the other, in the order of their declaration.
    pub fn packed(rows: usize, sequences: usize, table_width: usize) -> Self {
        let slot_mapping = rows;
        let query_start_loc = slot_mapping.saturating_add(rows);
        let seq_lens = query_start_loc.saturating_add(sequences).saturating_add(1);
        StepLayout {
            rows,
            sequences,
            table_width,
            positions: 0,
            slot_mapping,
            query_start_loc,
            seq_lens,
            block_tables: seq_lens.saturating_add(sequences),
        }
    }
}

impl BlockManager {
    /// Writes the metadata of a step that adds `count` reserved tokens to each of these sequences.
    pub fn write_step(
        &self,
        batch: &[(SequenceId, usize)],
        layout: &StepLayout,
        out: &mut [i32],
    ) -> Result<()> {
        let rows: usize = batch.iter().map(|(_, count)| count).sum();
        at_most("rows", layout.rows, rows)?;
        at_most("sequences", layout.sequences, batch.len())?;
        let ends = [
            layout.positions.saturating_add(layout.rows),
            layout.slot_mapping.saturating_add(layout.rows),
            layout.query_start_loc.saturating_add(layout.sequences + 1),
            layout.seq_lens.saturating_add(layout.sequences),
            layout.block_tables.saturating_add(layout.sequences.saturating_mul(layout.table_width)),
        ];
        for end in ends {
            at_most("integers", out.len(), end)?;
        }
        let mut row = 0;
        for (index, (sequence, count)) in batch.iter().enumerate() {
            let state = self.sequence(*sequence)?;
            let length = state.length + count;
            self.check_reserved(*sequence, state, length)?;
            let blocks = length.div_ceil(self.block_tokens);
            at_most("blocks in a table", layout.table_width, blocks)?;
            out[layout.query_start_loc + index] = integer(row)?;
            out[layout.seq_lens + index] = integer(length)?;
            let table = layout.block_tables + index * layout.table_width;
            for (to, block) in out[table..].iter_mut().zip(&state.blocks[..blocks]) {
                *to = integer(*block as usize)?;
            }
            for position in state.length..length {
                let block = state.blocks[position / self.block_tokens] as usize;
                let slot = block * self.block_tokens + position % self.block_tokens;
                out[layout.positions + row] = integer(position)?;
                out[layout.slot_mapping + row] = integer(slot)?;
                row += 1;
            }
        }
        out[layout.positions + row..layout.positions + layout.rows].fill(0);
        out[layout.slot_mapping + row..layout.slot_mapping + layout.rows].fill(-1);
        let padding = batch.len()..layout.sequences;
        out[layout.seq_lens + padding.start..layout.seq_lens + padding.end].fill(0);
        let starts = layout.query_start_loc;
        out[starts + padding.start..starts + padding.end + 1].fill(integer(row)?);
        Ok(())
    }
}

fn at_most(what: &'static str, expected: usize, got: usize) -> Result<()> {
    if got > expected {
        return Err(KvError::StepTooLarge { what, expected, got });
    }
    Ok(())
}

fn integer(value: usize) -> Result<i32> {
    i32::try_from(value).map_err(|_| KvError::StepTooLarge {
        what: "slots",
        expected: i32::MAX as usize,
        got: value,
    })
}
