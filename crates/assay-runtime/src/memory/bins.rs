//! Free blocks by size: two levels of bins with bitmaps of the non-empty ones.
//!
//! The arrangement is that of the TLSF allocator: the first level is the power of two, the second
//! divides it in 32, and finding a bin takes two bit scans whatever the number of blocks. Bins of
//! fewer than 32 granules hold one size; the others hold sizes within a thirty-second of each
//! other, of which the first few are compared for the tightest fit.

use super::block::{Blocks, NONE};
use super::size_class::GRANULE_BYTES;

const SECOND_LEVEL_LOG2: u32 = 5;
const SECOND_LEVEL: usize = 1 << SECOND_LEVEL_LOG2;
/// Enough for blocks of 2^32 - 1 granules, about a tebibyte.
const FIRST_LEVEL: usize = 28;
/// How many blocks of one bin are compared.
const COMPARED: usize = 4;

/// The largest block that has a bin.
pub(super) const LARGEST_BLOCK_BYTES: u64 = (u32::MAX as u64) * GRANULE_BYTES;

/// Free blocks of one stream and one zone.
pub(super) struct Bins {
    first: u32,
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

    /// The first non-empty bin from `bin` on.
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

    /// The tightest of the first `compared` blocks in a bin that hold `bytes`.
    fn tightest(&self, blocks: &Blocks, bin: usize, bytes: u64, compared: usize) -> Option<u32> {
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

    /// A block of at least `bytes`, as tight as the bins tell; it stays where it is.
    ///
    /// `None` means that there is no such block.
    pub fn find(&self, blocks: &Blocks, bytes: u64) -> Option<u32> {
        if self.first == 0 {
            return None;
        }
        let (level, within) = bin_of(bytes);
        let bin = level * SECOND_LEVEL + within;
        let own = self.heads[bin] != NONE;
        let quickly = own.then(|| self.tightest(blocks, bin, bytes, COMPARED));
        if let Some(Some(found)) = quickly {
            return Some(found);
        }
        let later = self.find_later(blocks, level, within, bytes);
        if later.is_none() && own {
            return self.tightest(blocks, bin, bytes, usize::MAX);
        }
        later
    }

    fn find_later(&self, blocks: &Blocks, level: usize, within: usize, bytes: u64) -> Option<u32> {
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
        self.tightest(blocks, level * SECOND_LEVEL + within, bytes, COMPARED)
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

    /// Every block with the bin it is in and whether it belongs there; for verification.
    pub fn audit<'a>(&'a self, blocks: &'a Blocks) -> impl Iterator<Item = (u32, bool)> + 'a {
        (0..FIRST_LEVEL).flat_map(move |level| {
            (0..SECOND_LEVEL).flat_map(move |within| {
                let marked = self.second[level] >> within & 1 == 1 && self.first >> level & 1 == 1;
                self.members(blocks, level, within).map(move |index| {
                    (
                        index,
                        marked && bin_of(blocks[index].bytes) == (level, within),
                    )
                })
            })
        })
    }

    /// Whether no bin is marked that is empty; for verification.
    pub fn marks_are_exact(&self) -> bool {
        (0..FIRST_LEVEL).all(|level| {
            let filled = (0..SECOND_LEVEL)
                .filter(|within| self.heads[level * SECOND_LEVEL + within] != NONE)
                .fold(0_u32, |marks, within| marks | 1 << within);
            filled == self.second[level] && (filled != 0) == (self.first >> level & 1 == 1)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bins_cover_all_sizes_in_order() {
        let mut last = (0, 0);
        for granules in (1..100_000_u64).chain((17..32).map(|log| (1 << log) - 1)) {
            let bin = bin_of(granules * GRANULE_BYTES);
            assert!(bin >= last, "{granules}");
            last = bin;
        }
        assert_eq!(
            bin_of(LARGEST_BLOCK_BYTES),
            (FIRST_LEVEL - 1, SECOND_LEVEL - 1)
        );
    }

    proptest! {
        #[test]
        fn found_blocks_fit_and_waste_at_most_one_bin(
            sizes in prop::collection::vec(1_u64..20_000, 1..40),
            wanted in 1_u64..20_000,
        ) {
            let mut blocks = Blocks::with_capacity(sizes.len());
            let mut bins = Bins::new();
            for granules in &sizes {
                let index = blocks.claim();
                blocks[index].bytes = granules * GRANULE_BYTES;
                bins.insert(&mut blocks, index);
            }
            prop_assert!(bins.marks_are_exact());
            let best = sizes.iter().copied().filter(|&size| size >= wanted).min();
            let found = bins.find(&blocks, wanted * GRANULE_BYTES);
            let got = found.map(|index| blocks[index].bytes / GRANULE_BYTES);
            prop_assert_eq!(best.is_some(), got.is_some());
            if let (Some(best), Some(got)) = (best, got) {
                // Off the best by less than two bins, unless a bin was too full to compare.
                prop_assert!(got >= best);
                prop_assert!(got - best <= best / 16 || sizes.len() > COMPARED, "{} {}", best, got);
            }
            for index in 0..sizes.len() as u32 {
                bins.remove(&mut blocks, index);
                prop_assert!(bins.marks_are_exact());
            }
            prop_assert_eq!(bins.find(&blocks, GRANULE_BYTES), None);
        }
    }
}
