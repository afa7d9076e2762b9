//! Values of the backend interface.

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

/// An address in device or pinned host memory.
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

    /// The address `bytes` higher, or `None` on overflow.
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

/// An in-order queue of device work. IDs are small and never reused by a backend.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StreamId(pub u32);

impl StreamId {
    /// The host's order: synchronous with the calling thread.
    ///
    /// Memory can be allocated and freed in this order; no work can be queued on it.
    pub const HOST: StreamId = StreamId(u32::MAX);
}

/// An event, which a stream records and others can wait for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EventId(pub u64);

/// Code that a backend can launch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct KernelId(pub u64);

/// A captured graph of work that can be launched repeatedly.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GraphId(pub u64);

/// Which stream runs first when several have work ready for the same engine.
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

/// The direction of a copy.
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
    /// The direction of a copy between two addresses.
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

/// One kernel launch.
#[derive(Clone, PartialEq, Debug)]
pub struct Launch {
    /// The kernel to run.
    pub kernel: KernelId,
    /// CTAs along x, y and z.
    pub grid: [u32; 3],
    /// Threads of a CTA along x, y and z.
    pub block: [u32; 3],
    /// Dynamic shared memory of a CTA, in bytes.
    pub shared_bytes: u32,
    /// Arguments in the order of the kernel's parameters.
    pub arguments: Vec<KernelArgument>,
}

/// Bytes of the slot of a delay: the nanoseconds to wait, and the nanoseconds waited so far.
pub const DELAY_SLOT_BYTES: u64 = 16;

/// The kind of device behind a backend.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DeviceKind {
    /// The host's CPU.
    Cpu,
    /// An NVIDIA GPU through its driver.
    Cuda,
    /// A simulated device in virtual time.
    Sim,
}

/// Constant properties of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceProperties {
    /// The device's name, from its vendor or its profile.
    pub name: String,
    /// Its kind.
    pub kind: DeviceKind,
    /// Total device memory.
    pub memory_bytes: u64,
    /// Alignment of every device and pinned allocation.
    pub alignment_bytes: u64,
}

/// Free and total device memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryInfo {
    /// Free bytes, fragmentation aside.
    pub free_bytes: u64,
    /// Total bytes.
    pub total_bytes: u64,
}
