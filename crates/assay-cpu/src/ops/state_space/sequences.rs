//! The sequences of a batch, and where the state of each is.

use crate::error::{Result, check_index, check_length, check_value};
use std::cell::RefCell;
use std::ops::Range;

thread_local! {
    /// Sorted slots, to find duplicates.
    static SORTED: RefCell<Vec<i32>> = const { RefCell::new(Vec::new()) };
}

/// The sequences of a batch.
#[derive(Clone, Copy, Debug)]
pub struct StateBatch<'a> {
    /// Sequence s has the rows from `query_start_loc[s]` to `query_start_loc[s + 1]`.
    pub query_start_loc: &'a [i32],
    /// Tokens of each sequence, its rows included; 0 skips the sequence.
    pub seq_lens: &'a [i32],
    /// The slot of each sequence's state.
    pub slots: &'a [i32],
}

/// One sequence of a batch that has rows.
#[derive(Clone, Debug)]
pub(super) struct SequenceRows {
    pub rows: Range<usize>,
    pub slot: usize,
    /// Whether its first row is its first token: the state before it is zero.
    pub begins: bool,
}

impl StateBatch<'_> {
    pub(super) fn sequence(&self, index: usize) -> Option<SequenceRows> {
        let starts = self.query_start_loc;
        let rows = starts[index] as usize..starts[index + 1] as usize;
        let seq_len = self.seq_lens[index] as usize;
        (seq_len > 0 && !rows.is_empty()).then(|| SequenceRows {
            slot: self.slots[index] as usize,
            begins: seq_len == rows.len(),
            rows,
        })
    }

    /// Checks the metadata against the rows of a step and the states of a pool.
    pub(super) fn check(&self, operation: &'static str, rows: usize, states: usize) -> Result<()> {
        let sequences = self.seq_lens.len();
        let starts = self.query_start_loc;
        check_length(operation, "query_start_loc", starts.len(), &[sequences + 1])?;
        check_length(operation, "slots", self.slots.len(), &[sequences])?;
        for start in starts {
            check_index(operation, "query_start_loc", i64::from(*start), rows + 1)?;
        }
        let rising = starts.windows(2).all(|pair| pair[0] <= pair[1]);
        check_value(operation, "query_start_loc", rising, "rising numbers", "others")?;
        for (index, seq_len) in self.seq_lens.iter().enumerate() {
            let seq_len = check_index(operation, "seq_lens", i64::from(*seq_len), usize::MAX)?;
            let rows = (starts[index + 1] - starts[index]) as usize;
            check_value(
                operation,
                "seq_lens",
                seq_len == 0 || seq_len >= rows,
                format_args!("0, or at least the sequence's {rows} rows"),
                seq_len,
            )?;
            if seq_len > 0 && rows > 0 {
                check_index(operation, "slots", i64::from(self.slots[index]), states)?;
            }
        }
        // Two sequences in one slot would be a data race.
        SORTED.with_borrow_mut(|sorted| {
            sorted.clear();
            let used = (0..sequences).filter(|index| self.sequence(*index).is_some());
            sorted.extend(used.map(|index| self.slots[index]));
            sorted.sort_unstable();
            let twice = sorted.windows(2).find(|pair| pair[0] == pair[1]);
            let got = twice.map_or(-1, |pair| pair[0]);
            let got = format_args!("{got} twice");
            check_value(operation, "slots", twice.is_none(), "each slot once", got)
        })
    }
}
