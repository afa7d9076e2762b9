//! Launches with slots for their times.

use super::super::cuda_device::CudaDevice;
use super::super::kernel::{Function, LaunchConfig};
use super::super::stream::Stream;
use super::super::sync::lock;
use super::region::{REGION_BYTES, Region};
use assay_runtime::backend::{DevicePointer, KernelArgument, Result};
use assay_runtime::trace::{LaunchInfo, LaunchKind, current_step, current_ticket};
use std::sync::Arc;

const FLUSH_THREADS: u32 = 256;

impl CudaDevice {
    /// Launches a kernel with a slot for its times, if it was compiled to store them.
    pub(in super::super) fn launch_traced(
        &self,
        stream: &Stream,
        function: &Function,
        config: LaunchConfig,
        arguments: &[KernelArgument],
    ) -> Result<()> {
        let slot = self.trace_launch(stream, || LaunchInfo {
            node: 0,
            kind: LaunchKind::Kernel,
            name: Arc::clone(&function.name),
            grid: Some(config.grid),
            block: Some(config.block),
        })?;
        if !function.stores_times() {
            return function.launch(stream, config, arguments);
        }
        let slot = match slot {
            Some(slot) => slot,
            None => self.tracer.unused_slot()?,
        };
        let mut with_slot = Vec::with_capacity(arguments.len() + 1);
        with_slot.extend_from_slice(arguments);
        with_slot.push(KernelArgument::Pointer(slot));
        function.launch(stream, config, &with_slot)
    }

    /// Notes a launch of which the device stores no times: a GEMM of cuBLASLt, a copy, a fill.
    pub(in super::super) fn trace_unstamped(
        &self,
        stream: &Stream,
        kind: LaunchKind,
        name: &str,
    ) -> Result<()> {
        if !self.tracer.is_on() {
            return Ok(());
        }
        self.trace_launch(stream, || LaunchInfo {
            node: 0,
            kind,
            name: Arc::from(name),
            grid: None,
            block: None,
        })
        .map(|_| ())
    }

    /// Whether a launch on this stream belongs to a trace.
    pub(in super::super) fn has_region(&self, stream: &Stream) -> bool {
        self.tracer.is_on()
            && (current_ticket() != 0
                || lock(&stream.region).as_ref().is_some_and(|region| region.is_captured))
    }

    /// Notes a launch in the region of its stream; none if no trace is to have it.
    pub(super) fn trace_launch(
        &self,
        stream: &Stream,
        info: impl FnOnce() -> LaunchInfo,
    ) -> Result<Option<DevicePointer>> {
        if !self.tracer.is_on() {
            return Ok(None);
        }
        let mut region = lock(&stream.region);
        if region.as_ref().is_some_and(|region| region.is_captured) {
            return Ok(region.as_mut().map(|region| region.add(info())));
        }
        // Work that dispatch did not number belongs to no trace.
        if current_ticket() == 0 {
            return Ok(None);
        }
        if let Some(full) = region.take_if(|region| region.is_full()) {
            *region = Some(Region::new(self.fresh_number(), full.slots, false));
            self.flush_region(stream, full)?;
        }
        if region.is_none() {
            *region = Some(self.new_region(false)?);
        }
        Ok(region.as_mut().map(|region| region.add(info())))
    }

    /// Advances to the next node of the dispatched graph.
    pub(in super::super) fn end_traced_node(&self, stream: &Stream) {
        if self.tracer.is_on()
            && let Some(region) = &mut *lock(&stream.region)
        {
            region.node += 1;
        }
    }

    /// Begins the region of a graph, if a trace is captured and the graph is of one of its steps.
    ///
    /// Other graphs store no times: they outlive the trace.
    pub(in super::super) fn begin_graph_region(&self, stream: &Arc<Stream>) -> Result<()> {
        if !self.tracer.is_on() || current_step().is_none() {
            return Ok(());
        }
        let before = lock(&stream.region).take();
        if let Some(before) = before {
            let slots = before.slots;
            self.flush_region(stream, before)?;
            self.memory.free_device(slots, std::slice::from_ref(stream))?;
        }
        *lock(&stream.region) = Some(self.new_region(true)?);
        Ok(())
    }

    /// Ends the region of a graph with its flush, which is the graph's last node.
    pub(in super::super) fn end_graph_region(&self, stream: &Stream) -> Result<Option<Region>> {
        let region = lock(&stream.region).take_if(|region| region.is_captured);
        let Some(region) = region else {
            return Ok(None);
        };
        self.launch_flush(stream, &region)?;
        Ok(Some(region))
    }

    /// Queues the flush of launches outside of graphs.
    pub(in super::super) fn flush_region(&self, stream: &Stream, region: Region) -> Result<()> {
        if region.launches.is_empty() {
            return Ok(());
        }
        self.make_trace_room(region.launches.len())?;
        self.launch_flush(stream, &region)?;
        self.tracer.add_launches(region);
        Ok(())
    }

    fn launch_flush(&self, stream: &Stream, region: &Region) -> Result<()> {
        let (function, ring) = self.tracer.flush()?;
        let config = LaunchConfig {
            grid: [1; 3],
            block: [FLUSH_THREADS, 1, 1],
            shared_bytes: 0,
            cluster: 1,
            prefers_l1: false,
        };
        let arguments = [
            KernelArgument::Pointer(region.slots),
            KernelArgument::U64(region.launches.len() as u64),
            KernelArgument::U64(region.id),
            KernelArgument::Pointer(ring.words),
            KernelArgument::U64(ring.mask),
            KernelArgument::Pointer(ring.head),
        ];
        function.launch(stream, config, &arguments)
    }

    fn new_region(&self, is_captured: bool) -> Result<Region> {
        let slots = self.memory.allocate_zeros(REGION_BYTES)?;
        Ok(Region::new(self.fresh_number(), slots, is_captured))
    }
}
