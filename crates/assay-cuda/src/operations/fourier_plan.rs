//! How a Fourier transform is divided: stages in shared memory, two passes, or another length.

/// The longest row that a CTA transforms in shared memory.
pub(super) const MAX_LENGTH: u64 = 8192;
const MAX_THREADS: u64 = 1024;
/// Threads of an SM, whose registers hold the elements of a butterfly of 20 or two of 16.
const SM_THREADS: u64 = 800;
/// The sizes of butterflies.
const RADICES: [u64; 15] = [2, 3, 4, 5, 7, 8, 9, 10, 12, 14, 15, 16, 20, 21, 25];

/// The radices of the stages of a length: as few as there can be, of the least sum.
fn stages(length: u64) -> Option<Vec<u64>> {
    if length == 1 {
        return Some(vec![1]);
    }
    // A length of 8192 has four; each stage more is a choice of 15 again.
    (1..=6).find_map(|count| divide(length, count, RADICES.len()))
}

/// So many radices of the length, each at most the one of this index before it.
fn divide(length: u64, count: usize, below: usize) -> Option<Vec<u64>> {
    if count == 0 {
        return (length == 1).then(Vec::new);
    }
    let mut best: Option<Vec<u64>> = None;
    for index in (0..below).filter(|index| length.is_multiple_of(RADICES[*index])) {
        let radix = RADICES[index];
        let Some(mut rest) = divide(length / radix, count - 1, index + 1) else { continue };
        rest.push(radix);
        if best.as_ref().is_none_or(|best| rest.iter().sum::<u64>() < best.iter().sum()) {
            best = Some(rest);
        }
    }
    best
}

/// Whether a length has small factors only.
fn is_smooth(length: u64) -> bool {
    let mut rest = length;
    for prime in [2, 3, 5, 7] {
        while rest > 1 && rest.is_multiple_of(prime) {
            rest /= prime;
        }
    }
    rest == 1
}

/// The factors of a long transform of two passes, as near to each other as there are.
pub(super) fn factors(length: u64) -> Option<(u64, u64)> {
    if !is_smooth(length) {
        return None;
    }
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
    /// Of the stages, as pairs of decimal digits of which the last is the first stage.
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
        let stages = stages(length)?;
        let pitch = (length + length / stages[0]) | 1;
        let mut done = stages[0];
        let mut roots = 0;
        for radix in &stages[1..] {
            done *= radix;
            roots += done;
        }
        let bytes = |transforms: u64| 8 * (transforms * pitch + roots);
        // A power of two, so that whole rows of the CTA are threads of a warp.
        let wanted = (elements / length).clamp(1, most.max(1));
        let mut transforms = 1 << wanted.ilog2();
        while transforms > 1 && bytes(transforms) > shared_limit {
            transforms /= 2;
        }
        let largest = stages.iter().copied().max().unwrap_or(1);
        let threads = (transforms * length).div_ceil(largest).max(2 * transforms);
        let tile = RowTile {
            length,
            radices: stages.iter().rev().fold(0, |digits, radix| digits * 100 + radix),
            transforms,
            threads: threads.next_multiple_of(32).min(MAX_THREADS),
            shared_bytes: bytes(transforms),
        };
        (tile.shared_bytes <= shared_limit).then_some(tile)
    }

    /// CTAs that an SM runs at once, of so much shared memory.
    pub fn ctas_per_sm(&self, shared_limit: u64) -> u64 {
        (shared_limit / self.shared_bytes).min(SM_THREADS / self.threads).max(1)
    }

    /// CTAs that take so many tiles in turns: as many as run at once.
    pub fn ctas(&self, tiles: u64, multiprocessors: u64, shared_limit: u64) -> u64 {
        tiles.min(multiprocessors * self.ctas_per_sm(shared_limit)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_product_of_the_radices_is_the_length() {
        assert_eq!(stages(400), Some(vec![20, 20]));
        assert_eq!(stages(1024), Some(vec![8, 8, 16]));
        assert_eq!(stages(1), Some(vec![1]));
        assert_eq!(stages(11), None);
        for length in 2..=MAX_LENGTH {
            let product = stages(length).map(|stages| stages.iter().product::<u64>());
            assert_eq!(product, is_smooth(length).then_some(length));
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
        assert_eq!((tile.radices, tile.transforms, tile.threads), (2020, 16, 320));
        assert_eq!(tile.shared_bytes, 8 * (16 * 421 + 400));
        assert_eq!((tile.ctas_per_sm(232_448), tile.ctas(7, 132, 232_448)), (2, 7));
        assert!(RowTile::new(8192, 6400, 16, 48 << 10).is_none());
        assert_eq!(RowTile::new(4096, 40_000, 16, 232_448).map(|tile| tile.transforms), Some(4));
    }
}
