//! SIMD kernels: code that is generic over the vector instructions.

use super::vector::Vector;

/// A kernel, written once for all levels; `run` and everything it calls must be inlined.
pub(crate) trait Kernel {
    type Output;
    fn run<V: Vector>(self, vector: V) -> Self::Output;
}
