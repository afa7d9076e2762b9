//! Records of the ring, and the spans of their launches.

use assay_runtime::trace::LaunchSpan;

/// Words before the slots of a record: region, launches, time of the flush.
pub(super) const HEADER_WORDS: u64 = 3;

/// One run of a region.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Record<'a> {
    pub region: u64,
    /// When the flush ran, on the GPU's clock: an end of all its launches.
    pub flushed_ns: u64,
    /// Start and latest end of each launch; 0 where it has none.
    pub slots: &'a [u64],
}

/// The words of a record of so many launches.
pub(super) fn record_words(launches: usize) -> u64 {
    HEADER_WORDS + 2 * launches as u64
}

/// The records in words that were read in order; stops at a record that is cut off.
pub(super) fn records(words: &[u64]) -> impl Iterator<Item = Record<'_>> {
    let mut rest = words;
    std::iter::from_fn(move || {
        let [region, launches, flushed_ns, slots @ ..] = rest else {
            return None;
        };
        let length = usize::try_from(*launches).ok()?.checked_mul(2)?;
        let found = slots.get(..length)?;
        rest = &slots[length..];
        Some(Record { region: *region, flushed_ns: *flushed_ns, slots: found })
    })
}

/// The spans of a record's launches, in order, on the GPU's clock.
///
/// A launch without a stamp is bounded by its neighbors: it began after the one before it ended, and
/// ended before the next one began.
pub(super) fn spans(record: &Record<'_>) -> Vec<LaunchSpan> {
    let (slots, _) = record.slots.as_chunks::<2>();
    let mut spans = vec![LaunchSpan::default(); slots.len()];
    let mut next_start = record.flushed_ns;
    for (span, [start, end]) in spans.iter_mut().zip(slots).rev() {
        span.end_is_bound = *end == 0;
        span.end_ns = if *end == 0 { next_start } else { *end };
        span.start_is_bound = *start == 0;
        if *start != 0 {
            span.start_ns = *start;
            span.end_ns = span.end_ns.max(*start);
            next_start = *start;
        }
    }
    // Nothing is known before the first stamp.
    let mut last_end = next_start;
    for (span, [start, end]) in spans.iter_mut().zip(slots) {
        if span.start_is_bound {
            span.start_ns = last_end.min(span.end_ns);
        }
        // A start without an end says only that what follows began later.
        last_end = last_end.max(if *end != 0 { *end } else { *start });
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(spans: &[LaunchSpan]) -> Vec<(u64, u64, bool, bool)> {
        let each = spans.iter();
        each.map(|one| (one.start_ns, one.end_ns, one.start_is_bound, one.end_is_bound)).collect()
    }

    #[test]
    fn records_are_read_in_order_and_a_cut_one_ends_them() {
        let words = [7, 1, 90, 10, 20, 8, 2, 95, 30, 40, 0, 0, 7, 1, 99, 50];
        let found: Vec<_> = records(&words).collect();
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].region, found[0].slots), (7, &[10, 20][..]));
        assert_eq!((found[1].region, found[1].flushed_ns), (8, 95));
        assert_eq!(record_words(2), 7);
        assert!(records(&[1, u64::MAX, 3, 4]).next().is_none());
    }

    #[test]
    fn launches_without_stamps_lie_between_their_neighbors() {
        let record = Record { region: 1, flushed_ns: 100, slots: &[10, 20, 0, 0, 30, 45, 0, 0] };
        assert_eq!(
            times(&spans(&record)),
            [
                (10, 20, false, false),
                (20, 30, true, true),
                (30, 45, false, false),
                (45, 100, true, true),
            ]
        );
    }

    #[test]
    fn without_end_stamps_a_launch_lasts_until_the_next_begins() {
        let record = Record { region: 1, flushed_ns: 50, slots: &[10, 0, 0, 0, 30, 0] };
        assert_eq!(
            times(&spans(&record)),
            [(10, 30, false, true), (10, 30, true, true), (30, 50, false, true),]
        );
    }

    #[test]
    fn a_region_without_any_stamp_ends_with_its_flush() {
        let record = Record { region: 1, flushed_ns: 50, slots: &[0, 0] };
        assert_eq!(times(&spans(&record)), [(50, 50, true, true)]);
    }
}
