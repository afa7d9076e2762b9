//! When each launch ran, by the GPU's global timer.
//!
//! Kernels compiled with `TRACE` store their times in slots of two words. A region is the slots of
//! one captured graph, or of launches outside of graphs; its last launch, `trace_flush`, appends
//! them to a ring of records in device memory, which the host reads when it is half full and at the
//! end. See `docs/design/engine-tracing.md`.

mod calibration;
mod captured_nodes;
mod clock_reading;
mod launches;
mod records;
mod region;
mod state;
mod tracer;

pub(super) use region::Region;
pub(super) use state::DeviceTracer;
