//! The backend contract on the simulated device, and its detection of violations.

use assay_runtime::backend::contract::{Violation, check};
use assay_runtime::backend::*;
use assay_runtime::clock::Clock;
use assay_runtime::sim::{SimBackend, SimKernel, SimOptions};

fn increment(device: &SimBackend) -> KernelId {
    device
        .register_kernel(SimKernel {
            name: "increment".to_owned(),
            parameters: 2,
            duration_ns: Box::new(|_| 1_000),
            body: Some(Box::new(|launch, memory| {
                let [KernelArgument::Pointer(pointer), KernelArgument::U64(bytes)] =
                    launch.arguments[..]
                else {
                    return Err(BackendError::UnknownKernel { kernel: launch.kernel });
                };
                memory.update(pointer.into(), bytes, |range| {
                    for byte in range {
                        *byte = byte.wrapping_add(1);
                    }
                })
            })),
        })
        .expect("a fresh device takes kernels")
}

#[test]
fn simulated_device_passes_the_contract() {
    let device = SimBackend::new(SimOptions::default()).expect("valid options");
    let kernel = increment(&device);
    check(&device, kernel).expect("contract");
    for space in [Space::Device, Space::Host] {
        assert_eq!(device.used_bytes(space), Ok(0), "left in {space} memory");
    }
}

/// The clause that the broken device below violates.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Defect {
    CopiesRunLate,
    WaitsIgnored,
    FillsOverrun,
    DoubleFreeAccepted,
    CaptureRunsWork,
    BranchesUnordered,
}

/// A simulated device that violates one clause, to test that the contract detects it.
struct Broken {
    inner: SimBackend,
    defect: Defect,
}

impl Backend for Broken {
    fn properties(&self) -> &DeviceProperties {
        self.inner.properties()
    }
    fn clock(&self) -> &dyn Clock {
        self.inner.clock()
    }
    fn memory_info(&self) -> Result<MemoryInfo> {
        self.inner.memory_info()
    }
    fn allocate_device(&self, bytes: u64) -> Result<DevicePointer> {
        self.inner.allocate_device(bytes)
    }
    fn free_device(&self, pointer: DevicePointer) -> Result<()> {
        match self.inner.free_device(pointer) {
            Err(_) if self.defect == Defect::DoubleFreeAccepted => Ok(()),
            outcome => outcome,
        }
    }
    fn allocate_host(&self, bytes: u64) -> Result<HostPointer> {
        self.inner.allocate_host(bytes)
    }
    fn free_host(&self, pointer: HostPointer) -> Result<()> {
        self.inner.free_host(pointer)
    }
    fn read_host(&self, source: HostPointer, into: &mut [u8]) -> Result<()> {
        self.inner.read_host(source, into)
    }
    fn write_host(&self, destination: HostPointer, bytes: &[u8]) -> Result<()> {
        self.inner.write_host(destination, bytes)
    }
    fn default_stream(&self) -> StreamId {
        self.inner.default_stream()
    }
    fn create_stream(&self, priority: StreamPriority) -> Result<StreamId> {
        self.inner.create_stream(priority)
    }
    fn destroy_stream(&self, stream: StreamId) -> Result<()> {
        self.inner.destroy_stream(stream)
    }
    fn query_stream(&self, stream: StreamId) -> Result<bool> {
        self.inner.query_stream(stream)
    }
    fn recover_stream(&self, stream: StreamId) -> Result<()> {
        self.inner.recover_stream(stream)
    }
    fn synchronize_stream(&self, stream: StreamId) -> Result<()> {
        self.inner.synchronize_stream(stream)
    }
    fn create_event(&self) -> Result<EventId> {
        self.inner.create_event()
    }
    fn destroy_event(&self, event: EventId) -> Result<()> {
        self.inner.destroy_event(event)
    }
    fn record_event(&self, event: EventId, stream: StreamId) -> Result<()> {
        self.inner.record_event(event, stream)
    }
    fn wait_event(&self, stream: StreamId, event: EventId) -> Result<()> {
        match self.defect {
            Defect::WaitsIgnored if self.inner.query_event(event).is_ok() => Ok(()),
            _ => self.inner.wait_event(stream, event),
        }
    }
    fn query_event(&self, event: EventId) -> Result<bool> {
        self.inner.query_event(event)
    }
    fn synchronize_event(&self, event: EventId) -> Result<()> {
        self.inner.synchronize_event(event)
    }
    fn elapsed_ns(&self, first: EventId, last: EventId) -> Result<u64> {
        self.inner.elapsed_ns(first, last)
    }
    fn copy(&self, stream: StreamId, from: Address, to: Address, bytes: u64) -> Result<()> {
        match self.defect {
            Defect::CopiesRunLate => {
                let other = self.inner.create_stream(StreamPriority::Low)?;
                self.inner.copy(other, from, to, bytes)
            }
            _ => self.inner.copy(stream, from, to, bytes),
        }
    }
    fn fill(&self, stream: StreamId, to: Address, value: u8, bytes: u64) -> Result<()> {
        let bytes = bytes + u64::from(self.defect == Defect::FillsOverrun && bytes < 16);
        self.inner.fill(stream, to, value, bytes)
    }
    fn launch(&self, stream: StreamId, launch: &Launch) -> Result<()> {
        self.inner.launch(stream, launch)
    }
    fn begin_capture(&self, stream: StreamId) -> Result<()> {
        match self.defect {
            Defect::CaptureRunsWork if self.inner.query_stream(stream).is_ok() => Ok(()),
            _ => self.inner.begin_capture(stream),
        }
    }
    fn end_capture(&self, stream: StreamId) -> Result<GraphId> {
        match self.defect {
            Defect::CaptureRunsWork => Ok(GraphId(0)),
            _ => self.inner.end_capture(stream),
        }
    }
    fn is_capturing(&self, stream: StreamId) -> Result<bool> {
        self.inner.is_capturing(stream)
    }
    fn launch_graph(&self, graph: GraphId, stream: StreamId) -> Result<()> {
        match self.defect {
            Defect::BranchesUnordered => Ok(()),
            _ => self.inner.launch_graph(graph, stream),
        }
    }
    fn destroy_graph(&self, graph: GraphId) -> Result<()> {
        self.inner.destroy_graph(graph)
    }
}

#[test]
fn contract_detects_each_injected_violation() {
    let table = [
        (Defect::CopiesRunLate, "copies keep every byte"),
        (Defect::WaitsIgnored, "a wait orders two streams"),
        (Defect::FillsOverrun, "a fill touches its range only"),
        (Defect::DoubleFreeAccepted, "double device free"),
        (Defect::CaptureRunsWork, "captured work does not run"),
        (Defect::BranchesUnordered, "a graph runs its work in order"),
    ];
    for (defect, clause) in table {
        let inner = SimBackend::new(SimOptions::default()).expect("valid options");
        let kernel = increment(&inner);
        let broken = Broken { inner, defect };
        let outcome = check(&broken, kernel).map_err(|Violation { clause, .. }| clause);
        assert_eq!(outcome, Err(clause), "{defect:?}");
    }
}
