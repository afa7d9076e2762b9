//! How a Fourier transform is divided: stages in shared memory, two passes, or another length.

/// The longest row that a CTA transforms in shared memory.
pub(super) const MAX_LENGTH: u64 = 8192;
/// Elements of a thread, about: of butterflies in its registers.
const THREAD_ELEMENTS: u64 = 12;
const MAX_THREADS: u64 = 1024;

/// The radices of the stages of a length, as decimal digits of which the last is the first stage.
pub(super) fn radices(length: u64) -> Option<u64> {
    let (mut rest, mut digits) = (length, 0);
    for radix in [7, 5, 3, 8, 4, 2] {
        while rest > 1 && rest.is_multiple_of(radix) {
            rest /= radix;
            digits = digits * 10 + radix;
        }
    }
    (rest == 1).then_some(digits.max(1))
}

/// The factors of a long transform of two passes, as near to each other as there are.
pub(super) fn factors(length: u64) -> Option<(u64, u64)> {
    radices(length)?;
    let mut first = length.isqrt();
    while first > 1 {
        let second = length / first;
        if second > MAX_LENGTH {
            return None;
        }
        if length.is_multiple_of(first) {
            return Some((first, second));
        }
        first -= 1;
    }
    None
}

/// The length of the transforms that compute one of any length (Bluestein's algorithm).
pub(super) fn padded(length: u64) -> u64 {
    (2 * length).saturating_sub(1).next_power_of_two()
}

/// A CTA that transforms rows in shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RowTile {
    pub length: u64,
    pub radices: u64,
    /// Rows of the CTA at a time.
    pub transforms: u64,
    pub threads: u64,
    pub shared_bytes: u64,
}

impl RowTile {
    /// A CTA of about so many elements in at most `most` rows; none where a row does not fit.
    pub fn new(length: u64, elements: u64, most: u64, shared_limit: u64) -> Option<Self> {
        if length > MAX_LENGTH {
            return None;
        }
        let radices = radices(length)?;
        let pitch = (length + length / 16) | 1;
        let bytes = |transforms: u64| 8 * (transforms * pitch + length);
        let mut transforms = (elements / length).clamp(1, most.max(1));
        while transforms > 1 && bytes(transforms) > shared_limit {
            transforms -= 1;
        }
        let threads = (transforms * length).div_ceil(THREAD_ELEMENTS).next_multiple_of(32);
        let tile = RowTile {
            length,
            radices,
            transforms,
            threads: threads.min(MAX_THREADS),
            shared_bytes: bytes(transforms),
        };
        (tile.shared_bytes <= shared_limit).then_some(tile)
    }

    /// CTAs that take so many tiles in turns: as many as run at once.
    pub fn ctas(&self, tiles: u64, multiprocessors: u64, shared_limit: u64) -> u64 {
        let fit = (shared_limit / self.shared_bytes).min(2048 / self.threads).max(1);
        tiles.min(multiprocessors * fit).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_product_of_the_radices_is_the_length() {
        assert_eq!(radices(400), Some(5582));
        assert_eq!(radices(1), Some(1));
        assert_eq!(radices(8192), Some(88882));
        assert_eq!(radices(11), None);
        for length in 1..5000 {
            let Some(mut digits) = radices(length) else { continue };
            let mut product = 1;
            while digits > 0 {
                product *= digits % 10;
                digits /= 10;
            }
            assert_eq!(product, length);
        }
    }

    #[test]
    fn long_lengths_have_two_near_factors() {
        assert_eq!(factors(10_000_000), Some((3125, 3200)));
        assert_eq!(factors(1 << 25), Some((4096, 8192)));
        assert_eq!(factors(1 << 27), None);
        assert_eq!(factors(9973 * 2), None);
        assert_eq!(padded(10_000_019), 1 << 25);
        assert_eq!(padded(1), 1);
    }

    #[test]
    fn rows_fit_the_shared_memory() {
        let tile = RowTile::new(400, 6400, 16, 232_448).unwrap();
        assert_eq!((tile.transforms, tile.threads), (16, 544));
        assert_eq!(tile.shared_bytes, 8 * (16 * 425 + 400));
        assert!(RowTile::new(8192, 6400, 16, 48 << 10).is_none());
        assert_eq!(RowTile::new(4096, 40_000, 16, 232_448).map(|tile| tile.transforms), Some(5));
    }
}
