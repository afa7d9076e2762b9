//! The work of a stream that failed, for whoever asks, however late.

use super::error::DispatchError;
use crate::backend::StreamId;
use std::collections::VecDeque;
use std::ops::Range;

/// How many failures keep their words; of older ones only the fact is kept.
const IN_FULL: usize = 64;

/// Ranges of work that failed, in order.
///
/// None is ever forgotten, because work that counted as finished would have its output read as
/// good; one costs sixteen bytes.
#[derive(Default)]
pub(super) struct Failures {
    ranges: Vec<Range<u64>>,
    /// The errors of the newest ranges.
    words: VecDeque<DispatchError>,
}

impl Failures {
    /// Everything in this range failed, which lies behind all ranges before it.
    pub fn add(&mut self, range: Range<u64>, error: DispatchError) {
        if range.is_empty() {
            return;
        }
        if self.words.len() == IN_FULL {
            self.words.pop_front();
        }
        self.ranges.push(range);
        self.words.push_back(error);
    }

    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Why the work of this number failed, if it did.
    pub fn of(&self, stream: StreamId, sequence: u64) -> Option<DispatchError> {
        let behind = self.ranges.partition_point(|range| range.start <= sequence);
        let index = behind.checked_sub(1)?;
        if !self.ranges[index].contains(&sequence) {
            return None;
        }
        let forgotten = self.ranges.len() - self.words.len();
        let words = index
            .checked_sub(forgotten)
            .and_then(|at| self.words.get(at));
        Some(
            words
                .cloned()
                .unwrap_or(DispatchError::LongFailed { stream }),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_known_for_ever_and_its_words_for_a_while() {
        let stream = StreamId(3);
        let mut failures = Failures::default();
        for number in 0..1_000 {
            let name = format!("work {number}");
            failures.add(
                number * 10..number * 10 + 3,
                DispatchError::Abandoned { name },
            );
        }
        for number in 0..1_000 {
            for (at, failed) in [(0, true), (2, true), (3, false), (9, false)] {
                assert_eq!(failures.of(stream, number * 10 + at).is_some(), failed);
            }
        }
        let oldest = failures.of(stream, 0).map(|error| error.code());
        assert_eq!(oldest, Some("stream_failed"));
        let newest = failures.of(stream, 9_991).map(|error| error.to_string());
        assert!(newest.is_some_and(|text| text.contains("work 999")));
        assert_eq!(failures.of(stream, 10_000), None);
    }
}
