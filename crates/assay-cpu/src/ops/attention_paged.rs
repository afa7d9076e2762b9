//! Attention of one query per sequence over keys and values in blocks.

use super::attention::{BLOCK, Running};
use super::element::Element;
use super::{AttentionShape, CacheShape, Context};
use crate::error::{Result, check_index, check_length, check_value};
use crate::simd::{Kernel, Vector};
use crate::threads::Disjoint;

/// Where the tokens of some sequences are.
#[derive(Clone, Copy, Debug)]
pub struct BlockTables<'a> {
    /// For each sequence, its blocks in order; as many columns for each.
    pub blocks: &'a [i64],
    /// Tokens of each sequence, the newest included.
    pub lengths: &'a [i64],
}

/// Writes attention of each sequence's newest token to `out`.
///
/// `query` and `out` are sequences x heads x head_size; the caches are as [`CacheShape`] says. A
/// sequence of length 0 gives zeros.
#[allow(clippy::too_many_arguments)] // Two shapes, four arrays: a struct would only rename them.
pub fn paged_attention<T: Element>(
    context: Context,
    shape: AttentionShape,
    cache: CacheShape,
    query: &[f32],
    keys: &[T],
    values: &[T],
    tables: BlockTables,
    out: &mut [f32],
) -> Result<()> {
    let operation = "paged_attention";
    shape.check(operation)?;
    cache.check_heads(operation, shape)?;
    cache.check(operation, "keys", keys)?;
    cache.check(operation, "values", values)?;
    let sequences = tables.lengths.len();
    let query_shape = [sequences, shape.heads, shape.head_size];
    check_length(operation, "query", query.len(), &query_shape)?;
    check_length(operation, "out", out.len(), &query_shape)?;
    let columns = tables.blocks.len().checked_div(sequences).unwrap_or(0);
    check_length(
        operation,
        "blocks",
        tables.blocks.len(),
        &[sequences, columns],
    )?;
    let held = columns * cache.block_size;
    for (sequence, length) in tables.lengths.iter().enumerate() {
        check_index(operation, "lengths", *length, held + 1)?;
        let used = (*length as usize).div_ceil(cache.block_size.max(1));
        for block in &tables.blocks[sequence * columns..][..used] {
            check_index(operation, "blocks", *block, cache.blocks)?;
        }
    }
    check_value(
        operation,
        "block_size",
        cache.block_size > 0 || sequences == 0,
        "at least 1",
        cache.block_size,
    )?;
    let out = Disjoint::new(out);
    context.threads.run(sequences * shape.kv_heads, &|part| {
        let (sequence, kv_head) = (part / shape.kv_heads, part % shape.kv_heads);
        let group = Group {
            shape,
            cache,
            query,
            keys,
            values,
            blocks: &tables.blocks[sequence * columns..(sequence + 1) * columns],
            length: tables.lengths[sequence] as usize,
            sequence,
            kv_head,
            out: &out,
        };
        T::paged(context.level, group);
    });
    Ok(())
}

/// One sequence's queries that share a head of keys.
pub(crate) struct Group<'a, T> {
    shape: AttentionShape,
    cache: CacheShape,
    query: &'a [f32],
    keys: &'a [T],
    values: &'a [T],
    blocks: &'a [i64],
    length: usize,
    sequence: usize,
    kv_head: usize,
    out: &'a Disjoint<'a, f32>,
}

impl<T: Element> Group<'_, T> {
    /// Where the numbers of a token begin, in either cache.
    #[inline(always)]
    fn at(&self, token: usize) -> usize {
        let block = self.blocks[token / self.cache.block_size] as usize;
        let slot = block * self.cache.block_size + token % self.cache.block_size;
        slot * self.cache.width() + self.kv_head * self.shape.head_size
    }
}

impl<T: Element> Kernel for Group<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let (group, head_size) = (self.shape.group(), self.shape.head_size);
        let first = (self.sequence * self.shape.heads + self.kv_head * group) * head_size;
        for head in 0..group {
            let start = first + head * head_size;
            // SAFETY: each part has its own sequence and heads.
            let mut running = Running::new(unsafe { self.out.part(start..start + head_size) });
            for block in (0..self.length).step_by(BLOCK) {
                running.take(
                    v,
                    &self.query[start..start + head_size],
                    self.shape.scale,
                    BLOCK.min(self.length - block),
                    |key| &self.keys[self.at(block + key)..][..head_size],
                    |key| &self.values[self.at(block + key)..][..head_size],
                );
            }
            if self.length > 0 {
                running.finish(v);
            }
        }
    }
}
