//! A slab of values with generational keys: slots are reused, so steady state allocates nothing.

/// Values by key. The upper half of a key is the generation of its slot, so that no key is issued
/// twice.
pub struct Slab<T> {
    slots: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { slots: Vec::new(), free: Vec::new() }
    }
}

fn split(key: u64) -> (usize, u32) {
    ((key & 0xFFFF_FFFF) as usize, (key >> 32) as u32)
}

impl<T> Slab<T> {
    /// Stores a value in a free slot and returns its key.
    pub fn insert(&mut self, value: T) -> u64 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            (self.slots.len() - 1) as u32
        });
        let (generation, entry) = &mut self.slots[slot as usize];
        *generation = generation.wrapping_add(1);
        *entry = Some(value);
        (u64::from(*generation) << 32) | u64::from(slot)
    }

    /// The value of a key, unless it was removed.
    pub fn get(&self, key: u64) -> Option<&T> {
        let (slot, generation) = split(key);
        match self.slots.get(slot) {
            Some((current, entry)) if *current == generation => entry.as_ref(),
            _ => None,
        }
    }

    /// The value of a key, unless it was removed.
    pub fn get_mut(&mut self, key: u64) -> Option<&mut T> {
        let (slot, generation) = split(key);
        match self.slots.get_mut(slot) {
            Some((current, entry)) if *current == generation => entry.as_mut(),
            _ => None,
        }
    }

    /// Removes the value of a key and frees its slot.
    pub fn remove(&mut self, key: u64) -> Option<T> {
        let (slot, generation) = split(key);
        let removed = match self.slots.get_mut(slot) {
            Some((current, entry)) if *current == generation => entry.take(),
            _ => None,
        };
        if removed.is_some() {
            self.free.push(slot as u32);
        }
        removed
    }

    /// All keys and values, in slot order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.slots.iter().enumerate().filter_map(|(slot, (generation, entry))| {
            let key = (u64::from(*generation) << 32) | slot as u64;
            entry.as_ref().map(|value| (key, value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_reused_but_keys_are_not() {
        let mut slab = Slab::default();
        let (first, second) = (slab.insert("a"), slab.insert("b"));
        assert_eq!(slab.remove(first), Some("a"));
        assert_eq!(slab.remove(first), None);
        let third = slab.insert("c");
        assert_ne!(third, first);
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.get(third), Some(&"c"));
        assert_eq!(slab.get_mut(second), Some(&mut "b"));
        assert_eq!((slab.iter().count(), slab.slots.len()), (2, 2));
    }
}
