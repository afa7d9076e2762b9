//! When launches ran, kept by the device.

use super::error::BackendError;
use crate::trace::DeviceSpans;

/// The tracer of a device.
pub trait Tracer: Send + Sync {
    /// Begins to keep the times of work that is queued with a ticket from now on.
    ///
    /// `capacity` is how many launches it keeps; it counts those beyond.
    fn start(&self, capacity: usize) -> Result<(), BackendError>;

    /// Waits for the work in flight, ends, and returns the times on the backend's clock.
    fn stop(&self) -> Result<DeviceSpans, BackendError>;
}
