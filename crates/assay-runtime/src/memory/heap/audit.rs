//! The free lists laid open, for verification.

use super::Heap;
use crate::memory::block::{NONE, Zone};

impl Heap {
    /// Every block of the quick lists with its slot and class; for verification.
    pub fn audit_quick(&self) -> impl Iterator<Item = (usize, usize, u32)> + '_ {
        self.lists
            .iter()
            .enumerate()
            .flat_map(move |(slot, lists)| {
                lists
                    .quick
                    .iter()
                    .enumerate()
                    .flat_map(move |(class, &head)| {
                        std::iter::successors((head != NONE).then_some(head), move |&index| {
                            let next = self.blocks[index].next;
                            (next != NONE).then_some(next)
                        })
                        .map(move |index| (slot, class, index))
                    })
            })
    }

    /// Every block of the bins with its slot, zone and whether it is in the right bin.
    pub fn audit_bins(&self) -> impl Iterator<Item = (usize, Zone, u32, bool)> + '_ {
        self.lists
            .iter()
            .enumerate()
            .flat_map(move |(slot, lists)| {
                [(Zone::Small, &lists.small), (Zone::Large, &lists.large)]
                    .into_iter()
                    .flat_map(move |(zone, bins)| {
                        bins.audit(&self.blocks)
                            .map(move |(index, right)| (slot, zone, index, right))
                    })
            })
    }

    /// Whether the bitmaps of all bins agree with the bins.
    pub fn marks_are_exact(&self) -> bool {
        self.lists
            .iter()
            .all(|lists| lists.small.marks_are_exact() && lists.large.marks_are_exact())
    }
}
