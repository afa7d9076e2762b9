//! The launches of a graph, or of a stream outside of graphs, with their slots.

use assay_runtime::backend::DevicePointer;
use assay_runtime::trace::{LaunchInfo, current_ticket};

/// The launches of a region; those beyond have no times.
pub(super) const REGION_LAUNCHES: usize = 4096;
/// Bytes of a slot: start and latest end.
const SLOT_BYTES: u64 = 16;
/// Bytes of all slots of a region: one a launch, and one for launches beyond.
pub(super) const REGION_BYTES: u64 = (REGION_LAUNCHES as u64 + 1) * SLOT_BYTES;

/// The launches since the last flush.
pub(in super::super) struct Region {
    pub id: u64,
    /// One slot a launch, and one for launches beyond.
    pub slots: DevicePointer,
    /// Whether they are captured, not run.
    pub is_captured: bool,
    /// The node of the dispatched graph whose launches come next.
    pub node: u32,
    /// The ticket of each launch, and what it is.
    pub launches: Vec<(u64, LaunchInfo)>,
    /// Launches for which there was no slot.
    pub beyond: u64,
}

impl Region {
    pub fn new(id: u64, slots: DevicePointer, is_captured: bool) -> Self {
        Region { id, slots, is_captured, node: 0, launches: Vec::new(), beyond: 0 }
    }

    pub fn is_full(&self) -> bool {
        self.launches.len() == REGION_LAUNCHES
    }

    /// Notes a launch and returns its slot.
    pub fn add(&mut self, mut info: LaunchInfo) -> DevicePointer {
        let index = self.launches.len().min(REGION_LAUNCHES);
        if index == REGION_LAUNCHES {
            self.beyond += 1;
        } else {
            info.node = self.node;
            self.launches.push((current_ticket(), info));
        }
        DevicePointer(self.slots.0 + index as u64 * SLOT_BYTES)
    }
}
