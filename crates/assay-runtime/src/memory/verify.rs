//! All books of a pool checked against each other.

use super::block::{BlockState, NONE, Zone};
use super::error::MemoryError;
use super::order::State;
use super::resource::Result;
use super::size_class::class_of;
use std::collections::HashMap;

fn broken(what: String) -> Result<()> {
    Err(MemoryError::Inconsistent { what })
}

/// Totals found by walking the slabs.
#[derive(Default)]
struct Walk {
    held: u64,
    allocated: u64,
    requested: u64,
    by_tenant: HashMap<u32, u64>,
    free: usize,
    quick: usize,
}

/// Fails with the first contradiction found.
pub(super) fn verify(state: &State) -> Result<()> {
    let walk = walk_slabs(state)?;
    check_lists(state, &walk)?;
    check_totals(state, &walk)
}

fn walk_slabs(state: &State) -> Result<Walk> {
    let blocks = &state.heap.blocks;
    let mut walk = Walk::default();
    for slab in &state.heap.slabs {
        let (mut index, mut below, mut address) = (slab.first, NONE, slab.address);
        while index != NONE {
            let block = &blocks[index];
            if block.address != address || block.below != below || block.bytes == 0 {
                broken(format!("block {index} does not follow block {below}"))?;
            }
            match block.state {
                BlockState::Allocated => {
                    walk.allocated += block.bytes;
                    walk.requested += block.requested;
                    *walk.by_tenant.entry(block.tenant).or_default() += block.bytes;
                }
                BlockState::Free => walk.free += 1,
                BlockState::Quick => walk.quick += 1,
                BlockState::Unused => {
                    broken(format!("block {index} of a slab is {:?}", block.state))?;
                }
            }
            let above = blocks.get(block.above);
            let unjoined = above.is_some_and(|above| {
                (block.state, above.state) == (BlockState::Free, BlockState::Free)
                    && (block.owner, block.zone) == (above.owner, above.zone)
            });
            if unjoined {
                broken(format!("blocks {index} and {} are not joined", block.above))?;
            }
            address += block.bytes;
            below = index;
            index = block.above;
        }
        if address != slab.address + slab.bytes {
            broken(format!(
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

fn check_lists(state: &State, walk: &Walk) -> Result<()> {
    let heap = &state.heap;
    let mut binned = vec![(0_usize, 0_u64); heap.lists.len()];
    for (slot, zone, index, right) in heap.audit_bins() {
        let block = &heap.blocks[index];
        let wrong = !right
            || block.state != BlockState::Free
            || block.zone != zone
            || usize::from(block.owner) != slot
            || block.epoch > heap.lists[slot].epoch
            || (block.epoch == heap.lists[slot].epoch && !heap.lists[slot].has_open)
            || (zone == Zone::Small && block.bytes >= super::heap::CHUNK_BYTES);
        if wrong {
            broken(format!(
                "block {index} is in a bin where it does not belong"
            ))?;
        }
        binned[slot].0 += 1;
        binned[slot].1 += block.bytes;
    }
    let mut quick = vec![(0_usize, 0_u64); heap.lists.len()];
    for (slot, class, index) in heap.audit_quick() {
        let block = &heap.blocks[index];
        let wrong = block.state != BlockState::Quick
            || usize::from(block.owner) != slot
            || class_of(block.bytes) != (class, block.bytes);
        if wrong {
            broken(format!(
                "block {index} is in a quick list where it does not belong"
            ))?;
        }
        quick[slot].0 += 1;
        quick[slot].1 += block.bytes;
    }
    for (slot, lists) in heap.lists.iter().enumerate() {
        if (binned[slot].1, quick[slot].1) != (lists.binned_bytes, lists.quick_bytes) {
            broken(format!("the free bytes of slot {slot} do not add up"))?;
        }
    }
    let listed = |counts: &[(usize, u64)]| counts.iter().map(|(count, _)| count).sum::<usize>();
    if (listed(&binned), listed(&quick)) != (walk.free, walk.quick) {
        broken("free blocks and free lists differ".to_owned())?;
    }
    if !heap.marks_are_exact() {
        broken("a bitmap differs from its bins".to_owned())?;
    }
    Ok(())
}

fn check_totals(state: &State, walk: &Walk) -> Result<()> {
    let statistics = &state.statistics;
    let counted = (walk.held, walk.allocated, walk.requested);
    let booked = (
        statistics.held_bytes,
        statistics.allocated_bytes,
        statistics.requested_bytes,
    );
    if counted != booked {
        broken(format!("counted {counted:?} bytes, booked {booked:?}"))?;
    }
    for (number, tenant) in state.ledger.tenants.iter().enumerate() {
        let counted = walk.by_tenant.get(&(number as u32)).copied().unwrap_or(0);
        if counted != tenant.used_bytes {
            broken(format!(
                "tenant \"{}\" has {counted} bytes, booked {}",
                tenant.name, tenant.used_bytes
            ))?;
        }
    }
    if !state.ledger.is_consistent() {
        broken("the tenants' claims do not add up".to_owned())?;
    }
    Ok(())
}
