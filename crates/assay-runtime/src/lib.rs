//! The device runtime, independent of Python and of any device library.
//!
//! [`backend`] is the contract every device implements, [`streams`] the stream and event state
//! machine of devices that run in this process, and [`sim`] the simulated device. On top of it:
//! [`memory`] (caching allocator, quotas, residency), [`scheduler`] (weighted fair queueing of
//! tasks over the device's lanes), [`dispatch`] (streams, captured graphs, timing), [`transfer`]
//! (staged copies) and [`trace`] (when each launch ran).

pub mod backend;
pub mod clock;
pub mod dispatch;
pub mod memory;
pub mod scheduler;
pub mod sim;
pub mod streams;
mod sync;
pub mod trace;
pub mod transfer;
