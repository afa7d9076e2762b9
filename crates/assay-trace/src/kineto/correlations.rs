//! Finds calls that have the same correlation.

use std::collections::HashMap;

use crate::interner::TextHash;
use crate::schema::Kind;
use crate::table::Batch;

/// The correlations of the calls seen so far, 64 neighbors to a word.
#[derive(Default)]
pub(crate) struct Correlations {
    words: HashMap<i64, u64, TextHash>,
}

impl Correlations {
    /// Adds the calls of a batch; returns how many have a correlation that was there before.
    pub(crate) fn add(&mut self, batch: &Batch) -> u64 {
        let Some(column) = batch.column("correlation") else {
            return 0;
        };
        let calls = batch.keys("kind").iter().zip(batch.integers("correlation"));
        let mut repeated = 0;
        for (row, (&kind, &correlation)) in calls.enumerate() {
            // Zero is what is written where there is none.
            if kind == Kind::Api as u32 && correlation != 0 && column.is_valid(row) {
                let word = self.words.entry(correlation >> 6).or_default();
                let bit = 1 << (correlation & 63);
                repeated += u64::from(*word & bit != 0);
                *word |= bit;
            }
        }
        repeated
    }
}
