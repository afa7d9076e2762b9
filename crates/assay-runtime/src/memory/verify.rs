//! Consistency check of a pool's state.

use super::block::{BlockState, NONE, Zone};
use super::error::MemoryError;
use super::resource::Result;
use super::size_class::class_of;
use super::stream_order::PoolState;
use std::collections::HashMap;

fn inconsistent(what: String) -> Result<()> {
    Err(MemoryError::Inconsistent { what })
}

/// Totals from a walk over the slabs.
#[derive(Default)]
struct Walk {
    held: u64,
    allocated: u64,
    requested: u64,
    by_tenant: HashMap<u32, u64>,
    free: usize,
    cached: usize,
}

/// Fails with the first inconsistency.
pub(super) fn verify(state: &PoolState) -> Result<()> {
    let walk = walk_slabs(state)?;
    check_lists(state, &walk)?;
    check_totals(state, &walk)
}

fn walk_slabs(state: &PoolState) -> Result<Walk> {
    let blocks = &state.heap.blocks;
    let mut walk = Walk::default();
    for slab in &state.heap.slabs {
        let (mut index, mut below, mut address) = (slab.first, NONE, slab.address);
        while index != NONE {
            let block = &blocks[index];
            if block.address != address || block.below != below || block.bytes == 0 {
                inconsistent(format!("block {index} does not follow block {below}"))?;
            }
            match block.state {
                BlockState::Allocated => {
                    walk.allocated += block.bytes;
                    walk.requested += block.requested;
                    *walk.by_tenant.entry(block.tenant).or_default() += block.bytes;
                }
                BlockState::Free => walk.free += 1,
                BlockState::Cached => walk.cached += 1,
                BlockState::Unused => {
                    inconsistent(format!("block {index} of a slab is {:?}", block.state))?;
                }
            }
            let above = blocks.get(block.above);
            let uncoalesced = above.is_some_and(|above| {
                (block.state, above.state) == (BlockState::Free, BlockState::Free)
                    && (block.owner, block.zone) == (above.owner, above.zone)
            });
            if uncoalesced {
                inconsistent(format!("blocks {index} and {} are not coalesced", block.above))?;
            }
            address += block.bytes;
            below = index;
            index = block.above;
        }
        if address != slab.address + slab.bytes {
            inconsistent(format!(
                "the blocks of the slab at {:#x} cover {} of {} bytes",
                slab.address,
                address - slab.address,
                slab.bytes
            ))?;
        }
        walk.held += slab.bytes;
    }
    Ok(walk)
}

fn check_lists(state: &PoolState, walk: &Walk) -> Result<()> {
    let heap = &state.heap;
    let mut binned = vec![(0_usize, 0_u64); heap.lists.len()];
    for (slot, zone, index, in_bin) in heap.audit_bins() {
        let block = &heap.blocks[index];
        let wrong = !in_bin
            || block.state != BlockState::Free
            || block.zone != zone
            || usize::from(block.owner) != slot
            || block.epoch > heap.lists[slot].epoch
            || (block.epoch == heap.lists[slot].epoch && !heap.lists[slot].has_unsealed)
            || (zone == Zone::Small && block.bytes >= super::heap::CHUNK_BYTES);
        if wrong {
            inconsistent(format!("block {index} is in the wrong bin"))?;
        }
        binned[slot].0 += 1;
        binned[slot].1 += block.bytes;
    }
    let mut cached = vec![(0_usize, 0_u64); heap.lists.len()];
    for (slot, class, index) in heap.audit_class_lists() {
        let block = &heap.blocks[index];
        let wrong = block.state != BlockState::Cached
            || usize::from(block.owner) != slot
            || class_of(block.bytes) != (class, block.bytes);
        if wrong {
            inconsistent(format!("block {index} is in the wrong size-class list"))?;
        }
        cached[slot].0 += 1;
        cached[slot].1 += block.bytes;
    }
    for (slot, lists) in heap.lists.iter().enumerate() {
        if (binned[slot].1, cached[slot].1) != (lists.binned_bytes, lists.cached_bytes) {
            inconsistent(format!("the free bytes of slot {slot} do not add up"))?;
        }
    }
    let listed = |counts: &[(usize, u64)]| counts.iter().map(|(count, _)| count).sum::<usize>();
    if (listed(&binned), listed(&cached)) != (walk.free, walk.cached) {
        inconsistent("free blocks and free lists differ".to_owned())?;
    }
    if !heap.bitmaps_are_exact() {
        inconsistent("a bitmap differs from its bins".to_owned())?;
    }
    Ok(())
}

fn check_totals(state: &PoolState, walk: &Walk) -> Result<()> {
    let statistics = &state.statistics;
    let counted = (walk.held, walk.allocated, walk.requested);
    let recorded = (statistics.held_bytes, statistics.allocated_bytes, statistics.requested_bytes);
    if counted != recorded {
        inconsistent(format!("counted {counted:?} bytes, recorded {recorded:?}"))?;
    }
    for (number, tenant) in state.quotas.tenants.iter().enumerate() {
        let counted = walk.by_tenant.get(&(number as u32)).copied().unwrap_or(0);
        if counted != tenant.used_bytes {
            inconsistent(format!(
                "tenant \"{}\" has {counted} bytes, recorded {}",
                tenant.name, tenant.used_bytes
            ))?;
        }
    }
    if !state.quotas.is_consistent() {
        inconsistent("the tenants' commitments do not add up".to_owned())?;
    }
    Ok(())
}
