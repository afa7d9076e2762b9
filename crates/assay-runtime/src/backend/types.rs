//! The small values that cross between the runtime and a device.

use std::fmt;

/// An address in device memory; meaningful to its backend only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DevicePointer(pub u64);

/// An address in pinned host memory; read and written through the backend.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HostPointer(pub u64);

/// Which memory an allocation lives in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Space {
    /// The device's own memory.
    Device,
    /// Page-locked host memory, reachable by the device's copy engines.
    Host,
}

impl fmt::Display for Space {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Space::Device => "device",
            Space::Host => "host",
        })
    }
}

/// A place that a copy reads from or writes to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Address {
    /// In device memory.
    Device(DevicePointer),
    /// In pinned host memory.
    Host(HostPointer),
}

impl Address {
    /// The address `value` in `space`.
    pub const fn new(space: Space, value: u64) -> Self {
        match space {
            Space::Device => Address::Device(DevicePointer(value)),
            Space::Host => Address::Host(HostPointer(value)),
        }
    }

    /// The memory this address is in.
    pub const fn space(self) -> Space {
        match self {
            Address::Device(_) => Space::Device,
            Address::Host(_) => Space::Host,
        }
    }

    /// The address as a number.
    pub const fn value(self) -> u64 {
        match self {
            Address::Device(pointer) => pointer.0,
            Address::Host(pointer) => pointer.0,
        }
    }

    /// The address `bytes` further on, or `None` past the end of the number range.
    pub const fn offset(self, bytes: u64) -> Option<Self> {
        match self.value().checked_add(bytes) {
            Some(value) => Some(Address::new(self.space(), value)),
            None => None,
        }
    }
}

impl From<DevicePointer> for Address {
    fn from(pointer: DevicePointer) -> Self {
        Address::Device(pointer)
    }
}

impl From<HostPointer> for Address {
    fn from(pointer: HostPointer) -> Self {
        Address::Host(pointer)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} address {:#x}", self.space(), self.value())
    }
}

/// An in-order queue of device work. Numbers are small and never reused by a backend.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StreamId(pub u32);

impl StreamId {
    /// The host's own order: what was done in it is finished when the call returned.
    ///
    /// Memory can be allocated and freed in this order; no work can be queued on it.
    pub const HOST: StreamId = StreamId(u32::MAX);
}

/// A mark in a stream that others can wait for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EventId(pub u64);

/// Code that a backend can launch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct KernelId(pub u64);

/// A captured sequence of work that can be launched again and again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GraphId(pub u64);

/// Which stream goes first when several have work ready for the same engine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum StreamPriority {
    /// Behind all others.
    Low,
    /// The usual.
    #[default]
    Normal,
    /// Ahead of all others.
    High,
}

/// From which memory to which memory a copy goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum CopyDirection {
    /// Pinned host memory to device memory.
    HostToDevice,
    /// Device memory to pinned host memory.
    DeviceToHost,
    /// Within device memory.
    DeviceToDevice,
    /// Within pinned host memory.
    HostToHost,
}

impl CopyDirection {
    /// The direction of a copy between these two places.
    pub const fn between(source: Address, destination: Address) -> Self {
        match (source, destination) {
            (Address::Host(_), Address::Device(_)) => CopyDirection::HostToDevice,
            (Address::Device(_), Address::Host(_)) => CopyDirection::DeviceToHost,
            (Address::Device(_), Address::Device(_)) => CopyDirection::DeviceToDevice,
            (Address::Host(_), Address::Host(_)) => CopyDirection::HostToHost,
        }
    }
}

/// One argument of a kernel launch.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum KernelArgument {
    /// A device address.
    Pointer(DevicePointer),
    /// A 32-bit signed integer.
    I32(i32),
    /// A 32-bit unsigned integer.
    U32(u32),
    /// A 64-bit signed integer.
    I64(i64),
    /// A 64-bit unsigned integer.
    U64(u64),
    /// A 32-bit float.
    F32(f32),
    /// A 64-bit float.
    F64(f64),
}

/// One launch of a kernel: what, how wide, with which arguments.
#[derive(Clone, PartialEq, Debug)]
pub struct Launch {
    /// The kernel to run.
    pub kernel: KernelId,
    /// Blocks along x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block along x, y and z.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block, in bytes.
    pub shared_bytes: u32,
    /// Arguments in the order of the kernel's parameters.
    pub arguments: Vec<KernelArgument>,
}

/// What kind of device stands behind a backend.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DeviceKind {
    /// The host's processor.
    Cpu,
    /// An NVIDIA GPU through its driver.
    Cuda,
    /// A modeled device in virtual time.
    Sim,
}

/// What does not change about a device while the process lives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceProperties {
    /// The device's name, as its maker or its profile gives it.
    pub name: String,
    /// What kind of device it is.
    pub kind: DeviceKind,
    /// Device memory in all.
    pub memory_bytes: u64,
    /// Every device and pinned allocation begins at a multiple of this many bytes.
    pub alignment_bytes: u64,
}

/// Device memory as it stands now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryInfo {
    /// Bytes that can still be allocated, fragmentation aside.
    pub free_bytes: u64,
    /// Bytes in all.
    pub total_bytes: u64,
}
