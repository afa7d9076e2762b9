//! Free blocks by size: segregated bins with two levels of bitmaps.
//!
//! The layout is that of TLSF (Masmano et al., 2004): the first level is the power of two, the
//! second splits it into 32 bins, and finding a bin takes two bit scans whatever the number of
//! blocks. Bins below 32 granules hold one size. The others hold sizes within a thirty-second of
//! each other; the first few of their blocks are compared for the best fit.

use super::block::{Blocks, NONE};
use super::size_class::GRANULE_BYTES;

const SECOND_LEVEL_LOG2: u32 = 5;
const SECOND_LEVEL: usize = 1 << SECOND_LEVEL_LOG2;
/// Enough for blocks of 2^32 - 1 granules, about a tebibyte.
const FIRST_LEVEL: usize = 28;
/// Blocks of one bin that are compared for the best fit.
const COMPARED: usize = 4;

/// The largest block that has a bin.
pub(super) const LARGEST_BLOCK_BYTES: u64 = (u32::MAX as u64) * GRANULE_BYTES;

/// The free blocks of one stream slot and one zone.
pub(super) struct Bins {
    /// Bit per first level with a non-empty bin.
    first: u32,
    /// By first level, bit per non-empty bin.
    second: Vec<u32>,
    heads: Vec<u32>,
}

fn bin_of(bytes: u64) -> (usize, usize) {
    let granules = bytes / GRANULE_BYTES;
    if granules < SECOND_LEVEL as u64 {
        return (0, granules as usize);
    }
    let log = granules.ilog2();
    let within = (granules >> (log - SECOND_LEVEL_LOG2)) as usize & (SECOND_LEVEL - 1);
    ((log - SECOND_LEVEL_LOG2 + 1) as usize, within)
}

impl Bins {
    pub fn new() -> Self {
        Bins {
            first: 0,
            second: vec![0; FIRST_LEVEL],
            heads: vec![NONE; FIRST_LEVEL * SECOND_LEVEL],
        }
    }

    pub fn insert(&mut self, blocks: &mut Blocks, index: u32) {
        let (level, within) = bin_of(blocks[index].bytes);
        let head = &mut self.heads[level * SECOND_LEVEL + within];
        let next = *head;
        *head = index;
        blocks[index].previous = NONE;
        blocks[index].next = next;
        if next != NONE {
            blocks[next].previous = index;
        }
        self.first |= 1 << level;
        self.second[level] |= 1 << within;
    }

    pub fn remove(&mut self, blocks: &mut Blocks, index: u32) {
        let block = &blocks[index];
        let (previous, next) = (block.previous, block.next);
        if next != NONE {
            blocks[next].previous = previous;
        }
        if previous != NONE {
            blocks[previous].next = next;
            return;
        }
        let (level, within) = bin_of(blocks[index].bytes);
        self.heads[level * SECOND_LEVEL + within] = next;
        if next == NONE {
            self.second[level] &= !(1 << within);
            if self.second[level] == 0 {
                self.first &= !(1 << level);
            }
        }
    }

    /// The first non-empty bin at or after `bin`.
    pub fn first_bin(&self, bin: usize) -> Option<usize> {
        let (level, within) = (bin / SECOND_LEVEL, bin % SECOND_LEVEL);
        let here = self.second.get(level)? & (u32::MAX << within);
        if here != 0 {
            return Some(level * SECOND_LEVEL + here.trailing_zeros() as usize);
        }
        let levels = self.first & (!1_u32 << level);
        let level = (levels != 0).then(|| levels.trailing_zeros() as usize)?;
        Some(level * SECOND_LEVEL + self.second[level].trailing_zeros() as usize)
    }

    /// The first block of a bin.
    pub fn head(&self, bin: usize) -> u32 {
        self.heads[bin]
    }

    /// The best fit for `bytes` among the first `compared` blocks of a bin.
    fn best_fit(&self, blocks: &Blocks, bin: usize, bytes: u64, compared: usize) -> Option<u32> {
        let mut best: Option<(u64, u32)> = None;
        let mut index = self.heads[bin];
        for _ in 0..compared {
            if index == NONE {
                break;
            }
            let size = blocks[index].bytes;
            if size == bytes {
                return Some(index);
            }
            if size > bytes && best.is_none_or(|(smallest, _)| size < smallest) {
                best = Some((size, index));
            }
            index = blocks[index].next;
        }
        best.map(|(_, index)| index)
    }

    /// A block of at least `bytes`, best fit to within a bin; it is not removed.
    ///
    /// Returns `None` only if no block is large enough.
    pub fn find(&self, blocks: &Blocks, bytes: u64) -> Option<u32> {
        if self.first == 0 {
            return None;
        }
        let (level, within) = bin_of(bytes);
        let bin = level * SECOND_LEVEL + within;
        let occupied = self.heads[bin] != NONE;
        let fast = occupied.then(|| self.best_fit(blocks, bin, bytes, COMPARED));
        if let Some(Some(found)) = fast {
            return Some(found);
        }
        let larger = self.find_larger(blocks, level, within, bytes);
        if larger.is_none() && occupied {
            return self.best_fit(blocks, bin, bytes, usize::MAX);
        }
        larger
    }

    fn find_larger(&self, blocks: &Blocks, level: usize, within: usize, bytes: u64) -> Option<u32> {
        // Every block in a later bin is large enough.
        let later = self.second[level] & (!1_u32 << within);
        let (level, later) = if later == 0 {
            let levels = self.first & (!1_u32 << level);
            if levels == 0 {
                return None;
            }
            let level = levels.trailing_zeros() as usize;
            (level, self.second[level])
        } else {
            (level, later)
        };
        let within = later.trailing_zeros() as usize;
        self.best_fit(blocks, level * SECOND_LEVEL + within, bytes, COMPARED)
    }

    /// The size of the largest block.
    pub fn largest(&self, blocks: &Blocks) -> u64 {
        let Some(level) = self.first.checked_ilog2() else {
            return 0;
        };
        let Some(within) = self.second[level as usize].checked_ilog2() else {
            return 0;
        };
        self.members(blocks, level as usize, within as usize)
            .map(|index| blocks[index].bytes)
            .max()
            .unwrap_or(0)
    }

    fn members<'a>(
        &'a self,
        blocks: &'a Blocks,
        level: usize,
        within: usize,
    ) -> impl Iterator<Item = u32> + 'a {
        let head = self.heads[level * SECOND_LEVEL + within];
        let first = (head != NONE).then_some(head);
        std::iter::successors(first, |&index| {
            let next = blocks[index].next;
            (next != NONE).then_some(next)
        })
    }

    /// Every block, and whether its bin is the right one and set in the bitmaps; for verification.
    pub fn audit<'a>(&'a self, blocks: &'a Blocks) -> impl Iterator<Item = (u32, bool)> + 'a {
        (0..FIRST_LEVEL).flat_map(move |level| {
            (0..SECOND_LEVEL).flat_map(move |within| {
                let set = self.second[level] >> within & 1 == 1 && self.first >> level & 1 == 1;
                self.members(blocks, level, within).map(move |index| {
                    (index, set && bin_of(blocks[index].bytes) == (level, within))
                })
            })
        })
    }

    /// Whether the bitmaps have exactly the non-empty bins set; for verification.
    pub fn bitmaps_are_exact(&self) -> bool {
        (0..FIRST_LEVEL).all(|level| {
            let filled = (0..SECOND_LEVEL)
                .filter(|within| self.heads[level * SECOND_LEVEL + within] != NONE)
                .fold(0_u32, |bits, within| bits | 1 << within);
            filled == self.second[level] && (filled != 0) == (self.first >> level & 1 == 1)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bins_are_monotonic_in_size() {
        let mut last = (0, 0);
        for granules in (1..100_000_u64).chain((17..32).map(|log| (1 << log) - 1)) {
            let bin = bin_of(granules * GRANULE_BYTES);
            assert!(bin >= last, "{granules}");
            last = bin;
        }
        assert_eq!(bin_of(LARGEST_BLOCK_BYTES), (FIRST_LEVEL - 1, SECOND_LEVEL - 1));
    }

    proptest! {
        #[test]
        fn found_blocks_fit_within_one_bin_of_the_best(
            sizes in prop::collection::vec(1_u64..20_000, 1..40),
            requested in 1_u64..20_000,
        ) {
            let mut blocks = Blocks::with_capacity(sizes.len());
            let mut bins = Bins::new();
            for granules in &sizes {
                let index = blocks.claim();
                blocks[index].bytes = granules * GRANULE_BYTES;
                bins.insert(&mut blocks, index);
            }
            prop_assert!(bins.bitmaps_are_exact());
            let best = sizes.iter().copied().filter(|&size| size >= requested).min();
            let found = bins.find(&blocks, requested * GRANULE_BYTES);
            let got = found.map(|index| blocks[index].bytes / GRANULE_BYTES);
            prop_assert_eq!(best.is_some(), got.is_some());
            if let (Some(best), Some(got)) = (best, got) {
                // Within two bins of the best fit, unless a bin held more blocks than are compared.
                prop_assert!(got >= best);
                prop_assert!(got - best <= best / 16 || sizes.len() > COMPARED, "{} {}", best, got);
            }
            for index in 0..sizes.len() as u32 {
                bins.remove(&mut blocks, index);
                prop_assert!(bins.bitmaps_are_exact());
            }
            prop_assert_eq!(bins.find(&blocks, GRANULE_BYTES), None);
        }
    }
}
