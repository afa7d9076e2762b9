//! Launch configurations of one and two dimensions.

use crate::device::LaunchConfig;

/// A one-dimensional grid of CTAs.
pub(super) fn grid_1d(ctas: u64, threads: u64) -> LaunchConfig {
    grid_2d(ctas, 1, threads)
}

/// A two-dimensional grid of CTAs.
pub(super) fn grid_2d(x: u64, y: u64, threads: u64) -> LaunchConfig {
    LaunchConfig {
        grid: [x as u32, y as u32, 1],
        block: [threads as u32, 1, 1],
        shared_bytes: 0,
        cluster: 1,
        prefers_l1: false,
    }
}
