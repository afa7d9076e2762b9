//! Size classes: multiples of the granule up to 4 KiB, then eight classes per power of two.

/// Alignment of every block's address and size.
pub const GRANULE_BYTES: u64 = 256;

/// Requests up to this size can be served by size classes.
pub const SMALL_LIMIT_BYTES: u64 = 32 << 10;

/// Number of size classes.
pub(super) const CLASS_COUNT: usize = 40;

/// The class of a small size and the bytes its blocks have.
///
/// Sizes up to 4 KiB are rounded to the granule, larger ones to an eighth of the power of two
/// below, so that less than a ninth of a block is wasted.
pub(super) fn class_of(bytes: u64) -> (usize, u64) {
    let granules = bytes.div_ceil(GRANULE_BYTES).max(1);
    let shift = (granules - 1).checked_ilog2().map_or(0, |log| log.saturating_sub(3));
    let steps = granules.div_ceil(1 << shift);
    let class = u64::from(shift) * 8 + steps - 1;
    (class as usize, (steps << shift) * GRANULE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_dense_monotonic_and_waste_less_than_a_ninth() {
        let mut last = (0, GRANULE_BYTES);
        for bytes in 1..=SMALL_LIMIT_BYTES {
            let (class, rounded) = class_of(bytes);
            assert!(rounded >= bytes && rounded % GRANULE_BYTES == 0, "{bytes}");
            assert!(class == last.0 || class == last.0 + 1, "{bytes}: gap in classes");
            assert_eq!(class == last.0, rounded == last.1, "{bytes}: one size per class");
            assert_eq!(class_of(rounded), (class, rounded), "{bytes}: rounding is stable");
            if bytes > GRANULE_BYTES * 16 {
                assert!((rounded - bytes) * 9 < rounded, "{bytes}: wasted {rounded}");
            }
            last = (class, rounded);
        }
        assert_eq!(last, (CLASS_COUNT - 1, SMALL_LIMIT_BYTES));
    }
}
