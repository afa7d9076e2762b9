//! Finds calls that have the same correlation.

use std::collections::HashMap;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt8Type};

use crate::interner::TextHash;
use crate::schema::Kind;

/// The correlations of the calls seen so far, 64 neighbors to a word.
#[derive(Default)]
pub(crate) struct Correlations {
    words: HashMap<i64, u64, TextHash>,
}

impl Correlations {
    /// Adds the calls of a batch; returns how many have a correlation that was there before.
    pub(crate) fn add(&mut self, batch: &RecordBatch) -> u64 {
        let (Some(kinds), Some(correlations)) = (
            batch["kind"].as_dictionary_opt::<UInt8Type>(),
            batch["correlation"].as_primitive_opt::<Int64Type>(),
        ) else {
            return 0;
        };
        let calls = kinds.keys().values().iter().zip(correlations);
        let mut repeated = 0;
        for (&kind, correlation) in calls {
            // Zero is what is written where there is none.
            let Some(correlation) = correlation.filter(|&number| number != 0) else {
                continue;
            };
            if kind == Kind::Api as u8 {
                let word = self.words.entry(correlation >> 6).or_default();
                let bit = 1 << (correlation & 63);
                repeated += u64::from(*word & bit != 0);
                *word |= bit;
            }
        }
        repeated
    }
}
