//! What a step's kernels read of the cache: positions, slots, lengths and block tables.

use super::error::{KvError, Result};
use super::{KvCache, SequenceId};

/// Where the parts of a step begin in one array of 32-bit integers, and how long they are.
///
/// Sizes are those of the kernels, which may exceed the step: what is left over is padded so that
/// kernels skip it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StepLayout {
    /// Rows of new tokens.
    pub rows: usize,
    /// Sequences.
    pub sequences: usize,
    /// Blocks in a row of the block tables.
    pub table_width: usize,
    /// Position of each row in its sequence.
    pub positions: usize,
    /// Slot of each row in the cache; -1 for rows that are padding.
    pub slots: usize,
    /// First row of each sequence, and the end of the last: one more than sequences.
    pub query_starts: usize,
    /// Tokens of each sequence, the new ones included; 0 for sequences that are padding.
    pub lengths: usize,
    /// Blocks of each sequence.
    pub tables: usize,
}

impl StepLayout {
    /// The parts one after the other, in the order of their declaration.
    pub fn packed(rows: usize, sequences: usize, table_width: usize) -> Self {
        let slots = rows;
        let query_starts = slots.saturating_add(rows);
        let lengths = query_starts.saturating_add(sequences).saturating_add(1);
        StepLayout {
            rows,
            sequences,
            table_width,
            positions: 0,
            slots,
            query_starts,
            lengths,
            tables: lengths.saturating_add(sequences),
        }
    }
}

impl KvCache {
    /// Writes what a step needs that adds `count` reserved tokens to each of these sequences.
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
            layout.slots.saturating_add(layout.rows),
            layout.query_starts.saturating_add(layout.sequences + 1),
            layout.lengths.saturating_add(layout.sequences),
            layout
                .tables
                .saturating_add(layout.sequences.saturating_mul(layout.table_width)),
        ];
        for end in ends {
            at_most("integers", out.len(), end)?;
        }
        let mut row = 0;
        for (index, (sequence, count)) in batch.iter().enumerate() {
            let held = self.sequence(*sequence)?;
            let length = held.length + count;
            self.check_room(*sequence, held, length)?;
            let blocks = length.div_ceil(self.block_tokens);
            at_most("blocks in a table", layout.table_width, blocks)?;
            out[layout.query_starts + index] = integer(row)?;
            out[layout.lengths + index] = integer(length)?;
            let table = layout.tables + index * layout.table_width;
            for (to, block) in out[table..].iter_mut().zip(&held.blocks[..blocks]) {
                *to = integer(*block as usize)?;
            }
            for position in held.length..length {
                let block = held.blocks[position / self.block_tokens] as usize;
                let slot = block * self.block_tokens + position % self.block_tokens;
                out[layout.positions + row] = integer(position)?;
                out[layout.slots + row] = integer(slot)?;
                row += 1;
            }
        }
        out[layout.positions + row..layout.positions + layout.rows].fill(0);
        out[layout.slots + row..layout.slots + layout.rows].fill(-1);
        let padding = batch.len()..layout.sequences;
        out[layout.lengths + padding.start..layout.lengths + padding.end].fill(0);
        let starts = layout.query_starts;
        out[starts + padding.start..starts + padding.end + 1].fill(integer(row)?);
        Ok(())
    }
}

fn at_most(what: &'static str, expected: usize, got: usize) -> Result<()> {
    if got > expected {
        return Err(KvError::StepTooLarge {
            what,
            expected,
            got,
        });
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
