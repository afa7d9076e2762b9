//! Options of the engine and attributes of a transfer.

use super::error::TransferError;
use crate::backend::{EventId, StreamPriority};
use crate::scheduler::Task;
use std::sync::Arc;

/// Options of a [`TransferEngine`](super::TransferEngine).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TransferOptions {
    /// Bytes of one slot of a staging ring, and of the largest chunk.
    ///
    /// A transfer of higher priority waits for the chunks in flight, so this bounds its wait.
    pub slot_bytes: u64,
    /// Slots of each ring, and chunks that may be in flight per channel.
    pub slots: u32,
    /// Transfers that may wait or be in flight; further ones are rejected.
    pub waiting_transfers: usize,
    /// Assumed rate of copies within the device, for charging tasks in time.
    pub device_copy_bytes_per_second: u64,
    /// Whether events are recorded, so that records contain start and end of transfers.
    pub timing: bool,
}

impl Default for TransferOptions {
    /// Four slots of 4 MiB per direction: enough to hide staging, 32 MiB of pinned memory.
    fn default() -> Self {
        TransferOptions {
            slot_bytes: 4 << 20,
            slots: 4,
            waiting_transfers: 4_096,
            device_copy_bytes_per_second: 1_000_000_000_000,
            timing: true,
        }
    }
}

impl TransferOptions {
    pub(super) fn validate(&self) -> Result<(), TransferError> {
        let at_least_one = [
            ("slot_bytes", self.slot_bytes),
            ("slots", self.slots.into()),
            ("waiting_transfers", self.waiting_transfers as u64),
            ("device_copy_bytes_per_second", self.device_copy_bytes_per_second),
        ];
        for (name, got) in at_least_one {
            if got == 0 {
                return Err(TransferError::InvalidOption { name, expected: "at least 1", got });
            }
        }
        if self.ring_bytes().is_none() {
            return Err(TransferError::InvalidOption {
                name: "slot_bytes",
                expected: "two rings within the address range",
                got: self.slot_bytes,
            });
        }
        Ok(())
    }

    /// Pinned memory of both rings.
    pub(super) fn ring_bytes(&self) -> Option<u64> {
        self.slot_bytes.checked_mul(2 * u64::from(self.slots))
    }
}

/// Priority, dependencies and task of a transfer.
#[derive(Clone, Debug, Default)]
pub struct TransferAttributes {
    /// Its priority, applied from chunk to chunk.
    pub priority: StreamPriority,
    /// Events it waits for, already recorded; they must live until the transfer is done.
    pub after: Vec<EventId>,
    /// The task it is charged to and throttled by.
    pub task: Option<Arc<Task>>,
}
