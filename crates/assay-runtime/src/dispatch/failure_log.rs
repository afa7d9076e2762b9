//! The failed work of a stream.

use super::error::DispatchError;
use crate::backend::StreamId;
use std::collections::VecDeque;
use std::ops::Range;

/// Failures that keep their error; of older ones only the fact is kept.
const DETAILED_FAILURES: usize = 64;

/// Ranges of sequence numbers that failed, in order.
///
/// No range is ever dropped, because work that counted as finished would have its output read as
/// valid. A range costs sixteen bytes.
#[derive(Default)]
pub(super) struct FailureLog {
    ranges: Vec<Range<u64>>,
    /// The errors of the newest ranges.
    errors: VecDeque<DispatchError>,
}

impl FailureLog {
    /// Adds a range of failed work, which follows all ranges before it.
    pub fn add(&mut self, range: Range<u64>, error: DispatchError) {
        if range.is_empty() {
            return;
        }
        if self.errors.len() == DETAILED_FAILURES {
            self.errors.pop_front();
        }
        self.ranges.push(range);
        self.errors.push_back(error);
    }

    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The error of the work with this number, if it failed.
    pub fn get(&self, stream: StreamId, sequence: u64) -> Option<DispatchError> {
        let after = self.ranges.partition_point(|range| range.start <= sequence);
        let index = after.checked_sub(1)?;
        if !self.ranges[index].contains(&sequence) {
            return None;
        }
        let without_error = self.ranges.len() - self.errors.len();
        let error = index.checked_sub(without_error).and_then(|index| self.errors.get(index));
        Some(error.cloned().unwrap_or(DispatchError::ExpiredFailure { stream }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_failures_are_kept_and_the_newest_keep_their_errors() {
        let stream = StreamId(3);
        let mut failures = FailureLog::default();
        for number in 0..1_000 {
            let name = format!("work {number}");
            failures.add(number * 10..number * 10 + 3, DispatchError::Abandoned { name });
        }
        for number in 0..1_000 {
            for (offset, failed) in [(0, true), (2, true), (3, false), (9, false)] {
                assert_eq!(failures.get(stream, number * 10 + offset).is_some(), failed);
            }
        }
        let oldest = failures.get(stream, 0).map(|error| error.code());
        assert_eq!(oldest, Some("stream_failed"));
        let newest = failures.get(stream, 9_991).map(|error| error.to_string());
        assert!(newest.is_some_and(|text| text.contains("work 999")));
        assert_eq!(failures.get(stream, 10_000), None);
    }
}
