//! Attention of many queries over a contiguous run of keys.

use super::Context;
use super::attention::{BLOCK, Running};
use super::element::Element;
use crate::error::{Result, check_length, check_value};
use crate::simd::{Kernel, Vector};
use crate::threads::Disjoint;

/// Sizes of attention, shared by its two forms.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AttentionShape {
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values; each serves `heads / kv_heads` heads of queries.
    pub kv_heads: usize,
    /// Numbers in a head.
    pub head_size: usize,
    /// What scores are multiplied by, usually one over the root of the head size.
    pub scale: f32,
}

impl AttentionShape {
    pub(super) fn check(&self, operation: &'static str) -> Result<()> {
        check_value(
            operation,
            "heads",
            self.kv_heads > 0 && self.heads.is_multiple_of(self.kv_heads) && self.heads > 0,
            format_args!("a multiple of the {} heads of keys", self.kv_heads),
            self.heads,
        )?;
        let valid = self.head_size > 0;
        check_value(operation, "head_size", valid, "at least 1", self.head_size)
    }

    /// Heads of queries per head of keys.
    pub(super) fn group(&self) -> usize {
        self.heads / self.kv_heads
    }
}

/// Writes attention to `out`: where it is causal, query t of T sees the first S - T + t + 1 of S
/// keys, and all of them otherwise.
///
/// `query` and `out` are T x heads x head_size, `key` and `value` S x kv_heads x head_size.
pub fn prefill_attention<T: Element>(
    context: Context,
    shape: AttentionShape,
    causal: bool,
    query: &[f32],
    key: &[T],
    value: &[T],
    out: &mut [f32],
) -> Result<()> {
    let operation = "prefill_attention";
    shape.check(operation)?;
    let (width, kv_width) = (
        shape.heads * shape.head_size,
        shape.kv_heads * shape.head_size,
    );
    let (queries, keys) = (query.len() / width, key.len() / kv_width);
    check_length(operation, "query", query.len(), &[queries, width])?;
    check_length(operation, "key", key.len(), &[keys, kv_width])?;
    check_length(operation, "value", value.len(), &[keys, kv_width])?;
    check_length(operation, "out", out.len(), &[queries, width])?;
    check_value(
        operation,
        "key",
        keys >= if causal { queries } else { queries.min(1) },
        format_args!("at least {queries} rows, one for each query"),
        keys,
    )?;
    let out = Disjoint::new(out);
    // The last queries see most: taken first, so that no thread ends alone with the longest.
    let tiles = queries.div_ceil(TILE);
    context.threads.run(tiles * shape.heads, &|part| {
        let (from_top, head) = (part / shape.heads, part % shape.heads);
        let first = (tiles - 1 - from_top) * TILE;
        let tile = Tile {
            shape,
            query,
            key,
            value,
            first,
            last: (first + TILE).min(queries),
            before: keys.saturating_sub(queries),
            keys,
            causal,
            head,
            out: &out,
        };
        T::prefill(context.level, tile);
    });
    Ok(())
}

/// Queries of a head that read the same keys while they are in the cache.
const TILE: usize = 16;

pub(crate) struct Tile<'a, T> {
    shape: AttentionShape,
    query: &'a [f32],
    key: &'a [T],
    value: &'a [T],
    first: usize,
    last: usize,
    /// Keys before the first query's own.
    before: usize,
    keys: usize,
    causal: bool,
    head: usize,
    out: &'a Disjoint<'a, f32>,
}

impl<T: Element> Kernel for Tile<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let AttentionShape {
            heads,
            kv_heads,
            head_size,
            scale,
        } = self.shape;
        let kv_head = self.head / self.shape.group();
        let mut running: [Option<Running>; TILE] = std::array::from_fn(|index| {
            let start = ((self.first + index) * heads + self.head) * head_size;
            // SAFETY: each part has its own queries and head.
            (self.first + index < self.last)
                .then(|| Running::new(unsafe { self.out.part(start..start + head_size) }))
        });
        let seen = |row: usize| match self.causal {
            true => self.before + row + 1,
            false => self.keys,
        };
        let visible = seen(self.last - 1);
        for block in (0..visible).step_by(BLOCK) {
            for (index, running) in running.iter_mut().enumerate() {
                let Some(running) = running else { break };
                let count = seen(self.first + index).saturating_sub(block).min(BLOCK);
                if count == 0 {
                    continue;
                }
                let start = ((self.first + index) * heads + self.head) * head_size;
                let at = |key: usize| ((block + key) * kv_heads + kv_head) * head_size;
                running.take(
                    v,
                    &self.query[start..start + head_size],
                    scale,
                    count,
                    |key| &self.key[at(key)..at(key) + head_size],
                    |key| &self.value[at(key)..at(key) + head_size],
                );
            }
        }
        for running in running.into_iter().flatten() {
            running.finish(v);
        }
    }
}
