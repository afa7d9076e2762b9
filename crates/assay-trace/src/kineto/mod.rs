//! Traces of PyTorch's profiler (Kineto), and others in the JSON format of Chrome's trace viewer.
//!
//! The file is read once, front to back, in blocks; threads read one block each. A block is cut where
//! an event seems to begin, which is right unless a string or a nested list looks the same. The
//! assembler takes the blocks in order, and where an event turns out to cross a cut, reads on from its
//! start. So the result does not depend on the cuts, and memory not on the size of the file.

mod assembler;
mod block;
mod category;
mod correlations;
mod decimal;
mod event;
mod head;
mod scanner;
mod sections;
mod source;

pub use assembler::{Facts, Late, Progress, read, read_batches};
pub use block::Options;
