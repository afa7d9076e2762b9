//! The performance model of the simulated device, in integer nanoseconds.

use crate::backend::{BackendError, CopyDirection, Space};

/// A link: latency and bandwidth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// Bandwidth.
    pub bytes_per_second: u64,
    /// Latency before the first byte.
    pub latency_ns: u64,
}

impl Link {
    /// The time for `bytes`, rounded up.
    pub fn duration_ns(self, bytes: u64) -> u64 {
        let transfer =
            (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(self.bytes_per_second.max(1)));
        u64::try_from(transfer).unwrap_or(u64::MAX).saturating_add(self.latency_ns)
    }
}

/// One memory of the simulated machine and the host cost of its allocation calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryModel {
    /// Total bytes.
    pub capacity_bytes: u64,
    /// Fixed host time of an allocation.
    pub allocate_ns: u64,
    /// Host time of an allocation per MiB, as for page-locking.
    pub allocate_ns_per_mib: u64,
    /// Host time of a free, apart from waiting for queued work.
    pub free_ns: u64,
}

impl MemoryModel {
    /// The host time of allocating `bytes`.
    pub fn allocate_duration_ns(&self, bytes: u64) -> u64 {
        self.allocate_ns.saturating_add(self.allocate_ns_per_mib.saturating_mul(bytes >> 20))
    }
}

/// The parameters of a simulated device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SimProfile {
    /// The name the device reports.
    pub name: String,
    /// Device memory.
    pub device_memory: MemoryModel,
    /// Pinned host memory.
    pub host_memory: MemoryModel,
    /// Copies from host to device.
    pub host_to_device: Link,
    /// Copies from device to host.
    pub device_to_host: Link,
    /// Copies within the device.
    pub device_to_device: Link,
    /// Copies within the host.
    pub host_to_host: Link,
    /// Fills of device memory.
    pub device_fill: Link,
    /// Fills of host memory.
    pub host_fill: Link,
    /// Host time of a call that queues work.
    pub enqueue_ns: u64,
    /// Host time of a query; at least 1, so that a polling loop advances time.
    pub query_ns: u64,
    /// Alignment of allocations, a power of two.
    pub alignment_bytes: u64,
}

impl SimProfile {
    /// A generic device: 16 GiB at 1 TB/s behind a link of 25 GB/s each way.
    pub fn generic() -> Self {
        let link = |bytes_per_second, latency_ns| Link { bytes_per_second, latency_ns };
        SimProfile {
            name: "simulated device, round figures".to_owned(),
            device_memory: MemoryModel {
                capacity_bytes: 16 << 30,
                allocate_ns: 100_000,
                allocate_ns_per_mib: 100,
                free_ns: 50_000,
            },
            host_memory: MemoryModel {
                capacity_bytes: 64 << 30,
                allocate_ns: 100_000,
                allocate_ns_per_mib: 100_000,
                free_ns: 100_000,
            },
            host_to_device: link(25_000_000_000, 5_000),
            device_to_host: link(25_000_000_000, 5_000),
            device_to_device: link(500_000_000_000, 2_000),
            host_to_host: link(10_000_000_000, 500),
            device_fill: link(1_000_000_000_000, 2_000),
            host_fill: link(20_000_000_000, 500),
            enqueue_ns: 2_000,
            query_ns: 500,
            alignment_bytes: 256,
        }
    }

    /// The link that a copy in this direction takes.
    pub fn link(&self, direction: CopyDirection) -> Link {
        match direction {
            CopyDirection::HostToDevice => self.host_to_device,
            CopyDirection::DeviceToHost => self.device_to_host,
            CopyDirection::DeviceToDevice => self.device_to_device,
            CopyDirection::HostToHost => self.host_to_host,
        }
    }

    /// The link that a fill in this memory takes.
    pub fn fill_link(&self, space: Space) -> Link {
        match space {
            Space::Device => self.device_fill,
            Space::Host => self.host_fill,
        }
    }

    /// The model of this memory.
    pub fn memory(&self, space: Space) -> &MemoryModel {
        match space {
            Space::Device => &self.device_memory,
            Space::Host => &self.host_memory,
        }
    }

    /// Rejects parameters with which nothing would ever finish or fit.
    pub(super) fn validate(&self) -> Result<(), BackendError> {
        let at_least_one = [
            ("host_to_device.bytes_per_second", self.host_to_device.bytes_per_second),
            ("device_to_host.bytes_per_second", self.device_to_host.bytes_per_second),
            ("device_to_device.bytes_per_second", self.device_to_device.bytes_per_second),
            ("host_to_host.bytes_per_second", self.host_to_host.bytes_per_second),
            ("device_fill.bytes_per_second", self.device_fill.bytes_per_second),
            ("host_fill.bytes_per_second", self.host_fill.bytes_per_second),
            ("query_ns", self.query_ns),
        ];
        for (name, got) in at_least_one {
            if got == 0 {
                let expected = "at least 1";
                return Err(BackendError::InvalidOption { name, expected, got });
            }
        }
        if !self.alignment_bytes.is_power_of_two() {
            return Err(BackendError::InvalidOption {
                name: "alignment_bytes",
                expected: "a power of two",
                got: self.alignment_bytes,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_round_up_and_saturate() {
        let link = Link { bytes_per_second: 3_000_000_000, latency_ns: 10 };
        assert_eq!(link.duration_ns(0), 10);
        assert_eq!(link.duration_ns(1), 11);
        assert_eq!(link.duration_ns(3_000), 1_010);
        let slow = Link { bytes_per_second: 1, latency_ns: u64::MAX };
        assert_eq!(slow.duration_ns(u64::MAX), u64::MAX);
    }

    #[test]
    fn invalid_parameters_are_rejected_by_name() {
        let mut profile = SimProfile::generic();
        assert_eq!(profile.validate(), Ok(()));
        profile.device_to_host.bytes_per_second = 0;
        let message = profile.validate().expect_err("zero rate").to_string();
        assert_eq!(
            message,
            "invalid option device_to_host.bytes_per_second: expected at least 1, got 0"
        );
    }
}
