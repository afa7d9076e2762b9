//! Least-recently-used order over slot indices, with constant-time updates.

/// Marks the absence of a neighbor.
const NONE: u32 = u32::MAX;

/// A doubly linked list of slots, least recently used first.
///
/// The links are stored in one array indexed by slot; removal relinks the two neighbors only.
#[derive(Default)]
pub struct Lru {
    /// Older and newer neighbor of each slot.
    links: Vec<Option<(u32, u32)>>,
    ends: Option<(u32, u32)>,
}

impl Lru {
    /// Makes the slot the most recently used; inserts it if absent.
    pub fn touch(&mut self, slot: u32) {
        self.remove(slot);
        let index = slot as usize;
        if self.links.len() <= index {
            self.links.resize(index + 1, None);
        }
        let newest = self.ends.map(|(_, newest)| newest);
        if let Some(newest) = newest {
            self.set_newer(newest, slot);
        }
        self.links[index] = Some((newest.unwrap_or(NONE), NONE));
        let oldest = self.ends.map_or(slot, |(oldest, _)| oldest);
        self.ends = Some((oldest, slot));
    }

    /// Removes the slot, if present.
    pub fn remove(&mut self, slot: u32) {
        let Some((older, newer)) = self.links.get_mut(slot as usize).and_then(|link| link.take())
        else {
            return;
        };
        self.set_newer(older, newer);
        self.set_older(newer, older);
        self.ends = match (self.ends, older, newer) {
            (_, NONE, NONE) => None,
            (Some((_, newest)), NONE, _) => Some((newer, newest)),
            (Some((oldest, _)), _, NONE) => Some((oldest, older)),
            (ends, _, _) => ends,
        };
    }

    /// The slots, least recently used first.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(self.ends.map(|(oldest, _)| oldest), |&slot| {
            let newer = self.links[slot as usize].map_or(NONE, |(_, newer)| newer);
            (newer != NONE).then_some(newer)
        })
    }

    fn set_newer(&mut self, slot: u32, newer: u32) {
        if let Some(Some(link)) = self.links.get_mut(slot as usize) {
            link.1 = newer;
        }
    }

    fn set_older(&mut self, slot: u32, older: u32) {
        if let Some(Some(link)) = self.links.get_mut(slot as usize) {
            link.0 = older;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn removal_leaves_the_others_in_order() {
        let mut lru = Lru::default();
        for slot in 0..6 {
            lru.touch(slot);
        }
        for (removed, expected) in [
            (2, vec![0, 1, 3, 4, 5]),
            (0, vec![1, 3, 4, 5]),
            (5, vec![1, 3, 4]),
            (5, vec![1, 3, 4]),
            (3, vec![1, 4]),
        ] {
            lru.remove(removed);
            assert_eq!(lru.iter().collect::<Vec<_>>(), expected);
        }
        lru.touch(1);
        assert_eq!(lru.iter().collect::<Vec<_>>(), [4, 1]);
    }

    proptest! {
        #[test]
        fn matches_a_vector_model(steps in prop::collection::vec((any::<bool>(), 0_u32..12), 0..200)) {
            let mut lru = Lru::default();
            let mut list: Vec<u32> = Vec::new();
            for (touched, slot) in steps {
                list.retain(|other| *other != slot);
                if touched {
                    list.push(slot);
                    lru.touch(slot);
                } else {
                    lru.remove(slot);
                }
                prop_assert_eq!(lru.iter().collect::<Vec<_>>(), list.clone());
            }
        }
    }
}
