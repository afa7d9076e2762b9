//! State-space layers: a causal convolution and a selective scan, each with a state for every sequence.

mod convolution;
mod scan;
mod sequences;

pub use convolution::{Convolution, causal_convolution};
pub use scan::{ScanShape, StepSize, selective_scan};
pub use sequences::StateBatch;
