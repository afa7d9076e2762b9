//! The hardware queues of a device that tasks share, and one value per queue.

use std::fmt;
use std::ops::{Index, IndexMut};

/// A hardware queue of the device: the compute engine or one of the copy engines.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Lane {
    /// Kernels, and copies within device memory; counted in nanoseconds of device time.
    Compute,
    /// Copies to the device; counted in bytes.
    Upload,
    /// Copies from the device; counted in bytes.
    Download,
}

impl Lane {
    /// Every lane, in order.
    pub const ALL: [Lane; 3] = [Lane::Compute, Lane::Upload, Lane::Download];

    /// The lane's name.
    pub const fn name(self) -> &'static str {
        match self {
            Lane::Compute => "compute",
            Lane::Upload => "upload",
            Lane::Download => "download",
        }
    }

    /// The unit the lane's work is counted in.
    pub const fn unit(self) -> &'static str {
        match self {
            Lane::Compute => "ns",
            Lane::Upload | Lane::Download => "bytes",
        }
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
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
