//! A bounded list of records that forgets the oldest and counts what it forgot.

use std::collections::VecDeque;

/// Records taken out of a ring.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Taken<T> {
    /// Oldest first.
    pub records: Vec<T>,
    /// Records forgotten since the ring was last emptied.
    pub dropped: u64,
}

/// The ring.
pub(crate) struct Ring<T> {
    entries: VecDeque<T>,
    capacity: usize,
    sequence: u64,
    dropped: u64,
}

impl<T> Ring<T> {
    pub fn new(capacity: usize) -> Self {
        Ring {
            entries: VecDeque::with_capacity(capacity),
            capacity,
            sequence: 0,
            dropped: 0,
        }
    }

    /// Adds the record that `make` gives for the next number.
    pub fn push(&mut self, make: impl FnOnce(u64) -> T) {
        let record = make(self.sequence);
        self.sequence += 1;
        if self.entries.len() == self.capacity {
            self.entries.pop_front();
            self.dropped += 1;
        }
        self.entries.push_back(record);
    }

    /// Empties the ring, putting `fresh` in its place so that nothing is copied meanwhile.
    pub fn take(&mut self, fresh: VecDeque<T>) -> (VecDeque<T>, u64) {
        let dropped = std::mem::take(&mut self.dropped);
        (std::mem::replace(&mut self.entries, fresh), dropped)
    }

    /// The number of the oldest record.
    pub fn first(&self) -> u64 {
        self.sequence - self.entries.len() as u64
    }

    pub fn capacity(&self) -> usize {
        self.capacity
    }
}
