//! A bounded buffer of records that overwrites the oldest and counts what it dropped.

use std::collections::VecDeque;

/// Records drained from a ring buffer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Drained<T> {
    /// Oldest first.
    pub records: Vec<T>,
    /// Records overwritten since the buffer was last drained.
    pub dropped: u64,
}

/// A bounded queue of sequence-numbered records.
pub struct RingBuffer<T> {
    entries: VecDeque<T>,
    capacity: usize,
    next_sequence: u64,
    dropped: u64,
}

impl<T> RingBuffer<T> {
    /// An empty buffer; it never holds more than `capacity` records.
    pub fn new(capacity: usize) -> Self {
        RingBuffer {
            entries: VecDeque::with_capacity(capacity),
            capacity,
            next_sequence: 0,
            dropped: 0,
        }
    }

    /// Appends the record that `make` returns for the next sequence number.
    pub fn push(&mut self, make: impl FnOnce(u64) -> T) {
        let record = make(self.next_sequence);
        self.next_sequence += 1;
        if self.entries.len() == self.capacity {
            self.entries.pop_front();
            self.dropped += 1;
        }
        self.entries.push_back(record);
    }

    /// Swaps the entries for the empty `replacement`, so that a lock around the buffer is held for
    /// no copy. Returns the entries and how many were dropped before them.
    pub fn take(&mut self, replacement: VecDeque<T>) -> (VecDeque<T>, u64) {
        let dropped = std::mem::take(&mut self.dropped);
        (std::mem::replace(&mut self.entries, replacement), dropped)
    }

    /// The sequence number of the oldest record.
    pub fn first(&self) -> u64 {
        self.next_sequence - self.entries.len() as u64
    }

    /// The most records the buffer holds.
    pub fn capacity(&self) -> usize {
        self.capacity
    }
}
