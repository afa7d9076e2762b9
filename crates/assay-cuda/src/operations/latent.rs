//! Multi-head latent attention over a paged cache of latents.

use super::attention_limits::{check_block_tokens, flag};
use super::call::{Call, int, pointer};
use super::define::Define;
use super::grid::grid_1d;
use crate::device::LaunchConfig;
use assay_operations::ElementFormat::{self, F32, I32};
use assay_operations::Operand;
use assay_runtime::backend::{DevicePointer, KernelArgument, Result};

/// Tokens of a tile of the cache in shared memory.
const TILE_TOKENS: u64 = 32;
/// The most rows of queries of a CTA.
const MAX_QUERIES: u64 = 64;
/// The most splits of a context.
const MAX_SPLITS: u64 = 64;
/// The fewest tokens of a split.
const MIN_SPLIT_TOKENS: u64 = 256;
/// Ranks are multiples of this: a warp has a fourth of the columns, in steps of sixteen.
const RANK_MULTIPLE: u64 = 64;
/// Rows of the cache are multiples of this: two steps of a tensor core.
const WIDTH_MULTIPLE: u64 = 32;
/// The most elements of a row; accumulators of a larger rank do not fit the registers.
const MAX_WIDTH: u64 = 576;

pub(super) fn latent_write(call: &Call<'_>) -> Result<()> {
    let (rows, heads) = (call.size("rows")?, call.size("heads")?);
    let (rank, rotary_dim) = (call.size("rank")?, call.size("rotary_dim")?);
    let (block_tokens, blocks) = (call.size("block_tokens")?, call.size("blocks")?);
    let width = rank + rotary_dim;
    let kv = call.operand("kv", &[rows, width])?;
    let positions = call.typed("positions", I32, &[rows])?;
    let slot_mapping = call.typed("slot_mapping", I32, &[rows])?;
    let table = [call.size("table_positions")?, rotary_dim];
    let table = call.typed("table", F32, &table)?;
    let norm = call.typed("norm", kv.format, &[rank])?;
    let q_rope = call.typed("q_rope", kv.format, &[rows, heads, rotary_dim])?;
    let cache = call.typed("cache", kv.format, &[blocks, block_tokens, width])?;
    if rows * width == 0 {
        return Ok(());
    }
    if !rotary_dim.is_multiple_of(2) {
        return Err(call.error("an even rotary_dim", rotary_dim));
    }
    let threads = 256;
    let defines: [Define; 3] = [
        ("ELEMENT", call.float_type("kv", kv)?.into()),
        ("INTERLEAVED", flag(call, "interleaved")?.into()),
        ("THREADS", threads.into()),
    ];
    let function = call.function("latent_write", &defines)?;
    let arguments = [
        pointer(kv),
        pointer(positions),
        pointer(slot_mapping),
        pointer(table),
        pointer(norm),
        pointer(q_rope),
        pointer(cache),
        int(heads),
        int(rank),
        int(rotary_dim),
        KernelArgument::F32(call.float("epsilon")?),
    ];
    call.queue.launch(&function, grid_1d(rows, threads), &arguments)
}

/// How a CTA of the kernel is shaped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct LatentTile {
    /// Rows of queries: heads of a token, then those of the next.
    queries: u64,
    /// Warps of each sixteen of them.
    n_warps: u64,
    stages: u64,
}

impl LatentTile {
    /// The tile of a step. Sums over tokens depend on it, so that the rows of a step must not decide:
    /// a batch-invariant step says more than one row, whatever it has, and takes the tile of prefill.
    fn of_step(max_query_len: u64, heads: u64, width: u64, shared_bytes: u64) -> Self {
        let queries = if max_query_len > 1 { MAX_QUERIES } else { heads };
        Self::new(queries, width, shared_bytes)
    }

    /// As many queries as share a row of the cache; fewer, or one stage, where shared memory is small.
    fn new(queries: u64, width: u64, shared_bytes: u64) -> Self {
        let (size, n_warps) = match queries {
            ..=16 => (16, 4),
            17..=32 => (32, 4),
            _ => (MAX_QUERIES, 2),
        };
        let wanted = LatentTile { queries: size, n_warps, stages: 2 };
        let small = LatentTile { queries: size.min(32), n_warps: 4, stages: 1 };
        let fits = wanted.shared_bytes(width) <= shared_bytes;
        if fits { wanted } else { small }
    }

    fn shared_bytes(&self, width: u64) -> u64 {
        // An odd number of 16-byte chunks, so that ldmatrix reads rows without bank conflicts.
        let row = ((width / 8) | 1) * 16;
        let weights = TILE_TOKENS * 2 + 16;
        (self.queries + self.stages * TILE_TOKENS) * row
            + self.queries * (weights + 4 * self.n_warps)
    }
}

/// A call, read and checked.
struct LatentAttention {
    rows: u64,
    sequences: u64,
    heads: u64,
    rank: u64,
    rotary_dim: u64,
    block_tokens: u64,
    table_columns: u64,
    /// The most rows of a sequence, as the caller says; there may be fewer.
    max_query_len: u64,
    q_latent: Operand,
    q_rope: Operand,
    cache: Operand,
    block_tables: Operand,
    query_start_loc: Operand,
    seq_lens: Operand,
    out: Operand,
}

impl LatentAttention {
    fn read(call: &Call<'_>) -> Result<Self> {
        let (rows, sequences) = (call.size("rows")?, call.size("sequences")?);
        let (heads, rank) = (call.size("heads")?, call.size("rank")?);
        let rotary_dim = call.size("rotary_dim")?;
        let (block_tokens, blocks) = (call.size("block_tokens")?, call.size("blocks")?);
        let table_columns = call.size("table_columns")?;
        let q_latent = call.operand("q_latent", &[rows, heads, rank])?;
        let format = q_latent.format;
        let width = rank + rotary_dim;
        if !matches!(format, ElementFormat::F16 | ElementFormat::Bf16) {
            return Err(call.error("q_latent of f16 or bf16", format));
        }
        let fits = rank.is_multiple_of(RANK_MULTIPLE) && width.is_multiple_of(WIDTH_MULTIPLE);
        if !fits || rotary_dim == 0 || rank == 0 || width > MAX_WIDTH {
            let expected = format_args!(
                "a rank in multiples of {RANK_MULTIPLE}, and with rotary_dim of {WIDTH_MULTIPLE} up to {MAX_WIDTH}"
            );
            return Err(call.error(expected, format_args!("{rank} and {rotary_dim}")));
        }
        check_block_tokens(call, block_tokens)?;
        Ok(LatentAttention {
            rows,
            sequences,
            heads,
            rank,
            rotary_dim,
            block_tokens,
            table_columns,
            max_query_len: call.size("max_query_len")?,
            q_latent,
            q_rope: call.typed("q_rope", format, &[rows, heads, rotary_dim])?,
            cache: call.typed("cache", format, &[blocks, block_tokens, width])?,
            block_tables: call.typed("block_tables", I32, &[sequences, table_columns])?,
            query_start_loc: call.typed("query_start_loc", I32, &[sequences + 1])?,
            seq_lens: call.typed("seq_lens", I32, &[sequences])?,
            out: call.typed("out", format, &[rows, heads, rank])?,
        })
    }

    /// Splits of each context: none of prefill; for decode as many as are requested, or as fill the
    /// CTAs that are resident at once.
    fn splits(&self, requested: u64, ctas: u64, resident: u64) -> u64 {
        if self.max_query_len > 1 {
            return 1;
        }
        let tokens = self.table_columns * self.block_tokens;
        let best = match requested {
            0 => (resident / ctas.max(1)).min(tokens / MIN_SPLIT_TOKENS),
            splits => splits.min(tokens.div_ceil(TILE_TOKENS)),
        };
        best.clamp(1, MAX_SPLITS)
    }

    fn launch(&self, call: &Call<'_>) -> Result<()> {
        let facts = call.queue.device().facts();
        let width = self.rank + self.rotary_dim;
        let most = self.max_query_len.min(self.rows) * self.heads;
        let shared_bytes = u64::from(facts.shared_bytes);
        let tile = LatentTile::of_step(self.max_query_len, self.heads, width, shared_bytes);
        let tiles = most.div_ceil(tile.queries);
        // On an H200, 8 contexts of 12,000 tokens and 16 heads take 87 us with one CTA a SM and 71 us
        // with two.
        let ctas_per_sm = (shared_bytes / tile.shared_bytes(width)).clamp(1, 2);
        let splits = self.splits(
            call.size("num_splits")?,
            tiles * self.sequences,
            ctas_per_sm * u64::from(facts.multiprocessors),
        );
        if self.sequences > 65_535 {
            return Err(call.error("at most 65535 sequences", self.sequences));
        }
        let all = self.rows * self.heads;
        let (mut partials, mut statistics) = (DevicePointer(0), DevicePointer(0));
        if splits > 1 {
            partials = call.scratch("latent partials", splits * all * self.rank * 4)?;
            statistics = call.scratch("latent statistics", splits * all * 8)?;
            // Rows of no sequence have empty splits.
            call.queue.fill(statistics, 0, splits * all * 8)?;
        } else {
            call.queue.fill(self.out.pointer, 0, all * self.rank * 2)?;
        }
        let element = call.float_type("q_latent", self.q_latent)?;
        let defines: [Define; 8] = [
            ("ELEMENT", element.into()),
            ("RANK", self.rank.into()),
            ("ROTARY", self.rotary_dim.into()),
            ("QUERIES", tile.queries.into()),
            ("N_WARPS", tile.n_warps.into()),
            ("TILE_TOKENS", TILE_TOKENS.into()),
            ("STAGES", tile.stages.into()),
            ("SPLIT", (splits > 1).into()),
        ];
        let function = call.function("latent_attention", &defines)?;
        let context_tiles = (self.table_columns * self.block_tokens).div_ceil(TILE_TOKENS);
        let arguments = [
            pointer(self.q_latent),
            pointer(self.q_rope),
            pointer(self.cache),
            pointer(self.block_tables),
            pointer(self.query_start_loc),
            pointer(self.seq_lens),
            pointer(self.out),
            KernelArgument::Pointer(partials),
            KernelArgument::Pointer(statistics),
            int(self.rows),
            int(self.heads),
            int(self.block_tokens),
            int(self.table_columns),
            int(context_tiles.div_ceil(splits)),
            KernelArgument::F32(call.float("scale")?),
        ];
        let config = LaunchConfig {
            grid: [tiles as u32, self.sequences as u32, splits as u32],
            block: [(tile.queries / 16 * tile.n_warps * 32) as u32, 1, 1],
            shared_bytes: tile.shared_bytes(width) as u32,
            cluster: 1,
            prefers_l1: false,
        };
        call.queue.launch(&function, config, &arguments)?;
        if splits == 1 {
            return Ok(());
        }
        let threads = 128;
        let defines: [Define; 2] = [("ELEMENT", element.into()), ("THREADS", threads.into())];
        let function = call.function("latent_combine", &defines)?;
        let arguments = [
            KernelArgument::Pointer(partials),
            KernelArgument::Pointer(statistics),
            pointer(self.out),
            int(all),
            int(self.rank),
            int(splits),
        ];
        call.queue.launch(&function, grid_1d(all, threads), &arguments)
    }
}

pub(super) fn latent_attention(call: &Call<'_>) -> Result<()> {
    let attention = LatentAttention::read(call)?;
    if attention.rows * attention.heads == 0 {
        return Ok(());
    }
    if attention.sequences == 0 {
        let bytes = attention.rows * attention.heads * attention.rank * 2;
        return call.queue.fill(attention.out.pointer, 0, bytes);
    }
    attention.launch(call)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_of_every_device_fit_its_shared_memory() {
        // Of compute capability 8.0, 9.0 and 12.0.
        for limit in [163 << 10, 227 << 10, 99 << 10] {
            for queries in [1, 16, 17, 32, 33, 128, 4096] {
                let tile = LatentTile::new(queries, MAX_WIDTH, limit);
                assert!(tile.shared_bytes(MAX_WIDTH) <= limit, "{tile:?}");
            }
        }
        // 512 + 64 on Hopper: 64 queries and two stages of 32 tokens.
        let tile = LatentTile::new(128, 576, 227 << 10);
        assert_eq!((tile.queries, tile.n_warps, tile.stages), (64, 2, 2));
    }

    #[test]
    fn the_tile_of_a_batch_invariant_step_does_not_depend_on_its_rows_or_heads() {
        for limit in [163 << 10, 227 << 10, 99 << 10] {
            let expected = LatentTile::of_step(4096, 128, 576, limit);
            for heads in [1, 4, 16, 20, 32, 64, 128] {
                // A single row says 2.
                assert_eq!(LatentTile::of_step(2, heads, 576, limit), expected);
            }
        }
        // Decode takes no more than its heads need.
        assert_eq!(LatentTile::of_step(1, 16, 576, 227 << 10).queries, 16);
    }
}
