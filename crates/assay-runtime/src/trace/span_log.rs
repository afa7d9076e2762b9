//! The times of work that runs on threads of this process.

use super::spans::{DeviceSpans, LaunchSpan, WorkSpans};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Times between launches: work of n launches that run one after the other has n + 1.
///
/// One time serves as the end of a launch and the start of the next, since nothing runs between
/// two launches but the loop over them. Launches of concurrent branches have two times each.
#[derive(Default)]
pub struct SpanLog {
    is_on: AtomicBool,
    buffer: Mutex<Buffer>,
}

#[derive(Default)]
struct Buffer {
    works: Vec<Entry>,
    times: Vec<u64>,
    capacity: usize,
    dropped: u64,
}

struct Entry {
    ticket: u64,
    first: usize,
    times: usize,
    /// From one time to the index of the next launch's: 1 where launches share times, else 2.
    stride: usize,
}

impl SpanLog {
    /// Whether times are kept.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Begins with an empty buffer of this many launches, allocated now.
    pub fn start(&self, capacity: usize) {
        *self.lock() = Buffer {
            works: Vec::with_capacity(capacity / 64 + 1),
            times: Vec::with_capacity(capacity),
            capacity,
            dropped: 0,
        };
        self.is_on.store(true, Ordering::Release);
    }

    /// Adds the work of a ticket whose launches ran one after the other: n + 1 times.
    pub fn push(&self, ticket: u64, times: &[u64]) {
        self.add(ticket, times, 1);
    }

    /// Adds the work of a ticket whose launches may have overlapped: the start and end of each.
    pub fn push_spans(&self, ticket: u64, times: &[u64]) {
        self.add(ticket, times, 2);
    }

    fn add(&self, ticket: u64, times: &[u64], stride: usize) {
        let mut buffer = self.lock();
        // Work that ends after the trace was stopped belongs to none.
        if !self.is_on.load(Ordering::Acquire) {
            return;
        }
        if buffer.times.len() + times.len() > buffer.capacity {
            buffer.dropped += (times.len().saturating_sub(1)).div_ceil(stride) as u64;
            return;
        }
        let first = buffer.times.len();
        buffer.times.extend_from_slice(times);
        buffer.works.push(Entry { ticket, first, times: times.len(), stride });
    }

    /// Ends, and returns what was kept.
    pub fn stop(&self) -> DeviceSpans {
        let mut buffer = self.lock();
        self.is_on.store(false, Ordering::Release);
        let buffer = std::mem::take(&mut *buffer);
        let mut spans = Vec::with_capacity(buffer.times.len());
        let mut works = Vec::with_capacity(buffer.works.len());
        for entry in buffer.works {
            let range = entry.first..entry.first + entry.times;
            let times = buffer.times.get(range).unwrap_or_default();
            let first = spans.len();
            let pairs = times.windows(2).step_by(entry.stride);
            spans.extend(pairs.map(|pair| LaunchSpan {
                start_ns: pair[0],
                end_ns: pair[1],
                ..LaunchSpan::default()
            }));
            works.push(WorkSpans {
                ticket: entry.ticket,
                first,
                count: spans.len() - first,
                launches: None,
            });
        }
        DeviceSpans { works, spans, dropped: buffer.dropped, clock_error_ns: 0, resolution_ns: 1 }
    }

    fn lock(&self) -> MutexGuard<'_, Buffer> {
        // Nothing can panic midway under it.
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_fits_and_counts_the_rest() {
        let log = SpanLog::default();
        log.push(1, &[0, 1]);
        assert!(log.stop().works.is_empty(), "off: nothing is kept");
        log.start(5);
        assert!(log.is_on());
        log.push(1, &[10, 12, 15]);
        log.push(2, &[20, 21, 22, 23]);
        log.push(3, &[30, 31]);
        let kept = log.stop();
        assert_eq!(kept.dropped, 3);
        let tickets: Vec<u64> = kept.works.iter().map(|work| work.ticket).collect();
        assert_eq!(tickets, [1, 3]);
        let durations: Vec<u64> = kept.spans.iter().map(|one| one.end_ns - one.start_ns).collect();
        assert_eq!(durations, [2, 3, 1]);
        assert_eq!(kept.of(&kept.works[1]).len(), 1);
        log.start(6);
        log.push_spans(1, &[10, 14, 11, 12, 13, 20]);
        let spans = log.stop().spans;
        let spans: Vec<(u64, u64)> = spans.iter().map(|one| (one.start_ns, one.end_ns)).collect();
        assert_eq!(spans, [(10, 14), (11, 12), (13, 20)]);
        assert!(!log.is_on());
        log.push(4, &[40, 41]);
        assert!(log.stop().works.is_empty());
    }
}
