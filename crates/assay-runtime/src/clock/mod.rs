//! Time sources: the monotonic clock and a virtual clock.
//!
//! Code that waits or paces takes a [`Clock`], so that it runs in real time on a device and in
//! virtual time under test.

#![forbid(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A time source in nanoseconds since its origin.
pub trait Clock: Send + Sync {
    /// Nanoseconds since the clock's origin; monotonic.
    fn now_ns(&self) -> u64;

    /// Returns once [`Clock::now_ns`] is at least `deadline_ns`.
    fn sleep_until_ns(&self, deadline_ns: u64);
}

/// The machine's monotonic clock; its origin is the creation of this value.
#[derive(Clone, Debug)]
pub struct MonotonicClock {
    origin: Instant,
}

impl MonotonicClock {
    /// A clock that reads zero now.
    pub fn new() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Default for MonotonicClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for MonotonicClock {
    fn now_ns(&self) -> u64 {
        let elapsed = self.origin.elapsed();
        let seconds = elapsed.as_secs().saturating_mul(1_000_000_000);
        seconds.saturating_add(u64::from(elapsed.subsec_nanos()))
    }

    fn sleep_until_ns(&self, deadline_ns: u64) {
        // A sleep may end early on some systems, hence the loop.
        loop {
            let now = self.now_ns();
            if now >= deadline_ns {
                return;
            }
            std::thread::sleep(Duration::from_nanos(deadline_ns - now));
        }
    }
}

/// A virtual clock, which only its callers advance; clones share the time.
///
/// ```
/// use assay_runtime::clock::{Clock, VirtualClock};
/// let clock = VirtualClock::new();
/// let same_clock = clock.clone();
/// clock.advance_ns(5);
/// clock.sleep_until_ns(3); // already past
/// assert_eq!(same_clock.now_ns(), 5);
/// ```
#[derive(Clone, Debug, Default)]
pub struct VirtualClock {
    now_ns: Arc<AtomicU64>,
}

impl VirtualClock {
    /// A clock that reads zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Advances the time by `nanoseconds`, saturating.
    pub fn advance_ns(&self, nanoseconds: u64) {
        let mut now = self.now_ns.load(Ordering::Acquire);
        loop {
            let later = now.saturating_add(nanoseconds);
            match self.now_ns.compare_exchange_weak(now, later, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return,
                Err(current) => now = current,
            }
        }
    }

    /// Advances the time to `instant_ns`; no effect if that is in the past.
    pub fn advance_to_ns(&self, instant_ns: u64) {
        self.now_ns.fetch_max(instant_ns, Ordering::AcqRel);
    }
}

impl Clock for VirtualClock {
    fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::Acquire)
    }

    fn sleep_until_ns(&self, deadline_ns: u64) {
        self.advance_to_ns(deadline_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_time_is_monotonic_and_saturates() {
        let clock = VirtualClock::new();
        clock.advance_to_ns(10);
        clock.advance_to_ns(4);
        assert_eq!(clock.now_ns(), 10);
        clock.advance_ns(u64::MAX);
        assert_eq!(clock.now_ns(), u64::MAX);
    }

    #[test]
    fn monotonic_sleep_reaches_its_deadline() {
        let clock = MonotonicClock::new();
        let deadline = clock.now_ns() + 200_000;
        clock.sleep_until_ns(deadline);
        assert!(clock.now_ns() >= deadline);
    }
}
