//! Numbered places that are used again, so that a scheduler at work allocates nothing.

/// Values by number. The upper half of a key counts the uses of its place, so that a key is never
/// given out twice.
pub(crate) struct Slab<T> {
    places: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab {
            places: Vec::new(),
            free: Vec::new(),
        }
    }
}

fn split(key: u64) -> (usize, u32) {
    ((key & 0xFFFF_FFFF) as usize, (key >> 32) as u32)
}

impl<T> Slab<T> {
    pub fn insert(&mut self, value: T) -> u64 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push((0, None));
            (self.places.len() - 1) as u32
        });
        let (uses, held) = &mut self.places[place as usize];
        *uses = uses.wrapping_add(1);
        *held = Some(value);
        (u64::from(*uses) << 32) | u64::from(place)
    }

    pub fn get(&self, key: u64) -> Option<&T> {
        let (place, uses) = split(key);
        match self.places.get(place) {
            Some((current, held)) if *current == uses => held.as_ref(),
            _ => None,
        }
    }

    pub fn get_mut(&mut self, key: u64) -> Option<&mut T> {
        let (place, uses) = split(key);
        match self.places.get_mut(place) {
            Some((current, held)) if *current == uses => held.as_mut(),
            _ => None,
        }
    }

    pub fn remove(&mut self, key: u64) -> Option<T> {
        let (place, uses) = split(key);
        let removed = match self.places.get_mut(place) {
            Some((current, held)) if *current == uses => held.take(),
            _ => None,
        };
        if removed.is_some() {
            self.free.push(place as u32);
        }
        removed
    }

    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.places
            .iter()
            .enumerate()
            .filter_map(|(place, (uses, held))| {
                let key = (u64::from(*uses) << 32) | place as u64;
                held.as_ref().map(|value| (key, value))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again_and_keys_are_not() {
        let mut slab = Slab::default();
        let (first, second) = (slab.insert("a"), slab.insert("b"));
        assert_eq!(slab.remove(first), Some("a"));
        assert_eq!(slab.remove(first), None);
        let third = slab.insert("c");
        assert_ne!(third, first);
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.get(third), Some(&"c"));
        assert_eq!(slab.get_mut(second), Some(&mut "b"));
        assert_eq!((slab.iter().count(), slab.places.len()), (2, 2));
    }
}
