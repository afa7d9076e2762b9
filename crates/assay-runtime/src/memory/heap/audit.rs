//! Iteration over the free lists, for verification.

use super::Heap;
use crate::memory::block::{NONE, Zone};

impl Heap {
    /// Every block of the size classes' free lists with its slot and class.
    pub fn audit_class_lists(&self) -> impl Iterator<Item = (usize, usize, u32)> + '_ {
        self.lists.iter().enumerate().flat_map(move |(slot, lists)| {
            lists.class_heads.iter().enumerate().flat_map(move |(class, &head)| {
                std::iter::successors((head != NONE).then_some(head), move |&index| {
                    let next = self.blocks[index].next;
                    (next != NONE).then_some(next)
                })
                .map(move |index| (slot, class, index))
            })
        })
    }

    /// Every block of the bins with its slot, its zone and whether it is in the right bin.
    pub fn audit_bins(&self) -> impl Iterator<Item = (usize, Zone, u32, bool)> + '_ {
        self.lists.iter().enumerate().flat_map(move |(slot, lists)| {
            [(Zone::Small, &lists.small), (Zone::Large, &lists.large)].into_iter().flat_map(
                move |(zone, bins)| {
                    bins.audit(&self.blocks).map(move |(index, right)| (slot, zone, index, right))
                },
            )
        })
    }

    /// Whether the bitmaps of all bins agree with the bins.
    pub fn bitmaps_are_exact(&self) -> bool {
        self.lists
            .iter()
            .all(|lists| lists.small.bitmaps_are_exact() && lists.large.bitmaps_are_exact())
    }
}
