//! Limits on how long a wait for the GPU may last.

use assay_runtime::backend::{BackendError, Operation, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Spins first, for latency; after this long a waiter sleeps between polls.
const SPIN: Duration = Duration::from_micros(200);
const POLL_INTERVAL: Duration = Duration::from_micros(50);

/// The limit on waits.
pub(super) struct Watchdog {
    pub limit: Option<Duration>,
    /// A wait timed out; the work may never finish.
    expired: AtomicBool,
}

impl Watchdog {
    pub fn new(limit: Option<Duration>) -> Self {
        Watchdog { limit, expired: AtomicBool::new(false) }
    }

    /// Whether a wait timed out.
    pub fn has_expired(&self) -> bool {
        self.expired.load(Ordering::Relaxed)
    }

    pub fn poll(
        &self,
        operation: Operation,
        limit: Duration,
        waited_for: impl Fn() -> String,
        is_over: impl Fn() -> Result<bool>,
    ) -> Result<()> {
        let beginning = Instant::now();
        while !is_over()? {
            let waited = beginning.elapsed();
            if waited >= limit {
                self.expired.store(true, Ordering::Relaxed);
                return Err(BackendError::Watchdog {
                    operation,
                    waited_for: waited_for(),
                    limit_ns: u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX),
                });
            }
            match waited < SPIN {
                true => std::hint::spin_loop(),
                false => std::thread::sleep(POLL_INTERVAL),
            }
        }
        Ok(())
    }
}
