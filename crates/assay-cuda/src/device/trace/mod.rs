//! When each launch ran, by the GPU's global timer.
//!
//! Kernels compiled with `TRACE` store their times in slots of two words. A region is the slots of
//! one captured graph, or of launches outside of graphs; its last launch, `trace_flush`, appends
//! them to a ring of records in device memory, which the host reads when it is half full and at the
//! end. See `docs/design/engine-tracing.md`.

mod calibration;
mod captured_nodes;
mod records;
mod region;
mod tracer;

pub(super) use region::Region;
pub(super) use tracer::DeviceTracer;

/// The launches of a region; those beyond have no times.
pub(super) const REGION_LAUNCHES: usize = 4096;
/// Bytes of a slot: start and latest end.
const SLOT_BYTES: u64 = 16;
