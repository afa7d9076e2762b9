//! The hardware queues of a device that tasks share, and one value per queue.

use assay_collections::named;
use std::ops::{Index, IndexMut};

named! {
    /// A hardware queue of the device: the compute engine or one of the copy engines.
    pub enum Lane {
        /// Kernels, and copies within device memory; counted in nanoseconds of device time.
        Compute = "compute",
        /// Copies to the device; counted in bytes.
        Upload = "upload",
        /// Copies from the device; counted in bytes.
        Download = "download",
    }
}

impl Lane {
    /// The unit the lane's work is counted in.
    pub const fn unit(self) -> &'static str {
        match self {
            Lane::Compute => "ns",
            Lane::Upload | Lane::Download => "bytes",
        }
    }
}

/// One value for each lane.
///
/// ```
/// use assay_runtime::scheduler::{Lane, PerLane};
/// let mut bytes = PerLane::<u64>::default();
/// bytes[Lane::Upload] += 7;
/// assert_eq!((bytes.compute, bytes.upload), (0, 7));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PerLane<T> {
    /// For [`Lane::Compute`].
    pub compute: T,
    /// For [`Lane::Upload`].
    pub upload: T,
    /// For [`Lane::Download`].
    pub download: T,
}

impl<T> PerLane<T> {
    /// The value that `make` returns for each lane.
    pub fn from_fn(mut make: impl FnMut(Lane) -> T) -> Self {
        PerLane {
            compute: make(Lane::Compute),
            upload: make(Lane::Upload),
            download: make(Lane::Download),
        }
    }
}

impl<T> Index<Lane> for PerLane<T> {
    type Output = T;

    fn index(&self, lane: Lane) -> &T {
        match lane {
            Lane::Compute => &self.compute,
            Lane::Upload => &self.upload,
            Lane::Download => &self.download,
        }
    }
}

impl<T> IndexMut<Lane> for PerLane<T> {
    fn index_mut(&mut self, lane: Lane) -> &mut T {
        match lane {
            Lane::Compute => &mut self.compute,
            Lane::Upload => &mut self.upload,
            Lane::Download => &mut self.download,
        }
    }
}
