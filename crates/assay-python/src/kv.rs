//! The KV cache's books for Python.

use assay_kv_cache::{
    CachedBlock, KvCache, KvError, KvOptions, KvStatistics, SequenceId, StepLayout,
};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::runtime::errors;

/// Adds the cache's names to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyKvCache>()
}

fn refused(error: KvError) -> PyErr {
    errors::kv(&error)
}

/// The books of a paged cache of keys and values: who holds which block.
#[pyclass(name = "KvCache", module = "assay._native")]
struct PyKvCache {
    cache: KvCache,
    /// A step's integers before they are copied to Python's array.
    step: Vec<i32>,
}

#[pymethods]
impl PyKvCache {
    #[new]
    #[pyo3(signature = (blocks, block_tokens, *, prefix_caching=true))]
    fn new(blocks: usize, block_tokens: usize, prefix_caching: bool) -> PyResult<Self> {
        let options = KvOptions {
            blocks,
            block_tokens,
            prefix_caching,
        };
        Ok(PyKvCache {
            cache: KvCache::new(options).map_err(refused)?,
            step: Vec::new(),
        })
    }

    /// Tokens at the beginning of a prompt that a new sequence would find in the cache.
    fn lookup(&self, tokens: Vec<u32>) -> usize {
        self.cache.lookup(&tokens)
    }

    /// Open a sequence with room for so many tokens; returns it and how many tokens are cached.
    fn open(&mut self, tokens: Vec<u32>, room: usize) -> PyResult<(SequenceId, usize)> {
        let opened = self.cache.open(&tokens, room).map_err(refused)?;
        Ok((opened.sequence, opened.cached_tokens))
    }

    /// Make room for more tokens; returns the blocks to copy from and to, if any.
    fn reserve(&mut self, sequence: SequenceId, tokens: usize) -> PyResult<Option<(u32, u32)>> {
        let copy = self.cache.reserve(sequence, tokens).map_err(refused)?;
        Ok(copy.map(|copy| (copy.from, copy.to)))
    }

    /// Note that the keys and values of these tokens were written.
    fn commit(&mut self, sequence: SequenceId, tokens: Vec<u32>) -> PyResult<()> {
        self.cache.commit(sequence, &tokens).map_err(refused)
    }

    /// A second sequence that shares all blocks until one of them writes.
    fn fork(&mut self, sequence: SequenceId) -> PyResult<SequenceId> {
        self.cache.fork(sequence).map_err(refused)
    }

    /// Give a sequence's blocks back.
    fn close(&mut self, sequence: SequenceId) -> PyResult<()> {
        self.cache.close(sequence).map_err(refused)
    }

    /// The blocks of a sequence.
    fn table(&self, sequence: SequenceId) -> PyResult<Vec<u32>> {
        Ok(self.cache.table(sequence).map_err(refused)?.to_vec())
    }

    /// Tokens committed to a sequence.
    fn length(&self, sequence: SequenceId) -> PyResult<usize> {
        self.cache.length(sequence).map_err(refused)
    }

    /// Write positions, slots, query starts, lengths and block tables of a step, in that order.
    fn write_step(
        &mut self,
        py: Python<'_>,
        batch: Vec<(SequenceId, usize)>,
        sizes: (usize, usize, usize),
        out: PyBuffer<i32>,
    ) -> PyResult<()> {
        let (rows, sequences, table_width) = sizes;
        let layout = StepLayout::packed(rows, sequences, table_width);
        self.step.resize(out.item_count(), 0);
        self.cache
            .write_step(&batch, &layout, &mut self.step)
            .map_err(refused)?;
        out.copy_from_slice(py, &self.step)
    }

    /// Every findable block: its number, the place of the one before it, and its tokens.
    fn cached_blocks(&self) -> Vec<(u32, Option<usize>, Vec<u32>)> {
        let listed = self.cache.cached_blocks().into_iter();
        listed
            .map(|entry| (entry.block, entry.before, entry.tokens))
            .collect()
    }

    /// Make blocks of another cache findable; returns the block to fill for each, if any.
    fn adopt(&mut self, cached: Vec<(u32, Option<usize>, Vec<u32>)>) -> PyResult<Vec<Option<u32>>> {
        let cached: Vec<CachedBlock> = cached
            .into_iter()
            .map(|(block, before, tokens)| CachedBlock {
                block,
                before,
                tokens,
            })
            .collect();
        self.cache.adopt(&cached).map_err(refused)
    }

    /// Forget all tokens of blocks without holders; returns how many blocks.
    fn clear_cached(&mut self) -> usize {
        self.cache.clear_cached()
    }

    /// Counts of blocks and events.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let KvStatistics {
            blocks,
            block_tokens,
            used,
            free,
            cached,
            sequences,
            queried_tokens,
            hit_tokens,
            evictions,
            copies,
            duplicates,
        } = self.cache.statistics();
        let counts = PyDict::new(py);
        for (name, count) in [
            ("blocks", blocks),
            ("block_tokens", block_tokens),
            ("used", used),
            ("free", free),
            ("cached", cached),
            ("sequences", sequences),
            ("queried_tokens", queried_tokens),
            ("hit_tokens", hit_tokens),
            ("evictions", evictions),
            ("copies", copies),
            ("duplicates", duplicates),
        ] {
            counts.set_item(name, count)?;
        }
        Ok(counts)
    }

    /// Check the books against each other; slow.
    fn verify(&self) -> PyResult<()> {
        self.cache.verify().map_err(refused)
    }
}
