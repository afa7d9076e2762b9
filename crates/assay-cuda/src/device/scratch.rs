//! Scratch memory of streams, which graphs captured on them share.
//!
//! A block belongs to its stream and to every graph whose launches refer to it. The last of them to
//! let go frees it: a graph stays valid when its capture stream is destroyed, and neither leaves
//! memory behind.

use assay_runtime::backend::{DevicePointer, Result};
use std::collections::HashMap;
use std::sync::Arc;

/// Memory for one purpose.
pub(super) struct Block {
    pointer: DevicePointer,
    bytes: u64,
}

/// The blocks of a stream.
#[derive(Default)]
pub(super) struct Scratch {
    blocks: HashMap<&'static str, Arc<Block>>,
    /// Queued work and captures under way may refer to them.
    outgrown: Vec<Arc<Block>>,
}

impl Scratch {
    /// The block for a purpose, at least this long; `allocate` makes one where there is none.
    pub fn block(
        &mut self,
        purpose: &'static str,
        bytes: u64,
        allocate: impl FnOnce(u64) -> Result<DevicePointer>,
    ) -> Result<DevicePointer> {
        if let Some(known) = self.blocks.get(purpose).filter(|known| known.bytes >= bytes) {
            return Ok(known.pointer);
        }
        let bytes = bytes.next_power_of_two();
        let pointer = allocate(bytes)?;
        self.outgrown.extend(self.blocks.insert(purpose, Arc::new(Block { pointer, bytes })));
        Ok(pointer)
    }

    /// All blocks, for a graph to share.
    pub fn shared(&self) -> impl Iterator<Item = Arc<Block>> + '_ {
        self.blocks.values().chain(&self.outgrown).map(Arc::clone)
    }

    /// Lets go of all blocks.
    pub fn take(&mut self) -> Vec<Arc<Block>> {
        let blocks = self.blocks.drain().map(|(_, block)| block);
        blocks.chain(self.outgrown.drain(..)).collect()
    }
}

/// Lets go of blocks; returns those that nobody else holds, which are to be freed.
pub(super) fn unshared(blocks: Vec<Arc<Block>>) -> impl Iterator<Item = DevicePointer> {
    blocks.into_iter().filter_map(Arc::into_inner).map(|block| block.pointer)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [u64; 0] = [];

    /// A stream whose blocks are numbered in the order of their allocation.
    #[derive(Default)]
    struct Allocating {
        scratch: Scratch,
        sizes: Vec<u64>,
    }

    impl Allocating {
        fn block(&mut self, purpose: &'static str, bytes: u64) -> u64 {
            let sizes = &mut self.sizes;
            let block = self.scratch.block(purpose, bytes, |size| {
                sizes.push(size);
                Ok(DevicePointer(sizes.len() as u64))
            });
            block.expect("the allocation succeeds").0
        }
    }

    fn freed(blocks: Vec<Arc<Block>>) -> Vec<u64> {
        let mut pointers: Vec<u64> = unshared(blocks).map(|pointer| pointer.0).collect();
        pointers.sort_unstable();
        pointers
    }

    #[test]
    fn a_block_is_used_again_until_it_is_outgrown() {
        let mut stream = Allocating::default();
        assert_eq!(stream.block("sums", 100), 1);
        assert_eq!(stream.block("sums", 128), 1);
        assert_eq!(stream.block("counts", 100), 2);
        assert_eq!(stream.block("sums", 129), 3);
        assert_eq!(stream.block("sums", 5), 3);
        assert_eq!(stream.sizes, [128, 128, 256]);
        assert_eq!(freed(stream.scratch.take()), [1, 2, 3], "also what was outgrown");
        assert_eq!(freed(stream.scratch.take()), NONE, "once");
    }

    #[test]
    fn a_block_that_cannot_be_allocated_leaves_the_former_one() {
        let mut stream = Allocating::default();
        stream.block("sums", 100);
        let refused = stream.scratch.block("sums", 200, |bytes| {
            Err(assay_runtime::backend::BackendError::OutOfMemory {
                operation: assay_runtime::backend::Operation::AllocateDevice,
                requested: bytes,
                free: 0,
            })
        });
        assert!(refused.is_err());
        assert_eq!(stream.block("sums", 100), 1);
        assert_eq!(freed(stream.scratch.take()), [1]);
    }

    #[test]
    fn a_graph_keeps_the_blocks_of_a_stream_that_is_gone() {
        let mut stream = Allocating::default();
        stream.block("sums", 100);
        stream.block("sums", 200);
        let [first, second] = [(); 2].map(|()| stream.scratch.shared().collect::<Vec<_>>());
        stream.block("counts", 100);
        assert_eq!(freed(stream.scratch.take()), [3], "no graph refers to what came later");
        assert_eq!(freed(first), NONE, "another graph is left");
        assert_eq!(freed(second), [1, 2]);
    }

    #[test]
    fn a_stream_keeps_the_blocks_of_a_graph_that_is_gone() {
        let mut stream = Allocating::default();
        stream.block("sums", 100);
        let graph = stream.scratch.shared().collect();
        assert_eq!(freed(graph), NONE);
        assert_eq!(stream.block("sums", 100), 1);
        assert_eq!(freed(stream.scratch.take()), [1]);
    }
}
