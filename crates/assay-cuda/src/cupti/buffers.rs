//! Buffers that CUPTI fills, and the queue of filled ones.
//!
//! CUPTI gives a part-filled buffer back only once every record in it is complete. While the device
//! has work queued, a buffer that takes long to fill would hold back kernels that ended long ago. So
//! a buffer holds about as many records as come in a tenth of a second.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// The size of a buffer in 8-byte words: 256 KiB, some 1,200 kernels.
const WORDS: usize = 32 * 1024;
/// Its size in bytes.
const BYTES: usize = WORDS * 8;
/// Empty buffers kept for the next request.
const KEPT: usize = 16;
/// Buffers in use at most (256 MiB); beyond, CUPTI drops records and counts them.
const MOST: usize = 1024;
/// How long a buffer should take to fill.
const FILL_TIME: Duration = Duration::from_millis(100);
/// Records of the first buffer.
const FIRST_RECORDS: usize = 64;
/// Records of a buffer at most.
const MOST_RECORDS: usize = 4096;

/// Filled buffers that wake the flush thread before its time.
const WAKE_AT: usize = 8;

/// A filled buffer.
pub(super) struct Filled {
    pub start: *mut u8,
    pub valid: usize,
}

// SAFETY: CUPTI gave the buffer up, and the holder of this owns it.
unsafe impl Send for Filled {}

struct Empty(Box<[MaybeUninit<u64>]>);

struct Pool {
    empty: Vec<Empty>,
    records: usize,
    last_request: Option<Instant>,
}

/// The buffers of this process.
pub(super) struct Buffers {
    pool: Mutex<Pool>,
    filled: Mutex<Vec<Filled>>,
    wake: Condvar,
    /// Buffers that CUPTI has.
    outstanding: AtomicUsize,
    dropped: AtomicU64,
    delivered: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poison| poison.into_inner())
}

impl Buffers {
    pub const fn new() -> Self {
        Buffers {
            pool: Mutex::new(Pool {
                empty: Vec::new(),
                records: FIRST_RECORDS,
                last_request: None,
            }),
            filled: Mutex::new(Vec::new()),
            wake: Condvar::new(),
            outstanding: AtomicUsize::new(0),
            dropped: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
        }
    }

    /// An empty buffer: start, bytes and the most records; none where too many are in use.
    pub fn request(&self) -> Option<(*mut u8, usize, usize)> {
        let mut pool = lock(&self.pool);
        let now = Instant::now();
        if let Some(before) = pool.last_request.replace(now) {
            pool.records = next_records(pool.records, now - before);
        }
        let records = pool.records;
        let empty = pool.empty.pop();
        drop(pool);
        if self.outstanding.load(Ordering::Relaxed) >= MOST {
            return None;
        }
        self.outstanding.fetch_add(1, Ordering::Relaxed);
        let Empty(memory) = empty.unwrap_or_else(|| Empty(Box::new_uninit_slice(WORDS)));
        Some((Box::into_raw(memory).cast::<u8>(), BYTES, records))
    }

    /// Takes a buffer back from CUPTI.
    pub fn complete(&self, start: *mut u8, valid: usize, dropped: usize) {
        self.dropped.fetch_add(dropped as u64, Ordering::Relaxed);
        self.delivered.fetch_add(1, Ordering::Relaxed);
        if start.is_null() {
            return;
        }
        let mut filled = lock(&self.filled);
        filled.push(Filled { start, valid: valid.min(BYTES) });
        if filled.len() >= WAKE_AT {
            self.wake.notify_one();
        }
    }

    /// All filled buffers.
    pub fn take(&self) -> Vec<Filled> {
        std::mem::take(&mut *lock(&self.filled))
    }

    /// Gives a decoded buffer back.
    ///
    /// # Safety
    ///
    /// It came from `take`, and nothing points into it.
    pub unsafe fn recycle(&self, filled: Filled) {
        self.outstanding.fetch_sub(1, Ordering::Relaxed);
        let words =
            std::ptr::slice_from_raw_parts_mut(filled.start.cast::<MaybeUninit<u64>>(), WORDS);
        // SAFETY: `request` made it of a box of this length; the caller vouches for the rest.
        let memory = unsafe { Box::from_raw(words) };
        let mut pool = lock(&self.pool);
        if pool.empty.len() < KEPT {
            pool.empty.push(Empty(memory));
        }
    }

    /// Waits until buffers came or `period` is over.
    pub fn wait(&self, period: Duration) {
        let filled = lock(&self.filled);
        if filled.len() < WAKE_AT {
            drop(self.wake.wait_timeout(filled, period));
        }
    }

    /// Wakes the flush thread.
    pub fn wake(&self) {
        self.wake.notify_all();
    }

    /// Buffers that CUPTI has not given back.
    pub fn outstanding(&self) -> usize {
        self.outstanding.load(Ordering::Relaxed)
    }

    /// Buffers that CUPTI gave back.
    pub fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    /// Records lost so far.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Counts records that CUPTI lost without a buffer.
    pub fn add_dropped(&self, dropped: usize) {
        self.dropped.fetch_add(dropped as u64, Ordering::Relaxed);
    }

    /// Forgets counts of a session before.
    pub fn reset(&self) {
        self.dropped.store(0, Ordering::Relaxed);
        let mut pool = lock(&self.pool);
        pool.records = FIRST_RECORDS;
        pool.last_request = None;
    }
}

/// Records of the next buffer, after one of `records` that lasted `elapsed`.
///
/// Growth is bounded, since a buffer that was given back part-filled lasted shorter than it seems.
fn next_records(records: usize, elapsed: Duration) -> usize {
    let rate = records as f64 / elapsed.as_secs_f64().max(1e-6);
    let wanted = (rate * FILL_TIME.as_secs_f64()) as usize;
    wanted.clamp(1, (2 * records).min(MOST_RECORDS))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records of a buffer in a steady stream.
    fn settled(rate: f64) -> usize {
        let mut records = FIRST_RECORDS;
        for _ in 0..64 {
            let elapsed = Duration::from_secs_f64(records as f64 / rate);
            records = next_records(records, elapsed);
        }
        records
    }

    #[test]
    fn a_buffer_takes_a_tenth_of_a_second() {
        assert_eq!(settled(5.0), 1);
        assert!((95..=105).contains(&settled(1_000.0)));
        assert!((950..=1_050).contains(&settled(10_000.0)));
        assert_eq!(settled(1e6), MOST_RECORDS);
    }

    #[test]
    fn part_filled_buffers_make_the_next_ones_smaller() {
        let mut records = MOST_RECORDS;
        for _ in 0..20 {
            records = next_records(records, Duration::from_millis(250));
        }
        assert_eq!(records, 1);
    }

    #[test]
    fn buffers_go_round_and_are_counted() {
        let buffers = Buffers::new();
        let (start, size, records) = buffers.request().unwrap();
        assert_eq!((size, records, buffers.outstanding()), (BYTES, FIRST_RECORDS, 1));
        buffers.complete(start, usize::MAX, 7);
        let filled = buffers.take().pop().unwrap();
        assert_eq!((filled.valid, buffers.dropped()), (BYTES, 7));
        // SAFETY: it came from `take`.
        unsafe { buffers.recycle(filled) };
        assert_eq!(buffers.outstanding(), 0);
        let (again, _, _) = buffers.request().unwrap();
        assert_eq!(again, start);
        buffers.complete(again, 0, 0);
        for filled in buffers.take() {
            // SAFETY: it came from `take`.
            unsafe { buffers.recycle(filled) };
        }
    }
}
