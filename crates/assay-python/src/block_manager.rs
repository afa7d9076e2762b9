//! The KV cache's block manager for Python.

use assay_kv_cache::{
    BlockManager, CachedBlock, KvError, KvOptions, KvStatistics, SequenceId, StepLayout,
};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::runtime::errors;

/// Adds the block manager to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyBlockManager>()
}

fn kv_error(error: KvError) -> PyErr {
    errors::kv(&error)
}

/// Assigns the blocks of a paged KV cache to sequences.
#[pyclass(name = "BlockManager", module = "assay._native")]
struct PyBlockManager {
    manager: BlockManager,
    /// A step's metadata before it is copied to Python's array.
    step: Vec<i32>,
}

#[pymethods]
impl PyBlockManager {
    #[new]
    #[pyo3(signature = (blocks, block_tokens, *, prefix_caching=true))]
    fn new(blocks: usize, block_tokens: usize, prefix_caching: bool) -> PyResult<Self> {
        let options = KvOptions { blocks, block_tokens, prefix_caching };
        Ok(PyBlockManager {
            manager: BlockManager::new(options).map_err(kv_error)?,
            step: Vec::new(),
        })
    }

    /// Leading tokens of a prompt that the prefix cache holds.
    fn lookup(&self, tokens: Vec<u32>) -> usize {
        self.manager.lookup(&tokens)
    }

    /// Open a sequence and reserve slots; returns it and how many leading tokens are cached.
    fn open(&mut self, tokens: Vec<u32>, capacity: usize) -> PyResult<(SequenceId, usize)> {
        let opened = self.manager.open(&tokens, capacity).map_err(kv_error)?;
        Ok((opened.sequence, opened.cached_tokens))
    }

    /// Reserve slots for more tokens; returns the copy on write to make, if any.
    fn reserve(&mut self, sequence: SequenceId, tokens: usize) -> PyResult<Option<(u32, u32)>> {
        let copy = self.manager.reserve(sequence, tokens).map_err(kv_error)?;
        Ok(copy.map(|copy| (copy.from, copy.to)))
    }

    /// Commit tokens whose keys and values were written.
    fn commit(&mut self, sequence: SequenceId, tokens: Vec<u32>) -> PyResult<()> {
        self.manager.commit(sequence, &tokens).map_err(kv_error)
    }

    /// Fork a sequence; the two share blocks, copied on write.
    fn fork(&mut self, sequence: SequenceId) -> PyResult<SequenceId> {
        self.manager.fork(sequence).map_err(kv_error)
    }

    /// Close a sequence and release its blocks.
    fn close(&mut self, sequence: SequenceId) -> PyResult<()> {
        self.manager.close(sequence).map_err(kv_error)
    }

    /// The block table of a sequence.
    fn block_table(&self, sequence: SequenceId) -> PyResult<Vec<u32>> {
        Ok(self.manager.block_table(sequence).map_err(kv_error)?.to_vec())
    }

    /// Tokens committed to a sequence.
    fn length(&self, sequence: SequenceId) -> PyResult<usize> {
        self.manager.length(sequence).map_err(kv_error)
    }

    /// Write a step's positions, slot mapping, query starts, lengths and block tables, in order.
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
        self.manager.write_step(&batch, &layout, &mut self.step).map_err(kv_error)?;
        out.copy_from_slice(py, &self.step)
    }

    /// Every block of the prefix cache: its id, the index of its parent, and its tokens.
    fn cached_blocks(&self) -> Vec<(u32, Option<usize>, Vec<u32>)> {
        let listed = self.manager.cached_blocks().into_iter();
        listed.map(|entry| (entry.block, entry.parent, entry.tokens)).collect()
    }

    /// Adopt blocks of another prefix cache; returns the block to fill for each, if any.
    fn adopt(&mut self, cached: Vec<(u32, Option<usize>, Vec<u32>)>) -> PyResult<Vec<Option<u32>>> {
        let cached: Vec<CachedBlock> = cached
            .into_iter()
            .map(|(block, parent, tokens)| CachedBlock { block, parent, tokens })
            .collect();
        self.manager.adopt(&cached).map_err(kv_error)
    }

    /// Evict every unreferenced block; returns how many.
    fn clear_cached(&mut self) -> usize {
        self.manager.clear_cached()
    }

    /// Block counts by state, and event counters.
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
        } = self.manager.statistics();
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

    /// Check all invariants; slow.
    fn verify(&self) -> PyResult<()> {
        self.manager.verify().map_err(kv_error)
    }
}
